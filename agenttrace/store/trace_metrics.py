"""What the traces of a run are compared by besides their phases: times, tokens, cost, tool calls, retries, errors.

Of the whole trace, and of each call site where there are several (`model_s:planner`). What one call does not tell is left out:
a sum over the others would be another number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb

from agenttrace.phases.summary import LENGTH_REASONS
from agenttrace.pricing import LONGEST_PROMPT, MILLION, MINUTE_NS, RATES, Price, PricedModel, Prices, priced_model
from agenttrace.store.stored_settings import NO_SETTINGS, StoredSettings

CALLS = """
WITH calls AS (
    SELECT
        trace_id,
        call_site,
        state = 'ok' AS is_answered,
        end_ns - start_ns AS ns,
        least(first_reasoning_ns, first_content_ns, first_tool_ns) AS first_ns,
        attempt,
        finish_reason,
        input_tokens,
        output_tokens,
        cached_tokens,
        reasoning_tokens
    FROM spans
    WHERE run_id = $run_id AND kind = 'model'
)
SELECT
    trace_id,
    call_site,
    grouping(call_site) = 1 AS is_whole,
    count(*) AS calls,
    count(*) FILTER (is_answered) AS answered,
    sum(ns) AS model_ns,
    count(first_ns) FILTER (is_answered) AS first_told,
    avg(first_ns) FILTER (is_answered) AS first_ns,
    count(*) FILTER (is_answered AND first_ns IS NOT NULL AND output_tokens > 1) AS gaps_told,
    sum(ns - first_ns) FILTER (is_answered AND output_tokens > 1) AS gaps_ns,
    sum(output_tokens - 1) FILTER (is_answered AND first_ns IS NOT NULL AND output_tokens > 1) AS gaps,
    count(*) FILTER (is_answered AND lower(finish_reason) IN (SELECT unnest($length_reasons))) AS cut,
    count(finish_reason) FILTER (is_answered) AS finish_told,
    count(*) FILTER (attempt > 1) AS tried_again,
    count(input_tokens) AS input_told,
    sum(input_tokens) AS input_tokens,
    count(output_tokens) AS output_told,
    sum(output_tokens) AS output_tokens,
    count(cached_tokens) AS cached_told,
    sum(cached_tokens) AS cached_tokens,
    count(reasoning_tokens) AS reasoning_told,
    sum(reasoning_tokens) AS reasoning_tokens
FROM calls
GROUP BY GROUPING SETS ((trace_id), (trace_id, call_site))
"""

STEPS = """
SELECT
    trace_id,
    count(*) FILTER (kind = 'tool') AS tool_calls,
    count(*) FILTER (kind IN ('model', 'tool') AND state IN ('error', 'timed_out')) AS step_errors
FROM spans
WHERE run_id = $run_id
GROUP BY trace_id
"""

SENT_AGAIN = """
SELECT trace_id, count(*) - count(DISTINCT span_id) AS retries
FROM attempts
SEMI JOIN (SELECT trace_id, span_id FROM spans WHERE run_id = $run_id AND kind = 'model') USING (trace_id, span_id)
GROUP BY trace_id
"""

MODELS = """
SELECT settings, max(start_ns)
FROM spans
WHERE run_id = $run_id AND kind = 'model' AND settings IS NOT NULL
GROUP BY settings
"""

PRICED = f"""
CREATE OR REPLACE TEMP TABLE priced AS
WITH models AS (
    SELECT unnest($settings) AS settings, unnest($models) AS model, unnest($by_length) AS is_by_length
)
SELECT
    trace_id,
    model,
    start_ns // {MINUTE_NS} AS minute,
    if(is_by_length, input_tokens, 0) AS prompt,
    input_tokens,
    output_tokens,
    least(coalesce(cached_tokens, 0), input_tokens) AS cached,
    least(coalesce(cache_written_tokens, 0), input_tokens - least(coalesce(cached_tokens, 0), input_tokens)) AS written,
    least(coalesce(reasoning_tokens, 0), output_tokens) AS reasoning
FROM spans
LEFT JOIN models ON models.settings = spans.settings::VARCHAR
WHERE run_id = $run_id AND kind = 'model' AND (state = 'ok' OR input_tokens IS NOT NULL AND output_tokens IS NOT NULL)
"""
"""Calls that cost, each with the number of its model; NULL where that has no price. Divided as `pricing` divides one."""

PRICES = "SELECT DISTINCT model, minute, prompt FROM priced WHERE model IS NOT NULL AND prompt IS NOT NULL"

COSTS = f"""
WITH rates AS (
    SELECT
        unnest($model) AS model,
        unnest($minute) AS minute,
        unnest($prompt) AS prompt,
        unnest($input) AS input,
        unnest($cached) AS cached_rate,
        unnest($cache_written) AS written_rate,
        unnest($output) AS output,
        unnest($reasoning) AS reasoning_rate
)
SELECT
    trace_id,
    sum(
        (input_tokens - cached - written) * input + cached * cached_rate + written * written_rate
        + (output_tokens - reasoning) * output + reasoning * reasoning_rate
    ) / {MILLION} AS usd
