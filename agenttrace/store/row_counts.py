"""How many rows each table should hold, kept with every merge: rows that vanish without an error are noticed."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from agenttrace.store.rows import NESTED, TABLES

COUNTED = (*TABLES, *NESTED)

_THERE = " UNION ALL ".join(f"SELECT '{table}' AS table_name, count(*) AS rows FROM {table}" for table in COUNTED)


def begin_counting(connection: duckdb.DuckDBPyConnection) -> None:
    """From what is there now on."""
    connection.execute(f"INSERT INTO row_counts {_THERE}")


def add_rows(connection: duckdb.DuckDBPyConnection, table: str, rows: int) -> None:
    """Note, in the transaction that did it, that so many rows came in; fewer than zero went."""
    if rows:
        connection.execute("UPDATE row_counts SET rows = rows + $rows WHERE table_name = $table",
                           {"rows": rows, "table": table})  # fmt: skip


def rows_there(connection: duckdb.DuckDBPyConnection) -> Mapping[str, int]:
    """How many rows each table has."""
    return dict(connection.execute(_THERE).fetchall())


def miscounted(connection: duckdb.DuckDBPyConnection) -> Mapping[str, int]:
    """By table, how many rows more are there than were merged (fewer: below zero). DuckDB knows its counts: this is cheap."""
    query = f"""
        SELECT there.table_name, there.rows - row_counts.rows
        FROM ({_THERE}) AS there JOIN row_counts USING (table_name)
        WHERE there.rows != row_counts.rows ORDER BY ALL
    """
    return dict(connection.execute(query).fetchall())
