"""Moves what journals hold into the database, exactly once.

Whole lines of every segment, those of running processes included, and a ledger row that says how far each was read go in
in one transaction. A segment is removed after the checkpoint, and only when its process is done with it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import duckdb
import orjson

from agenttrace.store.journal import SUFFIX, is_complete
from agenttrace.store.layout import Layout
from agenttrace.store.row_counts import add_rows
from agenttrace.store.rows import NESTED, TABLES, table_of

DRAFT = ".merging-"
"""How folders begin in which rows wait to be loaded."""

BATCH_BYTES = 64 << 20
"""How much is merged in one transaction."""

UNIQUE_ON = {"contents": "hash", "links": "hash", "span_starts": "span_id"}
"""Rows that may be written more than once and are kept once."""

LATEST_BY = {"runs": "run_id", "counters": "process"}
"""Rows that are written again when they change; the last one counts."""


@dataclass(slots=True)
class Slice:
    """What one segment has that the database has not."""

    path: Path
    offset: int
    end: int = 0
    records: int = 0
    damaged: int = 0
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    records: int = 0
    damaged: int = 0
    """Lines that could not be read: torn by a kill, or damaged on disk."""


@dataclass(slots=True)
class _Batch:
    """Rows by table, in files that DuckDB reads in one go (58,000 rows/s; row by row it takes 300)."""

    folder: Path
    files: dict[str, BinaryIO] = field(default_factory=dict)
    received: set[tuple[str, str]] = field(default_factory=set)
    """Spans of which it is known that they are here, or in the database."""

    def add(self, table: str, line: bytes) -> None:
        if table not in self.files:
            self.files[table] = open(self.folder / f"{table}.ndjson", "wb")  # noqa: SIM115  # closed by load
        self.files[table].write(line)

    def close(self) -> None:
        for file in self.files.values():
            file.close()

    def paths(self) -> Iterator[tuple[str, Path]]:
        for table, file in self.files.items():
            yield table, Path(file.name)

    def drop_unreadable(self, connection: duckdb.DuckDBPyConnection) -> int:
        """Take out the lines that do not fit their table's columns; returns how many."""
        dropped = 0
        for table, path in self.paths():
            lines = path.read_bytes().splitlines(keepends=True)
            trial = path.with_suffix(".trial")
            sound = list(_sound(connection, table, lines, trial))
            dropped += len(lines) - len(sound)
            path.write_bytes(b"".join(sound))
        return dropped


def _sound(connection: duckdb.DuckDBPyConnection, table: str, lines: list[bytes], trial: Path) -> Iterator[bytes]:
    """The lines that load, found by halving."""
    trial.write_bytes(b"".join(lines))
    connection.execute("BEGIN")
    try:
        load_rows(connection, table, trial)
        yield from lines
    except (duckdb.ConversionException, duckdb.InvalidInputException):
        connection.execute("ROLLBACK")
        if len(lines) > 1:
            middle = len(lines) // 2
            yield from _sound(connection, table, lines[:middle], trial)
            yield from _sound(connection, table, lines[middle:], trial)
        return
    connection.execute("ROLLBACK")


def merge(layout: Layout, connection: duckdb.DuckDBPyConnection) -> MergeResult:
    """Merge all that the journals hold now. The caller holds the merge lock."""
    total = MergeResult()
    for slices in _batches(list(_slices(layout, connection))):
        result = _merge_batch(layout, connection, slices)
        total = MergeResult(records=total.records + result.records, damaged=total.damaged + result.damaged)
    return total


def _slices(layout: Layout, connection: duckdb.DuckDBPyConnection) -> Iterator[Slice]:
    ledger: dict[str, int] = dict(connection.execute("SELECT segment, merged_bytes FROM segments").fetchall())
    for path in sorted(layout.journal.glob(f"*{SUFFIX}")):
        # Asked before the size is read: what a finished process wrote is all there.
        complete = is_complete(path)
        offset = ledger.get(path.name, 0)
        if complete or path.stat().st_size > offset:
            yield Slice(path, offset, complete=complete)


