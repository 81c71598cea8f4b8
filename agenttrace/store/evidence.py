"""What a comparison needs of a run, read without inputs and outputs: settings, times and tokens by trace, results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import orjson

from agenttrace.comparison.evidence import Outcome, Repetition, RunEvidence
from agenttrace.comparison.recorded_suite import compared_settings, recorded_suite, rescored_from
from agenttrace.pricing import Prices
from agenttrace.records import CaptureCounters, RunRecord
from agenttrace.settings.contract import Contract, ObservedCall, fold_calls
from agenttrace.steps import EVALUATOR_SITE
from agenttrace.store.reading import find_run
from agenttrace.store.stored_settings import NO_SETTINGS, StoredSettings, read_settings
from agenttrace.store.trace_metrics import read_trace_metrics

TRACES = """
WITH traces AS (
    SELECT
        trace_id,
        arg_min(span_id, (parent_id IS NOT NULL, start_ns)) AS span_id,
        min(start_ns) AS start_ns,
        max(end_ns) - min(start_ns) AS latency_ns
    FROM spans
    WHERE run_id = $run_id
    GROUP BY trace_id
)
SELECT
    traces.* EXCLUDE (span_id),
    roots.state,
    roots.metadata ->> 'case' AS case_id
FROM traces
JOIN (SELECT trace_id, span_id, state, metadata FROM spans WHERE run_id = $run_id) AS roots USING (trace_id, span_id)
ORDER BY start_ns, trace_id
"""

TRACE_CASES = """
SELECT trace_id, arg_min(metadata, (parent_id IS NOT NULL, start_ns)) ->> 'case' AS case_id
FROM spans
WHERE run_id = $run_id
GROUP BY trace_id
"""

UNFINISHED_TRACES = """
SELECT trace_id, bool_or(parent_id IS NULL) AS is_root
FROM span_starts
WHERE run_id = $run_id AND span_id NOT IN (SELECT span_id FROM spans WHERE run_id = $run_id)
GROUP BY trace_id
"""

# Of a run whose outputs were judged anew: the source's calls without those of its judges, and the calls of the new ones.
MODEL_CALLS = """
SELECT coalesce(call_site, '') AS call_site, settings, trace_id, start_ns, state = 'ok' AS is_answered
FROM spans
WHERE kind = 'model' AND (
    run_id = $run_id OR (run_id = $source_id AND NOT starts_with(coalesce(call_site, ''), $judging))
)
ORDER BY start_ns, span_id
"""

# Only totals that are known of every call of the trace: a sum over some of them would be another number.
PHASES = """
WITH calls AS (
    SELECT trace_id, span_id, kind
    FROM spans
    WHERE run_id = $run_id AND kind IN ('model', 'tool')
),
totals AS (
    SELECT
        calls.trace_id,
        calls.kind,
        phases.name,
        sum(phases.ns) AS ns,
        count(phases.ns) AS known,
        count(*) FILTER (WHERE phases.ns IS NULL AND phases.source = 'not-applicable') AS inapplicable
    FROM phases
    JOIN calls USING (trace_id, span_id)
    GROUP BY ALL
)
SELECT
    totals.trace_id,
    list(if(totals.kind = 'tool', 'tool_', '') || totals.name || '_s') AS names,
    list(totals.ns / 1e9) AS seconds
FROM totals
JOIN (SELECT trace_id, kind, count(*) AS calls FROM calls GROUP BY ALL) USING (trace_id, kind)
WHERE known > 0 AND known + inapplicable = calls
GROUP BY totals.trace_id
"""

RESULTS = """
SELECT case_id, repetition, cluster, outcome, scores, metrics, settings, trace_id
FROM results
WHERE run_id = $run_id
"""

COUNTERS = "SELECT process, capture_errors, dropped, last_error FROM counters WHERE process = $process"

OUTCOMES: Mapping[str, Outcome] = {
    "ok": "scored",
    "handed_off": "scored",
    "error": "agent_error",
    "timed_out": "timeout",
}
"""How a trace's root ended, as a result; every other end says nothing about the agent."""


TABLE_PRICES = Prices()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trace:
    """One trace's share of a run's results."""

    case: str | None
    outcome: Outcome
    metrics: dict[str, float]


def read_evidence(
    connection: duckdb.DuckDBPyConnection, ref: str, *, beside: RunRecord | None = None, prices: Prices = TABLE_PRICES
) -> RunEvidence:
    """All that a comparison needs of the run that `find_run` finds. `RunNotFound` lists what there is."""
    run = find_run(connection, ref, beside=beside)
    source_id = rescored_from(run) or run.run_id
    unfinished = {row["trace_id"]: row["is_root"] for row in _rows(connection, UNFINISHED_TRACES, run_id=source_id)}
    settings = read_settings(connection, [source_id, run.run_id])
    measured = read_trace_metrics(connection, source_id, settings, prices)
    traces = _traces(connection, source_id, unfinished, measured)
    results = list(_rows(connection, RESULTS, run_id=run.run_id))
    suite = recorded_suite(run)
    # A suite judges every attempt it makes: a trace without a result is one that was broken off, and made again.
    judged = (
        dict(traces)
        if suite is None
        else {row["trace_id"]: traces[row["trace_id"]] for row in results if row["trace_id"] in traces}
    )
    return RunEvidence(
        run=run,
        contract=_contract(connection, run, settings, {key: trace.case for key, trace in traces.items()}, results),
        repetitions=tuple(_repetitions(judged, results)),
        counters=_counters(connection, run),
        is_unfinished=run.end_ns is None,
        unfinished_traces=len(unfinished if suite is None else judged.keys() & unfinished),
        suite=suite,
    )


