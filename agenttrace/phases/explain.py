"""Explains one response: a server's body and headers, with the client's view where there is one, to phases with provenance.

In: the document that `agenttrace explain-response` is given. Out: `Explanation`, and its JSON, in seconds (design.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agenttrace.phases.attribution import attribute
from agenttrace.phases.chunks import arrival_batches_ns, chunk_gaps_ns, mean_gap_bounds_ns
from agenttrace.phases.draft import NS, mapping, number
from agenttrace.phases.names import server_ttft_ns
from agenttrace.phases.rates import client_itl_ns, rates_of
from agenttrace.phases.readers.registry import read_report
from agenttrace.phases.server_report import RawValue, ServerReport, Speculation, TokenCounts
from agenttrace.phases.stated_view import StatedClient, stated_client
from agenttrace.records import PhaseTiming
from agenttrace.steps import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How a response's time divides. Durations in nanoseconds; None is unknown."""

    provider: str | None
    """As the document names it."""
    phases: tuple[PhaseTiming, ...]
    server_parts_ns: Mapping[str, int] = field(default_factory=dict)
    server_total_ns: int | None = None
    server_ttft_ns: int | None = None
    tokens: TokenCounts = field(default_factory=TokenCounts)
    rates: Mapping[str, float] = field(default_factory=dict)
    """By name; tokens a second end in `_tok_s`, seconds in `_s`. What the server states itself has `reported` in it."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    resolution_ns: int = 0
    """What one step of the server's numbers is worth; 0 where it does not round."""
    speculation: Speculation | None = None
    chunk_gaps_ns: tuple[int, ...] = ()
    """Inter-chunk latencies, where the document lists arrivals."""
    raw: Mapping[str, RawValue] = field(default_factory=dict)
    """By phase, part or field: the number as the server wrote it, with its unit."""


UNREAD = "nothing here says how long the server took in a shape that is known: only what the client saw is divided"


def explain_response(document: Mapping[str, object]) -> Explanation:
    """Explain `{"provider", "payload", "headers", "client"}`; each may be missing. Never raises on what is inside them.

    `client` takes `e2e_s`, `ttft_s` or the marks of `show --json`, `streamed`, `attempts` and `chunk_arrivals_ms`.
    """
    payload = mapping(document.get("payload"))
    stated = mapping(document.get("headers")).items()
    headers = {str(name): str(text) for name, text in stated if isinstance(text, str) or number(text) is not None}
    provider = document.get("provider")
    name = provider if isinstance(provider, str) else None
    client = stated_client(mapping(document.get("client")), payload)
    report = read_report(payload, headers, server=name, streamed=client.view.is_streamed)
    divided = attribute(report, client.view)
    believed = divided.report
    ttft = believed.ttft_ns if believed.ttft_ns is not None else server_ttft_ns(believed.phases)
    rates, rate_notes = _rates(divided.phases, believed, client, ttft)
    unread = () if report is not None and report.says_time else (UNREAD,)
    notes = (*unread, *client.notes, *divided.notes, *rate_notes)
    return Explanation(
        provider=name,
        phases=divided.phases,
        server_parts_ns=believed.parts_ns,
        server_total_ns=believed.total_ns,
        server_ttft_ns=ttft,
        tokens=believed.tokens,
        rates=rates,
        rejected={**believed.rejected, **client.rejected},
        notes=tuple(dict.fromkeys(notes)),
        resolution_ns=believed.resolution_ns,
        speculation=believed.speculation,
        chunk_gaps_ns=chunk_gaps_ns(client.arrivals_ns),
        raw=believed.raw,
    )


def _rates(
    phases: tuple[PhaseTiming, ...], report: ServerReport, client: StatedClient, server_ttft: int | None
) -> tuple[dict[str, float], list[str]]:
    computed = rates_of(phases, report.tokens)
    notes = [*computed.notes]
    if computed.prefill_tok_s is not None and "prefill_tok_s" in computed.reasons:
        notes.append(f"prefill rate: {computed.reasons['prefill_tok_s']}")
    first = client.ttft_ns
    gap = client_itl_ns(client.view.e2e_ns, server_ttft if first is None else first, report.tokens.output)
    if gap is not None and first is None:
        notes.append(
            "client's time to first token unknown: itl_client_n1_s uses the server's, so delivery leaks into it"
        )
    rates = {
        "prefill_tok_s": computed.prefill_tok_s,
        "decode_tok_s": computed.decode_tok_s,
        "tpot_n_s": None if computed.tpot_n_ns is None else computed.tpot_n_ns / NS["s"],
        "itl_n1_s": None if computed.itl_n1_ns is None else computed.itl_n1_ns / NS["s"],
        "itl_client_n1_s": None if gap is None else gap / NS["s"],
    }
    bounds = None
    if client.arrivals_ns and report.tokens.output:
        batches = arrival_batches_ns(client.arrivals_ns)
        bounds = mean_gap_bounds_ns(batches[-1] - batches[0], len(batches), report.tokens.output)
    if bounds is not None:
        rates |= {"itl_mean_low_s": bounds[0] / NS["s"], "itl_mean_high_s": bounds[1] / NS["s"]}
    known = {name: value for name, value in rates.items() if value is not None}
    return {**known, **report.rates}, notes


def explanation_json(explanation: Explanation) -> dict[str, JSON]:
    """What `explain-response` prints. Durations become seconds here and nowhere before."""
    tokens, speculation = explanation.tokens, explanation.speculation
    document: dict[str, JSON] = {
        "provider": explanation.provider,
        "phases": {phase.name: _phase_json(phase) for phase in explanation.phases},
        "server_parts_s": {name: ns / NS["s"] for name, ns in explanation.server_parts_ns.items()},
        "server_total_s": _seconds(explanation.server_total_ns),
        "server_ttft_s": _seconds(explanation.server_ttft_ns),
        "tokens": {name: getattr(tokens, name) for name in ("prompt", "cached", "uncached", "output", "reasoning")},
        "rates": dict(explanation.rates),
        "rejected": dict(explanation.rejected),
        "notes": list(explanation.notes),
    }
    if explanation.resolution_ns:
        document["resolution_s"] = _seconds(explanation.resolution_ns)
    if speculation is not None:
        document["speculation"] = {
            name: getattr(speculation, name) for name in ("steps", "drafted", "accepted", "mean_tokens_per_step")
        }
    if explanation.chunk_gaps_ns:
        document["inter_chunk_s"] = [ns / NS["s"] for ns in explanation.chunk_gaps_ns]
    return document


def _phase_json(phase: PhaseTiming) -> dict[str, JSON]:
    drawn: dict[str, JSON] = {
        "seconds": _seconds(phase.ns),
        "low": _seconds(phase.low_ns),
        "high": _seconds(phase.high_ns),
        "source": phase.source,
        "method": phase.method,
        "definition": phase.definition,
    }
    if phase.included_in is not None:
        drawn["included_in"] = phase.included_in
    return drawn


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / NS["s"]
