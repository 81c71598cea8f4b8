"""How times are distributed over model calls, and under which load: what the store adds up, and what `phases` prints.

Never an average: a mean of latencies hides the calls that people wait for. What is unknown in a call is counted as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from agenttrace.phases.advice import Advice
from agenttrace.phases.names import MEANING, ORDER, members
from agenttrace.phases.quantiles import CONFIDENCE
from agenttrace.phases.rates import DEFINITIONS

By: TypeAlias = Literal["model", "call-site", "node", "provider"]

MEASURES: Final[Mapping[str, str]] = {
    "duration": "call start to call end, retries included",
    "first_token": DEFINITIONS["client_ttft"],
    "inter_token": DEFINITIONS["itl_n1_client"],
    "tokens_per_second_user": "output tokens / (call start to call end) of one call (NVIDIA NIM, TPS per user)",
}
"""What is measured of a call beside its phases, each under its definition."""

RATES: Final = frozenset(("tokens_per_second_user",))
"""Measures in tokens a second; all others are nanoseconds."""

BINS_A_DECADE: Final = 8
"""Of a histogram: a bin reaches a third further than the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """One quantile with its confidence interval, in the measure's unit."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One measure over the calls of a group. Nanoseconds, or tokens a second (`RATES`)."""

    name: str
    """A phase, a sum of phases, or one of `MEASURES`."""
    applicable: int
    """Calls in which there is such a thing."""
    known: int
    """Calls in which it has a number; the distribution is over these."""
    sources: Mapping[str, int]
    """Source to the number of calls whose number comes from it."""
    quantiles: Mapping[str, Quantile | None]
    """`p50` and so on; None where too few calls are known for the interval."""
    maximum: float | None
    bins: Mapping[int, int]
    """Logarithmic histogram: bin b counts values from 10^(b/8) to 10^((b+1)/8), those below 1 in bin 0."""

    @property
    def known_share(self) -> float | None:
        return self.known / self.applicable if self.applicable else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a group's calls were measured under, as far as these clients saw it: other clients' requests are not seen."""

    first_ns: int
    """When the first call began, nanoseconds since 1970 UTC."""
    last_ns: int
    """When the last one ended."""
    in_flight: Mapping[str, float | None] = field(default_factory=dict)
    """Requests to the same model under way when a call began, itself included: p50, p90, p99 and max over the calls."""
    output_tokens_in_flight: Mapping[str, float | None] = field(default_factory=dict)
    """Output tokens of those requests, once they were done; None where one of them tells none."""
    busy_ns: int | None = None
    """Time in which at least one call of the group was under way; None where not all calls were looked at."""

    @property
    def window_ns(self) -> int:
        """First request's start to last response's end: NVIDIA's Ty - Tx."""
        return self.last_ns - self.first_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimings:
    """All that is said of one group of model calls."""

    name: str
    calls: int
    """Calls that ended well: all that is measured is over these."""
    left_out: Mapping[str, int]
    """State to the number of calls that ended so; `clock` for those that ended before they began."""
    distributions: tuple[Distribution, ...]
    unknown_phases: tuple[str, ...]
    """Phases that apply and have no number in any call, alone or within a sum."""
    load: Load
    output_tokens: int
    output_known: int
    """Calls that tell their output tokens."""
    input_tokens: int
    """Prompt tokens of the calls that also tell their cached ones."""
    cached_tokens: int
    cached_known: int
    cache_hits: int
    """Calls with at least one cached token."""
    advice: tuple[Advice, ...] = ()

    @property
    def requests_per_second(self) -> float | None:
        """Completed requests / (Ty - Tx). Source: NVIDIA's LLM benchmarking guide, RPS."""
        return self.calls / self.load.window_ns * 1e9 if self.load.window_ns > 0 else None

    @property
    def system_tokens_per_second(self) -> float | None:
        """Output tokens of all calls / (Ty - Tx); None unless all calls tell them. Source: the same guide, TPS per system."""
        if self.load.window_ns <= 0 or self.output_known < self.calls:
            return None
        return self.output_tokens / self.load.window_ns * 1e9

    @property
    def cache_hit_rate(self) -> float | None:
        """Cached / prompt tokens, over the calls that tell both."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else None


def place(name: str) -> tuple[int, int, str]:
    """Where a measure stands: the whole call's first, then phases in the order in which they happen."""
    if name in MEASURES:
        return 0, list(MEASURES).index(name), name
    first = members(name)[0]
    return 1, ORDER.index(first) if first in ORDER else len(ORDER), name


def definition(name: str) -> str:
    """What a measure means; of a sum of phases, its parts."""
    return MEASURES.get(name) or "; then ".join(MEANING.get(part, part) for part in members(name))


def group_json(group: GroupTimings) -> dict[str, Any]:
    """A group as `phases --json` prints it: seconds, null where unknown or not estimable."""
    load = group.load
    return {
        "name": group.name,
        "calls": group.calls,
        "left_out": dict(group.left_out),
        "confidence": CONFIDENCE,
        "measures": [_distribution_json(item) for item in group.distributions],
        "unknown_phases": list(group.unknown_phases),
        "load": {
            "first_ns": load.first_ns,
            "last_ns": load.last_ns,
            "window_s": load.window_ns / 1e9,
            "busy_s": None if load.busy_ns is None else load.busy_ns / 1e9,
            "in_flight": dict(load.in_flight),
            "output_tokens_in_flight": dict(load.output_tokens_in_flight),
            "requests_per_second": group.requests_per_second,
        },
        "system_tokens_per_second": group.system_tokens_per_second,
        "cache": {
            "hit_rate": group.cache_hit_rate,
            "hits": group.cache_hits,
            "known_calls": group.cached_known,
        },
        "advice": [item.as_json() for item in group.advice],
    }


def _distribution_json(item: Distribution) -> dict[str, Any]:
    def shown(value: float | None) -> float | None:
        return value if value is None or item.name in RATES else value / 1e9

    return {
        "name": item.name,
        "unit": "tokens/s" if item.name in RATES else "s",
        "definition": definition(item.name),
        "applicable": item.applicable,
        "known": item.known,
        "sources": dict(item.sources),
        "quantiles": {
            name: None
            if told is None
            else {"value": shown(told.value), "low": shown(told.low), "high": shown(told.high)}
            for name, told in item.quantiles.items()
        },
        "max": shown(item.maximum),
        "histogram": [
            {
                "from": shown(10 ** (number / BINS_A_DECADE)),
                "to": shown(10 ** ((number + 1) / BINS_A_DECADE)),
                "count": n,
            }
            for number, n in sorted(item.bins.items())
        ],
    }
