"""Takes records that others send into the journal, so that what is acknowledged is on disk, and merges it from time to time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress

import duckdb

from agenttrace.errors import AgentTraceError
from agenttrace.records import RunRecord, SpanRecord
from agenttrace.store.content import ContentWriter
from agenttrace.store.database import locked_database
from agenttrace.store.journal import Journal, process_name
from agenttrace.store.layout import Layout, store_path
from agenttrace.store.merge import RECEIVED, merge
from agenttrace.store.rows import Row, row_line, run_row, span_row

KNOWN_RUNS = 10_000


class Intake:
    """One store's door for records from elsewhere. Any thread may call; what `add` returned from is written."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.layout = Layout(store_path(path))
        self.layout.create()
        self.spans = 0
        self._lock = threading.Lock()
        self._rows: list[Row] = []
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._journal = Journal(self.layout.journal, f"{RECEIVED}{process_name()}")
        self._content = ContentWriter(self._rows.append)
        self._runs: dict[str, int] = {}

    def add(self, runs: Iterable[RunRecord], spans: Sequence[SpanRecord]) -> None:
        """Write records. Raises `OSError` where the disk refuses: then nothing of them is there."""
        with self._lock:
            if self._journal.is_gone():
                self.layout.create()
                self._forget()
            self._rows.clear()
            for run in runs:
                if self._runs.get(run.run_id, 0) < (run.end_ns or 0):
                    self._rows.append(run_row(run))
            for span in spans:
                self._rows.append(span_row(span, self._content))
            lines = [row_line(row) for row in self._rows]
            try:
                self._journal.append(lines)
            except OSError:
                self._forget()
                raise
            self._runs.update({run.run_id: run.end_ns or 0 for run in runs})
            while len(self._runs) > KNOWN_RUNS:
                del self._runs[next(iter(self._runs))]
            self.spans += len(spans)

    def _forget(self) -> None:
        """Refer to nothing that the last segment held: it may not be on disk."""
        self._journal.seal()
        self._rows.clear()
        self._start_afresh()

    def merge(self) -> None:
        """Bring what the journals hold into the database; another time, where somebody else is at it."""
        with self._lock:
            self._journal.seal_if_due()
        with suppress(AgentTraceError, duckdb.Error, OSError), locked_database(self.layout) as connection:
            merge(self.layout, connection)

    def close(self) -> None:
        with self._lock:
            self._journal.seal()
        self.merge()
