"""The writer thread: takes facts off the agent's hands, builds records from them, and appends them to the journal (D3, D5)."""

from __future__ import annotations

import logging
import multiprocessing.util
import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias

from agenttrace import clock
from agenttrace.errors import AgentTraceError
from agenttrace.policy import RecordingPolicy, quiet_ns
from agenttrace.records import CaptureCounters, ExportRecord, RunRecord, SpanRecord
from agenttrace.sampling import TraceSampler
from agenttrace.spans.content_policy import ContentFilter, ContentPolicy
from agenttrace.spans.record import of_run, span_record
from agenttrace.spans.redaction import scrub_lines, scrub_record
from agenttrace.steps import Step
from agenttrace.store.blobs import put_aside
from agenttrace.store.content import ContentWriter
from agenttrace.store.journal import Journal, process_name
from agenttrace.store.layout import Layout
from agenttrace.store.results import ResultRecord, result_row
from agenttrace.store.rows import Row, counters_row, export_row, row_line, run_row, span_row, start_row
from agenttrace.transport.observing import tap_faults

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

Item: TypeAlias = Callable[[], "Step | RunRecord | RunResult | ExportRecord | None"]

Watcher: TypeAlias = Callable[[SpanRecord], None]
"""Is told of every finished step, on the writer's thread, once it is in the journal. Returns at once and never raises."""


class Follower(Protocol):
    """Gets every finished step after the journal has it, off the agent's thread. Must not wait."""

    destination: str

    def take(self, spans: Sequence[SpanRecord]) -> None: ...
    def close(self) -> None: ...
    def start_afresh(self) -> None: ...


FLUSH_S = 0.02
"""How long the writer lets facts gather before it takes them: with building and writing, under 50 ms in all."""

LOOK_S = 0.5
"""How long the writer sleeps when nothing wakes it."""

MAX_QUEUE = 100_000
"""Facts waiting; more are dropped and counted. A fact holds references, so this bounds memory, not time."""

MAX_BATCH = 2_000

RECORDS = ("runs", "spans", "span_starts")
"""Tables whose rows are counted when they are lost; the others are parts of these."""

MAX_FILTERS = 64

