"""Takes records from elsewhere into a store: as one journal segment, so that they come in whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agenttrace.records import RunRecord, SpanRecord
from agenttrace.store.blobs import put_aside
from agenttrace.store.content import ContentWriter
from agenttrace.store.database import locked_database
from agenttrace.store.journal import SUFFIX
from agenttrace.store.layout import Layout, store_path
from agenttrace.store.merge import merge
from agenttrace.store.rows import Row, row_line, run_row, span_row, start_row


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    runs: int
    spans: int
    already_there: int
    """Spans that the store had: importing twice changes nothing."""


def import_records(
    path: str | os.PathLike[str] | None, runs: Sequence[RunRecord], spans: Sequence[SpanRecord]
) -> ImportResult:
    """Add runs and spans that are not there yet. Creates the store."""
    layout = Layout(store_path(path))
    layout.create()
    with locked_database(layout) as connection:
        merge(layout, connection)
        known_spans = set(connection.execute("SELECT trace_id, span_id FROM spans").fetchall())
        begun = set(connection.execute("SELECT trace_id, span_id FROM span_starts").fetchall())
        known_runs = {run_id for (run_id,) in connection.execute("SELECT run_id FROM runs").fetchall()}
        new_runs = [run for run in runs if run.run_id not in known_runs]
        new_spans = [
            span
            for span in spans
            if (key := (span.trace_id, span.span_id)) not in known_spans
            and not (span.state == "unfinished" and key in begun)
        ]
        write_segment(layout, _rows(new_runs, new_spans))
        merge(layout, connection)
    return ImportResult(runs=len(new_runs), spans=len(new_spans), already_there=len(spans) - len(new_spans))


def _rows(runs: Sequence[RunRecord], spans: Sequence[SpanRecord]) -> list[Row]:
    rows: list[Row] = [run_row(run) for run in runs]
    content = ContentWriter(rows.append)
    for span in spans:
        if span.state == "unfinished":
            rows.append(start_row(span, content))
        else:
            rows.append(span_row(span, content))
    return rows


def write_segment(layout: Layout, rows: Iterable[Row]) -> None:
    """Add rows as a journal segment of their own, which is there whole or not at all."""
    name = f"import-{secrets.token_hex(8)}"
    starting = layout.journal / f"{name}.starting"
    starting.write_bytes(b"".join(put_aside(layout, map(row_line, rows))))
    starting.rename(layout.journal / f"{name}{SUFFIX}")
