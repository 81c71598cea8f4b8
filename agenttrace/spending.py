"""Adds up what model calls cost: by model, by call site, by day, by trace. What is not known is counted, never taken for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from agenttrace.pricing import PARTS, Cost, PricedModel, Prices, total_cost
from agenttrace.records import Usage

Grouping: TypeAlias = Literal["model", "call-site", "day", "trace", "case"]

COUNTS: Final = ("input", "cached", "cache_written", "output", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidCalls:
    """Model calls that are priced alike, as far as their cost goes: one, or all that agree in everything but tokens."""

    call_site: str
    trace_id: str | None
    """None where calls of several traces stand together."""
    case: str | None
    """None where the trace names none, or calls of several cases stand together."""
    start_ns: int
    """Of the first of them."""
    model: PricedModel
    usage: Usage
    """Of all together."""
    calls: int = 1
    longest_prompt: int | None = None
    """Tokens; None where it is one call: then they are its `usage.input`."""
    is_answered: bool = True
    """A call that failed tells no tokens, and is not counted as unknown for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a group of calls cost."""

    name: str
    calls: int
    unknown: int
    """Answered calls whose cost is not known."""
    cost: Cost
    """Of those whose cost is known."""
    tokens: Mapping[str, int]
    """Tokens by kind, of the calls that tell them."""
    unpriced_models: tuple[str, ...] = ()
    """Models that neither the project nor the table has prices for."""

    @property
    def total(self) -> float | None:
        """US dollars; None as soon as one call's cost is not known: a sum over some of them would be another number."""
        return None if self.unknown else self.cost.total


CostedCalls: TypeAlias = tuple[PaidCalls, Cost | None]


def costed(calls: Iterable[PaidCalls], prices: Prices) -> list[CostedCalls]:
    """The calls with what they cost; None where that is not known."""
    return [(call, prices.cost(call.usage, call.model, call.start_ns, call.longest_prompt)) for call in calls]


def spending(calls: Iterable[CostedCalls], by: Grouping | None = None) -> tuple[Spending, ...]:
    """What calls cost, in groups, the dearest first; days in their order. Without `by`, one group of all."""
    name_of = NAMES[by] if by else lambda _: "total"
    groups: dict[str, list[CostedCalls]] = {}
    for call, cost in calls:
        groups.setdefault(name_of(call), []).append((call, cost))
    found = [_spending(name, group) for name, group in groups.items()]
    if by == "day":
        return tuple(sorted(found, key=lambda item: item.name))
    return tuple(sorted(found, key=lambda item: (-item.cost.total, -item.unknown, item.name)))


def _spending(name: str, group: list[CostedCalls]) -> Spending:
    unknown = [call for call, cost in group if cost is None and call.is_answered]
    # One that tells its tokens and has no cost has no price.
    unpriced = (call.model for call in unknown if call.usage.input is not None and call.usage.output is not None)
    return Spending(
        name=name,
        calls=sum(call.calls for call, _ in group),
        unknown=sum(call.calls for call in unknown),
        cost=total_cost([cost for _, cost in group if cost is not None]),
        tokens={count: sum(getattr(call.usage, count) or 0 for call, _ in group) for count in COUNTS},
        unpriced_models=tuple(dict.fromkeys(_model(model) for model in unpriced)),
    )


def _model(model: PricedModel) -> str:
    return next(iter(model.names), "(unknown model)")


NAMES: Final[Mapping[Grouping, Callable[[PaidCalls], str]]] = {
    "model": lambda call: _model(call.model),
    "call-site": lambda call: call.call_site,
    "day": lambda call: datetime.fromtimestamp(call.start_ns // 10**9).strftime("%Y-%m-%d"),
    "trace": lambda call: call.trace_id or "(several traces)",
    "case": lambda call: call.case or "(no case)",
}


def spending_json(item: Spending) -> dict[str, Any]:
    """A group as `cost --json` prints it. `cost_usd` is null where one call's cost is not known."""
    return {
        "name": item.name,
        "calls": item.calls,
        "cost_usd": item.total,
        "known_usd": item.cost.total,
        "unknown_calls": item.unknown,
        "unpriced_models": list(item.unpriced_models),
        "parts_usd": {part: getattr(item.cost, part) for part in PARTS},
        "tokens": dict(item.tokens),
    }