FROM priced
LEFT JOIN rates USING (model, minute, prompt)
GROUP BY trace_id
HAVING count(*) = count(input_tokens + output_tokens + input)
"""

TOKENS = ("input", "output", "cached", "reasoning")

OF_SITES = ("model_s", "first_token_s", "inter_token_s", "output_tokens")


def read_trace_metrics(
    connection: duckdb.DuckDBPyConnection, run_id: str, settings: Mapping[str | None, StoredSettings], prices: Prices
) -> dict[str, dict[str, float]]:
    """By trace and name: seconds, tokens, US dollars, counts. Traces without model calls have only counts of steps.

    `first_token_s` is the mean over the trace's calls; `inter_token_s` all their time after the first token, divided by
    all their tokens after the first (N − 1 of each call), as the client saw it; `stopped_by_length` a share of the calls.
    """
    metrics: dict[str, dict[str, float]] = {}
    for trace_id, tools, errors in connection.execute(STEPS, {"run_id": run_id}).fetchall():
        metrics[trace_id] = {"tool_calls": float(tools), "step_errors": float(errors)}
    rows = list(_rows(connection, CALLS, run_id=run_id, length_reasons=sorted(LENGTH_REASONS)))
    is_divided = len({row["call_site"] for row in rows if not row["is_whole"]}) > 1
    for row in rows:
        told = dict(_of_calls(row))
        if row["is_whole"]:
            metrics[row["trace_id"]].update(told, retries=float(row["tried_again"]))
        elif is_divided and row["call_site"]:
            metrics[row["trace_id"]].update(
                {f"{name}:{row['call_site']}": told[name] for name in OF_SITES if name in told}
            )
    for trace_id, again in connection.execute(SENT_AGAIN, {"run_id": run_id}).fetchall():
        metrics[trace_id]["retries"] += again
    for trace_id, usd in _costs(connection, run_id, settings, prices).items():
        metrics[trace_id]["cost_usd"] = usd
    return metrics


def _rows(connection: duckdb.DuckDBPyConnection, query: str, **parameters: object) -> Iterator[dict[str, Any]]:
    cursor = connection.execute(query, parameters)
    names = [column[0] for column in cursor.description or ()]
    for values in cursor.fetchall():
        yield dict(zip(names, values, strict=True))


def _of_calls(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """What some calls come to. A call that fails has nothing to tell; an answered one that does not tell makes a sum unknown."""
    answered = row["answered"]
    if row["model_ns"] is not None:
        yield "model_s", int(row["model_ns"]) / 1e9
    if not answered:
        return
    for name in TOKENS:
        if row[f"{name}_told"] >= answered:
            yield f"{name}_tokens", float(row[f"{name}_tokens"])
    if row["first_told"] == answered:
        yield "first_token_s", row["first_ns"] / 1e9
        if row["gaps"] and row["output_told"] >= answered:
            yield "inter_token_s", int(row["gaps_ns"]) / int(row["gaps"]) / 1e9
    if row["finish_told"] == answered:
        yield "stopped_by_length", row["cut"] / answered


def _costs(
    connection: duckdb.DuckDBPyConnection,
    run_id: str,
    settings: Mapping[str | None, StoredSettings],
    prices: Prices,
) -> dict[str, float]:
    """Of the traces of which the cost of every call is known. Millions of calls are not priced one by one: models are, a minute
    at a time, and those whose price goes by the length of the prompt, a length at a time.
    """
    models: dict[PricedModel, int] = {}
    known: list[tuple[str, int, bool]] = []
    for text, latest_ns in connection.execute(MODELS, {"run_id": run_id}).fetchall():
        told = settings.get(text, NO_SETTINGS)
        model = priced_model({**told.shared, **told.own})
        short, long = (_price(prices, model, latest_ns, prompt) for prompt in (0, LONGEST_PROMPT))
        if short is not None:
            known.append((text, models.setdefault(model, len(models)), short != long))
    if not known:
        return {}
    texts, numbers, by_length = map(list, zip(*known, strict=True))
    given = {"settings": texts, "models": numbers, "by_length": by_length}
    connection.execute(PRICED, {**given, "run_id": run_id})
    priced = list(models)
    columns: dict[str, list[float]] = {name: [] for name in ("model", "minute", "prompt", *RATES)}
    for number, minute, prompt in connection.execute(PRICES).fetchall():
        price = _price(prices, priced[number], minute * MINUTE_NS, prompt)
        if price is not None:
            for name, value in zip(columns, (number, minute, prompt, *price.rates), strict=True):
                columns[name].append(value)
    return dict(connection.execute(COSTS, columns).fetchall())


def _price(prices: Prices, model: PricedModel, at_ns: int, prompt_tokens: int) -> Price | None:
    return NOTHING if model.is_replayed else prices.price(model, at_ns, prompt_tokens)


NOTHING = Price(input=0.0, output=0.0)
"""What a reply from a recording costs."""
