"""Tables and views of a store as Arrow tables and as data frames, whose libraries are loaded here and nowhere else."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import duckdb

from agenttrace.errors import MissingExtra, QueryFailed

if TYPE_CHECKING:
    import pandas
    import pyarrow

RELATIONS = "SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views() WHERE NOT internal"


def arrow_table(connection: duckdb.DuckDBPyConnection, relation: str) -> pyarrow.Table:
    _require("pyarrow", "Reading the store as Arrow")
    return connection.sql(f'FROM "{_known(connection, relation)}"').to_arrow_table()


def data_frame(connection: duckdb.DuckDBPyConnection, relation: str) -> pandas.DataFrame:
    _require("pandas", "Reading the store as a data frame")
    return connection.execute(f'FROM "{_known(connection, relation)}"').df()


def _known(connection: duckdb.DuckDBPyConnection, relation: str) -> str:
    names = sorted(name for (name,) in connection.execute(RELATIONS).fetchall())
    if relation not in names:
        raise QueryFailed(f"There is no table or view '{relation}' in the store. There are: {', '.join(names)}.")
    return relation


def _require(library: str, purpose: str) -> None:
    try:
        import_module(library)
    except ImportError as error:
        raise MissingExtra("frames", purpose) from error
