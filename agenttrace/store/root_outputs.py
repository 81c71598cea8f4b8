"""What traces answered: the output of their roots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb

from agenttrace.steps import JSON
from agenttrace.store.reading import expand_rows

OUTPUTS = """
SELECT trace_id, output FROM spans
WHERE parent_id IS NULL AND trace_id IN (SELECT unnest($ids))
ORDER BY start_ns DESC
"""


def read_root_outputs(connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[str]) -> Mapping[str, JSON]:
    """By trace; one that is not stored, or whose output was not recorded, is not among them."""
    rows = [
        {"trace_id": trace_id, "output": output}
        for trace_id, output in connection.execute(OUTPUTS, {"ids": list(trace_ids)}).fetchall()
        if output is not None
    ]
    expand_rows(connection, rows)
    return {row["trace_id"]: row["output"] for row in rows}
