"""Judges anew what runs answered: a suite's evaluators over stored outputs. The agent is not called, and its model neither.

Each run becomes a run of its own, `NAME-rescored`: results of its own with the traces, times and contract of the one that was
judged. Runs that only differ in how they were judged can then be compared.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from agenttrace import clock
from agenttrace.comparison.recorded_suite import (
    RESCORED_FROM,
    RecordedSuite,
    recorded_suite,
    rescored_from,
    suite_metadata,
)
from agenttrace.configuration import read_configuration
from agenttrace.errors import SuiteChanged, UsageError
from agenttrace.evaluation.attempt import judgement_of
from agenttrace.evaluation.cases import Case
from agenttrace.evaluation.runner import Watching, run_loop
from agenttrace.evaluation.score import Judgement
from agenttrace.evaluation.suite import Suite
from agenttrace.evaluation.summary import EvaluatedRun
from agenttrace.evaluation.trace import Trace
from agenttrace.evaluation.traces import TraceCollector
from agenttrace.langchain.tasks import attempt_context
from agenttrace.pricing import Prices
from agenttrace.recording import flush, record_run
from agenttrace.records import EVALUATION, RunRecord, SpanRecord
from agenttrace.store.journal import process_name
from agenttrace.store.reading import Store, open_store, read_traces
from agenttrace.store.results import ResultRecord, read_results

BATCH = 64
"""Traces that are held at a time."""

HAVE_OUTPUT = ("scored", "grader_error")
"""Outcomes of attempts that returned something; whatever else became of an attempt stays as it is."""

NOT_KEPT = "its output was not kept, so nobody can judge it"

WITHHELD = frozenset(("withheld", "cut"))
"""Keys of what stands where an output was not kept whole."""

SUFFIX = "-rescored"

SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A run that is judged anew."""

    run: RunRecord
    suite: RecordedSuite
    results: tuple[ResultRecord, ...]
    """Those of cases that the suite still has."""
    cases: Mapping[str, Case]


def rescore(
    suite: Suite,
    refs: Sequence[str],
    *,
    store: str | os.PathLike[str] | None = None,
    watching: Watching | None = None,
) -> tuple[EvaluatedRun, ...]:
    """Judge the stored outputs of runs by the suite's evaluators and expectations, and store that as runs.

    Evaluators are given the output as it was stored, as JSON: a message is an object with `role` and `content`.

    Raises:
        RunNotFound: a run is not there.
        UsageError: a run was made by no suite, or has no case of this one.
        SuiteChanged: a case has another input than the run was made with; nothing was judged.
    """
    opened = open_store(store)
    sources = [_source(suite, opened, ref, store) for ref in refs]
    if watching:
        watching.began(sum(len(source.results) for source in sources), 0)
    return tuple(_Rescoring(suite, source, opened, store, watching).run() for source in sources)


def _source(suite: Suite, opened: Store, ref: str, store: str | os.PathLike[str] | None) -> _Source:
    run = opened.run(ref)
    recorded = recorded_suite(run)
    if recorded is None:
        raise UsageError(
            f"The run {run.name} ({run.run_id[:8]}) was made by no suite, so it has no outputs of cases to judge. "
            "Name a run of 'agenttrace eval'."
        )
    cases = {case.id: case for case in suite.loaded_cases if case.id in recorded.cases}
    if not cases:
        raise UsageError(
            f"The run {run.name} ({run.run_id[:8]}) has no case of the suite {suite.name}. Name the suite that made it."
        )
    inputs = recorded.settings.get("data.cases")
    known = inputs if isinstance(inputs, Mapping) else {}
    edited = [name for name, case in cases.items() if known.get(name) != case.input_hash]
    if edited:
        more = f" and {len(edited) - SHOWN} more" if len(edited) > SHOWN else ""
        raise SuiteChanged(
            f"Cases have other inputs now than when {run.name} was made: {', '.join(edited[:SHOWN])}{more}. What was "
            "answered to another input cannot be judged; nothing was. Run the suite again."
        )
    results = tuple(result for result in read_results(store, run.run_id) if result.case in cases)
    return _Source(run=run, suite=recorded, results=results, cases=cases)


