"""Brings the database of an older release to this one's schema: backed up first, and then whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb

from agenttrace.store.row_counts import begin_counting
from agenttrace.store.schema import SCHEMA, SCHEMA_VERSION, STORAGE_VERSION, VIEWS

Migration = Callable[[duckdb.DuckDBPyConnection], None]


def migrate(connection: duckdb.DuckDBPyConnection, database: Path, version: int, written_by: str) -> None:
    """Take every step from `version` to `SCHEMA_VERSION`, each in a transaction with its record.

    Killed at any moment, it leaves the schema before a step or after it. The backup beside the database is the old file's
    content, as `traces.before-schema-N.duckdb`.
    """
    _back_up(connection, database, version)
    for number in range(version + 1, SCHEMA_VERSION + 1):
        connection.execute("BEGIN")
        try:
            MIGRATIONS[number](connection)
            connection.execute("INSERT INTO schema_version VALUES (?, ?)", [number, written_by])
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("CHECKPOINT")


def _back_up(connection: duckdb.DuckDBPyConnection, database: Path, version: int) -> None:
    """Copy through DuckDB: whoever opens the file besides it takes its lock away."""
    backup = database.with_name(f"{database.stem}.before-schema-{version}.duckdb")
    if backup.exists():  # of a migration that was killed: what it holds is what is here
        return
    unfinished = backup.with_suffix(".part")
    copy_database(connection, unfinished)
    unfinished.rename(backup)


def copy_database(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Write all that a database holds into a new file, in the format of a store's."""
    path.unlink(missing_ok=True)
    row = connection.execute("SELECT current_database()").fetchone()
    assert row is not None
    quoted = str(path).replace("'", "''")
    connection.execute(f"ATTACH '{quoted}' AS copied (STORAGE_VERSION '{STORAGE_VERSION}')")
    try:
        connection.execute(f'COPY FROM DATABASE "{row[0]}" TO copied')
        connection.execute("CHECKPOINT copied")
    finally:
        connection.execute("DETACH copied")


def _to_2(connection: duckdb.DuckDBPyConnection) -> None:
    """Columns and tables that came between the first builds and the first release; what was not recorded is NULL."""
    _add_what_is_missing(connection)


def _to_3(connection: duckdb.DuckDBPyConnection) -> None:
    """Counts begin with what is there; texts that lie in the database already stay there."""
    _add_what_is_missing(connection)
    begin_counting(connection)


MIGRATIONS: Mapping[int, Migration] = {2: _to_2, 3: _to_3}
"""Version to what leads to it from the one before."""


def _add_what_is_missing(connection: duckdb.DuckDBPyConnection) -> None:
    with duckdb.connect() as fresh:
        fresh.execute(SCHEMA)
        wanted = _columns(fresh)
        tables: dict[str, str] = dict(fresh.execute("SELECT table_name, sql FROM duckdb_tables()").fetchall())
    present = _columns(connection)
    for table, columns in wanted.items():
        if table not in present:
            connection.execute(tables[table])
            continue
        for column, kind in columns.items():
            if column not in present[table]:
                connection.execute(f'ALTER TABLE {table} ADD COLUMN "{column}" {kind}')
    connection.execute(VIEWS)


def _columns(connection: duckdb.DuckDBPyConnection) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    query = (
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE database_name = current_database() AND table_name IN (SELECT table_name FROM duckdb_tables()) "
        "ORDER BY column_index"
    )
    for table, column, kind in connection.execute(query).fetchall():
        found.setdefault(table, {})[column] = kind
    return found
