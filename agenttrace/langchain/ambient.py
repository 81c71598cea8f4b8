"""The span that user code and HTTP instrumentation see while a step runs (D3).

OpenTelemetry's context is set without a token and never detached: LangChain ends steps in copied contexts, where a detach
fails. Instead the ambient span is a proxy that answers for its step while the step is current, and for the span around it
afterwards, so that there is nothing to take back.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace

from agenttrace.steps import OpenStep, current_model_call

SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)


class AmbientSpan(trace.Span):
    """Stands for an open step; for the span around it once the step is no longer current.

    It is no `ReadableSpan`: it records nothing itself, and what user code sets on it goes to the span around it.
    """

    __slots__ = ("_context", "outer", "run_key", "saved", "step")

    def __init__(self, step: OpenStep, run_key: int, outer: trace.Span, saved: otel_context.Context) -> None:
        self.step = step
        self.outer = outer
        self.saved: otel_context.Context | None = saved
        self.run_key = run_key
        self._context: trace.SpanContext | None = None  # made when somebody asks: most steps are nobody's parent

    def is_current(self) -> bool:
        """Whether code that runs now runs inside the step, as far as LangChain's own context says.

        A chain or tool is current while LangChain says that its children would be; that keeps the loop body of somebody
        who consumes its stream outside. A model call is current until its first token: by then its request has left.
        """
        step = self.step
        if not step.is_open:
            return False
        if step.kind == "model":
            return step.first_byte is None
        if step.kind in ("retriever", "embedding"):
            return True
        return running_step_key() == self.run_key

    def _speaker(self) -> trace.Span:
        span: trace.Span = self
        while isinstance(span, AmbientSpan) and not span.is_current():
            span = span.outer
        return span

    def get_span_context(self) -> trace.SpanContext:
        speaker = self._speaker()
        if speaker is not self:
            return speaker.get_span_context()
        if self._context is None:
            step = self.step
            flags = trace.TraceFlags(step.traceparent_flags)
            self._context = trace.SpanContext(step.trace_id, step.span_id, is_remote=False, trace_flags=flags)
        return self._context

    def is_recording(self) -> bool:
        speaker = self._speaker()
        return True if speaker is self else speaker.is_recording()

    def end(self, end_time: int | None = None) -> None:
        """Do nothing: a step ends by its own callback."""

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        self.outer.set_attributes(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        self.outer.set_attribute(key, value)

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        self.outer.add_event(name, attributes, timestamp)

    def update_name(self, name: str) -> None:
        """Do nothing: a step's name is LangChain's."""

    def set_status(self, status: Any, description: str | None = None) -> None:
        """Do nothing: a step's state comes from its own callback."""

    def record_exception(
        self, exception: BaseException, attributes: Any = None, timestamp: int | None = None, escaped: bool = False
    ) -> None:
        self.outer.record_exception(exception, attributes, timestamp, escaped)

    def add_link(self, context: trace.SpanContext, attributes: Any = None) -> None:
        self.outer.add_link(context, attributes)


def running_step_key() -> int | None:
    """The run id of the chain or tool that LangChain says is running here, as an integer."""
    config_module = sys.modules.get("langchain_core.runnables.config")
    if config_module is None:
        return None
    config = config_module.var_child_runnable_config.get()
    callbacks = config.get("callbacks") if config else None
    parent = getattr(callbacks, "parent_run_id", None)
    return None if parent is None else int(parent.int)


def configured(names: Sequence[str]) -> Mapping[str, Any]:
    """What the config of the chain that runs here says under these names: LangGraph tells a callback `thread_id` only."""
    config_module = sys.modules.get("langchain_core.runnables.config")
    config = None if config_module is None else config_module.var_child_runnable_config.get()
    configurable = (config.get("configurable") if config else None) or {}
    return {name: configurable[name] for name in names if configurable.get(name) is not None}


def surrounding_span() -> trace.Span:
    """The span around a step that starts now: the innermost one that is still current, ours or the user's.

    Model calls, retrievals and embeddings have no steps inside them; one that is still ambient was left behind by a call that died.
    """
    span = trace.get_current_span()
    while isinstance(span, AmbientSpan) and (
        span.step.kind in ("model", "retriever", "embedding") or not span.is_current()
    ):
        span = span.outer
    return span


def enter(step: OpenStep, run_key: int, outer: trace.Span, *, watch_transport: bool) -> AmbientSpan:
    """Make the step the ambient one of this context; a model call also the one that HTTP requests belong to."""
    saved = otel_context.get_current()
    proxy = AmbientSpan(step, run_key, outer, saved)
    otel_context.attach(trace.set_span_in_context(proxy, saved))
    if step.kind in ("model", "embedding"):
        current_model_call.set(step if watch_transport else None)
    return proxy


def leave(proxy: AmbientSpan) -> None:
    """Put back the context from before the step where this is still its context; drop what the proxy held."""
    if trace.get_current_span() is proxy and proxy.saved is not None:
        otel_context.attach(proxy.saved)
    proxy.saved = None


__all__: Sequence[str] = ("AmbientSpan", "configured", "enter", "leave", "running_step_key", "surrounding_span")