log = logging.getLogger("agenttrace")


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of an attempt at a case, with the run it belongs to."""

    run_id: str
    result: ResultRecord


class Writer:
    """A `StepSink` that records into one store. `put` appends to a queue; one thread does the rest."""

    def __init__(
        self,
        layout: Layout,
        runs: Mapping[str, RunRecord],
        policies: Mapping[str, RecordingPolicy] = MappingProxyType({}),
    ) -> None:
        self._layout = layout
        self._runs = runs
        self._policies = policies  # by run id; a run that is not named keeps everything
        self._quiet_ns = quiet_ns()
        self._exporters: list[SpanExporter] = []
        self._watchers: list[Watcher] = []
        self._followers: list[Follower] = []
        self._survives_power_loss = False
        self._start_afresh()
        if hasattr(os, "register_at_fork"):
            self_reference = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _after_fork(self_reference()))
            # A worker of multiprocessing ends without exit handlers; its own finalizers are all that runs.
            multiprocessing.util.register_after_fork(self, _close_with_worker)

    @property
    def dropped(self) -> int:
        """Records that could not be kept."""
        return self._dropped

    def _start_afresh(self) -> None:
        self._starting = threading.Lock()
        self._process = process_name()
        self._queue: deque[Item] = deque()
        self._wake = threading.Event()
        self._idle = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._journal: Journal | None = None
        self._rows: list[Row] = []
        self._content = ContentWriter(self._rows.append)
        self._known_runs: set[str] = set()
        self._capture_errors = 0
        self._dropped = 0
        self._last_error: str | None = None
        self._counted: tuple[int, int] | None = None
        self._refused = False
        self._last_refusal: str | None = None
        self._taken = 0
        self._filters: OrderedDict[ContentPolicy, ContentFilter] = OrderedDict()
        self._sampler = TraceSampler()

    def put(self, fact: Item) -> None:
        if len(self._queue) >= MAX_QUEUE:
            self._dropped += 1
            return
        self._queue.append(fact)
        if self._thread is None:
            self._start_thread()
        if self._closing:
            self._finish()  # the process is at its end, and the writer's thread may be gone
        elif not self._wake.is_set():
            self._wake.set()

    def put_unnoticed(self, fact: Item) -> None:
        """Queue a fact and take no lock: the writer finds it when it next looks, within `LOOK_S`."""
        self._queue.append(fact)

    def knows(self, run_id: str) -> bool:
        """Whether this store has the run."""
        return run_id in self._known_runs

    def count_error(self, error: BaseException) -> None:
        """Count, and log the first one: an agent's log is not ours to fill."""
        self._capture_errors += 1
        try:
            self._last_error = f"{type(error).__name__}: {error}"[:500]
        except Exception:  # an exception may raise when it is asked for its text
            self._last_error = type(error).__name__
        if self._capture_errors == 1:
            log.warning("agenttrace could not record a step (%s). 'agenttrace doctor' counts them.", self._last_error)

    def add_exporter(self, exporter: SpanExporter) -> None:
        self._exporters.append(exporter)

    def add_watcher(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def remove_watcher(self, watcher: Watcher) -> None:
        self._watchers.remove(watcher)

    def add_follower(self, follower: Follower) -> None:
        """Let a follower have what is finished from now on; a second one to the same destination is not added."""
        if all(known.destination != follower.destination for known in self._followers):
            self._followers.append(follower)

    def survive_power_loss(self) -> None:
        """From now on, have the disk confirm what is written before it counts as written."""
        self._survives_power_loss = True
        if (journal := self._journal) is not None:
            journal.survives_power_loss = True

    def flush(self, timeout_s: float = 5.0) -> None:
        """Wait until all that was put before is written, at most `timeout_s`."""
        wanted = self._taken + len(self._queue)
        if self._thread is not None and self._thread.is_alive() and threading.current_thread() is not self._thread:
            with self._idle:
                self._idle.wait_for(lambda: self._taken >= wanted or not self._queue, timeout_s)

    def close(self) -> None:
        """Write what is left, say what was not recorded, and let go of the segment."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        self._finish()
        for follower in self._followers:
            follower.close()

    def _finish(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            while self._queue:
                self._write_batch()
            self._keep(list(self._sampler.rest()))
            if self._journal:
                self._journal.seal()

    def _start_thread(self) -> None:
        with self._starting:
            if self._thread is not None or self._closing:
                return
            thread = threading.Thread(target=self._work, name="agenttrace-writer", daemon=True)
            # The interpreter may be going down, and start no thread: then `close` writes what is queued.
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _work(self) -> None:
        gather = threading.Event()
        while not self._closing:
            self._wake.wait(LOOK_S)
            self._wake.clear()
            if not self._closing:
                gather.wait(FLUSH_S)
            while self._queue:
                self._write_batch()
            self._look()
            if self._journal:
                self._journal.seal_if_due()
            with self._idle:
                self._idle.notify_all()

    def _write_batch(self) -> None:
        if self._journal and self._journal.is_gone():
            self._forget()  # the store was deleted or moved: what follows goes into a new one
        # By index: garbage collection may queue a vanished step at any allocation, which ends an iteration with an error.
        facts = [self._queue[place] for place in range(min(len(self._queue), MAX_BATCH))]
        spans: list[SpanRecord] = []
        if self._is_refused() and not (self._exporters or self._followers or self._watchers):
            self._dropped += len(facts)  # not built either: a disk that refuses must not cost the agent
        else:
            for fact in facts:
                try:
                    self._add(fact(), spans)
                except Exception as error:
                    self.count_error(error)
            self._append()
            self._hand_on(spans)
        # Only now: whoever waits for the queue to be empty waits for the disk.
        for _ in facts:
            self._queue.popleft()
        self._taken += len(facts)

    def _add(self, item: Step | RunRecord | RunResult | ExportRecord | None, spans: list[SpanRecord]) -> None:
        if item is None:
            return
        if isinstance(item, ExportRecord):
            self._rows.append(export_row(item))
            return
        if isinstance(item, RunRecord):
            self._add_run(item)
            return
        if isinstance(item, RunResult):
            self._rows.append(result_row(item.run_id, item.result, self._content))
            return
        if item.run_id not in self._known_runs and item.run_id in self._runs:
            self._add_run(self._runs[item.run_id])
        policy = self._policies.get(item.run_id)
        if policy is None or policy.sample >= 1:
            self._add_step(item, policy, spans)
            return
        kept = self._sampler.admit(
            item, share=policy.sample, slow_ns=round(policy.slow_s * 1e9), now=clock.monotonic_ns()
        )
        for step in kept:
            self._add_step(step, policy, spans)

    def _add_run(self, run: RunRecord) -> None:
        self._known_runs.add(run.run_id)
        policy = self._policies.get(run.run_id)
        if policy is not None:
            left_out = self._sampler.left_out.get(run.run_id, 0)
            self._sampler.untold.discard(run.run_id)
            run = replace(run, policy=policy.described(), sampled_out=left_out if policy.sample < 1 else None)
            run = self._filter(policy.content).run(run)
        self._rows.append(run_row(run))

    def _add_step(self, step: Step, policy: RecordingPolicy | None, spans: list[SpanRecord]) -> None:
        span = span_record(step)
        if step.is_root and (run := self._runs.get(step.run_id)) is not None and _labels_traces(run):
            span = of_run(span, run)
        if policy is not None:
            span = self._filter(policy.content).span(span)
        if span.end_ns is None:
            self._rows.append(start_row(span, self._content))
            return
        self._rows.append(span_row(span, self._content))
        spans.append(span)

    def _filter(self, policy: ContentPolicy) -> ContentFilter:
        known = self._filters.get(policy)
        if known is None:
            known = self._filters[policy] = ContentFilter(policy, self.count_error)
            if len(self._filters) > MAX_FILTERS:
                self._filters.popitem(last=False)
        return known

    def _look(self) -> None:
        """What nobody tells: traces that time has decided, counts that are not on disk yet."""
        if len(self._sampler) or self._sampler.untold:
            now = clock.monotonic_ns()
            self._keep(self._sampler.look(wall=clock.wall_ns(), now=now, quiet_ns=self._quiet_ns))
        elif self._counts_are_behind():
            self._append()

    def _keep(self, steps: Sequence[Step]) -> None:
        spans: list[SpanRecord] = []
        for step in steps:
            try:
                self._add_step(step, self._policies.get(step.run_id), spans)
            except Exception as error:
                self.count_error(error)
        for run_id in list(self._sampler.untold):
            self._sampler.untold.discard(run_id)
            if run_id in self._runs:
                self._add_run(self._runs[run_id])
        if self._rows or self._counts_are_behind():
            self._append()
        self._hand_on(spans)

    def _hand_on(self, spans: list[SpanRecord]) -> None:
        for watcher in tuple(self._watchers):
            for span in spans:
                watcher(span)
        self._export(spans)

    def _append(self) -> None:
        counted = self._counts()
        rows = len(self._rows)
        if counted != self._counted:
            self._rows.append(counters_row(self._counters(), clock.wall_ns()))
        lost = sum(row["r"] in RECORDS for row in self._rows[:rows])
        lines = []
        for row in self._rows:
            try:
                lines.append(row_line(row))
            except TypeError as error:
                self.count_error(error)
        self._rows.clear()
        try:
            lines = scrub_lines(lines)
            if self._journal is None:
                self._layout.create()
                self._journal = Journal(
                    self._layout.journal, self._process, survives_power_loss=self._survives_power_loss
                )
            self._journal.append(put_aside(self._layout, lines, survives_power_loss=self._survives_power_loss))
            self._counted, self._refused = counted, False
        except (OSError, AgentTraceError) as error:
            self._lost(lost, error)

    def _counts(self) -> tuple[int, int]:
        return self._capture_errors + tap_faults()[0], self._dropped

    def _counts_are_behind(self) -> bool:
        """Whether something was lost that the store has not been told; a store that nothing was lost for waits for steps."""
        counts = self._counts()
        return counts != self._counted and counts != (0, 0)

    def _is_refused(self) -> bool:
        """Whether the disk still refuses, asked with the line that says what was lost so far."""
        if self._refused:
            self._append()
        return self._refused

    def _lost(self, records: int, error: Exception) -> None:
        is_first = self._last_refusal is None
        self._dropped += records
        self._last_error = self._last_refusal = str(error)
        self._refused = True
        self._forget()
        if is_first:
            log.warning("agenttrace cannot write to %s (%s). The agent goes on untraced.", self._layout.folder, error)

    def _forget(self) -> None:
        """Start a new segment, and refer to nothing that the last one held: it may not be on disk."""
        if self._journal:
            self._journal.seal()
        self._journal = None
        self._content = ContentWriter(self._rows.append)
        self._known_runs.clear()

    def _export(self, spans: list[SpanRecord]) -> None:
        if not spans or not (self._exporters or self._followers):
            return
        try:
            clean = [scrub_record(span) for span in spans]
            for follower in self._followers:
                follower.take(clean)
            if self._exporters:
                self._to_exporters(clean)
        except Exception as error:
            self.count_error(error)

    def _to_exporters(self, spans: Sequence[SpanRecord]) -> None:
        from opentelemetry.sdk.resources import Resource

        from agenttrace.spans.otel import readable_spans

        resource = Resource.create({"service.name": "agenttrace"})
        batch = [readable for span in spans for readable in readable_spans(span, resource)]
        for exporter in self._exporters:
            exporter.export(batch)

    def _counters(self) -> CaptureCounters:
        faults, last_fault = tap_faults()
        return CaptureCounters(
            process=self._process,
            capture_errors=self._capture_errors + faults,
            dropped=self._dropped,
            last_error=self._last_error or last_fault,
        )


def _labels_traces(run: RunRecord) -> bool:
    return bool(run.tags or run.metadata or run.session or run.user)


def _after_fork(writer: Writer | None) -> None:
    """A child starts with a segment of its own and without its parent's records."""
    if writer is not None:
        if writer._journal is not None:
            writer._journal.abandon()
        writer._start_afresh()
        for follower in writer._followers:
            follower.start_afresh()


def _close_with_worker(writer: Writer) -> None:
    multiprocessing.util.Finalize(writer, writer.close, exitpriority=0)
