"""How model calls' times are distributed: added up in SQL, so that a store of millions of spans answers at once.

Of more calls than `MOST` a sample is taken, by a hash of their ids: the same calls each time, and the answer says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from agenttrace.phases.advice import AT_LEAST_NS, RULES, advise
from agenttrace.phases.distributions import (
    BINS_A_DECADE,
    MEASURES,
    By,
    Distribution,
    GroupTimings,
    Load,
    Quantile,
    place,
)
from agenttrace.phases.load import loads
from agenttrace.phases.names import members
from agenttrace.phases.quantiles import QUANTILES, quantile_ranks, wanted_ranks
from agenttrace.records import REPLAYED

MOST = 100_000
"""Calls that are looked at one by one."""

IS_REPLAYED = f"coalesce(list_contains(spans.notes, '{REPLAYED}'), false)"
"""SQL on a span: whether a recording answered in the model's place. Its times are not a model's."""

MODEL = "coalesce(model_served, model_requested, '(unknown model)')"

GROUPS: Mapping[By, str] = {
    "model": MODEL,
    "call-site": "coalesce(nullif(call_site, ''), '(no call site)')",
    "node": "coalesce(nullif(split_part(call_site, '/', -1), ''), '(no node)')",
    "provider": "coalesce(provider, '(unknown provider)')",
}
"""SQL on a span. A node is the innermost one of a call site."""

PROVIDERS = """
CREATE OR REPLACE TEMP TABLE providers AS
WITH refs AS (
    SELECT DISTINCT settings, settings ->> '$."@content"' AS hash FROM spans WHERE kind = 'model' AND <condition>
)
SELECT
    refs.settings,
    coalesce(contents.body, refs.settings) ->> '$.provider.value' AS provider,
    coalesce(contents.body, refs.settings) ->> '$.service_tier.value' AS service_tier
FROM refs
LEFT JOIN contents ON contents.hash = refs.hash
"""

CALLS = """
SELECT
    <group> AS name,
    CASE WHEN <replayed> THEN 'replayed' WHEN state != 'ok' THEN state WHEN end_ns < start_ns THEN 'clock' ELSE 'ok' END AS ending,
    count(*) AS calls,
    count(output_tokens) AS output_known,
    coalesce(sum(output_tokens), 0) AS output_tokens,
    count(cached_tokens) FILTER (input_tokens IS NOT NULL) AS cached_known,
    count(*) FILTER (input_tokens IS NOT NULL AND cached_tokens > 0) AS cache_hits,
    coalesce(sum(input_tokens) FILTER (cached_tokens IS NOT NULL), 0) AS input_tokens,
    coalesce(sum(cached_tokens) FILTER (input_tokens IS NOT NULL), 0) AS cached_tokens,
    min(start_ns) AS first_ns,
    max(end_ns) AS last_ns
FROM spans
<providers>
WHERE kind = 'model' AND <condition>
GROUP BY ALL
"""
"""By group and by how the calls ended. Ends before beginnings are a clock that was set."""

# What ends in the first token of hidden reasoning is no time between visible tokens.
CHOSEN = """
CREATE OR REPLACE TEMP TABLE chosen AS
SELECT
    <group> AS name,
    trace_id,
    span_id,
    hash(<model>) AS server,
    start_ns,
    end_ns,
    end_ns - start_ns AS whole_ns,
    least(first_reasoning_ns, first_content_ns, first_tool_ns) AS first_token_ns,
    coalesce(reasoning_tokens, 0) > 0 AND first_reasoning_ns IS NULL AS is_hidden,
    output_tokens
