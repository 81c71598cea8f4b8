"""Questions in SQL from outside: the database is open for reading alone, and reaches no file and no network."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb

from agenttrace.errors import QueryFailed, QueryStopped
from agenttrace.store.database import locked_database
from agenttrace.store.layout import Layout, store_path
from agenttrace.store.merge import merge

ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a query gives. `rows` may be read once, while the store is open."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """DuckDB's names, like `BIGINT` and `JSON`."""
    rows: Iterator[Sequence[Any]]


@contextmanager
def ask(path: str | os.PathLike[str] | None, query: str, *, timeout_s: float, memory_bytes: int) -> Iterator[Answer]:
    """Run one statement on all that is recorded by now.

    Raises:
        QueryFailed: DuckDB does not understand it, or it is about more than reading this store.
        QueryStopped: it took longer than `timeout_s`, or more than `memory_bytes`.
    """
    layout = Layout(store_path(path))
    layout.require()
    with locked_database(layout) as connection:
        merge(layout, connection)
    with locked_database(layout, confined_to_bytes=memory_bytes) as connection, _timer(connection, timeout_s):
        try:
            yield _answer(connection, query)
        except duckdb.InterruptException as error:
            raise QueryStopped(
                f"The query was stopped after {timeout_s:g} s. Ask for less, or give it longer with --timeout."
            ) from error
        except duckdb.OutOfMemoryException as error:
            raise QueryStopped(
                f"The query needs more than {memory_bytes / 1e9:g} GB of memory. "
                "Ask for less, or give it more with --memory."
            ) from error
        except (duckdb.Error, RuntimeError) as error:  # a text without UTF-8 form is DuckDB 1.5's RuntimeError
            raise QueryFailed(f"{_reason(error)} The tables and views are in docs/schema.md.") from error


@contextmanager
def _timer(connection: duckdb.DuckDBPyConnection, timeout_s: float) -> Iterator[None]:
    timer = threading.Timer(timeout_s, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it must not interrupt a closed connection


def _answer(connection: duckdb.DuckDBPyConnection, query: str) -> Answer:
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise QueryFailed(f"The query holds {len(statements)} statements. Give one.")
    cursor = connection.execute(statements[0])
    columns = [(str(name), str(kind)) for name, kind, *_ in cursor.description or ()]
    return Answer(
        columns=tuple(name for name, _ in columns), types=tuple(kind for _, kind in columns), rows=_rows(cursor)
    )


def _rows(cursor: duckdb.DuckDBPyConnection) -> Iterator[Sequence[Any]]:
    while rows := cursor.fetchmany(ROWS_AT_ONCE):
        yield from rows


def _reason(error: Exception) -> str:
    """What DuckDB says, without its advice to install something and its drawing of the place."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".!") + "." if lines else "The query failed."
