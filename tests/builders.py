"""Small real records for tests: give what matters, the rest is plain."""

from __future__ import annotations

from typing import Any

from agenttrace.records import Marks, PhaseTiming, RunRecord, SpanRecord, Usage

SECOND = 1_000_000_000
NOON = 1_764_590_400 * SECOND


def a_run(**fields: Any) -> RunRecord:
    return RunRecord(**{"run_id": "run1", "name": "nightly", "start_ns": NOON, **fields})


def a_span(number: int = 1, **fields: Any) -> SpanRecord:
    return SpanRecord(
        **{
            "trace_id": "a" * 32,
            "span_id": f"{number:016x}",
            "parent_id": None,
            "run_id": "run1",
            "kind": "chain",
            "name": "agent",
            "state": "ok",
            "start_ns": NOON,
            "end_ns": NOON + SECOND,
            **fields,
        }
    )


def a_model_call(number: int = 2, **fields: Any) -> SpanRecord:
    return a_span(
        number,
        **{
            "kind": "model",
            "name": "ChatModel",
            "parent_id": f"{1:016x}",
            "marks": Marks(),
            "usage": Usage(input=40, output=10, total=50),
            "phases": (PhaseTiming(name="decode", ns=SECOND // 2, source="server-reported", method="test"),),
            **fields,
        },
    )
