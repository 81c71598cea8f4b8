"""Which traces cost most. Millions of calls are not priced one by one: bounds are added up in SQL, and what leads is priced."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from agenttrace.pricing import LONGEST_PROMPT, MILLION, Price, PricedModel, Prices, priced_model
from agenttrace.pricing import RATES as PRICE_RATES
from agenttrace.spending import Spending, costed, spending
from agenttrace.store.paid_calls import read_calls_of_traces
from agenttrace.store.stored_settings import NO_SETTINGS, read_settings

RUNS = "SELECT DISTINCT run_id FROM spans WHERE kind = 'model' AND settings IS NOT NULL AND <among>"

LATEST = "SELECT settings, max(start_ns) FROM spans WHERE kind = 'model' AND settings IS NOT NULL AND <among> GROUP BY settings"

RATES = """
CREATE OR REPLACE TEMP TABLE rates AS
SELECT
    unnest($settings) AS settings,
    unnest($input) AS input,
    unnest($cached) AS cached,
    unnest($cache_written) AS cache_written,
    unnest($output) AS output,
    unnest($reasoning) AS reasoning
"""

# As pricing adds a call up, at the prices of the longest prompts: no trace costs more.
BOUNDS = f"""
CREATE OR REPLACE TEMP TABLE bounds AS
SELECT
    trace_id,
    sum(
        (input_tokens - least(coalesce(cached_tokens, 0), input_tokens)
            - least(coalesce(cache_written_tokens, 0), input_tokens - least(coalesce(cached_tokens, 0), input_tokens)))
            * rates.input
        + least(coalesce(cached_tokens, 0), input_tokens) * rates.cached
        + least(coalesce(cache_written_tokens, 0), input_tokens - least(coalesce(cached_tokens, 0), input_tokens))
            * rates.cache_written
        + (output_tokens - least(coalesce(reasoning_tokens, 0), output_tokens)) * rates.output
        + least(coalesce(reasoning_tokens, 0), output_tokens) * rates.reasoning
    ) / {MILLION} AS most_usd
FROM spans
JOIN rates ON rates.settings = spans.settings::VARCHAR
WHERE kind = 'model' AND input_tokens IS NOT NULL AND output_tokens IS NOT NULL AND <among>
GROUP BY trace_id
"""

LEADING = "SELECT trace_id, most_usd FROM bounds WHERE most_usd > 0 ORDER BY most_usd DESC, trace_id LIMIT $limit"


def dearest_traces(
    connection: duckdb.DuckDBPyConnection, prices: Prices, most: int, among: Sequence[str] | None = None
) -> tuple[Spending, ...]:
    """Up to `most` traces with a known cost above nothing, the dearest first, each named by its id.

    A trace with a call whose cost is unknown stands where its known cost puts it. `among`: of these traces only.
    """
    _put_bounds(connection, prices, among)
    limit = 2 * most
    while True:
        leading = connection.execute(LEADING, {"limit": limit}).fetchall()
        calls = read_calls_of_traces(connection, [trace_id for trace_id, _ in leading])
        found = [item for item in spending(costed(calls, prices), "trace") if item.cost.total > 0]
        # What does not lead costs at most what the last of these may have cost.
        is_sure = len(leading) < limit or (len(found) >= most and found[most - 1].cost.total >= leading[-1][1])
        if is_sure:
            return tuple(found[:most])
        limit *= 4


def traces_costing(
    connection: duckdb.DuckDBPyConnection, prices: Prices, least_usd: float, among: Sequence[str] | None = None
) -> tuple[Spending, ...]:
    """The traces whose known cost is at least so much, the dearest first, each named by its id. `among`: of these only."""
    _put_bounds(connection, prices, among)
    # Rounding must not leave out one that costs exactly so much.
    found = connection.execute(
        "SELECT trace_id FROM bounds WHERE most_usd >= $least", {"least": least_usd * (1 - 1e-9)}
    )
    calls = read_calls_of_traces(connection, [trace_id for (trace_id,) in found.fetchall()])
    return tuple(item for item in spending(costed(calls, prices), "trace") if item.cost.total >= least_usd)


def _put_bounds(connection: duckdb.DuckDBPyConnection, prices: Prices, among: Sequence[str] | None) -> None:
    """A table of what each trace cost at most."""
    condition = "true" if among is None else "trace_id IN (SELECT unnest($among))"
    given = {} if among is None else {"among": list(among)}
    _put_rates(connection, prices, condition, given)
    connection.execute(BOUNDS.replace("<among>", condition), given)


def _put_rates(
    connection: duckdb.DuckDBPyConnection, prices: Prices, condition: str, given: dict[str, list[str]]
) -> None:
    """A table of the highest prices that each settings may have had; those without a price are left out."""
    runs = [run_id for (run_id,) in connection.execute(RUNS.replace("<among>", condition), given).fetchall()]
    settings = read_settings(connection, runs)
    known: dict[PricedModel, Price | None] = {}
    rows: list[tuple[str, Price]] = []
    for text, latest_ns in connection.execute(LATEST.replace("<among>", condition), given).fetchall():
        told = settings.get(text, NO_SETTINGS)
        model = priced_model({**told.shared, **told.own})
        if model not in known:
            known[model] = prices.price(model, latest_ns, LONGEST_PROMPT)
        price = known[model]
        if price is not None and not model.is_replayed:
            rows.append((text, price))
    columns = {name: [price.rates[place] for _, price in rows] for place, name in enumerate(PRICE_RATES)}
    connection.execute(RATES, {"settings": [text for text, _ in rows], **columns})