class _Rescoring:
    """One run while it is judged."""

    def __init__(
        self,
        suite: Suite,
        source: _Source,
        opened: Store,
        store: str | os.PathLike[str] | None,
        watching: Watching | None,
    ) -> None:
        self._suite, self._source, self._opened, self._store, self._watching = suite, source, opened, store, watching
        self._prices = Prices(read_configuration().prices)
        self._context = attempt_context()
        self._left_behind: list[asyncio.Task[Any]] = []
        plan = self._plan()
        told = {**suite_metadata(plan)[EVALUATION], RESCORED_FROM: rescored_from(source.run) or source.run.run_id}
        self._run = RunRecord(
            run_id=secrets.token_hex(8),
            name=f"{source.run.name.removesuffix(SUFFIX)}{SUFFIX}",
            start_ns=clock.wall_ns(),
            tags=source.run.tags,
            metadata={EVALUATION: told},
            process=process_name(),
        )
        self.result = EvaluatedRun(
            run_id=self._run.run_id, name=self._run.name, task=plan.task[0], planned=len(source.results)
        )

    def _plan(self) -> RecordedSuite:
        """The source's, with what judges now."""
        cases, suite = self._source.cases, self._suite
        settings = {
            **self._source.suite.settings,
            "data.cases": {name: case.input_hash for name, case in cases.items()},
            "data.expected": {name: case.expected_hash for name, case in cases.items()},
            "evaluator.code": {evaluator.name: evaluator.code for evaluator in suite.named_evaluators},
            "evaluator.judge": {evaluator.name: evaluator.judge for evaluator in suite.named_evaluators},
        }
        return replace(self._source.suite, cases=tuple(cases), settings=settings, shards=1)

    def run(self) -> EvaluatedRun:
        with ExitStack() as stack:
            recording = stack.enter_context(record_run(self._run, self._store))
            self._recording = recording
            self._context = attempt_context()  # in which the run is recorded
            run_loop(lambda: self._judge_all(stack))
            flush()
        made = sum(self.result.outcomes.values())
        if made < self.result.planned:
            self.result.missing = f"{self.result.planned - made} of {self.result.planned} attempts have no result"
        return self.result

    async def _judge_all(self, stack: ExitStack) -> None:
        self._collector = TraceCollector(asyncio.get_running_loop(), self._prices)
        stack.enter_context(self._recording.watched(self._collector))
        at_a_time = asyncio.Semaphore(self._suite.concurrency)
        for first in range(0, len(self._source.results), BATCH):
            some = self._source.results[first : first + BATCH]
            traces = self._traces(some)
            await asyncio.gather(*(self._judge_one(result, traces, at_a_time) for result in some))
        flush()
        self._count_judging()

    def _traces(self, results: Sequence[ResultRecord]) -> Mapping[str, tuple[SpanRecord, ...]]:
        with self._opened.connection() as connection:
            return read_traces(connection, [result.trace_id for result in results if result.trace_id])

    async def _judge_one(
        self, result: ResultRecord, traces: Mapping[str, tuple[SpanRecord, ...]], at_a_time: asyncio.Semaphore
    ) -> None:
        kept = {key: value for key, value in result.detail.items() if key == "tries"}
        spans = traces.get(result.trace_id or "", ())
        if result.outcome in HAVE_OUTPUT:
            async with at_a_time:
                judgement = await self._judgement(result, spans)
            result = replace(
                result,
                outcome="grader_error" if judgement.errors else "scored",
                scores=judgement.scores,
                detail={**kept, **judgement.told},
            )
        else:
            result = replace(result, scores={}, detail=kept)
        self._recording.add_result(result)
        self.result.add(result)
        self._count_judging()
        if self._watching:
            self._watching.moved(result, self.result.spending)

    async def _judgement(self, result: ResultRecord, spans: Sequence[SpanRecord]) -> Judgement:
        outputs = list(_outputs(spans))
        if not outputs:
            return Judgement(errors=dict.fromkeys((one.name for one in self._suite.named_evaluators), NOT_KEPT))
        trace = Trace(spans=tuple(span for span in spans if span.end_ns is not None), prices=self._prices)
        return await judgement_of(
            self._suite.named_evaluators,
            self._source.cases[result.case],
            result.repetition,
            outputs[0],
            trace,
            self._suite.timeout_s,
            self._left_behind,
            self._context,
        )

    def _count_judging(self) -> None:
        self.result.spending.add_judging(self._collector.judging())


def _outputs(spans: Sequence[SpanRecord]) -> Iterator[Any]:
    """What the root of the trace returned, where that was kept whole."""
    for span in spans:
        if span.parent_id is None and span.end_ns is not None:
            is_withheld = isinstance(span.output, Mapping) and WITHHELD & span.output.keys()
            if span.output is not None and not is_withheld:
                yield span.output
