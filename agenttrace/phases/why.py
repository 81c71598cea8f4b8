"""Why a model call took longer than its call site's usual one. In: the call and recent ones. Out: the difference, divided.

Usual is the median of recent calls. A longer prompt costs its further tokens at the usual prefill rate, a longer answer at the
usual time of a token; what a phase took beyond that is its own line, and what no line explains is the rest. Bounds hold the
uncertainty of the medians (95 %, distribution-free) and that of the call's own phases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agenttrace.phases.quantiles import quantile_ranks
from agenttrace.phases.rates import FIXED_COST_TOKENS, client_itl_ns
from agenttrace.records import Marks, SpanRecord, Usage

ENOUGH = 6
"""Recent calls below which nothing is usual: a median of fewer has no interval (`quantiles.smallest_sample`)."""

REST = "rest"
LONGER_PROMPT, SLOWER_PREFILL = "longer prompt", "slower prefill"
LONGER_ANSWER, SLOWER_TOKENS = "longer answer", "slower tokens"

WHOLE_PHASES = {"queue": "queue", "retry_backoff": "retries", "delivery": "delivery"}
"""Phases that are compared as they are, and what their line is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """A number with bounds; nanoseconds, or a rate or count of its own unit."""

    value: float
    low: float
    high: float

    def __sub__(self, other: Bounded) -> Bounded:
        return Bounded(value=self.value - other.value, low=self.low - other.high, high=self.high - other.low)

    def __mul__(self, other: Bounded) -> Bounded:
        corners = [one * another for one in (self.low, self.high) for another in (other.low, other.high)]
        return Bounded(value=self.value * other.value, low=min(corners), high=max(corners))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTimes:
    """What a call is compared by. None is unknown."""

    whole_ns: int
    phases: Mapping[str, int]
    """Phases with a number of their own."""
    uncached: int | None
    output: int | None
    token_ns: float | None
    """Inter-token latency: of the decode phase, else as the client saw it; by N - 1."""

    @property
    def prefill_ns_a_token(self) -> float | None:
        """None below the count at which fixed costs are all that shows."""
        if self.uncached is None or self.uncached < FIXED_COST_TOKENS or "prefill" not in self.phases:
            return None
        return self.phases["prefill"] / self.uncached


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A part of the difference, in nanoseconds: above zero made the call longer."""

    name: str
    ns: int | None
    """None where only bounds are known."""
    low_ns: int | None
    high_ns: int | None
    detail: str = ""
    """The counts and rates that it is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """One call beside its call site's recent ones."""

    span: SpanRecord
    recent: int
    """Earlier calls of the same call site and model that it is compared with."""
    usual_ns: int | None
    """Their median; None where there are too few."""
    causes: tuple[Cause, ...] = ()
    """They add up to the difference between the call and the usual one, where each has a number; the rest comes last."""

    def as_json(self) -> dict[str, Any]:
        causes = [asdict(cause) for cause in self.causes]
        took = self.span.duration_ns
        return {
            "span_id": self.span.span_id,
            "call_site": self.span.call_site,
            "seconds": None if took is None else took / 1e9,
            "recent_calls": self.recent,
            "usual_s": None if self.usual_ns is None else self.usual_ns / 1e9,
            "causes": [
                {
                    "name": cause["name"],
                    **{
                        key: None if cause[name] is None else cause[name] / 1e9
                        for key, name in (("seconds", "ns"), ("low", "low_ns"), ("high", "high_ns"))
                    },
                    "detail": cause["detail"],
                }
                for cause in causes
            ],
        }


def call_times(whole_ns: int, phases: Mapping[str, int], usage: Usage, marks: Marks) -> CallTimes:
    """What is compared of a call; `phases` those with a number."""
    has_both = usage.input is not None and usage.cached is not None and usage.cached <= usage.input
    token_ns = None
    if usage.output is not None and usage.output > 1:
        is_hidden = bool(usage.reasoning) and marks.first_reasoning_ns is None
        seen = None if is_hidden else client_itl_ns(whole_ns, marks.first_token_ns, usage.output)
        token_ns = phases["decode"] / (usage.output - 1) if "decode" in phases else seen
    return CallTimes(
        whole_ns=whole_ns,
        phases=phases,
        uncached=(usage.input or 0) - (usage.cached or 0) if has_both else None,
        output=usage.output,
        token_ns=token_ns,
    )


def times_of(span: SpanRecord) -> CallTimes | None:
    """The same of a span; None while it is unfinished."""
    if span.duration_ns is None:
        return None
    phases = {phase.name: phase.ns for phase in span.phases if phase.ns is not None and phase.included_in is None}
    return call_times(span.duration_ns, phases, span.usage or Usage(), span.marks or Marks())


