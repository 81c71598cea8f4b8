"""Which traces cost most."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.pricing import PARTS, Price, Prices, priced_model
from agenttrace.records import SettingValue, SpanRecord, Usage
from agenttrace.spending import PaidCalls, Spending, costed, spending
from agenttrace.store.importing import import_records
from agenttrace.store.paid_calls import read_paid_calls
from agenttrace.store.reading import Store, open_store
from agenttrace.store.trace_costs import dearest_traces, traces_costing
from tests.builders import a_model_call, a_run

PRICES = Prices(
    {
        "small": Price(input=1, output=2, cached=0.1),
        "large": Price(input=10, output=30, cache_written=12, reasoning=60),
        "free": Price(input=0, output=0),
    }
)


def a_call(number: int, trace: int, model: str, usage: Usage) -> SpanRecord:
    told = SettingValue(value=model, voice="served", source="response")
    return a_model_call(number, trace_id=f"{trace:032x}", parent_id=None, settings={"model.served": told}, usage=usage)


def dearest(opened: Store, most: int, among: list[str] | None = None) -> list[tuple[int, float | None]]:
    with opened.connection() as connection:
        return [(int(item.name, 16), item.total) for item in dearest_traces(connection, PRICES, most, among)]


def test_the_dearest_come_first_and_unknown_costs_are_not_guessed(store: Path) -> None:
    """Long prompts that came from a cache cost less than their length says; a call without price makes the whole unknown."""
    calls = [
        a_call(1, 1, "small", Usage(input=9_000, output=10, cached=9_000)),
        a_call(2, 2, "small", Usage(input=5_000, output=10)),
        a_call(3, 3, "large", Usage(input=300, output=100)),
        a_call(4, 3, "nobody's", Usage(input=300, output=100)),
        a_call(5, 4, "nobody's", Usage(input=300, output=100)),
        a_call(6, 5, "free", Usage(input=300, output=100)),
        a_call(7, 6, "large", Usage()),
    ]
    import_records(store, [a_run()], calls)
    opened = open_store(store)
    assert dearest(opened, 10) == [(3, None), (2, pytest.approx(0.00502)), (1, pytest.approx(0.00092))]
    assert [trace for trace, _ in dearest(opened, 1)] == [3]
    assert [trace for trace, _ in dearest(opened, 5, [f"{1:032x}", f"{5:032x}"])] == [1]


def bill(item: Spending) -> tuple[object, ...]:
    """What a group of calls cost and how many they were; parts may be off by what adding up in another order makes."""
    return item.calls, item.unknown, [pytest.approx(getattr(item.cost, part), abs=1e-12) for part in PARTS]


COUNTS = st.integers(0, 10_000) | st.none()
CALLS = st.tuples(
    st.integers(1, 6), st.sampled_from(["small", "large", "free", "other"]), COUNTS, COUNTS, COUNTS, COUNTS, COUNTS
)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])  # a store each
@given(st.lists(CALLS, min_size=1, max_size=20), st.integers(1, 4))
def test_the_order_is_that_of_pricing_every_call(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, str, *tuple[int | None, ...]]], most: int
) -> None:
    """Adding up bounds in SQL finds the traces that pricing each call would."""
    store = tmp_path_factory.mktemp("costs") / "store"
    fields = ("input", "output", "cached", "cache_written", "reasoning")
    spans = [
        a_call(number, trace, model, Usage(**dict(zip(fields, counts, strict=True))))
        for number, (trace, model, *counts) in enumerate(calls, 1)
    ]
    import_records(store, [a_run()], spans)
    opened = open_store(store)
    single = [
        PaidCalls(
            call_site="",
            trace_id=span.trace_id,
            case=None,
            start_ns=span.start_ns,
            model=priced_model(span.settings),
            usage=span.usage or Usage(),
            is_answered=span.state == "ok",
        )
        for span in spans
    ]
    every = spending(costed(single, PRICES), "trace")
    with opened.connection() as connection:
        by_trace, together = (costed(read_paid_calls(connection, ["run1"], by), PRICES) for by in ("trace", None))
    assert {item.name: bill(item) for item in spending(by_trace, "trace")} == {item.name: bill(item) for item in every}
    assert [bill(item) for item in spending(together)] == [bill(item) for item in spending(costed(single, PRICES))]
    expected = [(int(item.name, 16), item.total) for item in every if item.cost.total > 0]
    assert dearest(opened, most) == expected[:most]
    least = [item.cost.total for item in every if item.cost.total > 0][len(expected) // 2 :][:1] or [1.0]
    with opened.connection() as connection:
        costing = traces_costing(connection, PRICES, least[0])
    assert [item.name for item in costing] == [item.name for item in every if item.cost.total >= least[0]]
