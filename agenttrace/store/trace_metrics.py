"""What the traces of a run are compared by besides their phases: times, tokens, cost, tool calls, retries, errors.

Of the whole trace, and of each call site where there are several (`model_s:planner`). What one call does not tell is left out:
a sum over the others would be another number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb

from agenttrace.phases.summary import LENGTH_REASONS
from agenttrace.pricing import PricedModel, Prices, priced_model
from agenttrace.records import Usage
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

PAID = """
SELECT trace_id, start_ns, settings, input_tokens, output_tokens, cached_tokens, cache_written_tokens, reasoning_tokens
FROM spans
WHERE run_id = $run_id AND kind = 'model' AND (state = 'ok' OR input_tokens IS NOT NULL AND output_tokens IS NOT NULL)
ORDER BY start_ns, span_id
"""

TOKENS = ("input", "output", "cached", "reasoning")

OF_SITES = ("model_s", "first_token_s", "inter_token_s", "input_tokens", "output_tokens")


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
        if usd is not None:
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
    connection: duckdb.DuckDBPyConnection, run_id: str, settings: Mapping[str | None, StoredSettings], prices: Prices
) -> dict[str, float | None]:
    """By trace; None where the cost of one of its calls is not known. Empty where no model has a price."""
    models: dict[str, PricedModel] = {}
    for text, latest_ns in connection.execute(MODELS, {"run_id": run_id}).fetchall():
        told = settings.get(text, NO_SETTINGS)
        model = priced_model({**told.shared, **told.own})
        if prices.price(model, latest_ns) is not None:
            models[text] = model
    costs: dict[str, float | None] = {}
    if not models:
        return costs
    for trace_id, start_ns, text, *counts in connection.execute(PAID, {"run_id": run_id}).fetchall():
        model_of_call = models.get(text)
        usage = Usage(**dict(zip(("input", "output", "cached", "cache_written", "reasoning"), counts, strict=True)))
        cost = None if model_of_call is None else prices.cost(usage, model_of_call, start_ns)
        before = costs.get(trace_id, 0.0)
        costs[trace_id] = None if cost is None or before is None else before + cost.total
    return costs
