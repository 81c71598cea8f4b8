"""Streams of callbacks as LangChain fires them: written down by a handler of their own, and played again into ours.

A stream is JSON Lines: first the versions it was recorded with, then one object a callback: its name and arguments, which run
LangChain's own context says is running, and `gone` where the run id went away of a run that nobody ended.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import math
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from langchain_core.callbacks.base import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.callbacks import GraphCallbackHandler
from langgraph.types import Send
from opentelemetry import context as otel_context
from pydantic import BaseModel

from agenttrace.export.jsonl import span_json
from agenttrace.langchain.ambient import running_step_key
from agenttrace.langchain.handler import CallbackHandler
from agenttrace.spans.record import span_record
from tests.conftest import FakeClock
from tests.langchain.test_interleavings import Handler

FOLDER = Path(__file__).parents[2] / "fixtures" / "callbacks"

RECORDED = ("langchain-core", "langgraph", "langchain")

CALLBACKS = (
    "on_chat_model_start",
    "on_llm_start",
    "on_llm_new_token",
    "on_stream_event",
    "on_llm_end",
    "on_llm_error",
    "on_chain_start",
    "on_chain_end",
    "on_chain_error",
    "on_tool_start",
    "on_tool_end",
    "on_tool_error",
    "on_retriever_start",
    "on_retriever_end",
    "on_retriever_error",
    "on_custom_event",
    "on_interrupt",
    "on_resume",
)

OURS = ("langchain_core.", "langgraph.", "langchain.")
"""Modules whose classes a stream may name."""

Line = dict[str, Any]


def written(value: Any) -> Any:
    """An argument of a callback as JSON that `read` takes back: LangChain's objects by class and fields, others by their text."""
    kind = type(value)
    if value is None or isinstance(value, (bool, str)) or (isinstance(value, (int, float)) and math.isfinite(value)):
        return value
    if isinstance(value, UUID):
        return {"$uuid": str(value)}
    if isinstance(value, (list, tuple)):
        return [written(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): written(item) for key, item in value.items()}
    if isinstance(value, BaseException):
        return {"$error": [base.__name__ for base in kind.__mro__[:-1]], "text": str(value)}
    if kind.__module__.startswith(OURS) and (fields := _fields(value)) is not None:
        return {"$class": f"{kind.__module__}:{kind.__qualname__}", "fields": written(fields)}
    return {"$other": kind.__name__}


def _fields(value: Any) -> Mapping[str, Any] | None:
    """What its constructor takes, without what is as it would be anyway."""
    if isinstance(value, BaseModel):
        all_fields = {name: getattr(value, name) for name in type(value).model_fields}
        return {name: item for name, item in all_fields.items() if not _is_default(value, name, item)}
    if isinstance(value, Send):
        return {"node": value.node, "arg": value.arg}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return None


def _is_default(value: BaseModel, name: str, item: Any) -> bool:
    field = type(value).model_fields[name]
    return not field.is_required() and bool(item == field.get_default(call_default_factory=True, validated_data={}))