FROM spans
<providers>
WHERE kind = 'model' AND state = 'ok' AND end_ns >= start_ns AND NOT <replayed> AND <condition> AND <sample>
"""

MEASURED = f"""
CREATE OR REPLACE TEMP TABLE measured AS
WITH long AS (
    SELECT
        chosen.name AS name,
        phases.name AS measure,
        CASE WHEN phases.included_in IS NULL THEN phases.ns::DOUBLE END AS value,
        phases.source,
        phases.included_in,
        CASE phases.name {" ".join(f"WHEN '{rule.phase}' THEN {rule.share} * whole_ns" for rule in RULES)} END AS bound
    FROM (FROM phases WHERE <sample>) AS phases
    JOIN chosen USING (trace_id, span_id)
    UNION ALL
    SELECT
        name,
        measure.name,
        measure.value,
        'client-observed',
        NULL,
        NULL
    FROM (
        SELECT
            name,
            unnest([
                {{'name': 'duration', 'value': whole_ns::DOUBLE}},
                {{'name': 'first_token', 'value': first_token_ns::DOUBLE}},
                {{'name': 'inter_token', 'value': CASE
                    WHEN output_tokens >= 2 AND first_token_ns <= whole_ns AND NOT is_hidden
                    THEN (whole_ns - first_token_ns) / (output_tokens - 1)
                END}},
                {{'name': 'tokens_per_second_user', 'value': CASE WHEN whole_ns > 0 THEN output_tokens / (whole_ns / 1e9) END}}
            ]) AS measure
        FROM chosen
    )
)
SELECT
    name,
    measure,
    list_sort(list(value) FILTER (value IS NOT NULL)) AS ordered,
    count(*) AS told,
    count(value) AS known,
    count(*) FILTER (value IS NULL AND source = 'not-applicable') AS inapplicable,
    count(*) FILTER (included_in IS NOT NULL) AS included,
    count(*) FILTER (value >= bound AND value >= {AT_LEAST_NS}) AS hits,
    histogram(source) FILTER (value IS NOT NULL) AS sources
FROM long
GROUP BY ALL
"""

BINS = f"""
SELECT name, measure, map_from_entries(list({{'k': bin, 'v': n}}))
FROM (
    SELECT name, measure, floor(log10(greatest(value, 1)) * {BINS_A_DECADE})::INTEGER AS bin, count(*) AS n
    FROM (SELECT name, measure, unnest(ordered) AS value FROM measured)
    GROUP BY ALL
)
GROUP BY ALL
"""

ORDER_STATISTICS = """
SELECT measured.name, measured.measure, list_select(ordered, ranks)
FROM measured
JOIN (
    SELECT unnest($names) AS name, unnest($measures) AS measure, unnest($ranks) AS ranks
) AS wanted ON wanted.name = measured.name AND wanted.measure = measured.measure
"""

OTHERS = """
SELECT hash(<model>) AS server, start_ns, end_ns, coalesce(output_tokens::DOUBLE, 'nan') AS output_tokens
FROM spans
WHERE kind = 'model' AND end_ns >= start_ns AND NOT <replayed>
    AND end_ns >= (SELECT min(start_ns) FROM chosen) AND start_ns <= (SELECT max(end_ns) FROM chosen)
"""
"""Every request that may have been under way beside those that were chosen, of whatever run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which model calls are looked at; None asks for nothing."""

    run_id: str | None = None
    since_ns: int | None = None
    call_site: str | None = None

    def condition(self) -> str:
        """SQL on a span."""
        told = {
            "run_id": "run_id = $run_id",
            "since_ns": "start_ns >= $since_ns",
            "call_site": "call_site = $call_site",
        }
        return " AND ".join(["true", *(told[name] for name in self.parameters())])

    def parameters(self) -> dict[str, object]:
        names = ("run_id", "since_ns", "call_site")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """The groups, the one with most calls first, and how much of the calls the distributions are over."""

    groups: tuple[GroupTimings, ...]
    sampled: float | None
    """The share of the calls that were looked at one by one; None where all were."""


def read_timings(connection: duckdb.DuckDBPyConnection, selection: Selection, by: By = "model") -> Timings:
    """Distributions, load and throughput of the model calls that ended well, by group."""
    values = {
        "<group>": GROUPS[by],
        "<model>": MODEL,
        "<replayed>": IS_REPLAYED,
        "<condition>": selection.condition(),
        "<providers>": "LEFT JOIN providers ON providers.settings = spans.settings" if by == "provider" else "",
    }
    if by == "provider":
        connection.execute(_filled(PROVIDERS, values), selection.parameters())
    totals = _totals(connection, _filled(CALLS, values), selection.parameters())
    calls = sum(endings["ok"]["calls"] for endings in totals.values() if "ok" in endings)
    one_in = -(-calls // MOST) or 1
    values["<sample>"] = "true" if one_in == 1 else f"hash(span_id) % {one_in} = 0"
    connection.execute(_filled(CHOSEN, values), selection.parameters())
    connection.execute(_filled(MEASURED, values))
    measured = _measured(connection)
    loads = _loads(connection, _filled(OTHERS, values), is_whole=one_in == 1)
    groups = [
        _group(name, endings, measured.get(name, []), loads.get(name, {}))
        for name, endings in totals.items()
        if "ok" in endings
    ]
    groups.sort(key=lambda group: (-group.calls, group.name))
    return Timings(groups=tuple(groups), sampled=None if one_in == 1 else 1 / one_in)


def _filled(query: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        query = query.replace(name, value)
    return query


def _rows(cursor: duckdb.DuckDBPyConnection) -> Iterator[dict[str, Any]]:
    names = [column[0] for column in cursor.description or ()]
    return (dict(zip(names, row, strict=True)) for row in cursor.fetchall())


def _totals(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, object]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Rows by group and ending."""
    found: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in _rows(connection.execute(query, dict(parameters))):
        found[row["name"]][row["ending"]] = row
    return found


