"""Answers about what is stored. Opening a store merges what its journals hold, so an answer is never behind the agents."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import duckdb
import orjson

from agenttrace.comparison.recorded_suite import recorded_suite
from agenttrace.errors import RunNotFound, TraceNotFound
from agenttrace.records import CaptureCounters, RunRecord, SpanRecord, TraceSummary, Usage
from agenttrace.steps import JSON
from agenttrace.store.blobs import blobs_with, read_blobs
from agenttrace.store.content import expand, references
from agenttrace.store.database import locked_database
from agenttrace.store.filters import EVERYTHING, TraceFilter
from agenttrace.store.frames import arrow_table, data_frame
from agenttrace.store.layout import Layout, store_path
from agenttrace.store.merge import merge
from agenttrace.store.rows import Row, run_from_row, span_from_row, unfinished_from_row

if TYPE_CHECKING:
    import pandas
    import pyarrow

JSON_COLUMNS = ("settings", "metadata", "input", "output", "events", "server_parts", "server_report", "tags", "headers",
                "policy")  # fmt: skip

RESUMPTIONS = """
SELECT later.trace_id AS resumed_in, earlier.trace_id
FROM spans AS later JOIN spans AS earlier ON earlier.paused_at = later.resumed_from
WHERE later.trace_id != earlier.trace_id
"""
"""Which trace goes on from where another one had paused."""

LIST_TRACES = """
WITH resumptions AS (<resumptions>),
candidates AS (<candidates>),
roots AS (
    SELECT trace_id, span_id, run_id, name, state, start_ns, end_ns, parent_id, session, "user" FROM spans
    WHERE trace_id IN (FROM candidates)
    UNION ALL
    SELECT trace_id, span_id, run_id, name, 'unfinished', start_ns, NULL, parent_id, session, "user" FROM span_starts
    WHERE trace_id IN (FROM candidates)
        AND span_id NOT IN (SELECT span_id FROM spans WHERE trace_id IN (FROM candidates))
),
traces AS (
    SELECT
        trace_id,
        min_by(run_id, (parent_id IS NOT NULL, start_ns)) AS run_id,
        min_by(name, (parent_id IS NOT NULL, start_ns)) AS name,
        min_by(state, (parent_id IS NOT NULL, start_ns)) AS state,
        min_by(span_id, (parent_id IS NOT NULL, start_ns)) AS root_id,
        -- Of the first step that has one: where only steps below are told, theirs.
        min_by(session, (parent_id IS NOT NULL, start_ns)) AS session,
        min_by("user", (parent_id IS NOT NULL, start_ns)) AS "user",
        min(start_ns) AS start_ns,
        CASE WHEN count(*) = count(end_ns) THEN max(end_ns) END AS end_ns,
        count(*) AS spans
    FROM roots
    GROUP BY trace_id
),
listed AS (
    SELECT *, row_number() OVER (ORDER BY <order>, trace_id) AS place
    FROM traces
    WHERE <condition>
    ORDER BY place
    LIMIT $limit OFFSET $offset
)
SELECT
    listed.*,
    runs.name AS run,
    sum(input_tokens) AS input,
    sum(output_tokens) AS output,
    sum(cached_tokens) AS cached,
    sum(cache_written_tokens) AS cache_written,
    sum(reasoning_tokens) AS reasoning,
    sum(total_tokens) AS total,
    any_value(paused.trace_id) AS resumes
FROM listed
LEFT JOIN runs USING (run_id)
LEFT JOIN resumptions AS paused ON paused.resumed_in = listed.trace_id
LEFT JOIN spans ON spans.trace_id = listed.trace_id AND spans.kind = 'model'
GROUP BY ALL
ORDER BY place
""".replace("<resumptions>", RESUMPTIONS)

ALL = 1 << 62
"""A limit that limits nothing."""

EVERY_TRACE = "SELECT trace_id FROM spans UNION SELECT trace_id FROM span_starts"

NEWEST_TRACES = """
    SELECT trace_id
    FROM (SELECT trace_id, start_ns FROM spans UNION ALL SELECT trace_id, start_ns FROM span_starts)
    GROUP BY trace_id
    ORDER BY min(start_ns) DESC, trace_id
    LIMIT $limit + $offset
"""

# Some more than are asked for: one with a step that has not ended is not counted as slow when all is known of it.
SLOWEST_TRACES = """
    SELECT trace_id
    FROM spans
    GROUP BY trace_id
    ORDER BY max(end_ns) - min(start_ns) DESC, trace_id
    LIMIT $limit + $offset + 100
