"""What a model call cost: its tokens times the prices of its model on its day, divided by what was paid for.

Prices are a project's own, else those of the library `genai-prices`: by provider, model, service tier and time of day.
A model that neither knows has no cost, never a cost of zero. US dollars throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from importlib.metadata import version
from math import fsum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from agenttrace.records import SettingValue, Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

TABLE = "genai-prices"

MILLION = 1_000_000
MINUTE_NS = 60 * 10**9

LONGEST_PROMPT = 10**9
"""Tokens of a prompt that reaches every tier of a price."""

RATES: Mapping[str, str] = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached": "cache_read_mtok",
    "cache_written": "cache_write_mtok",
    "reasoning": "output_reasoning_mtok",
}
"""The fields of `Price` and what the table calls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model's tokens cost, in US dollars per million."""

    input: float
    output: float
    cached: float | None = None
    """Of prompt tokens that came from a cache; None: as `input`."""
    cache_written: float | None = None
    """Of prompt tokens that were written to a cache; None: as `input`."""
    reasoning: float | None = None
    """Of output tokens that were reasoning; None: as `output`."""

    @property
    def rates(self) -> tuple[float, ...]:
        """In the order of `RATES`, with what the others stand in for."""

        def of(rate: float | None, otherwise: float) -> float:
            return otherwise if rate is None else rate

        cached, written = of(self.cached, self.input), of(self.cache_written, self.input)
        return self.input, self.output, cached, written, of(self.reasoning, self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedModel:
    """Who answered, as far as prices depend on it."""

    names: tuple[str, ...]
    """The served model, then the requested one."""
    provider: str | None = None
    endpoint: str | None = None
    """The host that answered; None where that was not seen."""
    service_tier: str | None = None
    is_replayed: bool = False
    """A recording answered, which costs nothing."""


def priced_model(settings: Mapping[str, SettingValue]) -> PricedModel:
    """Who answered a call, by its settings."""

    def text(dimension: str) -> str | None:
        setting = settings.get(dimension)
        return setting.value if setting is not None and isinstance(setting.value, str) else None

    return PricedModel(
        names=tuple(dict.fromkeys(name for name in (text("model.served"), text("model.requested")) if name)),
        provider=text("provider"),
        endpoint=text("endpoint"),
        service_tier=text("service_tier"),
        is_replayed="replay" in settings,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one call cost, or several. US dollars; the parts add up to the total."""

    uncached: float = 0.0
    """Prompt tokens that no cache had."""
    cached: float = 0.0
    cache_written: float = 0.0
    output: float = 0.0
    """Without reasoning."""
    reasoning: float = 0.0

    @property
    def total(self) -> float:
        return self.uncached + self.cached + self.cache_written + self.output + self.reasoning


PARTS = tuple(Cost.__dataclass_fields__)


def total_cost(costs: Sequence[Cost]) -> Cost:
    """Part by part."""
    return Cost(**{part: fsum(map(attrgetter(part), costs)) for part in PARTS})


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by model: a project's own first, then the table's."""

    own: Mapping[str, Price] = field(default_factory=dict)

    def cost(self, usage: Usage, model: PricedModel, at_ns: int, prompt_tokens: int | None = None) -> Cost | None:
        """What a call cost that began at `at_ns`; nothing where a recording answered it. None where its tokens or its prices
        are not known.

        Where a server does not tell what came from a cache, all of the prompt is priced as if nothing had. Where `usage` is
        that of several calls, `prompt_tokens` is the length of their longest prompt.
        """
        if model.is_replayed:
            return Cost()
        if usage.input is None or usage.output is None:
            return None
        price = self.price(model, at_ns, usage.input if prompt_tokens is None else prompt_tokens)
        return None if price is None else _cost(usage.input, usage.output, usage, price)

    def price(self, model: PricedModel, at_ns: int, prompt_tokens: int = 0) -> Price | None:
        """The prices that hold for a call; some depend on how long its prompt is."""
        named = next((self.own[name] for name in model.names if name in self.own), None)
        return named or _table_price(model, at_ns, prompt_tokens)


def _cost(prompt: int, output: int, usage: Usage, price: Price) -> Cost:
    cached = min(usage.cached or 0, prompt)
    written = min(usage.cache_written or 0, prompt - cached)
    reasoning = min(usage.reasoning or 0, output)

    def of(tokens: int, rate: float | None, otherwise: float) -> float:
        return tokens * (otherwise if rate is None else rate) / MILLION

    return Cost(
        uncached=of(prompt - cached - written, price.input, 0.0),
        cached=of(cached, price.cached, price.input),
        cache_written=of(written, price.cache_written, price.input),
        output=of(output - reasoning, price.output, 0.0),
        reasoning=of(reasoning, price.reasoning, price.output),
    )


def _table_price(model: PricedModel, at_ns: int, prompt_tokens: int) -> Price | None:
    rates, price = _table_rates(model, at_ns // MINUTE_NS)
    return price if price is not None or rates is None else _price(rates, prompt_tokens)


@lru_cache(maxsize=4_096)
def _table_rates(model: PricedModel, minute: int) -> tuple[ModelPrice | None, Price | None]:
    """What the table says of a model at a time, and the price where that is the same for prompts of every length."""
    info = next((found for name in model.names if (found := _lookup(name, model.provider, model.endpoint))), None)
    if info is None:
        return None, None
    context = None if model.service_tier is None else {"service_tier": model.service_tier}
    rates = info.get_prices(datetime.fromtimestamp(minute * 60, UTC), context)
    told = (getattr(rates, name) for name in RATES.values())
    is_flat = all(rate is None or isinstance(rate, Decimal) for rate in told)
    return rates, _price(rates, 0) if is_flat else None


def _price(rates: ModelPrice, prompt_tokens: int) -> Price | None:
    told = {name: _rate(getattr(rates, theirs), prompt_tokens) for name, theirs in RATES.items()}
    paid, received = told.pop("input"), told.pop("output")
    return None if paid is None or received is None else Price(input=paid, output=received, **told)


def _rate(price: Any, prompt_tokens: int) -> float | None:
    """A price per million tokens. One with tiers goes by the length of the whole prompt, for all of its tokens."""
    if price is None or isinstance(price, Decimal):
        return None if price is None else float(price)
    reached = [tier.price for tier in price.tiers if prompt_tokens > tier.start]
    return float(reached[-1] if reached else price.base)


@cache
def _lookup(name: str, provider: str | None, endpoint: str | None) -> ModelInfo | None:
    """The table's entry: of the provider whose host answered, else of the one that the framework names, which a gateway
    stands before. Never by the model's name alone: a machine of one's own may serve the same weights.
    """
    from genai_prices.data_snapshot import get_snapshot

    places = [(None, f"https://{endpoint}")] if endpoint else []
    for provider_id, address in [*places, *([(provider, None)] if provider else [])]:
        try:
            return get_snapshot().find_provider_model(name, None, provider_id, address)[1]
        except LookupError:
            continue
    return None


@cache
def tier_starts() -> tuple[int, ...]:
    """The prompt lengths beyond which some model of the table has other prices: between two of them none has."""
    from genai_prices.data_snapshot import get_snapshot

    return tuple(
        sorted(
            {start for provider in get_snapshot().providers for model in provider.models for start in _starts(model)}
        )
    )


def _starts(model: ModelInfo) -> Iterator[int]:
    standard = [item.prices for item in model.prices] if isinstance(model.prices, list) else [model.prices]
    for prices in (*standard, *(variant.prices for variant in model.price_variants or ())):
        for rate in (getattr(prices, name) for name in RATES.values()):
            yield from () if rate is None or isinstance(rate, Decimal) else (tier.start for tier in rate.tiers)


def table_version() -> str:
    """Which edition of the table is installed: prices move with it."""
    return version(TABLE)
