"""The callback handler: what LangChain calls while an agent runs, turned into facts for a `StepSink`.

On the agent's thread a callback costs ids, a clock reading, references and a queue append; everything else happens later, in
`payloads.build`. A callback never raises, never blocks, and never changes what the agent does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, TypeVar, cast
from uuid import UUID

from langchain_core.callbacks.base import BaseCallbackHandler
from opentelemetry import trace

from agenttrace import clock
from agenttrace.langchain import ambient
from agenttrace.langchain.asking import ASKED, asked_with
from agenttrace.langchain.attempts import FAILED, attempt_number, note_failed
from agenttrace.langchain.chunks import mark_chunk, mark_event
from agenttrace.langchain.loop_lag import watch_loop
from agenttrace.langchain.missing_tools import never_started, note_asked, note_started
from agenttrace.langchain.open_steps import Entry, OpenSteps, call_site
from agenttrace.langchain.partial import Partial
from agenttrace.langchain.payloads import (
    EndFacts,
    StartFacts,
    answers_of,
    build,
    build_start,
    chat_messages,
    contents_of,
    error_text,
    snapshot,
)
from agenttrace.langchain.replay import is_replaying
from agenttrace.langchain.tools import TOOL, running_tool
from agenttrace.langchain.vanished import VanishedCalls
from agenttrace.steps import Kind, OpenStep, State, StepSink, new_span_id, new_trace_id

Callback = TypeVar("Callback", bound=Callable[..., Any])

LABELS = ("session_id", "user_id", "thread_id")

GRAPH_INTEGRATIONS = ("langgraph", "langchain_create_agent")

STATES: Mapping[str, State] = {
    "GeneratorExit": "abandoned",
    "CancelledError": "cancelled",
    "KeyboardInterrupt": "cancelled",
    "ParentCommand": "handed_off",
    "GraphBubbleUp": "interrupted",
    "TimeoutError": "timed_out",
    "TimeoutException": "timed_out",
    "APITimeoutError": "timed_out",
}
"""How a step that ends with this exception, or one derived from it, ended. By name: the frameworks need not be loaded."""


def guarded(callback: Callback) -> Callback:
    """Keep our own faults from the agent: count them instead."""

    @wraps(callback)
    def guard(self: CallbackHandler, *args: Any, **kwargs: Any) -> None:
        try:
            callback(self, *args, **kwargs)
        except Exception as error:
            self.sink.count_error(error)

    return cast(Callback, guard)


class CallbackHandler(BaseCallbackHandler):
    """Observes LangChain runs. Handlers of one process share `steps`, so that none records a step twice.

    A subclass says where steps go: `sink` is asked when a step starts, `current_run` when a root starts.
    """

    run_inline = True
    """In the task that makes the call: elsewhere a context variable set here would not be seen by the call."""
    raise_error = False

    def __init__(self, steps: OpenSteps, *, transport: bool = True) -> None:
        self._steps = steps
        self._vanished = VanishedCalls(self._gone)
        self._transport = transport
        become_graph_aware(self)

    @property
    def sink(self) -> StepSink:
        """Where a step that starts now is recorded."""
        raise NotImplementedError

    def before_model_call(self) -> None:
        """A model call is about to start: whoever watches its requests must be ready now."""

    def current_run(self) -> str:
        """The id of the run that a root starting now belongs to."""
        raise NotImplementedError

    def joins(self, run_id: str) -> None:
        """This handler records steps of a run that another one began."""

    @guarded
    def on_chat_model_start(self, serialized: dict[str, Any], messages: list[list[Any]], **kwargs: Any) -> None:
        given = chat_messages(messages)
        self._start("model", serialized, given, kwargs, contents_of(given))

    @guarded
    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any) -> None:
        self._start("model", serialized, prompts[0] if len(prompts) == 1 else list(prompts), kwargs)

    @guarded
    def on_chain_start(self, serialized: dict[str, Any] | None, inputs: Any, **kwargs: Any) -> None:
        self._start(_chain_kind(kwargs), serialized, snapshot(inputs), kwargs)

    @guarded
    def on_tool_start(self, serialized: dict[str, Any], input_str: str, **kwargs: Any) -> None:
        inputs = kwargs.pop("inputs", None)
        kwargs[TOOL] = running_tool()
        self._start("tool", serialized, snapshot(inputs) if inputs is not None else input_str, kwargs)

    @guarded
    def on_retriever_start(self, serialized: dict[str, Any], query: str, **kwargs: Any) -> None:
        self._start("retriever", serialized, query, kwargs)

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **_: Any) -> None:
        # Not guarded by the decorator: this is called once a token, and a second frame would double its cost.
        try:
            entry = self._steps.get(run_id.int)
            if entry is not None and entry.step.owner is self:
                step, now = entry.step, clock.monotonic_ns()
                mark_chunk(step, now, token, chunk)
                if entry.partial is None:
                    entry.partial = Partial()
                if token and type(token) is str:
                    entry.partial.text.write(token)
                elif chunk is not None and hasattr(chunk, "message"):
                    entry.partial.add_message(chunk.message)
                step.own_ns += clock.monotonic_ns() - now
        except Exception as error:
            self.sink.count_error(error)

    def on_stream_event(self, event: Any, *, run_id: UUID, **_: Any) -> None:
        try:
            entry = self._steps.get(run_id.int)
            if entry is not None and entry.step.owner is self:
                mark_event(entry.step, clock.monotonic_ns(), event)
                if not entry.step.by_tokens:
                    if entry.partial is None:
                        entry.partial = Partial()
                    entry.partial.add_event(event)
        except Exception as error:
            self.sink.count_error(error)

    @guarded
    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, "ok", payload=response)

    @guarded
    def on_llm_error(self, error: BaseException, *, run_id: UUID, response: Any = None, **_: Any) -> None:
        self._end(run_id, _state_of(error), payload=response, error=error)

    @guarded
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, "ok", payload=snapshot(outputs))

    @guarded
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, _state_of(error), error=error)

    @guarded
    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        failed = getattr(output, "status", None) == "error"
        self._end(run_id, "error" if failed else "ok", payload=output)

    @guarded
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, _state_of(error), error=error)

    @guarded
    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, "ok", payload=list(documents))

    @guarded
    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, _state_of(error), error=error)

    @guarded
    def on_interrupt(self, event: Any) -> None:
        """LangGraph's own callback: a graph pauses for a person."""
        entry = None if event.run_id is None else self._steps.get(event.run_id.int)
        if entry is not None:
            entry.interrupted = True
            entry.step.paused_at = str(event.checkpoint_id)

    @guarded
    def on_resume(self, event: Any) -> None:
        """LangGraph's own callback: a graph goes on from where one had paused."""
        entry = None if event.run_id is None else self._steps.get(event.run_id.int)
        if entry is not None:
            entry.step.resumed_from = str(event.checkpoint_id)

    @guarded
    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        entry = self._steps.get(run_id.int)
        if entry is not None and entry.step.owner is self:
            entry.events.append((name, clock.monotonic_ns(), snapshot(data)))

    @guarded
    def start_embedding(self, name: str, texts: Any, metadata: dict[str, Any], run_id: UUID) -> None:
        """An embedding begins: LangChain has no callback for it, so its wrapper calls this."""
        self._start("embedding", None, snapshot(texts), {"run_id": run_id, "name": name, "metadata": metadata})

    @guarded
    def end_embedding(self, run_id: UUID, shape: Any, error: BaseException | None) -> None:
        """It ended, with the shape of what came or with an error."""
        self._end(run_id, "ok" if error is None else _state_of(error), payload=shape, error=error)

    def _start(
        self,
        kind: Kind,
        serialized: Mapping[str, Any] | None,
        payload: Any,
        kwargs: dict[str, Any],
        contents: Sequence[Any] = (),
    ) -> None:
        become_graph_aware(self)
        run_id: UUID = kwargs.pop("run_id")
        given: UUID | None = kwargs.pop("parent_run_id", None)
        sink = self.sink
        known = self._steps.get(run_id.int)
        if known is not None:
            if sink not in known.sinks:  # another handler came first, for another store
                known.sinks.append(sink)
                self.joins(known.step.run_id)
                sink.put(partial(build_start, known.step, known.start))
            return
        if kind in ("model", "embedding"):
            self.before_model_call()
        metadata = kwargs.pop("metadata", None) or {}
        facts = StartFacts(serialized, payload, tuple(kwargs.pop("tags", None) or ()), dict(metadata), kwargs, contents)
        outer = ambient.surrounding_span()
        parent = self._steps.parent(given)
        step = self._open_step(kind, _name(serialized, kwargs, kind), parent, outer, metadata)
        if parent is not None:
            parent.last_child = run_id.int
        if parent is not None and parent.failed:
            step.attempt = attempt_number(step, facts, parent.failed)
        if kind == "model":
            kwargs[ASKED] = asked_with(parent, metadata, payload)
            step.is_replayed = is_replaying()
        if kind == "tool":
            step.asked_at = note_started(step, kwargs.get("tool_call_id"))
        if kind in ("model", "tool"):
            _note_labels(step)
        proxy = ambient.enter(step, run_id.int, outer, watch_transport=self._transport)
        self._steps.add(run_id.int, Entry(step, facts, proxy, [sink], [], self._vanished.watch(run_id)))
        if kind == "model":
            self._vanished.watch_task(run_id.int)
            watch_loop(step)
        sink.put(partial(build_start, step, facts))

    def _open_step(
        self, kind: Kind, name: str, parent: OpenStep | None, outer: trace.Span, metadata: Mapping[str, Any]
    ) -> OpenStep:
        around = outer.get_span_context()
        joins = parent is None and around.is_valid
        if parent is not None:
            trace_id, flags, anchor, run_id = parent.trace_id, parent.traceparent_flags, parent.anchor, parent.run_id
        else:
            trace_id = around.trace_id if joins else new_trace_id()
            flags = int(around.trace_flags) if joins else int(ambient.SAMPLED)
            anchor, run_id = clock.anchor(), self.current_run()
        return OpenStep(
            trace_id=trace_id,
            span_id=new_span_id(),
            parent=parent,
            outer_span_id=around.span_id if joins else None,
            kind=kind,
            name=name,
            start=clock.monotonic_ns(),
            anchor=anchor,
            run_id=run_id,
            call_site=call_site(metadata, parent),
            owner=self,
            traceparent_flags=flags,
        )

    def _end(self, run_id: UUID, state: State, *, payload: Any = None, error: BaseException | None = None) -> None:
        at = clock.monotonic_ns()
        entry = self._steps.get(run_id.int)
        if entry is None or entry.step.owner is not self:
            return
        self._steps.pop(run_id.int)
        ambient.leave(entry.proxy)
        step = entry.step
        if state == "ok" and entry.interrupted:
            state = "interrupted"
        elif state == "ok" and step.kind == "chain" and self._steps.is_within_sequence(step.last_child):
            state = "abandoned"  # LangChain ends a sequence whose consumer closes it as if all were well
        if state == "interrupted":
            self._steps.mark_interrupted_above(step)
        failed = error if state in ("error", "timed_out") else None
        facts = EndFacts(
            at,
            state,
            payload,
            None if failed is None else type(failed).__name__,
            None if failed is None else error_text(failed),
            tuple(entry.events),
            None if state == "ok" else entry.partial,
            answers_of(payload) if step.kind == "model" else (),
        )
        for sink in entry.sinks:
            sink.put(partial(build, step, entry.start, facts))
        if state in FAILED:
            note_failed(step, entry.start)
        # What is read out of payloads comes last: whatever they hold, the step has ended.
        if step.kind == "model" and state == "ok":
            note_asked(step, at, payload)
        if step.kind == "prompt" and step.parent is not None:
            step.parent.prompt = entry.start.serialized, entry.start.metadata, payload
        if step.kind == "chain":
            self._add_missing_tools(entry, payload, at)
        if step.parent is None:
            step.tool_asks = step.tools_started = None

    def _add_missing_tools(self, node: Entry, outputs: Any, at: int) -> None:
        for step, call_id, text in never_started(node.step, outputs, at):
            start = StartFacts(None, None, (), {}, {"tool_call_id": call_id})
            facts = EndFacts(at, "error", error_type="UnknownTool", error_message=text)
            for sink in node.sinks:
                sink.put(partial(build, step, start, facts))

    def _gone(self, key: int) -> None:
        """End a step whose call is gone without a word. May run inside garbage collection: no lock, no waiting."""
        entry = self._steps.get(key)
        if entry is None or entry.step.owner is not self:
            return
        self._steps.pop(key)
        entry.proxy.saved = None  # the context it is left in may live for long, and would keep all those before it
        state: State = "cancelled" if entry.step.first_byte is None else "abandoned"
        facts = EndFacts(clock.monotonic_ns(), state, events=tuple(entry.events), partial=entry.partial)
        for sink in entry.sinks:
            sink.put_unnoticed(partial(build, entry.step, entry.start, facts))
        if state in FAILED:
            note_failed(entry.step, entry.start)


