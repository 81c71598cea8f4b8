"""What could be done about slow calls, where the evidence carries it. In: counts of calls. Out: advice with its rule and numbers.

A rule asks in how many calls a phase took a large share, never for an average. A call in which the phase is unknown counts as
one in which it did not. It fires when even the least share of calls that the counts are compatible with is enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from agenttrace.phases.quantiles import share_at_least
from agenttrace.records import SpanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a phase is worth doing something about."""

    phase: str
    share: float
    """Of a call's time that the phase must take, 0 to 1."""
    calls: float
    """The share of calls in which it must, 0 to 1, at the lower end of what the counts are compatible with."""
    remedy: str


AT_LEAST_NS: Final = 50_000_000
"""A phase that took less is nobody's problem, whatever its share."""

RULES: Final = (
    Rule(phase="queue", share=0.2, calls=0.1, remedy="more capacity, or routing to a server that is less busy"),
    Rule(phase="prefill", share=0.3, calls=0.5, remedy="a shorter prompt, or a beginning that a prefix cache can keep"),
    Rule(phase="decode", share=0.6, calls=0.5, remedy="shorter answers, or a faster model"),
    Rule(phase="delivery", share=0.15, calls=0.1, remedy="a proxy or filter that buffers, or own code that reads slowly"),
    Rule(phase="client_prep", share=0.1, calls=0.1, remedy="own code before the request: prompt building, rate limiter, pool"),
    Rule(phase="retry_backoff", share=0.1, calls=0.1, remedy="rate limits: fewer requests at a time, or a higher limit"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A rule that fired."""

    phase: str
    hits: int
    """Calls in which the phase took the rule's share or more."""
    unknown: int
    """Calls in which the phase has no number; counted as if it had been short."""
    calls: int
    at_least: float
    """The least share of calls that is compatible with the counts (95 % confidence, one side 97.5 %)."""
    share: float
    remedy: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def advise_on(calls: Iterable[SpanRecord]) -> tuple[Advice, ...]:
    """Which rules fire for these model calls; those that did not end well are left out."""
    hits: dict[str, int] = defaultdict(int)
    known: dict[str, int] = defaultdict(int)
    shares = {rule.phase: rule.share for rule in RULES}
    ended = [call for call in calls if call.state == "ok" and call.duration_ns is not None]
    for call in ended:
        for phase in call.phases:
            if phase.name in shares and phase.ns is not None and phase.included_in is None:
                known[phase.name] += 1
                is_long = phase.ns >= max(shares[phase.name] * (call.duration_ns or 0), AT_LEAST_NS)
                hits[phase.name] += is_long
    return advise(hits, known, len(ended))


def advise(hits: Mapping[str, int], known: Mapping[str, int], calls: int) -> tuple[Advice, ...]:
    """Which rules fire. `hits` and `known` by phase: calls in which it took its rule's share, and has a number at all."""
    found = []
    for rule in RULES:
        at_least = share_at_least(hits.get(rule.phase, 0), calls)
        if at_least >= rule.calls:
            found.append(
                Advice(
                    phase=rule.phase,
                    hits=hits[rule.phase],
                    unknown=calls - known.get(rule.phase, 0),
                    calls=calls,
                    at_least=at_least,
                    share=rule.share,
                    remedy=rule.remedy,
                )
            )
    return tuple(found)
