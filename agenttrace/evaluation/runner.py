"""Runs suites: makes the attempts that are planned and not there yet, has them judged, and records both as a run.

Attempts of several tasks are interleaved, so that what a machine or a provider does in the meantime meets all alike.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agenttrace.comparison.recorded_suite import RecordedSuite, suite_metadata
from agenttrace.configuration import read_configuration
from agenttrace.errors import UsageError
from agenttrace.evaluation.attempt import Attempt, Attempter, judge
from agenttrace.evaluation.blocking import interrupt_blocking
from agenttrace.evaluation.budgets import Limits, Spending
from agenttrace.evaluation.cases import Case
from agenttrace.evaluation.loading import selected
from agenttrace.evaluation.resume import Begun, begin, held
from agenttrace.evaluation.suite import Suite
from agenttrace.evaluation.summary import EvaluatedRun
from agenttrace.evaluation.threads import DaemonThreads
from agenttrace.evaluation.traces import TraceCollector
from agenttrace.langchain.pacing import Pacing
from agenttrace.langchain.tasks import attempt_context
from agenttrace.pricing import Prices
from agenttrace.provenance import load_average, provenance
from agenttrace.recording import Recording, flush, record_run, tape_in_place, trace_of
from agenttrace.records import EVALUATION
from agenttrace.steps import JSON
from agenttrace.store.results import ResultRecord

WAIT_FOR_TRACE_S = 10.0
"""How long an attempt's steps may take into the journal; they take some 50 ms."""

WAIT_AFTER_FAILURE_S = 1.0
"""The same where nobody judges them: an attempt that did not let go has no end."""

JUDGED_AT_A_TIME = 4
"""For each attempt under way, so many may wait for their steps and be judged: this bounds memory."""

INTERRUPTED = "interrupted"
ASKED_TO_END = "asked to end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A task of the suite, and the name of the run that it becomes."""

    task: str
    run_name: str


class Watching(Protocol):
    """Who shows how far a run has come."""

    def began(self, planned: int, already_there: int) -> None:
        """Before the first attempt."""

    def moved(self, result: ResultRecord, spending: Spending) -> None:
        """An attempt has been made and judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a suite is run, where that is not the suite's own business."""

    store: str | os.PathLike[str] | None = None
    cases: Sequence[str] = ()
    """Ids, or `tag:NAME`; none: all."""
    repetitions: int | None = None
    """In place of the suite's."""
    shard: tuple[int, int] = (1, 1)
    """Which part of the cases, from 1, and of how many."""
    limits: Limits = field(default_factory=Limits)
    tags: Mapping[str, JSON] = field(default_factory=dict)
    is_new: bool = False
    """Begin a new run, even where one of this name was broken off."""
    seed: int = 0
    """Of the order in which tasks take turns."""
    watching: Watching | None = None
    record_replies: str | os.PathLike[str] | None = None
    """A folder that gets what models reply."""
    replay: str | os.PathLike[str] | None = None
    """The folder of a recording that replies in place of models."""


def run_suite(suite: Suite, arms: Sequence[Arm], options: RunOptions) -> tuple[EvaluatedRun, ...]:
    """Run the suite once for each arm, interleaved. Returns what each came to, also when stopped by Ctrl-C or a limit.

    Raises:
        SuiteChanged, RunUnderWay, InvalidCases, UsageError, NoRecording, RecordingDamaged: it cannot begin, or not go on; nothing was run.
    """
    cases = selected(suite.loaded_cases, options.cases)
    _require_shard(options.shard, cases)
    begun = [
        begin(*_plan(suite, arm, cases, options), store=options.store, tags=options.tags, is_new=options.is_new)
        for arm in arms
    ]
    running = _Running(suite, arms, begun, cases, options)
    with ExitStack() as stack:
        runs = [one.run.run_id for one in begun]
        tape = stack.enter_context(tape_in_place(options.record_replies, options.replay, runs=runs, everywhere=True))
        for one in begun:
            stack.enter_context(held(one, options.shard[0], options.store))
        if running.planned():
            stack.enter_context(suite.around())
        run_loop(running.run)
    if tape is not None:
        for result in running.results:
            result.tape, result.replay_misses = tape.told(), len(tape.misses)
    return tuple(running.results)


def _require_shard(shard: tuple[int, int], cases: Sequence[Case]) -> None:
    number, count = shard
    if not 1 <= number <= count:
        raise UsageError(f"There is no shard {number}/{count}. Give one from 1/{count} to {count}/{count}.")
    if count > len(cases):
        raise UsageError(
            f"{len(cases)} cases cannot be divided into {count} shards. Give as many shards as cases at most."
        )


