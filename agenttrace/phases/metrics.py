"""The numbers that people compare model calls by, each under one stated definition."""

from __future__ import annotations

from dataclasses import dataclass

from agenttrace.phases.names import BEFORE_DECODE, counted, members
from agenttrace.records import SpanRecord

FIXED_COST_TOKENS = 64
"""Uncached prompt tokens below which a prefill rate only shows fixed costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMetrics:
    """Of one model call. Durations in nanoseconds, as floats where they are divided; None is unknown."""

    server_ttft_ns: int | None = None
    """Everything at the server before the first token, the wait included; delivery excluded."""
    client_ttft_ns: int | None = None
    """Call start to first token as the client saw it."""
    client_ttft_low_ns: int | None = None
    client_ttft_high_ns: int | None = None
    """Bounds, where the first token's arrival was not seen: the server's, and that plus all delivery."""
    prefill_tok_s: float | None = None
    """Computed prompt tokens a second; over all prompt tokens where the cached ones are unknown."""
    decode_tok_s: float | None = None
    tpot_n_ns: float | None = None
    """Decoding time / N output tokens."""
    itl_n1_ns: float | None = None
    """Decoding time / (N - 1): the first token is prefill's. Source: NVIDIA's LLM benchmarking guide, on the decode phase."""
    itl_client_n1_ns: float | None = None
    """(end to end - client's time to first token) / (N - 1). Source: the same guide, as a client measures it."""
    cache_hit_rate: float | None = None
    """Cached / prompt tokens, 0 to 1."""


def call_metrics(call: SpanRecord) -> CallMetrics:
    """What follows from a model call's phases, marks and tokens."""
    usage = call.usage
    output = usage.output if usage else None
    phases = {phase.name: phase.ns for phase in call.phases if phase.ns is not None}
    decode, prefill = phases.get("decode"), phases.get("prefill")
    server_ttft = _server_ttft(call)
    first = call.marks.first_token_ns if call.marks else None
    low, high = _client_bounds(server_ttft, phases.get("delivery"), first)
    uncached = None
    if usage and usage.input is not None:
        uncached = usage.input - (usage.cached or 0)
    return CallMetrics(
        server_ttft_ns=server_ttft,
        client_ttft_ns=first,
        client_ttft_low_ns=low,
        client_ttft_high_ns=high,
        prefill_tok_s=_rate(uncached, prefill) if uncached is not None and uncached >= FIXED_COST_TOKENS else None,
        decode_tok_s=_rate(output, decode),
        tpot_n_ns=decode / output if decode is not None and output else None,
        itl_n1_ns=decode / (output - 1) if decode is not None and output and output > 1 else None,
        itl_client_n1_ns=_client_itl(call.duration_ns, first, output),
        cache_hit_rate=usage.cached / usage.input if usage and usage.cached is not None and usage.input else None,
    )


def _server_ttft(call: SpanRecord) -> int | None:
    """The sum of what happens before decoding; None unless the wait and the prefill are both known."""
    before = [phase for phase in counted(call.phases) if all(name in BEFORE_DECODE for name in members(phase.name))]
    held = {name for phase in before for name in members(phase.name)}
    return sum(phase.ns or 0 for phase in before) if {"queue", "prefill"} <= held else None


def _client_bounds(server_ttft: int | None, delivery: int | None, first: int | None) -> tuple[int | None, int | None]:
    if first is not None:
        return first, first
    if server_ttft is None:
        return None, None
    return server_ttft, None if delivery is None else server_ttft + delivery


def _rate(tokens: int | None, ns: int | None) -> float | None:
    return tokens / ns * 1e9 if tokens is not None and ns else None


def _client_itl(duration_ns: int | None, first: int | None, output: int | None) -> float | None:
    if duration_ns is None or first is None or output is None or output < 2:
        return None
    return (duration_ns - first) / (output - 1)
