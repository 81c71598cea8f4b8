"""Records as a Parquet file, and back. DuckDB writes and reads it: nothing else needs to be installed.

A row is one record of the JSON shape of `export/jsonl.py`: a column for each key; what is a list, an object or any value
is JSON text. Moments are integer nanoseconds since 1970.
"""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
import orjson

from agenttrace.errors import InvalidRecord

MAGIC = b"PAR1"

TEXTS = ("record", "trace_id", "span_id", "parent_id", "run_id", "kind", "name", "state", "call_site", "finish_reason",
         "session", "user", "process", "paused_at", "resumed_from")  # fmt: skip
NUMBERS = ("start_ns", "end_ns", "attempt", "sampled_out")
VALUES = ("input", "output", "settings", "usage", "metadata", "tags", "phases", "server_parts_s", "marks", "attempts",
          "events", "error", "notes", "server_report", "policy")  # fmt: skip

COLUMNS = dict.fromkeys(TEXTS, "VARCHAR") | dict.fromkeys(NUMBERS, "BIGINT") | dict.fromkeys(VALUES, "JSON")

ROWS_AT_ONCE = 1_000


def write_parquet(lines: Iterable[bytes], file: Path) -> None:
    """Write records, each a line of JSON, as a Parquet file. What is at `file` is replaced."""
    with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder, _memory() as connection:
        gathered = Path(folder) / "records.ndjson"
        with open(gathered, "wb") as opened:
            opened.writelines(lines)
        # The path of a COPY cannot be bound; it is quoted.
        quoted = str(file).replace("'", "''")
        connection.execute(
            "COPY (FROM read_json($file, format = 'newline_delimited', columns = $columns, maximum_object_size = 1073741824)) "
            f"TO '{quoted}' (FORMAT parquet, COMPRESSION zstd)",
            {"file": glob.escape(str(gathered)), "columns": COLUMNS},
        )


def is_parquet(file: str | os.PathLike[str]) -> bool:
    """Whether a file begins as Parquet files do."""
    with open(file, "rb") as opened:
        return opened.read(len(MAGIC)) == MAGIC


def parquet_lines(file: str | os.PathLike[str]) -> Iterator[bytes]:
    """The records of a Parquet file, each as a line of JSON. Columns that are not known here are left out.

    Raises:
        InvalidRecord: it cannot be read, or is a table of something else.
    """
    try:
        with _memory() as connection:
            source = connection.execute("FROM read_parquet($file)", {"file": glob.escape(str(file))})
            names = [column[0] for column in source.description or ()]
            if "record" not in names:
                raise InvalidRecord(
                    f"{Path(file).name} has no column 'record', so it holds no records of agenttrace. "
                    "Name a file that 'agenttrace export --to parquet' wrote; nothing was imported."
                )
            while rows := source.fetchmany(ROWS_AT_ONCE):
                for row in rows:
                    yield _line(dict(zip(names, row, strict=True)))
    except duckdb.Error as error:
        raise InvalidRecord(
            f"{Path(file).name} cannot be read as Parquet: {str(error).splitlines()[0]} Export it again; nothing was imported."
        ) from error


def _line(row: dict[str, object]) -> bytes:
    told = {name: row[name] for name in COLUMNS if row.get(name) is not None}
    return orjson.dumps(
        {name: _parsed(value) if name in VALUES else value for name, value in told.items()}, default=str
    )


def _parsed(value: object) -> object:
    """JSON text as its value; a text that is none stays what it is, and is refused by whoever reads the record."""
    try:
        return orjson.loads(value) if isinstance(value, str) else value
    except orjson.JSONDecodeError:
        return value


def _memory() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