def why(span: SpanRecord, recent: Sequence[CallTimes]) -> Why:
    """Divide what the call took beyond the usual one."""
    mine = times_of(span)
    usual = _median(recent, lambda call: call.whole_ns)
    if mine is None or usual is None:
        return Why(span=span, recent=len(recent), usual_ns=None)
    causes = list(_causes(span, mine, recent))
    return Why(
        span=span,
        recent=len(recent),
        usual_ns=round(usual.value),
        causes=(*causes, _rest(_exactly(mine.whole_ns) - usual, causes)),
    )


def _causes(span: SpanRecord, mine: CallTimes, recent: Sequence[CallTimes]) -> Iterator[Cause]:
    yield from _whole_phases(span, recent, ("queue",))
    yield from _by_tokens(
        (LONGER_PROMPT, SLOWER_PREFILL),
        (mine.uncached, mine.prefill_ns_a_token),
        (_median(recent, lambda call: call.uncached), _median(recent, lambda call: call.prefill_ns_a_token)),
        "uncached token",
    )
    yield from _by_tokens(
        (LONGER_ANSWER, SLOWER_TOKENS),
        (mine.output, mine.token_ns),
        (_median(recent, lambda call: call.output), _median(recent, lambda call: call.token_ns)),
        "output token",
    )
    yield from _whole_phases(span, recent, ("retry_backoff", "delivery"))


def _whole_phases(span: SpanRecord, recent: Sequence[CallTimes], names: Sequence[str]) -> Iterator[Cause]:
    for phase in span.phases:
        if phase.name not in names or phase.source == "not-applicable":
            continue
        usual = _median(recent, lambda call, name=phase.name: call.phases.get(name))  # type: ignore[misc]  # bound at once
        if usual is None:
            continue
        low = phase.low_ns if phase.low_ns is not None else phase.ns
        high = phase.high_ns if phase.high_ns is not None else phase.ns
        yield Cause(
            name=WHOLE_PHASES[phase.name],
            ns=None if phase.ns is None else round(phase.ns - usual.value),
            low_ns=None if low is None else round(low - usual.high),
            high_ns=None if high is None else round(high - usual.low),
        )


def _by_tokens(
    names: tuple[str, str],
    mine: tuple[int | None, float | None],
    usual: tuple[Bounded | None, Bounded | None],
    token: str,
) -> Iterator[Cause]:
    """What more tokens took at the usual time for one, and what all of them took beyond that."""
    (tokens, ns_a_token), (usual_tokens, usual_ns) = mine, usual
    if tokens is None or usual_tokens is None or usual_ns is None:
        return
    more = _exactly(tokens) - usual_tokens
    detail = f"{more.value:+,.0f} {token}s at {usual_ns.value / 1e6:,.3g} ms"
    yield _cause(names[0], more * usual_ns, detail)
    if ns_a_token is not None:
        slower = _exactly(ns_a_token) - usual_ns
        detail = f"{tokens:,} {token}s at {ns_a_token / 1e6:,.3g} ms, usually {usual_ns.value / 1e6:,.3g} ms"
        yield _cause(names[1], _exactly(tokens) * slower, detail)


def _cause(name: str, ns: Bounded, detail: str) -> Cause:
    return Cause(name=name, ns=round(ns.value), low_ns=round(ns.low), high_ns=round(ns.high), detail=detail)


def _rest(difference: Bounded, causes: Sequence[Cause]) -> Cause:
    """What no cause explains; where a cause has only bounds, so has the rest."""
    lows, highs = [cause.low_ns for cause in causes], [cause.high_ns for cause in causes]
    known = [cause.ns for cause in causes if cause.ns is not None]
    return Cause(
        name=REST,
        ns=round(difference.value) - sum(known) if len(known) == len(causes) else None,
        low_ns=None if None in highs else round(difference.low) - sum(high or 0 for high in highs),
        high_ns=None if None in lows else round(difference.high) - sum(low or 0 for low in lows),
    )


def _median(calls: Sequence[CallTimes], measure: Callable[[CallTimes], float | None]) -> Bounded | None:
    """Of the calls in which it is known; None where these are too few."""
    values = sorted(value for call in calls if (value := measure(call)) is not None)
    ranks = quantile_ranks(len(values), 0.5)
    if ranks is None:
        return None
    return Bounded(value=values[ranks.value - 1], low=values[ranks.low - 1], high=values[ranks.high - 1])


def _exactly(value: float) -> Bounded:
    return Bounded(value=value, low=value, high=value)