def _note_labels(step: OpenStep) -> None:
    """Tell the root who its session and user are. Once a trace: a root that knows is not asked again."""
    root = step
    while root.parent is not None:
        root = root.parent
    if root is not step and root.labels is None:
        root.labels = ambient.configured(LABELS)


def _chain_kind(kwargs: Mapping[str, Any]) -> Kind:
    run_type = kwargs.get("run_type")
    if run_type in ("prompt", "parser"):
        return cast(Kind, run_type)
    metadata = kwargs.get("metadata") or {}
    is_graph = metadata.get("ls_integration") in GRAPH_INTEGRATIONS and "langgraph_node" not in metadata
    return "agent" if is_graph and kwargs.get("parent_run_id") is None else "chain"


def _name(serialized: Mapping[str, Any] | None, kwargs: Mapping[str, Any], kind: Kind) -> str:
    given = kwargs.get("name") or (serialized or {}).get("name")
    if given:
        return str(given)
    path = (serialized or {}).get("id")
    return str(path[-1]) if isinstance(path, list) and path else kind


def _state_of(error: BaseException) -> State:
    for ancestor in type(error).__mro__:
        if ancestor.__name__ in STATES:
            return STATES[ancestor.__name__]
    return "error"


_graph_aware: dict[type, type] = {}


def become_graph_aware(handler: CallbackHandler) -> None:
    """Where LangGraph is loaded, make the handler one that LangGraph tells about interrupts.

    It asks for a subclass of its own, whose module takes a second to import: an agent without LangGraph does not pay it.
    """
    module = sys.modules.get("langgraph.callbacks")
    kind = type(handler)
    base = getattr(module, "GraphCallbackHandler", None)
    if base is not None and not issubclass(kind, base):
        if kind not in _graph_aware:
            _graph_aware[kind] = type(kind.__name__, (kind, base), {"__module__": kind.__module__})
        handler.__class__ = _graph_aware[kind]
