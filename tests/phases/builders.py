"""Small real calls for the tests of this room: seconds in, steps out."""

from __future__ import annotations

from typing import Any

from agenttrace.records import PhaseTiming
from agenttrace.steps import Attempt, ModelCall, ToolCall

SECOND = 1_000_000_000
NOON = 1_764_590_400 * SECOND


def at(seconds: float) -> int:
    """A moment so many seconds after noon."""
    return NOON + round(seconds * SECOND)


def a_call(e2e: float | None = 6.0, **fields: Any) -> ModelCall:
    """A model call from noon on; keys that end in `_s` are moments in seconds after its start."""
    moments = {key.removesuffix("_s") + "_ns": at(value) for key, value in fields.items() if key.endswith("_s")}
    plain = {key: value for key, value in fields.items() if not key.endswith("_s")}
    return ModelCall(
        **{
            "trace_id": 1,
            "span_id": 2,
            "parent_id": None,
            "run_id": "run1",
            "kind": "model",
            "name": "ChatModel",
            "start_ns": NOON,
            "end_ns": None if e2e is None else at(e2e),
            "state": "unfinished" if e2e is None else "ok",
            **moments,
            **plain,
        }
    )


def an_attempt(start: float, end: float | None, **fields: Any) -> Attempt:
    """An HTTP request; keys that end in `_s` are moments in seconds after noon."""
    moments = {key.removesuffix("_s") + "_ns": at(value) for key, value in fields.items() if key.endswith("_s")}
    plain = {key: value for key, value in fields.items() if not key.endswith("_s")}
    ends = None if end is None else at(end)
    return Attempt(
        **{"start_ns": at(start), "end_ns": ends, "host": "server", "path": "/v1", "status": 200, **moments, **plain}
    )


def a_tool(asked: float | None, start: float, end: float | None) -> ToolCall:
    return ToolCall(
        trace_id=1,
        span_id=3,
        parent_id=None,
        run_id="run1",
        kind="tool",
        name="search",
        start_ns=at(start),
        end_ns=None if end is None else at(end),
        asked_ns=None if asked is None else at(asked),
    )


def by_name(phases: tuple[PhaseTiming, ...]) -> dict[str, PhaseTiming]:
    return {phase.name: phase for phase in phases}


def counted_ns(phases: tuple[PhaseTiming, ...]) -> int:
    """What a reader adds up: entries with a number that are in no other entry."""
    return sum(phase.ns for phase in phases if phase.ns is not None and phase.included_in is None)


LLAMACPP: dict[str, Any] = {
    "usage": {"prompt_tokens": 4000, "completion_tokens": 180},
    "timings": {"cache_n": 0, "prompt_n": 4000, "prompt_ms": 900.0, "predicted_n": 180, "predicted_ms": 3600.0},
}
OLLAMA: dict[str, Any] = {
    "total_duration": 5_700_000_000,
    "load_duration": 200_000_000,
    "prompt_eval_count": 4000,
    "prompt_eval_duration": 900_000_000,
    "eval_count": 180,
    "eval_duration": 3_600_000_000,
}
