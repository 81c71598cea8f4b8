"""Model calls, as far as their cost goes."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from agenttrace.pricing import PricedModel, priced_model
from agenttrace.records import Usage
from agenttrace.spending import PaidCall
from agenttrace.store.stored_settings import NO_SETTINGS, read_settings

CALLS = """
SELECT
    coalesce(spans.call_site, '') AS call_site,
    spans.trace_id,
    roots.case_id,
    spans.start_ns,
    spans.state = 'ok' AS is_answered,
    spans.settings,
    input_tokens,
    output_tokens,
    cached_tokens,
    cache_written_tokens,
    reasoning_tokens,
    total_tokens
FROM spans
LEFT JOIN (
    SELECT trace_id, any_value(metadata ->> 'case') AS case_id
    FROM spans
    WHERE <condition> AND parent_id IS NULL
    GROUP BY trace_id
) AS roots USING (trace_id)
WHERE <condition> AND kind = 'model'
ORDER BY start_ns, span_id
"""


def read_paid_calls(connection: duckdb.DuckDBPyConnection, run_id: str) -> tuple[PaidCall, ...]:
    """Of a run, in the order of time."""
    return _read(connection, [run_id], "run_id = $value", run_id)


def read_calls_of_traces(connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[str]) -> tuple[PaidCall, ...]:
    """Of some traces, in the order of time."""
    condition = "trace_id IN (SELECT unnest($value))"
    query = f"SELECT DISTINCT run_id FROM spans WHERE {condition}"
    runs = [run_id for (run_id,) in connection.execute(query, {"value": list(trace_ids)}).fetchall()]
    return _read(connection, runs, condition, list(trace_ids))


def _read(
    connection: duckdb.DuckDBPyConnection, run_ids: Sequence[str], condition: str, value: object
) -> tuple[PaidCall, ...]:
    settings = read_settings(connection, run_ids)
    rows = connection.execute(CALLS.replace("<condition>", condition), {"value": value}).fetchall()
    models: dict[str | None, PricedModel] = {}
    calls = []
    for call_site, trace_id, case, start_ns, is_answered, text, *counts in rows:
        if text not in models:
            told = settings.get(text, NO_SETTINGS)
            models[text] = priced_model({**told.shared, **told.own})
        calls.append(
            PaidCall(
                call_site=call_site,
                trace_id=trace_id,
                case=case,
                start_ns=start_ns,
                model=models[text],
                usage=Usage(**dict(zip(USAGE, counts, strict=True))),
                is_answered=is_answered,
            )
        )
    return tuple(calls)


USAGE = ("input", "output", "cached", "cache_written", "reasoning", "total")
