"""Servers and gateways that report in response headers: TGI, Fireworks, xAI, LiteLLM.

Headers are text; each server's unit and rounding are its own. A gateway's relayed headers are read as the server's own.
"""

from __future__ import annotations

from collections.abc import Mapping

from agenttrace.phases.draft import NS, ReportDraft, mapping
from agenttrace.phases.names import joined
from agenttrace.phases.server_report import ServerReport

Payload = Mapping[str, object]
Headers = Mapping[str, str]

FIREWORKS_FIELDS = (
    "server-time-to-first-token",
    "server-processing-time",
    "prefill-queue-duration",
    "prefill-duration",
    "generation-duration",
    "generation-queue-duration",
    "tokenizer-duration",
)


def read_tgi(payload: Payload, headers: Headers, streamed: bool | None) -> ServerReport | None:
    """Text Generation Inference: whole milliseconds, cut off, so 0 is anything below one.

    `x-time-per-token` is inference over tokens, prefill inside: no inter-token latency, and not read.
    """
    if "x-inference-time" not in headers or "x-total-time" not in headers:
        return None
    draft = ReportDraft("tgi", headers, at="header:", method="tgi.headers")
    cut = NS["ms"]
    draft.reported(
        "tokenize", "x-validation-time", "ms", "validating and tokenising (x-validation-time)", resolution_ns=cut
    )
    draft.reported("queue", "x-queue-time", "ms", "waiting for a batch (x-queue-time)", resolution_ns=cut)
    draft.unknown("prefill")
    draft.unknown("decode")
    draft.reported(
        "prefill_plus_decode", "x-inference-time", "ms", "all forward passes (x-inference-time)", resolution_ns=cut
    )
    draft.total(draft.duration("x-total-time", "ms"), is_independent=True, raw="x-total-time")
    return draft.done(resolution_ns=cut)


def read_fireworks(payload: Payload, headers: Headers, streamed: bool | None) -> ServerReport | None:
    """Fireworks, in seconds: headers, with or without their prefix, or `perf_metrics` in the body.

    It has two queues. The prefill queue is ours; whether the generation queue lies inside generation is not documented, so
    it is a part, and decoding is at least what it leaves.
    """
    for at, fields in (("perf_metrics.", mapping(payload.get("perf_metrics"))), ("header:", headers)):
        plain = {str(name).lower().removeprefix("fireworks-"): value for name, value in fields.items()}
        if any(name in plain for name in FIREWORKS_FIELDS):
            return _fireworks(ReportDraft("fireworks", plain, at=at, method="fireworks." + at.strip(".:")))
    return None


def _fireworks(draft: ReportDraft) -> ServerReport:
    def seconds(name: str) -> int | None:
        return draft.duration(name, "s", text=True)

    draft.reported("queue", "prefill-queue-duration", "s", "waiting for prefill (prefill-queue-duration)", text=True)
    draft.reported("tokenize", "tokenizer-duration", "s", "tokenising (tokenizer-duration)", text=True)
    draft.reported("prefill", "prefill-duration", "s", "prefill (prefill-duration)", text=True)
    draft.reported("decode", "generation-duration", "s", "generation (generation-duration)", text=True)
    for part in ("tokenizer-queue", "generation-queue"):
        draft.part(part.replace("-", "_"), part + "-duration", "s", text=True)
    total, first = seconds("server-processing-time"), seconds("server-time-to-first-token")
    draft.ttft_ns = first
    if first is not None:
        draft.raw["ttft"] = draft.raw["server-time-to-first-token"]
        _before_first_token(draft, first)
    generating = None if total is None or first is None or total < first else total - first
    if generating is not None and draft.sum_of("decode") is None:
        waited = min(draft.parts.get("generation_queue", 0), generating)
        draft.unknown("decode", low_ns=generating - waited, high_ns=generating)
    draft.total(total, is_independent=True, raw="server-processing-time")
    return draft.done()


def _before_first_token(draft: ReportDraft, first_ns: int) -> None:
    """What the time to first token leaves for those of its parts that are not stated."""
    parts = ("queue", "tokenize", "prefill")
    missing = [name for name in parts if draft.sum_of(name) is None]
    left = first_ns - sum(draft.sum_of(name) or 0 for name in parts)
    if not missing:
        return
    if left < 0:
        draft.notes.append("the time to first token is shorter than its stated parts: it bounds nothing")
        return
    for name in missing:
        draft.unknown(name, high_ns=left)
    draft.derived(joined(missing), left, "server-time-to-first-token less its stated parts")


def read_xai(payload: Payload, headers: Headers, streamed: bool | None) -> ServerReport | None:
    """XAI's undocumented headers, in milliseconds: time to first token, whole, mean inter-token latency."""
    if "x-metrics-ttft-ms" not in headers and "x-metrics-e2e-ms" not in headers:
        return None
    draft = ReportDraft("xai", headers, at="header:", method="xai.headers")
    draft.unknown("queue")
    draft.unknown("prefill")
    draft.unknown("decode")
    total = draft.duration("x-metrics-e2e-ms", "ms")
    first = draft.reported("queue_plus_prefill", "x-metrics-ttft-ms", "ms", "received until the first token (ttft)")
    if total is not None and first is not None:
        draft.derived("decode", total - first, "first token until the end (e2e - ttft)", from_total=True)
    draft.total(total, is_independent=draft.sum_of("decode") is None, raw="x-metrics-e2e-ms")
    gap = draft.rate("itl_reported_s", "x-metrics-mean-itl-ms", scale=1e-3)
    decode = draft.sum_of("decode")
    if gap and decode:
        draft.notes.append(f"the stated mean gap implies {1 + round(decode / NS['s'] / gap)} output tokens")
    return draft.done()
