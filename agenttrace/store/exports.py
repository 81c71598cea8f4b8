"""What endpoints have confirmed: so that sending can go on where it stopped, whoever sent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from agenttrace.records import ExportRecord
from agenttrace.store.database import locked_database
from agenttrace.store.importing import write_segment
from agenttrace.store.layout import Layout, store_path
from agenttrace.store.merge import merge
from agenttrace.store.rows import export_row

UNCONFIRMED = """
SELECT trace_id, list(span_id) AS span_ids
FROM spans ANTI JOIN (
    SELECT trace_id, unnest(span_ids) AS span_id
    FROM exports
    WHERE destination = $destination
) USING (trace_id, span_id)
GROUP BY trace_id
ORDER BY min(start_ns), trace_id
"""


def unconfirmed(path: str | os.PathLike[str] | None, destination: str) -> Mapping[str, frozenset[str]]:
    """By trace, oldest first, the finished steps that a destination has not confirmed."""
    layout = Layout(store_path(path))
    layout.require()
    with locked_database(layout) as connection:
        merge(layout, connection)
        rows = connection.execute(UNCONFIRMED, {"destination": destination}).fetchall()
    return {trace_id: frozenset(span_ids) for trace_id, span_ids in rows}


def confirm(path: str | os.PathLike[str] | None, exports: Iterable[ExportRecord]) -> None:
    """Note what a destination has confirmed. It is in the database when the store is next read."""
    rows = [export_row(export) for export in exports]
    if rows:
        write_segment(Layout(store_path(path)), rows)
