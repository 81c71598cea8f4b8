"""Results in and out of the store: how each attempt at a case ended, and what it scored."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import orjson

from agenttrace.comparison.evidence import Outcome
from agenttrace.records import RunRecord, SettingValue
from agenttrace.steps import JSON
from agenttrace.store.content import ContentWriter
from agenttrace.store.database import locked_database
from agenttrace.store.importing import write_segment
from agenttrace.store.layout import Layout, store_path
from agenttrace.store.merge import merge
from agenttrace.store.rows import Row, run_row

RESULTS = """
SELECT case_id, repetition, outcome, cluster, scores, metrics, trace_id, detail
FROM results
WHERE run_id = $run_id
ORDER BY case_id, repetition
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRecord:
    """One attempt at a case, as it is stored with its run."""

    case: str
    repetition: int
    """From 1 within the case."""
    outcome: Outcome
    cluster: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """What another tool said of its model calls; empty where the calls are stored themselves."""
    trace_id: str | None = None
    detail: Mapping[str, JSON] = field(default_factory=dict)
    """What nobody calculates with: `reasons`, `labels` and `errors` by evaluator, and the `tries` that were made."""


def result_row(run_id: str, result: ResultRecord, content: ContentWriter) -> Row:
    return {
        "r": "results",
        "run_id": run_id,
        "case_id": result.case,
        "repetition": result.repetition,
        "cluster": result.cluster,
        "outcome": result.outcome,
        "scores": dict(result.scores),
        "metrics": dict(result.metrics),
        "settings": content.whole(
            {
                name: {"value": setting.value, "voice": setting.voice, "source": setting.source}
                for name, setting in result.settings.items()
            }
        ),
        "trace_id": result.trace_id,
        "detail": result.detail or None,
    }


def read_results(path: str | os.PathLike[str] | None, run_id: str) -> tuple[ResultRecord, ...]:
    """The results of a run that was recorded here, without settings, in the order of their cases."""
    layout = Layout(store_path(path))
    layout.require()
    with locked_database(layout) as connection:
        merge(layout, connection)
        rows = connection.execute(RESULTS, {"run_id": run_id}).fetchall()
    return tuple(
        ResultRecord(
            case=case,
            repetition=repetition,
            outcome=outcome,
            cluster=cluster,
            scores=orjson.loads(scores or "{}"),
            metrics=orjson.loads(metrics or "{}"),
            trace_id=trace_id,
            detail=orjson.loads(detail or "{}"),
        )
        for case, repetition, outcome, cluster, scores, metrics, trace_id, detail in rows
    )


def runs_with_results(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """The ids of all runs of which anything was judged."""
    return frozenset(run_id for (run_id,) in connection.execute("SELECT DISTINCT run_id FROM results").fetchall())


def import_results(path: str | os.PathLike[str] | None, run: RunRecord, results: Sequence[ResultRecord]) -> bool:
    """Add a run with its results, whole or not at all. Creates the store. False: the run was there already."""
    layout = Layout(store_path(path))
    layout.create()
    with locked_database(layout) as connection:
        merge(layout, connection)
        if connection.execute("SELECT 1 FROM runs WHERE run_id = ?", [run.run_id]).fetchone():
            return False
        rows: list[Row] = [run_row(run)]
        content = ContentWriter(rows.append)
        rows.extend([result_row(run.run_id, result, content) for result in results])
        write_segment(layout, rows)
        merge(layout, connection)
    return True