def read_contract(connection: duckdb.DuckDBPyConnection, ref: str) -> tuple[RunRecord, Contract]:
    """The run `ref` and its contract, without its results."""
    run = find_run(connection, ref)
    source_id = rescored_from(run) or run.run_id
    cases = dict(connection.execute(TRACE_CASES, {"run_id": source_id}).fetchall())
    settings = read_settings(connection, [source_id, run.run_id])
    return run, _contract(connection, run, settings, cases, list(_rows(connection, RESULTS, run_id=run.run_id)))


def _rows(connection: duckdb.DuckDBPyConnection, query: str, **parameters: object) -> Iterator[dict[str, Any]]:
    cursor = connection.execute(query, parameters)
    names = [column[0] for column in cursor.description or ()]
    for values in cursor.fetchall():
        yield dict(zip(names, values, strict=True))


def _traces(
    connection: duckdb.DuckDBPyConnection,
    run_id: str,
    unfinished: Mapping[str, bool],
    measured: Mapping[str, Mapping[str, float]],
) -> dict[str, _Trace]:
    """By trace id, in the order of time. `unfinished`: whether it is a trace's root that never ended."""
    traces = {}
    for row in _rows(connection, TRACES, run_id=run_id):
        never_ended = unfinished.get(row["trace_id"], False)
        traces[row["trace_id"]] = _Trace(
            case=row["case_id"],
            outcome="cancelled" if never_ended else OUTCOMES.get(row["state"], "cancelled"),
            metrics={**_latency(row["latency_ns"]), **measured[row["trace_id"]]},
        )
    for row in _rows(connection, PHASES, run_id=run_id):
        traces[row["trace_id"]].metrics.update(zip(row["names"], row["seconds"], strict=True))
    return traces


def _latency(ns: int | None) -> dict[str, float]:
    return {} if ns is None else {"latency_s": ns / 1e9}


def _contract(
    connection: duckdb.DuckDBPyConnection,
    run: RunRecord,
    settings: Mapping[str | None, StoredSettings],
    cases: Mapping[str, str | None],
    results: list[dict[str, Any]],
) -> Contract:
    """`cases`: the case of each trace."""
    calls = [
        ObservedCall(
            call_site=call_site,
            settings=(told := settings.get(text, NO_SETTINGS)).shared,
            own=told.own,
            trace_id=trace_id,
            case=cases.get(trace_id),
            start_ns=start_ns,
            is_answered=is_answered,
        )
        for call_site, text, trace_id, start_ns, is_answered in connection.execute(
            MODEL_CALLS,
            {"run_id": run.run_id, "source_id": rescored_from(run) or run.run_id, "judging": EVALUATOR_SITE},
        ).fetchall()
    ]
    is_recorded = bool(calls)
    for number, row in enumerate(results):
        # A result of another tool stands for its model calls; of one that was recorded here the calls themselves tell.
        if row["settings"] is not None or not is_recorded:
            calls.append(
                ObservedCall(
                    call_site="",
                    settings=(told := settings.get(row["settings"], NO_SETTINGS)).shared,
                    own=told.own,
                    trace_id=row["trace_id"] or f"result {number}",
                    case=row["case_id"],
                    start_ns=number,
                )
            )
    return fold_calls(calls, compared_settings(run))


def _repetitions(traces: Mapping[str, _Trace], results: list[dict[str, Any]]) -> Iterator[Repetition]:
    """The results, with the times of their traces; then the traces that nobody judged."""
    numbers: dict[str, int] = {}
    judged = set()
    for row in results:
        judged.add(row["trace_id"])
        trace = traces.get(row["trace_id"] or "")
        numbers[row["case_id"]] = max(numbers.get(row["case_id"], 0), row["repetition"])
        yield Repetition(
            case=row["case_id"],
            number=row["repetition"],
            cluster=row["cluster"],
            outcome=row["outcome"],
            scores=orjson.loads(row["scores"] or "{}"),
            metrics={**(trace.metrics if trace else {}), **orjson.loads(row["metrics"] or "{}")},
            trace_id=row["trace_id"],
        )
    for trace_id, trace in traces.items():
        if trace.case is not None and trace_id not in judged:
            numbers[trace.case] = numbers.get(trace.case, 0) + 1
            yield Repetition(
                case=trace.case,
                number=numbers[trace.case],
                outcome=trace.outcome,
                metrics=trace.metrics,
                trace_id=trace_id,
            )


def _counters(connection: duckdb.DuckDBPyConnection, run: RunRecord) -> CaptureCounters | None:
    if run.process is None:
        return None
    row = next(_rows(connection, COUNTERS, process=run.process), None)
    return CaptureCounters(**row) if row else None