def _measured(connection: duckdb.DuckDBPyConnection) -> Mapping[str, Sequence[dict[str, Any]]]:
    """What was measured of each group, with the values at the ranks that its quantiles need."""
    query = "SELECT * EXCLUDE (ordered), list_last(ordered) AS maximum FROM measured"
    rows = list(_rows(connection.execute(query)))
    wanted = {"names": [row["name"] for row in rows], "measures": [row["measure"] for row in rows]}
    ranks = [wanted_ranks(row["known"]) for row in rows]
    statistics = connection.execute(ORDER_STATISTICS, {**wanted, "ranks": ranks}).fetchall() if rows else []
    values = {(name, measure): found for name, measure, found in statistics}
    bins = {(name, measure): found for name, measure, found in connection.execute(BINS).fetchall()}
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row, places in zip(rows, ranks, strict=True):
        key = row["name"], row["measure"]
        at_rank = dict(zip(places, values.get(key) or (), strict=True))
        groups[row["name"]].append({**row, "at_rank": at_rank, "bins": bins.get(key, {})})
    return groups


def _loads(connection: duckdb.DuckDBPyConnection, others: str, *, is_whole: bool) -> Mapping[str, Mapping[str, Any]]:
    """What was under way when the chosen calls of each group began."""
    chosen = connection.execute("SELECT name, server, start_ns, end_ns FROM chosen").fetchnumpy()
    requests = connection.execute(others).fetchnumpy()
    return loads(chosen, requests, is_whole=is_whole)


def _group(
    name: str, endings: Mapping[str, Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], load: Mapping[str, Any]
) -> GroupTimings:
    ok = endings["ok"]
    seen = next((row["known"] for row in rows if row["measure"] == "duration"), 0)
    known = [row for row in rows if row["known"] or row["measure"] in MEASURES]
    hits = {row["measure"]: row["hits"] for row in rows}
    held = {part for row in known for part in members(row["measure"])}
    return GroupTimings(
        name=name,
        calls=ok["calls"],
        left_out={ending: row["calls"] for ending, row in sorted(endings.items()) if ending != "ok"},
        distributions=tuple(
            _distribution(row, seen) for row in sorted(known, key=lambda row: place(row["measure"]))
        ),
        unknown_phases=tuple(
            row["measure"]
            for row in sorted(rows, key=lambda row: place(row["measure"]))
            if not row["known"] and row["measure"] not in held and not row["included"] and row["inapplicable"] < row["told"]
        ),
        load=Load(first_ns=ok["first_ns"], last_ns=ok["last_ns"], **load),
        **{
            key: int(ok[key])
            for key in ("output_tokens", "output_known", "input_tokens", "cached_tokens", "cached_known", "cache_hits")
        },
        advice=advise(hits, {row["measure"]: row["known"] for row in rows}, seen),
    )  # fmt: skip


def _distribution(row: Mapping[str, Any], calls: int) -> Distribution:
    at_rank = row["at_rank"]
    quantiles: dict[str, Quantile | None] = {}
    for name, share in QUANTILES.items():
        ranks = quantile_ranks(row["known"], share)
        quantiles[name] = (
            None
            if ranks is None
            else Quantile(value=at_rank[ranks.value], low=at_rank[ranks.low], high=at_rank[ranks.high])
        )
    return Distribution(
        name=row["measure"],
        applicable=calls - row["inapplicable"],
        known=row["known"],
        sources=row["sources"] or {},
        quantiles=quantiles,
        maximum=row["maximum"],
        bins=row["bins"],
    )
