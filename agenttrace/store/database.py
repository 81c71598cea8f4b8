"""The DuckDB file: opening it under the store's own lock, creating it, and what each failure means.

DuckDB's lock on its file is lost when any descriptor of that file is closed in the holding process, so nothing here (or
anywhere) opens the file but DuckDB itself; mergers keep each other out with a lock on a file of our own.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import portalocker

from agenttrace import clock
from agenttrace.errors import NewerSchema, NotAStore, StoreLocked, StoreUnwritable
from agenttrace.store.layout import Layout
from agenttrace.store.migrations import migrate
from agenttrace.store.row_counts import begin_counting, miscounted
from agenttrace.store.schema import SCHEMA, SCHEMA_VERSION, STORAGE_VERSION, VIEWS

WAIT_S = 15.0
"""How long to wait for another merger, or for another program that holds the database."""

RETRY_S = 0.05

DAMAGED_LOG = re.compile("Corrupt WAL|replaying WAL|WAL was created")
DISK = re.compile("No space left|Permission denied|Could not set lock")
"""What DuckDB says of a log that it cannot read, and of a disk that refuses, which is no fault of the log."""

log = logging.getLogger("agenttrace")

_told: set[Path] = set()
"""Stores of which this process has said that rows are missing."""


@contextmanager
def locked_database(
    layout: Layout, *, wait_s: float = WAIT_S, confined_to_bytes: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Hold the merge lock and a connection that may write. Creates the database in an existing store folder.

    With `confined_to_bytes` of memory the connection is for a stranger's query: it reads this database and nothing else.
    """
    deadline = time.monotonic() + wait_s
    with merge_lock(layout, wait_s=wait_s):
        connection = connect(layout, deadline, confined_to_bytes)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def merge_lock(layout: Layout, *, wait_s: float = WAIT_S) -> Iterator[None]:
    """Keep out every other process that would merge into this store, or exchange its database."""
    try:
        lock = portalocker.Lock(layout.merge_lock, mode="ab", timeout=wait_s, check_interval=RETRY_S)
        lock.acquire()
    except portalocker.LockException as error:
        raise StoreLocked(
            f"Another agenttrace command has been using {layout.folder} for over {wait_s:.0f} s. "
            "Wait for it to end and try again; nothing is lost meanwhile."
        ) from error
    except OSError as error:
        raise StoreUnwritable(
            f"The store {layout.folder} cannot be written: {error.strerror}. Make the folder writable, or copy it."
        ) from error
    try:
        yield
    finally:
        lock.release()


def connect(layout: Layout, deadline: float, confined_to_bytes: int | None = None) -> duckdb.DuckDBPyConnection:
    """The database, for whoever holds the merge lock; waits for another program's until `deadline` (monotonic)."""
    while True:
        try:
            return _open(layout, confined_to_bytes)
        except duckdb.Error as error:
            text = str(error)
            if DAMAGED_LOG.search(text) and not DISK.search(text) and layout.log.exists():
                _set_aside(layout)
                continue
            if "Could not set lock on file" not in text:
                raise _unreadable(layout, text) from error
            if time.monotonic() >= deadline:
                holder = re.search(r"PID (\d+)", text)
                raise StoreLocked(
                    f"{layout.database} is open in another program{f' (process {holder[1]})' if holder else ''}. "
                    "Close it there and try again; recording goes on meanwhile and nothing is lost."
                ) from error
        time.sleep(RETRY_S)  # there is nothing to wait on: the lock is another program's


def _set_aside(layout: Layout) -> None:
    """Move a write-ahead log that cannot be read out of the way, and keep it.

    A segment of a journal is removed only when what it held is in the database proper and no log is left, and the ledger
    is written with the rows: so what is lost with a log is merged again.
    """
    damaged = layout.log.with_name(f"{layout.log.name}.damaged-{clock.wall_ns()}")
    layout.log.rename(damaged)
    log.warning("agenttrace set a damaged log of the database aside (%s) and merges the journals again.", damaged.name)


def _open(layout: Layout, confined_to_bytes: int | None) -> duckdb.DuckDBPyConnection:
    config: dict[str, Any] = {
        "storage_compatibility_version": STORAGE_VERSION,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    if confined_to_bytes is not None:
        config |= {
            "enable_external_access": False,
            "python_enable_replacements": False,  # or a query could name a variable of ours
            "memory_limit": f"{confined_to_bytes}B",
            "max_temp_directory_size": f"{4 * confined_to_bytes}B",
            "lock_configuration": True,
        }
    connection = duckdb.connect(str(layout.database), config=config, read_only=confined_to_bytes is not None)
    try:
        _require_schema(connection, layout)
    except BaseException:
        connection.close()
        raise
    return connection


def _require_schema(connection: duckdb.DuckDBPyConnection, layout: Layout) -> None:
    try:
        row = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    except duckdb.CatalogException as error:
        if not connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            _create(connection)
            return
        raise NotAStore(
            f"{layout.database} is a database of something else. Name the folder that agenttrace recorded into."
        ) from error
    version = row[0] if row and row[0] is not None else 0
    if version > SCHEMA_VERSION:
        raise NewerSchema(
            f"{layout.folder} was written by a newer agenttrace (schema {version}, this one knows {SCHEMA_VERSION}). "
            "Upgrade agenttrace to read it; nothing was changed."
        )
    if version < SCHEMA_VERSION:
        migrate(connection, layout.database, version, _product())
    wrong = {} if layout.folder in _told else miscounted(connection)
    if wrong:
        _told.add(layout.folder)
        log.warning(
            "agenttrace: the database does not hold what was merged into it (%s). 'agenttrace doctor' says more.",
            ", ".join(f"{table} {rows:+}" for table, rows in wrong.items()),
        )


def _product() -> str:
    from importlib.metadata import version

    return version("agenttrace-lab")


def _create(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("BEGIN")
    connection.execute(SCHEMA)
    connection.execute(VIEWS)
    begin_counting(connection)
    connection.execute("INSERT INTO schema_version VALUES (?, ?)", [SCHEMA_VERSION, _product()])
    connection.execute("COMMIT")


def _unreadable(layout: Layout, text: str) -> NotAStore | StoreUnwritable | NewerSchema:
    first_line = text.splitlines()[0]
    if "Permission denied" in text or "read-only" in text.lower():
        return StoreUnwritable(
            f"{layout.database} cannot be written: {first_line} Make the folder writable, or copy it."
        )
    if "version number" in text:
        return NewerSchema(
            f"{layout.database} was written by a newer DuckDB than the one installed here. "
            "Upgrade duckdb to read it; nothing was changed."
        )
    return NotAStore(
        f"{layout.database} cannot be read as a database: {first_line} "
        "Move the file away and keep it; what is still in the journal is merged into a new one."
    )