def _batches(slices: list[Slice]) -> Iterator[list[Slice]]:
    batch: list[Slice] = []
    size = 0
    for piece in slices:
        batch.append(piece)
        size += piece.path.stat().st_size - piece.offset
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _merge_batch(layout: Layout, connection: duckdb.DuckDBPyConnection, slices: list[Slice]) -> MergeResult:
    # In the store, which is as private as what is merged; what a killed merger left is removed by the next one.
    for leftover in layout.folder.glob(f"{DRAFT}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=DRAFT, dir=layout.folder) as folder:
        batch = _Batch(Path(folder))
        for piece in slices:
            _read(piece, batch, connection)
        batch.close()
        try:
            _load(connection, batch, slices)
        except (duckdb.ConversionException, duckdb.InvalidInputException):
            # A row that no column takes: find it, count it, and load the rest.
            slices[0].damaged += batch.drop_unreadable(connection)
            _load(connection, batch, slices)
    connection.execute("CHECKPOINT")
    for piece in slices:
        # While a log is left, what was merged is not all in the database proper: the segment is what restores it.
        if piece.complete and not layout.log.exists():
            piece.path.unlink(missing_ok=True)
    return MergeResult(records=sum(s.records for s in slices), damaged=sum(s.damaged for s in slices))


def _load(connection: duckdb.DuckDBPyConnection, batch: _Batch, slices: list[Slice]) -> None:
    connection.execute("BEGIN")
    try:
        for table, file in batch.paths():
            load_rows(connection, table, file)
        for piece in slices:
            _note(connection, piece)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _read(piece: Slice, batch: _Batch, connection: duckdb.DuckDBPyConnection) -> None:
    with open(piece.path, "rb") as file:
        file.seek(piece.offset)
        data = file.read()
    whole = data.rfind(b"\n") + 1
    piece.end = piece.offset + whole
    if piece.complete and whole < len(data):
        piece.damaged += 1  # the line a killed process was writing
    lines = data[:whole].splitlines(keepends=True)
    for line in _not_there_yet(lines, batch, connection) if piece.path.name.startswith(RECEIVED) else lines:
        try:
            table = table_of(orjson.loads(line))
        except orjson.JSONDecodeError:
            table = None
        if table is None:
            piece.damaged += 1
        else:
            batch.add(table, line)
            piece.records += 1


RECEIVED = "otlp-"
"""Begins the names of segments with spans that others sent: who gets no answer sends again, so one may be there already."""


def _not_there_yet(lines: list[bytes], batch: _Batch, connection: duckdb.DuckDBPyConnection) -> list[bytes]:
    """The lines without spans that the database or this batch has."""
    keys = [_span_key(line) for line in lines]
    traces = list({key[0] for key in keys if key is not None})
    known = connection.execute(
        "SELECT trace_id, span_id FROM spans WHERE trace_id IN (SELECT unnest($traces))", {"traces": traces}
    )
    batch.received.update(known.fetchall())
    kept = []
    for line, key in zip(lines, keys, strict=True):
        if key not in batch.received:
            kept.append(line)
        if key is not None:
            batch.received.add(key)
    return kept


def _span_key(line: bytes) -> tuple[str, str] | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return (row["trace_id"], row["span_id"]) if isinstance(row, dict) and row.get("r") == "spans" else None


def _note(connection: duckdb.DuckDBPyConnection, piece: Slice) -> None:
    connection.execute(
        """
        INSERT INTO segments
        SELECT $name, $end, $records + coalesce(sum(records), 0), $damaged + coalesce(sum(damaged), 0)
        FROM segments WHERE segment = $name
        """,
        {"name": piece.path.name, "end": piece.end, "records": piece.records, "damaged": piece.damaged},
    )
    connection.execute(
        "DELETE FROM segments WHERE segment = $name AND merged_bytes < $end",
        {"name": piece.path.name, "end": piece.end},
    )


def load_rows(connection: duckdb.DuckDBPyConnection, table: str, file: Path) -> None:
    """Insert the rows of an NDJSON file into `table`, by column name; columns a row lacks are NULL."""
    assert table in TABLES
    columns = _columns(connection, table)
    names = ", ".join(f'"{name}"' for name in columns)
    given: dict[str, object] = {"file": str(file), "columns": columns}
    source = f"SELECT {names} FROM {READ}"
    if table in UNIQUE_ON:
        key = UNIQUE_ON[table]
        source = f"SELECT DISTINCT ON ({key}) * FROM ({source}) WHERE {key} NOT IN (SELECT {key} FROM {table})"
    if table in LATEST_BY:
        key = LATEST_BY[table]
        numbered = f"SELECT *, row_number() OVER () AS n FROM ({source})"
        source = f"SELECT {names} FROM (SELECT DISTINCT ON ({key}) * FROM ({numbered}) ORDER BY n DESC)"
        add_rows(
            connection,
            table,
            -_changed(connection, f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {READ})", given),
        )
    add_rows(connection, table, _changed(connection, f"INSERT INTO {table} ({names}) {source}", given))
    if table == "spans":
        for nested, places in NESTED.items():
            _load_nested(connection, nested, places, file)


READ = "read_json($file, format = 'newline_delimited', columns = $columns, maximum_object_size = 1073741824)"


def _load_nested(connection: duckdb.DuckDBPyConnection, table: str, places: Sequence[str], file: Path) -> None:
    """Insert the rows that lie in a list inside the rows of `spans`."""
    columns = _columns(connection, table)
    keys = ("trace_id", "span_id")
    inner = [name for name in columns if name not in (*keys, *places)]
    struct = ", ".join(f'"{name}" {columns[name]}' for name in inner)
    given: dict[str, object] = {
        "file": str(file),
        "columns": dict.fromkeys(keys, "VARCHAR") | {table: f"STRUCT({struct})[]"},
    }
    names = ", ".join([*keys, *places, *(f'"{name}"' for name in inner)])
    values = ", ".join([*keys, *places, *(f'item."{name}"' for name in inner)])
    place = f"unnest(range(1, len({table}) + 1)) AS ordinal"
    source = f"SELECT trace_id, span_id, unnest({table}) AS item, {place} FROM {READ} WHERE len({table}) > 0"
    add_rows(
        connection, table, _changed(connection, f"INSERT INTO {table} ({names}) SELECT {values} FROM ({source})", given)
    )


def _changed(connection: duckdb.DuckDBPyConnection, statement: str, given: dict[str, object]) -> int:
    """Run a statement that changes a table; how many rows it changed, as DuckDB counted them."""
    row = connection.execute(statement, given).fetchone()
    return int(row[0]) if row else 0


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    return {name: kind for name, kind, *_ in connection.execute(f'DESCRIBE "{table}"').fetchall()}
