"""The numbers that people compare model calls by, each under one stated definition (`rates.DEFINITIONS`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agenttrace.phases.chunks import (
    arrival_batches_ns,
    burst_index,
    chunk_gaps_ns,
    mean_gap_bounds_ns,
    unpack_arrivals,
)
from agenttrace.phases.names import server_ttft_ns
from agenttrace.phases.rates import FIXED_COST_TOKENS, client_itl_ns, rates_of
from agenttrace.phases.server_report import TokenCounts
from agenttrace.records import Marks, PhaseTiming, SpanRecord, Usage

DEFINITION_IDS: Mapping[str, str] = {
    "server_ttft_ns": "server_ttft",
    "client_ttft_ns": "client_ttft",
    "client_ttft_low_ns": "client_ttft",
    "client_ttft_high_ns": "client_ttft",
    "prefill_tok_s": "prefill_tok_s",
    "decode_tok_s": "decode_tok_s",
    "tpot_n_ns": "tpot_n",
    "itl_n1_ns": "itl_n1_server",
    "itl_client_n1_ns": "itl_n1_client",
    "itl_client_n1_low_ns": "itl_n1_client",
    "itl_client_n1_high_ns": "itl_n1_client",
    "icl_mean_ns": "icl",
    "itl_mean_low_ns": "itl_mean",
    "itl_mean_high_ns": "itl_mean",
    "longest_silence_ns": "silence",
    "burst_index": "burst_index",
    "cache_hit_rate": "cache_hit_rate",
}
"""Field of `CallMetrics` to the key of its definition in `rates.DEFINITIONS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMetrics:
    """Of one model call. Durations in nanoseconds, as floats where they are divided; None is unknown. N: output tokens."""

    server_ttft_ns: int | None = None
    """Everything at the server before the first token, the wait included; delivery excluded."""
    client_ttft_ns: int | None = None
    """Call start to first token as the client saw it."""
    client_ttft_low_ns: int | None = None
    client_ttft_high_ns: int | None = None
    """Bounds, where the first token's arrival was not seen: the server's, and that plus all delivery."""
    prefill_tok_s: float | None = None
    """Computed prompt tokens a second; over all prompt tokens where the cached ones are unknown. None below
    `FIXED_COST_TOKENS`.
    """
    decode_tok_s: float | None = None
    """N / decoding time."""
    tpot_n_ns: float | None = None
    """Decoding time / N."""
    itl_n1_ns: float | None = None
    """Decoding time / (N - 1): the first token is prefill's. Source: NVIDIA's LLM benchmarking guide, on the decode phase."""
    itl_client_n1_ns: float | None = None
    """(end to end - client's time to first token) / (N - 1). Source: the same guide, as a client measures it."""
    itl_client_n1_low_ns: float | None = None
    itl_client_n1_high_ns: float | None = None
    """Bounds, where only bounds of the client's time to first token are known."""
    icl_mean_ns: float | None = None
    """Mean time between non-empty chunks; no token count is needed. Source: AIPerf."""
    itl_mean_low_ns: float | None = None
    itl_mean_high_ns: float | None = None
    """Bounds of the mean inter-token latency, from the arrivals alone: chunks may hold several tokens each."""
    longest_silence_ns: int | None = None
    """The longest time between two arrivals. No token's time: a buffer may have held many."""
    burst_index: float | None = None
    """1 - arrivals / N: 0 where each token came by itself, above 0.5 where the stream was buffered."""
    cache_hit_rate: float | None = None
    """Cached / prompt tokens, 0 to 1."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Field to the reason why it is None."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know."""


def call_metrics(call: SpanRecord) -> CallMetrics:
    """What follows from a model call's phases, marks and tokens."""
    tokens = _tokens(call.usage)
    rates = rates_of(call.phases, tokens)
    reasons = dict(rates.reasons)
    read = tokens.prompt if tokens.uncached is None else tokens.uncached
    server_ttft = _server_ttft_ns(call.phases)
    if server_ttft is None:
        reasons["server_ttft_ns"] = "the server's wait or its prefill is not known by itself"
    first = call.marks.first_token_ns if call.marks else None
    low, high = _client_bounds(server_ttft, call.phases, first)
    has_rate = read is not None and read >= FIXED_COST_TOKENS
    return CallMetrics(
        server_ttft_ns=server_ttft,
        client_ttft_ns=first,
        client_ttft_low_ns=low,
        client_ttft_high_ns=high,
        prefill_tok_s=rates.prefill_tok_s if has_rate else None,
        decode_tok_s=rates.decode_tok_s,
        tpot_n_ns=rates.tpot_n_ns,
        itl_n1_ns=rates.itl_n1_ns,
        itl_client_n1_ns=client_itl_ns(call.duration_ns, first, tokens.output),
        itl_client_n1_low_ns=client_itl_ns(call.duration_ns, high, tokens.output),
        itl_client_n1_high_ns=client_itl_ns(call.duration_ns, low, tokens.output),
        icl_mean_ns=_mean_chunk_gap_ns(call.marks),
        **_arrivals(call.marks, call.usage),
        cache_hit_rate=tokens.cached / tokens.prompt if tokens.cached is not None and tokens.prompt else None,
        reasons=reasons,
        notes=rates.notes if has_rate else (),
    )


def _tokens(usage: Usage | None) -> TokenCounts:
    """A count of cached tokens that exceeds the prompt's is no count."""
    if usage is None:
        return TokenCounts()
    cached = usage.cached if usage.input is None or (usage.cached or 0) <= usage.input else None
    uncached = usage.input - cached if usage.input is not None and cached is not None else None
    return TokenCounts(prompt=usage.input, cached=cached, uncached=uncached, output=usage.output)


def _server_ttft_ns(phases: tuple[PhaseTiming, ...]) -> int | None:
    """As the server's own phases add up; in an engine inside the process there is no queue and it is the prefill."""
    if any(phase.name == "queue" and phase.source == "not-applicable" for phase in phases):
        return next((phase.ns for phase in phases if phase.name == "prefill"), None)
    return server_ttft_ns(phases)


def _client_bounds(
    server_ttft: int | None, phases: tuple[PhaseTiming, ...], first: int | None
) -> tuple[int | None, int | None]:
    if first is not None:
        return first, first
    if server_ttft is None:
        return None, None
    # How delivery divides between the first token and the rest is not known, so all of it may be before.
    delivery = next((phase.ns for phase in phases if phase.name == "delivery"), None)
    return server_ttft, None if delivery is None else server_ttft + delivery


def _arrivals(marks: Marks | None, usage: Usage | None) -> dict[str, Any]:
    """What the chunks' arrivals say of the tokens in them; nothing where hidden tokens are counted with the visible ones."""
    arrivals = unpack_arrivals(marks.arrivals) if marks else ()
    if marks is None or len(arrivals) < 2 or len(arrivals) != marks.chunks:
        return {}
    batches = arrival_batches_ns(arrivals)
    found: dict[str, Any] = {"longest_silence_ns": max(chunk_gaps_ns(batches), default=None)}
    hidden = usage.reasoning if usage and usage.reasoning and marks.first_reasoning_ns is None else 0
    tokens = usage.output - hidden if usage and usage.output is not None else None
    if tokens:
        bounds = mean_gap_bounds_ns(batches[-1] - batches[0], len(batches), tokens)
        found["burst_index"] = burst_index(len(batches), tokens)
        if bounds is not None:
            found |= {"itl_mean_low_ns": bounds[0], "itl_mean_high_ns": bounds[1]}
    return found


def _mean_chunk_gap_ns(marks: Marks | None) -> float | None:
    if marks is None or marks.first_token_ns is None or marks.last_content_ns is None or (marks.chunks or 0) < 2:
        return None
    span = marks.last_content_ns - marks.first_token_ns
    return span / ((marks.chunks or 0) - 1) if span >= 0 else None
