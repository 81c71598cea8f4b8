"""A step to the record that is kept of it: phases divided, settings read, usage counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from agenttrace.phases.chunks import pack_arrivals
from agenttrace.phases.split import split_phases, split_tool_phases
from agenttrace.phases.tokens import read_tokens
from agenttrace.records import (
    OF_THE_RUN,
    REPLAYED,
    AttemptRecord,
    ErrorRecord,
    EventRecord,
    Marks,
    RunRecord,
    SpanRecord,
    Usage,
)
from agenttrace.settings.capture import read_settings
from agenttrace.settings.tools import run_tool_settings
from agenttrace.steps import JSON, Attempt, ModelCall, Step, ToolCall
from agenttrace.transport.bodies import with_attempts


def trace_hex(trace_id: int) -> str:
    return f"{trace_id:032x}"


def span_hex(span_id: int) -> str:
    return f"{span_id:016x}"


def span_record(step: Step) -> SpanRecord:
    """What the store keeps of a step that has started or ended."""
    parts: dict[str, Any] = {}
    if isinstance(step, ModelCall):
        parts = _model_parts(with_attempts(step))
    elif isinstance(step, ToolCall):
        parts = {"phases": split_tool_phases(step), "settings": run_tool_settings(step)}
    error = None
    if step.error_type is not None:
        error = ErrorRecord(type=step.error_type, message=step.error_message or "")
    return SpanRecord(
        trace_id=trace_hex(step.trace_id),
        span_id=span_hex(step.span_id),
        parent_id=None if step.parent_id is None else span_hex(step.parent_id),
        run_id=step.run_id,
        kind=step.kind,
        name=step.name,
        state=step.state,
        start_ns=step.start_ns,
        end_ns=step.end_ns,
        call_site=step.call_site,
        attempt=step.attempt,
        input=step.input,
        output=step.output,
        metadata=step.metadata,
        tags=step.tags,
        events=tuple(EventRecord(name=name, at_ns=at, data=data) for name, at, data in step.events),
        error=error,
        paused_at=step.paused_at,
        resumed_from=step.resumed_from,
        session=_label(step, "session_id", "thread_id"),
        user=_label(step, "user_id"),
        **parts,
    )


def of_run(span: SpanRecord, run: RunRecord) -> SpanRecord:
    """A root with what `record()` was told; what the call's own config says wins."""
    return replace(
        span,
        session=span.session or run.session,
        user=span.user or run.user,
        metadata={**{key: value for key, value in run.metadata.items() if key not in OF_THE_RUN}, **span.metadata},
        tags=(*span.tags, *(f"{name}={value}" for name, value in run.tags.items())),
    )


def _label(step: Step, *names: str) -> str | None:
    return next((str(step.metadata[name]) for name in names if step.metadata.get(name) is not None), None)


def _model_parts(call: ModelCall) -> dict[str, Any]:
    split = split_phases(call)
    settings, dropped = read_settings(call)
    if call.is_replayed:
        split = replace(split, phases=(), notes=(REPLAYED,), rejected={})
    return {
        "phases": split.phases,
        "server_parts_ns": split.server_parts_ns,
        "notes": (
            *_served_by(call),
            *dropped,
            *split.notes,
            *(f"rejected {name}: {reason}" for name, reason in split.rejected.items()),
        ),
        "settings": settings,
        "usage": _usage(call),
        "marks": _marks(call),
        "attempts": tuple(_attempt(attempt) for attempt in call.attempts),
        "finish_reason": call.finish_reason or _text(call.report.get("finish_reason")),
        "server_report": call.attempts[-1].report if call.attempts and call.attempts[-1].report else None,
    }


def _served_by(call: ModelCall) -> tuple[str, ...]:
    """What a reader must know where a server changed over to another model in the middle."""
    if len(call.served_models) < 2:
        return ()
    return (f"served by several models within this one call: {', '.join(call.served_models)}",)


def _usage(call: ModelCall) -> Usage:
    """The framework's counts; where it has none, the server's own report."""
    headers = call.attempts[-1].headers if call.attempts else {}
    reported, _ = read_tokens(call.report, headers)
    counts = {
        "input": reported.prompt,
        "output": reported.output,
        "cached": reported.cached,
        "cache_written": reported.cache_written,
        "reasoning": reported.reasoning,
    }
    told = {name: count for name, count in call.tokens.items() if count is not None}
    return Usage(**{**counts, **told})


def _marks(call: ModelCall) -> Marks:
    def since_start(moment: int | None) -> int | None:
        return None if moment is None else moment - call.start_ns

    return Marks(
        first_byte_ns=since_start(call.attempts[-1].first_byte_ns if call.attempts else call.first_byte_ns),
        first_reasoning_ns=since_start(call.first_reasoning_ns),
        first_content_ns=since_start(call.first_content_ns),
        first_tool_ns=since_start(call.first_tool_ns),
        last_content_ns=since_start(call.last_content_ns),
        chunks=call.chunks,
        arrivals=pack_arrivals(call.arrivals_ns),
    )


def _attempt(attempt: Attempt) -> AttemptRecord:
    def since_start(moment: int | None) -> int | None:
        return None if moment is None else moment - attempt.start_ns

    connect = None
    if attempt.connect_start_ns is not None and attempt.connect_end_ns is not None:
        connect = attempt.connect_end_ns - attempt.connect_start_ns
    return AttemptRecord(
        start_ns=attempt.start_ns,
        end_ns=attempt.end_ns,
        status=attempt.status,
        host=attempt.host,
        connect_ns=connect,
        sent_ns=since_start(attempt.sent_ns),
        headers_ns=since_start(attempt.headers_ns),
        first_byte_ns=since_start(attempt.first_byte_ns),
        reads=attempt.reads,
        read_bytes=attempt.read_bytes,
        arrivals=pack_arrivals(attempt.read_times_ns),
        error=attempt.error,
        headers=attempt.headers,
    )


def _object(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, Mapping) else cast(Mapping[str, JSON], {})


def _text(value: JSON) -> str | None:
    return value if isinstance(value, str) else None
