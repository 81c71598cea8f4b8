"""What can be said about a store's condition: what it holds, what was lost on the way, and who still writes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import duckdb

from agenttrace.errors import DISTRIBUTION, NotAStore
from agenttrace.records import CaptureCounters
from agenttrace.store.blobs import unreadable_blobs
from agenttrace.store.database import locked_database
from agenttrace.store.journal import SUFFIX
from agenttrace.store.layout import Layout, store_path
from agenttrace.store.merge import merge
from agenttrace.store.reading import open_store
from agenttrace.store.row_counts import miscounted
from agenttrace.store.schema import SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The condition of one store."""

    store: Path
    versions: dict[str, str]
    """Of agenttrace, DuckDB and the schema."""
    runs: int
    traces: int
    spans: int
    unfinished: int
    """Steps that started and have not ended: still running, or their process was killed."""
    damaged_lines: int
    """Lines of a journal that could not be read: torn by a kill, or damaged on disk."""
    open_segments: int
    """Journal segments that a living process writes."""
    faults: tuple[CaptureCounters, ...]
    """Processes that could not record everything."""
    doubled: int
    """Spans that are stored more than once. Never, unless the database was changed by something else."""
    miscounted: Mapping[str, int]
    """By table, how many rows more are there than were merged; below zero, how many vanished."""
    missing_texts: int
    """Large texts whose files are not there, or not whole."""
    damaged_logs: tuple[str, ...]
    """Write-ahead logs of the database that could not be read and were set aside; what they held was merged again."""
    size_bytes: int
    free_bytes: int

    @property
    def is_whole(self) -> bool:
        """Whether everything that was observed is here, once."""
        return (
            not self.faults
            and self.damaged_lines == 0
            and self.doubled == 0
            and not self.miscounted
            and self.missing_texts == 0
        )


def examine(path: str | os.PathLike[str] | None = None) -> Health:
    """Look at the store at `path`; what its journals hold is merged first."""
    reader = open_store(path)
    layout = Layout(store_path(path))
    counters = reader.counters()
    with locked_database(layout) as connection:
        merge(layout, connection)
        _read_everything(connection, layout)
        numbers = _counts(connection)
        wrong = miscounted(connection)
        missing = unreadable_blobs(layout, connection)
    return Health(
        store=layout.folder,
        versions={"agenttrace": version(DISTRIBUTION), "duckdb": duckdb.__version__, "schema": str(SCHEMA_VERSION)},
        **numbers,
        miscounted=wrong,
        missing_texts=missing,
        open_segments=len(list(layout.journal.glob(f"*{SUFFIX}"))),
        faults=tuple(counter for counter in counters if counter.capture_errors or counter.dropped),
        damaged_logs=tuple(path.name for path in layout.damaged_logs()),
        size_bytes=sum(file.stat().st_size for file in layout.folder.rglob("*") if file.is_file()),
        free_bytes=shutil.disk_usage(layout.folder).free,
    )


def _counts(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    queries = {
        "runs": "SELECT count(*) FROM runs",
        "traces": "SELECT count(DISTINCT trace_id) FROM (FROM spans UNION ALL BY NAME FROM span_starts)",
        "spans": "SELECT count(*) FROM spans",
        "unfinished": "SELECT count(*) FROM span_starts WHERE span_id NOT IN (SELECT span_id FROM spans)",
        "doubled": "SELECT count(*) - count(DISTINCT (trace_id, span_id)) FROM spans",
        "damaged_lines": "SELECT coalesce(sum(damaged), 0)::BIGINT FROM segments",
    }
    return {name: int((connection.execute(query).fetchone() or (0,))[0]) for name, query in queries.items()}


def _read_everything(connection: duckdb.DuckDBPyConnection, layout: Layout) -> None:
    """Read every value of every table: DuckDB compares the checksum of each block that it reads."""
    try:
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.execute(f'SELECT bit_xor(hash(rows)) FROM "{table}" AS rows').fetchall()
    except duckdb.Error as error:
        raise NotAStore(
            f"{layout.database} is damaged: {str(error).splitlines()[0]} "
            "Move the file away and keep it; 'agenttrace export' of an older copy can be imported again."
        ) from error
