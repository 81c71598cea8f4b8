"""Groq's times inside `usage`, in seconds; the last chunk of a stream has them in `x_groq.usage`.

`total_time` is prompt and completion combined and excludes the queue. A queue of null is unknown, not none.
Source: groq SDK, types/completion_usage.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from agenttrace.phases.draft import ReportDraft, mapping
from agenttrace.phases.plausibility import tolerance_ns
from agenttrace.phases.server_report import ServerReport

QUEUE = "waiting until work begins (queue_time); outside total_time"
PREFILL = "processing the prompt (prompt_time)"
DECODE = "generating the completion (completion_time)"
FIELDS = ("queue_time", "prompt_time", "completion_time")


def read(payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None) -> ServerReport | None:
    """Read the times that Groq adds to token usage, wherever the usage stands; None without them."""
    for at, usage in (
        ("usage.", mapping(payload.get("usage"))),
        ("x_groq.usage.", mapping(mapping(payload.get("x_groq")).get("usage"))),
        ("token_usage.", mapping(payload.get("token_usage"))),  # LangChain's name
    ):
        if any(name in usage for name in FIELDS):
            return _read(ReportDraft("groq", usage, at=at, method="groq.usage"), payload)
    return None


def _read(draft: ReportDraft, payload: Mapping[str, object]) -> ServerReport:
    draft.reported("queue", "queue_time", "s", QUEUE)
    draft.reported("prefill", "prompt_time", "s", PREFILL)
    draft.reported("decode", "completion_time", "s", DECODE)
    draft.total(draft.sum_of("queue", "prefill", "decode"))
    stated, parts = draft.duration("total_time", "s"), draft.sum_of("prefill", "decode")
    if stated is not None and parts is not None and abs(stated - parts) > tolerance_ns(ServerReport(server=""), parts):
        draft.notes.append("total_time is not prompt_time + completion_time: its meaning may have changed")
    models = mapping(payload.get("usage_breakdown")).get("models")
    if isinstance(models, list) and len(models) > 1:
        draft.notes.append(f"the times are sums over {len(models)} model calls inside one response")
    return draft.done()
