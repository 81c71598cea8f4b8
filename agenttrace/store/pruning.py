"""Makes a store smaller: leaves traces out of it, and writes what is left into a new file."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass

import duckdb

from agenttrace.store.blobs import drop_unnamed
from agenttrace.store.database import WAIT_S, connect, locked_database, merge_lock
from agenttrace.store.filters import TraceFilter
from agenttrace.store.journal import SUFFIX
from agenttrace.store.layout import Layout, store_path
from agenttrace.store.merge import merge
from agenttrace.store.migrations import copy_database
from agenttrace.store.row_counts import add_rows, rows_there

OF_TRACES = ("spans", "span_starts", "phases", "attempts", "results", "exports")
"""Tables whose rows belong to a trace."""

CHOOSE = """
CREATE TEMP TABLE leaving AS
WITH steps AS (FROM spans UNION ALL BY NAME (FROM span_starts SELECT * EXCLUDE (metadata, input))),
traces AS (
    SELECT
        trace_id,
        min_by(run_id, start_ns) AS run_id,
        min_by(session, start_ns) AS session,
        max(coalesce(end_ns, start_ns)) AS last_ns,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        count(*) AS rows
    FROM steps
    GROUP BY trace_id
),
aged AS (SELECT *, sum(rows) OVER (ORDER BY start_ns DESC, trace_id) AS rows_since FROM traces)
SELECT trace_id, run_id FROM aged
WHERE (run_id IS NULL OR run_id NOT IN (SELECT unnest($kept)))
    AND ((last_ns < $before_ns AND <condition>) OR rows_since > $keep_share * (SELECT sum(rows) FROM traces))
"""

FORGET = """
CREATE TEMP TABLE used AS
WITH RECURSIVE
named AS (
    SELECT DISTINCT unnest(regexp_extract_all(words, '"([0-9a-f]{32})"', 1)) AS hash
    FROM (
        SELECT concat(settings, metadata, input, output, events) AS words FROM spans
        UNION ALL SELECT concat(metadata, input) FROM span_starts
        UNION ALL SELECT settings::VARCHAR FROM results
    )
),
chain AS (
    FROM named
    UNION
    SELECT links.prefix FROM links JOIN chain USING (hash) WHERE links.prefix IS NOT NULL
)
FROM chain UNION SELECT item FROM links SEMI JOIN chain USING (hash);
DELETE FROM links WHERE hash NOT IN (FROM used);
DELETE FROM contents WHERE hash NOT IN (FROM used);
"""
"""Takes out the texts that nothing refers to any more: what is referred to is a superset, every hash in quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    traces: int
    spans: int
    runs: int
    bytes_before: int
    bytes_after: int
    texts_kept: bool = False
    """Whether texts that only those traces had are still there, because a process is recording and may refer to them."""


def prune(
    path: str | os.PathLike[str] | None,
    *,
    before_ns: int | None = None,
    tag: str | None = None,
    max_bytes: int | None = None,
    keep_runs: Collection[str] = (),
    is_trial: bool = False,
) -> Pruned:
    """Take out the traces that ended before a time and carry a tag, and then the oldest ones above a size.

    Of what is None, nothing is asked. Runs in `keep_runs`, by their ids, stay whole. A run goes with its last trace; one without traces stays. A trial changes nothing.
    """
    layout = Layout(store_path(path))
    layout.require()
    if max_bytes is not None and layout.database_bytes() > max_bytes and not is_trial:
        compact(path)  # what is free inside the file is no reason to take out a trace
    with locked_database(layout) as connection:
        merge(layout, connection)
        size = layout.database_bytes()
        where = TraceFilter(tag=tag)
        share = 1.0 if max_bytes is None else min(1.0, max_bytes / max(1, size))
        by_age_or_tag = before_ns is not None or tag is not None
        latest = 1 << 62 if before_ns is None else before_ns
        connection.execute("BEGIN")
        connection.execute(
            CHOOSE.replace("<condition>", where.condition()),
            {
                "before_ns": latest if by_age_or_tag else 0,
                "keep_share": share,
                "kept": list(keep_runs),
                **where.parameters(),
            },
        )
        before = rows_there(connection)
        numbers = _delete(connection)
        texts_kept = _forget_texts(layout, connection) if numbers["traces"] and not is_trial else False
        for table, rows in rows_there(connection).items():
            add_rows(connection, table, rows - before[table])
        connection.execute("ROLLBACK" if is_trial else "COMMIT")
        if numbers["traces"] and not is_trial and not texts_kept:
            drop_unnamed(layout, connection)
    if numbers["traces"] and not is_trial:
        compact(path)
    return Pruned(**numbers, bytes_before=size, bytes_after=layout.database_bytes(), texts_kept=texts_kept)


def _delete(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    counts = {
        "traces": "SELECT count(*) FROM leaving",
        "spans": "SELECT count(*) FROM spans SEMI JOIN leaving USING (trace_id)",
    }
    numbers = {name: int((connection.execute(query).fetchone() or (0,))[0]) for name, query in counts.items()}
    for table in OF_TRACES:
        connection.execute(f"DELETE FROM {table} WHERE trace_id IN (SELECT trace_id FROM leaving)")
    emptied = """
        run_id IN (SELECT run_id FROM leaving)
        AND run_id NOT IN (SELECT run_id FROM spans UNION ALL SELECT run_id FROM span_starts UNION ALL SELECT run_id FROM results)
    """
    numbers["runs"] = int((connection.execute(f"SELECT count(*) FROM runs WHERE {emptied}").fetchone() or (0,))[0])
    connection.execute(f"DELETE FROM runs WHERE {emptied}")
    return numbers


def _forget_texts(layout: Layout, connection: duckdb.DuckDBPyConnection) -> bool:
    """Take out unused texts, unless a process is recording. A process that begins to from now on writes its texts anew."""
    layout.pruned.touch()
    if any(layout.journal.glob(f"*{SUFFIX}")):
        return True
    connection.execute(FORGET)
    return False


def compact(path: str | os.PathLike[str] | None) -> tuple[int, int]:
    """Write the database into a new file, which takes the old one's place: DuckDB uses freed space again, and keeps it.

    Returns the bytes before and after.
    """
    layout = Layout(store_path(path))
    layout.require()
    new = layout.folder / ".compacting.duckdb"
    with merge_lock(layout):
        with closing(connect(layout, time.monotonic() + WAIT_S)) as connection:
            merge(layout, connection)
            before = layout.database_bytes()
            copy_database(connection, new)
        # Both are closed: no descriptor of ours can take a lock of DuckDB's away.
        with open(new, "rb") as file:
            os.fsync(file.fileno())
        os.replace(new, layout.database)
    return before, layout.database_bytes()