"""

Order: TypeAlias = Literal["newest", "slowest"]

ORDERS: Mapping[Order, str] = {
    "newest": "start_ns DESC",
    "slowest": "end_ns - start_ns DESC NULLS LAST",
}
CANDIDATES: Mapping[Order, str] = {"newest": NEWEST_TRACES, "slowest": SLOWEST_TRACES}
"""The traces that may be listed where nothing narrows them: only these are looked at."""


def open_store(path: str | os.PathLike[str] | None = None) -> Store:
    """Open the store at `path` (default `$AGENTTRACE_STORE`, else `./.agenttrace`) for reading.

    Raises:
        StoreNotFound: nothing is there; nothing is created.
        NotAStore: something else is there.
    """
    layout = Layout(store_path(path))
    layout.require()
    return Store(layout)


class Store:
    """Runs, traces and spans of one store. Each answer opens the database and closes it again, so no one is kept out."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held open between answers."""

    def runs(self, limit: int | None = None, *, offset: int = 0) -> tuple[RunRecord, ...]:
        """Newest first."""
        query = "SELECT * FROM runs ORDER BY start_ns DESC, run_id LIMIT $limit OFFSET $offset"
        with self._connection() as connection:
            rows = _rows(connection, query, limit=limit or ALL, offset=offset)
        return tuple(run_from_row(row) for row in rows)

    def run(self, ref: str) -> RunRecord:
        """A run by id, by the beginning of one, or by name (then the latest). `RunNotFound` lists what there is."""
        with self._connection() as connection:
            return find_run(connection, ref)

    def traces(
        self,
        limit: int | None = None,
        *,
        offset: int = 0,
        where: TraceFilter = EVERYTHING,
        order: Order = "newest",
    ) -> tuple[TraceSummary, ...]:
        """In order, with the tokens of their model calls; a count that no call reported is None."""
        candidates = where.candidates() or (EVERY_TRACE if any(where.given()) else CANDIDATES[order])
        query = LIST_TRACES.replace("<condition>", where.condition()).replace("<candidates>", candidates)
        query = query.replace("<order>", ORDERS[order])
        with self._connection() as connection:
            given = where.parameters()
            if where.text is not None:
                given["large_texts"] = list(blobs_with(self._layout, connection, str(given["text"])))
            rows = _rows(connection, query, limit=limit or ALL, offset=offset, **given)
            roots = _roots(connection, [row["root_id"] for row in rows])
        usage = tuple(Usage.__dataclass_fields__)
        return tuple(
            TraceSummary(
                **{key: row[key] for key in ("trace_id", "run_id", "name", "state", "start_ns", "end_ns", "spans")},
                run=row["run"] or row["run_id"],
                resumes=row["resumes"],
                session=row["session"],
                user=row["user"],
                tags=tuple(roots[row["root_id"]]["tags"] or ()),
                metadata=roots[row["root_id"]]["metadata"] or {},
                usage=Usage(**{name: None if row[name] is None else int(row[name]) for name in usage}),
            )
            for row in rows
        )

    def trace(self, ref: str) -> tuple[SpanRecord, ...]:
        """The spans of a trace in start order, by its id, the beginning of one, or `last`."""
        with self._connection() as connection:
            return _spans(connection, "trace_id = $value", _trace_id(connection, ref))

    def resumes(self, trace_id: str) -> str | None:
        """The trace that this one goes on from, where a graph was interrupted and resumed; None if it is no such one."""
        with self._connection() as connection:
            query = f"SELECT trace_id FROM ({RESUMPTIONS}) WHERE resumed_in = $trace_id LIMIT 1"
            row = connection.execute(query, {"trace_id": trace_id}).fetchone()
        return None if row is None else str(row[0])

    def run_spans(self, run_id: str) -> tuple[SpanRecord, ...]:
        """All spans of a run in start order."""
        with self._connection() as connection:
            return _spans(connection, "run_id = $value", run_id)

    def counters(self) -> tuple[CaptureCounters, ...]:
        """What each process could not record."""
        with self._connection() as connection:
            rows = _rows(connection, "SELECT * EXCLUDE (at_ns) FROM counters ORDER BY at_ns")
        return tuple(CaptureCounters(**row) for row in rows)

    def damaged_lines(self) -> int:
        """Journal lines that could not be read."""
        with self._connection() as connection:
            row = connection.execute("SELECT coalesce(sum(damaged), 0) FROM segments").fetchone()
        return int(row[0]) if row else 0

    def arrow(self, relation: str) -> pyarrow.Table:
        """A table or view (docs/schema.md), such as `model_calls`, as an Arrow table; needs the extra `frames`."""
        with self._connection() as connection:
            return arrow_table(connection, relation)

    def dataframe(self, relation: str) -> pandas.DataFrame:
        """A table or view (docs/schema.md), such as `model_calls`, for pandas; needs the extra `frames`."""
        with self._connection() as connection:
            return data_frame(connection, relation)

    def connection(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """The open database, up to date: for answers that take several queries."""
        return self._connection()

    @contextmanager
    def _connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with locked_database(self._layout) as connection:
            merge(self._layout, connection)
            yield connection


def read_traces(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[str]
) -> Mapping[str, tuple[SpanRecord, ...]]:
    """The spans of some traces in start order, by trace; one that is not stored is not among them."""
    found: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in _spans(connection, "trace_id IN (SELECT unnest($value))", list(trace_ids)):
        found[span.trace_id].append(span)
    return {trace_id: tuple(spans) for trace_id, spans in found.items()}


def _spans(
    connection: duckdb.DuckDBPyConnection,
    condition: Literal["trace_id = $value", "run_id = $value", "trace_id IN (SELECT unnest($value))"],
    value: str | list[str],
) -> tuple[SpanRecord, ...]:
    finished = _rows(connection, f"SELECT * FROM spans WHERE {condition}", value=value)
    unfinished = _rows(
        connection,
        f"SELECT * FROM span_starts WHERE {condition} AND span_id NOT IN (SELECT span_id FROM spans WHERE {condition})",
        value=value,
    )
    expand_rows(connection, [*finished, *unfinished])
    keys = f"SELECT trace_id, span_id FROM spans WHERE {condition}"
    phases = _by_span(connection, f"SELECT * FROM phases WHERE (trace_id, span_id) IN ({keys})", value)
    attempts = _by_span(
        connection, f"SELECT * FROM attempts WHERE (trace_id, span_id) IN ({keys}) ORDER BY ordinal", value
    )
    spans = [span_from_row(row, phases[row["span_id"]], attempts[row["span_id"]]) for row in finished]
    spans += [unfinished_from_row(row) for row in unfinished]
    return tuple(sorted(spans, key=lambda span: (span.start_ns, span.parent_id is not None, span.span_id)))


LATEST_OF = """
SELECT *
FROM runs
WHERE end_ns IS NOT NULL AND run_id <> $other AND <condition>
ORDER BY metadata ->> '$.evaluation.suite.name' IS NOT DISTINCT FROM $suite DESC, start_ns DESC
LIMIT 1
"""

# A run's own tag is what its maker says; else what git said when it ended.
ON_BRANCH = """
coalesce(
    tags ->> '$.branch',
    metadata ->> '$.evaluation.settings."code.commit".branch',
    metadata ->> '$.provenance."code.commit".branch'
) = $value
"""

TAGGED = """
list_contains(json_keys(tags), $value)
OR list_contains(list_transform(json_keys(tags), lambda key: key || '=' || (tags ->> key)), $value)
"""

LATEST_BY = {"branch": ON_BRANCH, "tag": f"({TAGGED})"}
"""By how a reference begins, as in `branch:main` and `tag:KEY=VALUE`: which runs it may mean."""


def find_run(connection: duckdb.DuckDBPyConnection, ref: str, *, beside: RunRecord | None = None) -> RunRecord:
    """A run by id, by the beginning of one, or by name (then the latest); `branch:main` and `tag:KEY=VALUE` are the latest
    that has ended, other than `beside`, and of the same suite where there is one. `RunNotFound` lists what there is.
    """
    rows = _rows(
        connection,
        """
        SELECT * FROM runs WHERE run_id = $ref OR name = $ref OR starts_with(run_id, $ref)
        ORDER BY run_id = $ref DESC, name = $ref DESC, start_ns DESC
        """,
        ref=ref,
    )
    exact = [row for row in rows if ref in (row["run_id"], row["name"])]
    kind, colon, value = ref.partition(":")
    if not rows and colon and kind in LATEST_BY:
        rows = _latest(connection, kind, value, beside)
    if not exact and len(rows) != 1:
        names = connection.execute("SELECT DISTINCT name FROM runs ORDER BY name LIMIT 8").fetchall()
        raise RunNotFound(_not_found("run", ref, len(rows), [name for (name,) in names], "list --runs"))
    return run_from_row((exact or rows)[0])


def _latest(
    connection: duckdb.DuckDBPyConnection, kind: str, value: str, beside: RunRecord | None
) -> list[dict[str, Any]]:
    suite = recorded_suite(beside) if beside else None
    return _rows(
        connection,
        LATEST_OF.replace("<condition>", LATEST_BY[kind]),
        value=value,
        other=beside.run_id if beside else "",
        suite=suite.name if suite else None,
    )


def _rows(connection: duckdb.DuckDBPyConnection, query: str, **parameters: object) -> list[dict[str, Any]]:
    cursor = connection.execute(query, parameters)
    names = [column[0] for column in cursor.description or ()]
    rows = [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
    for row in rows:
        for name in JSON_COLUMNS:
            if isinstance(row.get(name), str):
                row[name] = orjson.loads(row[name])
    return rows


def _roots(connection: duckdb.DuckDBPyConnection, ids: Sequence[str]) -> Mapping[str, Row]:
    """Tags and metadata of these spans, by id."""
    rows = _rows(
        connection,
        """
        SELECT span_id, tags, metadata FROM span_starts WHERE span_id IN (SELECT unnest($ids))
        UNION ALL
        SELECT span_id, tags, metadata FROM spans WHERE span_id IN (SELECT unnest($ids))
        """,
        ids=ids,
    )
    expand_rows(connection, rows)
    return {row["span_id"]: row for row in rows}


def _by_span(connection: duckdb.DuckDBPyConnection, query: str, value: str | list[str]) -> Mapping[str, list[Row]]:
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in _rows(connection, query, value=value):
        grouped[row["span_id"]].append(row)
    return grouped


def expand_rows(connection: duckdb.DuckDBPyConnection, rows: Sequence[dict[str, Any]]) -> None:
    """Put content back in place of the references."""
    columns = ("input", "output", "metadata", "settings")
    wanted = {reference for row in rows for column in columns for reference in references(row.get(column))}
    chains = read_chains(connection, [digest for kind, digest in wanted if kind == "chain"])
    hashes = {digest for kind, digest in wanted if kind == "content"}.union(*chains.values())
    contents = read_contents(connection, list(hashes))
    for row in rows:
        for column in columns:
            if row.get(column) is not None:
                row[column] = expand(row[column], contents, chains)


def read_contents(connection: duckdb.DuckDBPyConnection, hashes: list[str]) -> dict[str, JSON]:
    """Bodies by hash. Found by their places first: a search by hash alone would unpack every body there is."""
    if not hashes:
        return {}
    places = connection.execute(
        "SELECT rowid FROM contents WHERE hash IN (SELECT unnest($hashes))", {"hashes": hashes}
    ).fetchall()
    bodies = connection.execute(
        "SELECT hash, body FROM contents WHERE rowid IN (SELECT unnest($places))",
        {"places": [place for (place,) in places]},
    ).fetchall()
    outside = [digest for digest, body in bodies if body is None]
    inside = {digest: orjson.loads(body) for digest, body in bodies if body is not None}
    return inside | read_blobs(connection, outside) if outside else inside


def read_chains(connection: duckdb.DuckDBPyConnection, last_links: list[str]) -> dict[str, list[str]]:
    """The items' hashes of each chain, by its last link."""
    links: dict[str, tuple[str | None, str]] = {
        digest: (prefix, item)
        for digest, prefix, item in connection.execute(
            """
            SELECT hash, prefix, item FROM links
            WHERE root IN (SELECT root FROM links WHERE hash IN (SELECT unnest($last)))
            """,
            {"last": last_links},
        ).fetchall()
    }
    chains = {}
    for last in last_links:
        items: list[str] = []
        link: str | None = last
        while link is not None and link in links:
            link, item = links[link]
            items.append(item)
        chains[last] = items[::-1]
    return chains


LATEST = re.compile(r"last(?:~(\d{1,9}))?")
"""The trace that began last; `last~1`: the one before it."""


def _trace_id(connection: duckdb.DuckDBPyConnection, ref: str) -> str:
    ref = ref.encode("utf-8", "replace").decode()
    if (latest := LATEST.fullmatch(ref)) is not None:
        rows = connection.execute(
            "SELECT trace_id FROM (FROM spans UNION ALL BY NAME FROM span_starts) "
            "GROUP BY trace_id ORDER BY min(start_ns) DESC LIMIT 1 OFFSET $before",
            {"before": int(latest[1] or 0)},
        ).fetchall()
        if not rows and not latest[1]:
            raise TraceNotFound(
                "The store holds no trace yet. Record one with 'agenttrace run your_script.py' and try again."
            )
        if not rows:
            raise TraceNotFound(
                f"There are not {int(latest[1]) + 1} traces in the store. 'agenttrace list' lists them."
            )
        return str(rows[0][0])
    rows = connection.execute(
        "SELECT DISTINCT trace_id FROM (SELECT trace_id FROM spans UNION ALL SELECT trace_id FROM span_starts) "
        "WHERE starts_with(trace_id, $ref) LIMIT 2",
        {"ref": ref.lower()},
    ).fetchall()
    if not ref or len(rows) != 1:
        raise TraceNotFound(_not_found("trace", ref, len(rows), [], "list"))
    return str(rows[0][0])


def _not_found(what: str, ref: str, found: int, names: Sequence[str], command: str) -> str:
    if found > 1:
        return f"More than one {what} begins with '{ref}'. Give more of its id: 'agenttrace {command}' lists them."
    known = f" There are: {', '.join(names)}." if names else ""
    return f"There is no {what} '{ref}' in the store.{known} 'agenttrace {command}' lists them."
