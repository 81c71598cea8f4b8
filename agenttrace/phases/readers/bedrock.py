"""Amazon Bedrock, in milliseconds: Converse's `metrics.latencyMs`, InvokeModel's stream metrics and response headers.

`firstByteLatency` ends at the first byte, which may come before the first token: what comes before the first token may be
longer than it says, and decoding shorter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agenttrace.phases.draft import NS, ReportDraft, mapping
from agenttrace.phases.server_report import ServerReport

STREAM_METRICS = "amazon-bedrock-invocationMetrics"
HEADER = "x-amzn-bedrock-invocation-latency"

ALL = "the service's latency for the whole call (latencyMs, invocationLatency)"
FIRST = "invocation until the first byte, which may precede the first token (firstByteLatency)"
DECODE = "first byte until the end (invocationLatency - firstByteLatency)"


def read(payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None) -> ServerReport | None:
    """Read whichever of Bedrock's three places states a latency; None without one."""
    invocation = mapping(payload.get(STREAM_METRICS))
    if invocation:
        return _read_stream(
            ReportDraft("bedrock", invocation, at=STREAM_METRICS + ".", method="bedrock.invocationMetrics")
        )
    metrics = mapping(payload.get("metrics"))
    if "latencyMs" in metrics:
        draft = ReportDraft("bedrock", _unlisted(metrics), at="metrics.", method="bedrock.metrics")
        draft.elapsed(False, "latencyMs", "ms", ALL, resolution_ns=NS["ms"])
        return draft.done(resolution_ns=NS["ms"])
    if HEADER in headers:
        draft = ReportDraft("bedrock", headers, at="header:", method="bedrock.headers")
        draft.elapsed(streamed is True, HEADER, "ms", ALL, resolution_ns=NS["ms"])
        return draft.done(resolution_ns=NS["ms"])
    return None


def _unlisted(metrics: Mapping[str, object]) -> Mapping[str, object]:
    """langchain-aws's `invoke` wraps the number in a list of one; several numbers are several calls, which no phase is."""
    held = metrics["latencyMs"]
    return {**metrics, "latencyMs": held[0]} if isinstance(held, list) and len(held) == 1 else metrics


def _read_stream(draft: ReportDraft) -> ServerReport:
    total_ns = draft.duration("invocationLatency", "ms")
    first_ns = draft.duration("firstByteLatency", "ms")
    if total_ns is None or first_ns is None or first_ns > total_ns:
        if first_ns is not None and total_ns is not None:
            draft.rejected["firstByteLatency"] = "longer than invocationLatency"
        draft.elapsed(False, "invocationLatency", "ms", ALL)
        return draft.done(resolution_ns=NS["ms"])
    draft.unknown("queue")
    draft.unknown("prefill")
    draft.reported("queue_plus_prefill", "firstByteLatency", "ms", FIRST)
    draft.phases["queue_plus_prefill"] = replace(draft.phases["queue_plus_prefill"], high_ns=total_ns)
    draft.unknown("tokenize", included_in="queue_plus_prefill")
    draft.derived("decode", total_ns - first_ns, DECODE, low_ns=0, from_total=True)
    draft.total(total_ns, raw="invocationLatency")
    return draft.done(resolution_ns=NS["ms"])
