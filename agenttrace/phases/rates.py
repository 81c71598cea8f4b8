"""Rates of one model call, each under one stated definition. In: phases, tokens, the client's marks. Out: numbers and reasons.

Dividing by N or by N - 1 are different metrics with different names; one unnamed "inter-token latency" does not exist here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agenttrace.phases.server_report import TokenCounts
from agenttrace.records import PhaseTiming

FIXED_COST_TOKENS = 64
"""Uncached prompt tokens below which a prefill rate shows fixed costs: 32 tok/s in llama.cpp's README, for one token."""

DEFINITIONS: Mapping[str, str] = {
    "prefill_tok_s": "computed prompt tokens / prefill; over all prompt tokens where the cached ones are unknown",
    "decode_tok_s": "output tokens / decode",
    "tpot_n": "decode / N output tokens (llama.cpp, Ollama, TGI)",
    "itl_n1_server": "decode / (N - 1): the first token is prefill's (NVIDIA NIM, AIPerf and vLLM, on the decode phase)",
    "itl_n1_client": "(end to end - client's time to first token) / (N - 1) (NVIDIA NIM, as a client measures it)",
    "icl": "mean time between chunks that held something: (last - first) / (chunks - 1) (AIPerf)",
    "itl_mean": "first to last arrival, between / (N - 1) and / (arrivals - 1): chunks may hold several tokens",
    "silence": "the longest time between two arrivals; a buffer may have held many tokens meanwhile",
    "burst_index": "1 - arrivals / N; arrivals within 1 ms are one (above 0.5: buffered)",
    "server_ttft": "the server's phases before decoding, its wait included, delivery excluded",
    "client_ttft": "call start until the first reasoning, content or tool-call token reached the client",
    "cache_hit_rate": "cached / prompt tokens",
}
"""Definition id to what it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRates:
    """What phases and tokens give. Nanoseconds are floats because they are divided; None is unknown."""

    prefill_tok_s: float | None = None
    decode_tok_s: float | None = None
    tpot_n_ns: float | None = None
    itl_n1_ns: float | None = None
    notes: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a rate is None, or what makes it doubtful."""


def rates_of(phases: Iterable[PhaseTiming], tokens: TokenCounts) -> CallRates:
    """The rates of a call's prefill and decode phases."""
    known = {phase.name: phase.ns for phase in phases if phase.ns is not None}
    prefill, decode, output = known.get("prefill"), known.get("decode"), tokens.output
    read = tokens.prompt if tokens.uncached is None else tokens.uncached
    notes, reasons = [], {}
    prefill_tok_s = _tokens_a_second(read, prefill)
    if prefill_tok_s is None:
        reasons["prefill_tok_s"] = "prefill unknown" if not prefill else "prompt tokens unknown"
    elif tokens.uncached is None:
        notes.append("cached tokens unknown: prefill rate is over all prompt tokens")
    if read is not None and read < FIXED_COST_TOKENS and prefill_tok_s is not None:
        reasons["prefill_tok_s"] = f"only {read} tokens were computed: fixed costs, not speed"
    if not decode or output is None:
        reasons["decode_tok_s"] = "output tokens unknown" if decode else "decode unknown"
    return CallRates(
        prefill_tok_s=prefill_tok_s,
        decode_tok_s=_tokens_a_second(output, decode),
        tpot_n_ns=decode / output if decode and output else None,
        itl_n1_ns=decode / (output - 1) if decode and output and output > 1 else None,
        notes=tuple(notes),
        reasons=reasons,
    )


def client_itl_ns(e2e_ns: int | None, ttft_ns: int | None, output: int | None) -> float | None:
    """(end to end - time to first token) / (N - 1); None where one is unknown or they contradict."""
    if e2e_ns is None or ttft_ns is None or output is None or output < 2 or ttft_ns > e2e_ns:
        return None
    return (e2e_ns - ttft_ns) / (output - 1)


def _tokens_a_second(tokens: int | None, ns: int | None) -> float | None:
    return tokens / ns * 1e9 if tokens and ns else None
