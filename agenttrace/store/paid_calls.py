"""Model calls, as far as their cost goes: added up in SQL wherever they are priced alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import duckdb
import orjson

from agenttrace.pricing import MINUTE_NS, PricedModel, tier_starts
from agenttrace.records import Usage
from agenttrace.spending import Grouping, PaidCalls
from agenttrace.store.stored_settings import put_told

NAMES: Final = ("model.served", "model.requested", "provider", "endpoint", "service_tier", "replay")
"""The settings that prices depend on."""

# Counts that cannot be are cut here, as pricing cuts those of a single call.
CALLS = """
SELECT
    coalesce(call_site, '') AS call_site,
    <trace> AS trace_id,
    <case> AS case_id,
    coalesce(told.told, json_extract(settings, $paths)) AS told,
    min(start_ns) AS first_ns,
    state = 'ok' AS is_answered,
    count(*) AS calls,
    max(input_tokens) AS longest_prompt,
    sum(input_tokens)::BIGINT AS input,
    sum(output_tokens)::BIGINT AS output,
    sum(least(coalesce(cached_tokens, 0), input_tokens))::BIGINT AS cached,
    sum(least(coalesce(cache_written_tokens, 0), input_tokens - least(coalesce(cached_tokens, 0), input_tokens)))::BIGINT
        AS written,
    sum(least(coalesce(reasoning_tokens, 0), output_tokens))::BIGINT AS reasoning
FROM spans
LEFT JOIN (SELECT unnest(hashes) AS hash, told FROM told) AS told ON told.hash = settings ->> '@content'
LEFT JOIN (
    SELECT trace_id, any_value(metadata ->> 'case') AS case_id
    FROM spans
    WHERE <condition> AND parent_id IS NULL
    GROUP BY trace_id
) AS roots USING (trace_id)
WHERE <condition> AND kind = 'model'
GROUP BY
    1,
    2,
    3,
    4,
    6,
    start_ns // $minute_ns,
    len(list_filter($tiers, lambda start: input_tokens > start)),
    input_tokens IS NULL,
    output_tokens IS NULL
ORDER BY first_ns, 2, 1
"""

USAGE = ("input", "output", "cached", "cache_written", "reasoning")


def read_paid_calls(
    connection: duckdb.DuckDBPyConnection, run_ids: Sequence[str], by: Grouping | None = None
) -> tuple[PaidCalls, ...]:
    """Of some runs, in the order of time; kept apart by trace or by case where `by` says so."""
    return _read(connection, "run_id IN (SELECT unnest($value))", run_ids, by)


def read_calls_of_traces(connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[str]) -> tuple[PaidCalls, ...]:
    """Of some traces, in the order of time, kept apart by trace."""
    return _read(connection, "trace_id IN (SELECT unnest($value))", trace_ids, "trace")


def _read(
    connection: duckdb.DuckDBPyConnection, condition: str, value: Sequence[str], by: Grouping | None
) -> tuple[PaidCalls, ...]:
    paths = put_told(connection, condition, value, NAMES)
    query = CALLS.replace("<condition>", condition)
    query = query.replace("<trace>", "trace_id" if by == "trace" else "NULL")
    query = query.replace("<case>", "case_id" if by == "case" else "NULL")
    constants = {"value": list(value), "paths": paths, "minute_ns": MINUTE_NS, "tiers": list(tier_starts())}
    models: dict[tuple[str | None, ...], PricedModel] = {}
    found = []
    for call_site, trace_id, case, told, start_ns, is_answered, calls, longest, *counts in connection.execute(
        query, constants
    ).fetchall():
        key = tuple(told or ())
        if key not in models:
            models[key] = _model(key)
        found.append(
            PaidCalls(
                call_site=call_site,
                trace_id=trace_id,
                case=case,
                start_ns=start_ns,
                model=models[key],
                usage=Usage(**dict(zip(USAGE, counts, strict=True))),
                calls=calls,
                longest_prompt=longest,
                is_answered=is_answered,
            )
        )
    return tuple(found)


def _model(told: tuple[str | None, ...]) -> PricedModel:
    """Who answered, by the values of the settings as JSON."""
    values: list[Any] = [None if text is None else orjson.loads(text) for text in told] or [None] * len(NAMES)
    served, requested, provider, endpoint, tier, _ = (
        value if isinstance(value, str) and value else None for value in values
    )
    return PricedModel(
        names=tuple(dict.fromkeys(name for name in (served, requested) if name)),
        provider=provider,
        endpoint=endpoint,
        service_tier=tier,
        is_replayed=bool(told) and told[-1] is not None,
    )
