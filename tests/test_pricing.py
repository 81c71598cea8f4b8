"""What a call costs, held against the library whose table it uses."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from genai_prices import Usage as TableUsage
from genai_prices import calc_price

from agenttrace.pricing import Cost, Price, PricedModel, Prices, tier_starts
from agenttrace.records import Usage
from agenttrace.spending import PaidCalls, costed, spending, spending_json

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
AT_NS = round(AT.timestamp()) * 10**9
USAGE = Usage(input=4000, cached=1024, cache_written=500, output=100, reasoning=40)


@pytest.mark.parametrize(
    ("provider", "model", "usage"),
    [
        ("openai", "gpt-4o-2024-08-06", USAGE),
        ("anthropic", "claude-sonnet-4-5", USAGE),
        ("anthropic", "claude-sonnet-4-5", Usage(input=250_000, cached=100_000, cache_written=0, output=100)),
        ("google_genai", "gemini-2.5-flash", Usage(input=4000, cached=1024, output=100)),
        ("groq", "llama-3.3-70b-versatile", Usage(input=10, output=0)),
        ("mistralai", "mistral-small-latest", Usage(input=4000, cached=1024, output=100)),
    ],
)
def test_the_parts_add_up_to_what_the_library_calculates(provider: str, model: str, usage: Usage) -> None:
    """Cached and written tokens have prices of their own, a long prompt another tier; the total is the library's."""
    told = {
        "input_tokens": usage.input,
        "cache_read_tokens": usage.cached,
        "cache_write_tokens": usage.cache_written,
        "output_tokens": usage.output,
    }
    expected = calc_price(TableUsage(**told), model, provider_id=provider, genai_request_timestamp=AT)
    cost = Prices().cost(usage, PricedModel(names=(model,), provider=provider), AT_NS)
    assert cost is not None
    assert cost.total == pytest.approx(float(expected.total_price), rel=1e-12)
    assert cost.output + cost.reasoning == pytest.approx(float(expected.output_price), rel=1e-12)


def test_an_unknown_model_costs_an_unknown_amount() -> None:
    """No price is no zero, and a name alone finds none: who serves it decides."""
    for model in (
        PricedModel(names=("smollm2",), provider="openai"),
        PricedModel(names=("gpt-4o",)),
        PricedModel(names=("gpt-4o",), provider="ollama"),
        PricedModel(names=()),
    ):
        assert Prices().cost(USAGE, model, AT_NS) is None


def test_unknown_tokens_cost_an_unknown_amount() -> None:
    """A call whose tokens nobody reported has no cost."""
    model = PricedModel(names=("gpt-4o",), provider="openai")
    assert Prices().cost(Usage(input=10), model, AT_NS) is None
    assert Prices().cost(Usage(output=10), model, AT_NS) is None


def test_the_host_that_answered_says_whose_prices_hold() -> None:
    """A framework's name for its client is not who is paid."""
    asked = PricedModel(names=("gpt-4o",), provider="ollama", endpoint="api.openai.com")
    assert Prices().cost(USAGE, asked, AT_NS) == Prices().cost(
        USAGE, PricedModel(names=("gpt-4o",), provider="openai"), AT_NS
    )


def test_own_prices_win() -> None:
    """A project's own prices hold for the served name first, and what they leave out is priced as input or output."""
    prices = Prices({"gpt-4o": Price(input=1, output=2), "house": Price(input=10, output=20, cached=1)})
    assert prices.cost(USAGE, PricedModel(names=("gpt-4o",), provider="openai"), AT_NS) == Cost(
        uncached=0.002476, cached=0.001024, cache_written=0.0005, output=0.00012, reasoning=0.00008
    )
    cost = prices.cost(Usage(input=1000, cached=400, output=10), PricedModel(names=("house", "gpt-4o")), AT_NS)
    assert cost == Cost(uncached=0.006, cached=0.0004, output=0.0002)


def test_impossible_counts_are_priced_within_the_prompt() -> None:
    """More cached than there was is not paid for twice."""
    cost = Prices({"m": Price(input=1, output=1)}).cost(
        Usage(input=100, cached=200, cache_written=50, output=5), PricedModel(names=("m",)), AT_NS
    )
    assert cost is not None
    assert cost.total == pytest.approx(105e-6)


def paid(model: str, **fields: object) -> PaidCalls:
    values: dict[str, object] = {"call_site": "agent", "trace_id": "t", "case": None, "start_ns": AT_NS, "usage": USAGE}
    return PaidCalls(**{**values, "model": PricedModel(names=(model,)), **fields})  # type: ignore[arg-type]  # a table of fields


def test_a_sum_over_some_calls_is_no_total() -> None:
    """One call without a price makes the total unknown, and is named; what is known is told beside it."""
    calls = [paid("known"), paid("other"), paid("failed", is_answered=False, usage=Usage())]
    [item] = spending(costed(calls, Prices({"known": Price(input=1, output=2)})))
    assert item.total is None
    assert (item.calls, item.unknown, item.unpriced_models) == (3, 1, ("other",))
    assert spending_json(item)["cost_usd"] is None
    assert spending_json(item)["known_usd"] == pytest.approx(0.0042)


def test_groups_come_dearest_first_and_days_in_order() -> None:
    """What costs most is what one looks for; days are a timeline."""
    prices = Prices({"dear": Price(input=10, output=20), "cheap": Price(input=1, output=2)})
    calls = costed([paid("cheap", start_ns=AT_NS + 86_400 * 10**9), paid("dear", call_site="planner")], prices)
    assert [item.name for item in spending(calls, "model")] == ["dear", "cheap"]
    assert [item.name for item in spending(calls, "call-site")] == ["planner", "agent"]
    days = [item.name for item in spending(calls, "day")]
    assert days == sorted(days)
    assert len(days) == 2


def test_between_two_starts_of_tiers_no_price_changes() -> None:
    """Calls can be added up before they are priced: what decides is which of these lengths their prompts go beyond."""
    model = PricedModel(names=("gemini-2.5-pro",), provider="google")
    prices = Prices()
    bounds = [0, *tier_starts(), 10**7]
    for low, high in pairwise(bounds):
        assert prices.price(model, AT_NS, low + 1) == prices.price(model, AT_NS, high)
    assert prices.price(model, AT_NS, 1) != prices.price(model, AT_NS, 10**7)