def _plan(suite: Suite, arm: Arm, cases: Sequence[Case], options: RunOptions) -> tuple[RecordedSuite, str]:
    settings: dict[str, JSON] = {
        "data.cases": {case.id: case.input_hash for case in cases},
        "data.expected": {case.id: case.expected_hash for case in cases},
        "evaluator.code": {evaluator.name: evaluator.code for evaluator in suite.named_evaluators},
        "evaluator.judge": {evaluator.name: evaluator.judge for evaluator in suite.named_evaluators},
        **provenance(Path.cwd()),
        "load": {"concurrency": suite.concurrency},
    }
    plan = RecordedSuite(
        name=suite.name,
        cases=tuple(case.id for case in cases),
        repetitions=options.repetitions or suite.repetitions,
        task=(arm.task, suite.task_code[arm.task]),
        shards=options.shard[1],
        settings=settings,
    )
    return plan, arm.run_name


@dataclass(slots=True)
class _Side:
    """An arm while it runs."""

    recording: Recording
    attempter: Attempter
    collector: TraceCollector
    context: Context
    result: EvaluatedRun


class _Running:
    """A run of a suite under way."""

    def __init__(
        self, suite: Suite, arms: Sequence[Arm], begun: Sequence[Begun], cases: Sequence[Case], options: RunOptions
    ) -> None:
        self._suite = suite
        self._begun = begun
        self._options = options
        self._spending = Spending(options.limits)
        self._prices = Prices(read_configuration().prices)
        self._sides: list[_Side] = []
        self._under_way = 0
        self._moved = asyncio.Event()
        self._stopped: str | None = None
        self._left_behind: list[asyncio.Task[Any]] = []
        number, count = options.shard
        self._cases = [case for place, case in enumerate(cases) if place % count == number - 1]
        self._repetitions = options.repetitions or suite.repetitions
        self.results = [
            EvaluatedRun(
                run_id=one.run.run_id, name=one.run.name, task=arm.task, planned=len(self._cases) * self._repetitions
            )
            for one, arm in zip(begun, arms, strict=True)
        ]
        ours = {case.id for case in self._cases}
        for result, one in zip(self.results, begun, strict=True):
            for done in one.done:
                if done.case in ours:
                    result.add(done)
                    result.already_there += 1

    def planned(self) -> list[tuple[int, Case, int]]:
        """What is to be done: arm, case and repetition, in the order in which it is begun."""
        order = random.Random(self._options.seed)
        done = [{(result.case, result.repetition) for result in one.done} for one in self._begun]
        planned = []
        for repetition in range(1, self._repetitions + 1):
            for case in self._cases:
                arms = list(range(len(self._begun)))
                order.shuffle(arms)
                planned += [(arm, case, repetition) for arm in arms if (case.id, repetition) not in done[arm]]
        return planned

    async def run(self) -> None:
        """Make all attempts, and let the runs end in order whatever stops them."""
        planned = self.planned()
        if self._options.watching:
            self._options.watching.began(len(planned), sum(result.already_there for result in self.results))
        if not planned:
            self._tell_missing()
            return
        load = load_average()
        with ExitStack() as stack:
            for one, result in zip(self._begun, self.results, strict=True):
                self._sides.append(self._side(stack, one, result))
            stack.enter_context(interrupt_blocking(self._suite.timeout_s))
            with _stop_on_signals(self.stop):
                await self._work(iter(planned))
            for side, one in zip(self._sides, self._begun, strict=True):
                kept = {**suite_metadata(one.suite)[EVALUATION], **self._told(load)}
                side.recording.add_metadata({EVALUATION: kept})
            flush()
            for side in self._sides:
                self._count_judging(side)
        self._tell_missing()

    def stop(self, why: str) -> None:
        """Begin nothing more, and let go of what is under way: it has no result, and is made again when the run goes on."""
        self._stopped = self._stopped or why
        self._moved.set()
        for worker in self._workers:
            worker.cancel()

    def _side(self, stack: ExitStack, begun: Begun, result: EvaluatedRun) -> _Side:
        recording = stack.enter_context(record_run(begun.run, self._options.store))
        collector = TraceCollector(asyncio.get_running_loop(), self._prices)
        stack.enter_context(recording.watched(collector))
        context = attempt_context()
        pacing = [Pacing(self._suite.calls_per_minute)] if self._suite.calls_per_minute else []
        attempter = Attempter(
            task=self._suite.tasks[result.task],
            context=context,
            pacing=pacing,
            timeout_s=self._suite.timeout_s,
            retries=self._suite.retries,
            left_behind=self._left_behind,
        )
        return _Side(recording, attempter, collector, context, result)

    async def _work(self, planned: Iterator[tuple[int, Case, int]]) -> None:
        self._judging = asyncio.Semaphore(JUDGED_AT_A_TIME * self._suite.concurrency)
        self._judged: set[asyncio.Task[None]] = set()
        self._workers = [asyncio.create_task(self._worker(planned)) for _ in range(self._suite.concurrency)]
        ended = await asyncio.gather(*self._workers, return_exceptions=True)
        ended += await asyncio.gather(*self._judged, return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
                raise error

    async def _worker(self, planned: Iterator[tuple[int, Case, int]]) -> None:
        while await self._may_begin():
            following = next(planned, None)
            if following is None:
                return
            arm, case, repetition = following
            attempt = Attempt(case, repetition)
            self._under_way += 1
            is_handed_over = False
            try:
                await self._sides[arm].attempter.make(attempt)
                await self._judging.acquire()
                judged = asyncio.create_task(self._finish(self._sides[arm], attempt))
                self._judged.add(judged)
                judged.add_done_callback(self._judged.discard)
                is_handed_over = True
            finally:
                if not is_handed_over:
                    self._ended()

    async def _may_begin(self) -> bool:
        while self._spending.must_wait(self._under_way):
            self._moved.clear()
            await self._moved.wait()
        self._stopped = self._stopped or self._spending.why_stop(self._under_way)
        return self._stopped is None

    async def _finish(self, side: _Side, attempt: Attempt) -> None:
        """Wait for the attempt's steps, judge, and store the result."""
        try:
            wait_s = WAIT_FOR_TRACE_S if attempt.last.outcome == "scored" else WAIT_AFTER_FAILURE_S
            trace = await side.collector.take(trace_of(attempt.last.langchain_run), wait_s)
            result = await judge(
                self._suite.named_evaluators, attempt, trace, self._suite.timeout_s, self._left_behind, side.context
            )
            side.recording.add_result(result)
            side.result.add(result)
            side.result.spending.add(trace)
            if self._options.replay is None:  # what is replayed uses nothing
                self._spending.add(trace)
            self._count_judging(side)
            if self._options.watching:
                self._options.watching.moved(result, self._spending)
        finally:
            self._judging.release()
            self._ended()

    def _count_judging(self, side: _Side) -> None:
        calls = side.collector.judging()
        side.result.spending.add_judging(calls)
        if self._options.replay is None:
            self._spending.add_judging(calls)

    def _ended(self) -> None:
        self._under_way -= 1
        self._moved.set()

    def _told(self, load: float | None) -> dict[str, JSON]:
        return {
            "load_average": {"begin": load, "end": load_average()},
            "interleaved": len(self._sides) > 1,
            "stopped": self._stopped,
        }

    def _tell_missing(self) -> None:
        for result in self.results:
            result.stopped = self._stopped
            result.left_behind = len(self._left_behind)
            made = sum(result.outcomes.values())
            if made < result.planned:
                result.missing = f"{result.planned - made} of {result.planned} attempts have no result"
            elif self._options.shard[1] > 1:
                result.other_shards = self._other_shards()

    def _other_shards(self) -> str | None:
        """What the other shards had not stored when this one began."""
        done = [(result.case, result.repetition) for result in self._begun[0].done]
        ours = [(case.id, number) for case in self._cases for number in range(1, self._repetitions + 1)]
        return self._begun[0].suite.missing_text([*done, *ours])


@contextmanager
def _stop_on_signals(stop: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C, and a request to end, stop the run in order; the second one ends the process as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    names = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: ASKED_TO_END}

    def stop_once(number: signal.Signals) -> None:
        for each in names:
            loop.remove_signal_handler(each)
        stop(names[number])

    for number in names:
        loop.add_signal_handler(number, stop_once, number)
    try:
        yield
    finally:
        for number in names:
            loop.remove_signal_handler(number)


def run_loop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run in an event loop of our own, in a thread of its own where this one has a loop already (a notebook)."""
    if not _is_in_loop():
        _run_own_loop(work)
        return
    failed: list[BaseException] = []

    def run() -> None:
        try:
            _run_own_loop(work)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="agenttrace-runner")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_own_loop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(DaemonThreads())
    try:
        loop.run_until_complete(work())
    finally:
        # Not `asyncio.run`: it would wait for tasks that do not mind being cancelled.
        leftover = asyncio.all_tasks(loop)
        for task in leftover:
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        if not any(not task.done() for task in leftover):
            loop.close()