def read(value: Any) -> Any:
    """What `written` wrote."""
    if isinstance(value, list):
        return [read(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$uuid" in value:
        return UUID(value["$uuid"])
    if "$error" in value:
        return _error(value["$error"], value["text"])
    if "$class" in value:
        module, _, name = value["$class"].partition(":")
        assert module.startswith(OURS), module
        return getattr(importlib.import_module(module), name)(**read(value["fields"]))
    if "$other" in value:
        return f"<{value['$other']}>"
    return {key: read(item) for key, item in value.items()}


def _error(names: Sequence[str], text: str) -> BaseException:
    """An exception of this ancestry, by name: its modules need not be there."""
    kind: type[BaseException] = BaseException
    for name in reversed(names):
        kind = type(name, (kind,), {})
    return kind(text)


class Recorder(GraphCallbackHandler, BaseCallbackHandler):
    """Writes down every callback. It keeps no run id alive: that they go away is part of the stream."""

    run_inline = True
    raise_error = True

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._watched: dict[str, weakref.ref[UUID]] = {}
        self._lock = threading.RLock()

    def note(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running = running_step_key()
        line = {"callback": name, "args": written(args), "kwargs": written(kwargs)}
        if running is not None:
            line["running"] = str(UUID(int=running))
        with self._lock:
            self.lines.append(line)
            run_id = kwargs.get("run_id")
            if isinstance(run_id, UUID):
                key = str(run_id)
                if name.endswith("_start"):
                    self._watched[key] = weakref.ref(run_id, lambda _: self._gone(key))
                elif name.endswith(("_end", "_error")):
                    self._watched.pop(key, None)

    def _gone(self, key: str) -> None:
        if self._watched.pop(key, None) is not None:
            self.lines.append({"gone": key})


def _noting(name: str) -> Callable[..., None]:
    def callback(self: Recorder, *args: Any, **kwargs: Any) -> None:
        self.note(name, args, kwargs)

    return callback


for _name in CALLBACKS:
    setattr(Recorder, _name, _noting(_name))


def record(case: Callable[[BaseCallbackHandler], None]) -> str:
    """The stream of what a case makes LangChain call, as JSON Lines. Ids are counted through, so that two recordings compare."""
    recorder = Recorder()
    copy_context().run(case, recorder)
    gc.collect()
    head = {"recorded_with": {name: version(name) for name in RECORDED}}
    text = b"\n".join(orjson.dumps(line) for line in (head, *recorder.lines)).decode() + "\n"
    text = ADDRESSES.sub("0x0", text)
    return _counted(_counted(text, UUIDS, lambda n: str(UUID(int=n))), HASHES, lambda n: f"{n:032x}")


UUIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ADDRESSES = re.compile(r"\b0x[0-9a-f]+")
HASHES = re.compile(r"\b[0-9a-f]{32}\b")


def _counted(text: str, ids: re.Pattern[str], name: Callable[[int], str]) -> str:
    known: dict[str, str] = {}
    return ids.sub(lambda found: known.setdefault(found[0], name(len(known) + 1)), text)


class Replay:
    """Plays a stream into a handler. A millisecond passes before each callback; each run has a context of its own, made of its
    parent's, as tasks and threads have."""

    def __init__(self, handler: CallbackHandler, clock: FakeClock) -> None:
        self._handler = handler
        self._clock = clock
        self._ids: dict[str, UUID] = {}
        self._contexts: dict[str, Context] = {}

    def play(self, lines: Iterable[Line]) -> None:
        """All of it."""
        for line in lines:
            self._clock.advance(0.001)
            if "gone" in line:
                del self._ids[line["gone"]]
                gc.collect()
            else:
                self._call(line)

    def _call(self, line: Line) -> None:
        key = line["kwargs"].get("run_id", {}).get("$uuid")
        kwargs = {name: self._id(value) if name == "run_id" else read(value) for name, value in line["kwargs"].items()}
        running = line.get("running")
        if key not in self._contexts:
            above = running or (line["kwargs"].get("parent_run_id") or {}).get("$uuid")
            self._contexts[key] = self._contexts.get(str(above), FRESH).copy()
        self._contexts[key].run(self._in_context, line["callback"], read(line["args"]), kwargs, running)
        if line["callback"].endswith(("_end", "_error")):
            self._ids.pop(key, None)

    def _id(self, value: Mapping[str, str]) -> UUID:
        """The one object that stands for a run id, as in LangChain."""
        return self._ids.setdefault(value["$uuid"], UUID(value["$uuid"]))

    def _in_context(self, name: str, args: list[Any], kwargs: dict[str, Any], running: str | None) -> None:
        above = None if running is None else type("Manager", (), {"parent_run_id": UUID(running)})()
        var_child_runnable_config.set({"callbacks": above, "configurable": {}})
        getattr(self._handler, name)(*args, **kwargs)


FRESH = Context()
FRESH.run(otel_context.attach, otel_context.Context())


def spans_of(path: Path) -> list[Line]:
    """What our handler makes of a recorded stream: its spans in start order, times in milliseconds from the first callback."""
    clock, handler = FakeClock(), Handler()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agenttrace.clock.monotonic_ns", clock.monotonic_ns)
        patch.setattr("agenttrace.clock.wall_ns", clock.wall_ns)
        start_ns = clock.wall_ns()
        Replay(handler, clock).play(orjson.loads(line) for line in path.read_bytes().splitlines()[1:])
    assert handler.sink.faults == []
    last = {step.span_id: span_json(span_record(step)) for step in handler.sink.built()}
    spans = sorted(last.values(), key=lambda span: span["start_ns"])
    numbers = {span["span_id"]: number for number, span in enumerate(spans)}
    return [_shown(span, numbers, start_ns) for span in spans]


def _shown(span: Mapping[str, Any], numbers: Mapping[str, int], start_ns: int) -> Line:
    """What a stream decides of a span: no random ids, no versions, no settings, which have tests of their own."""
    shown = {"parent": numbers.get(span["parent_id"]), **{name: span[name] for name in SHOWN if span[name] is not None}}
    for name in ("start", "end"):
        at = span[f"{name}_ns"]
        shown[f"{name}_ms"] = None if at is None else (at - start_ns) / 1e6
    shown["metadata"] = {name: value for name, value in span["metadata"].items() if name != "lc_versions"}
    shown["events"] = [{**event, "at_ns": event["at_ns"] - start_ns} for event in span["events"]]
    return {name: value for name, value in shown.items() if value not in ([], {})}


SHOWN = (
    "kind",
    "name",
    "state",
    "attempt",
    "call_site",
    "input",
    "output",
    "finish_reason",
    "usage",
    "marks",
    "error",
    "paused_at",
    "resumed_from",
    "tags",
    "session",
    "user",
)


def as_text(spans: Sequence[Line]) -> str:
    """Spans as they stand in a file."""
    return orjson.dumps(spans, option=orjson.OPT_INDENT_2).decode() + "\n"
