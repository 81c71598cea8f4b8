"""Tests that are marked `agent_eval`, as runs: a suite that one test runs, or a test that is called once for each case."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agenttrace import clock
from agenttrace.comparison.evidence import Outcome
from agenttrace.comparison.recorded_suite import RecordedSuite, suite_metadata
from agenttrace.configuration import read_configuration
from agenttrace.digest import code_digest
from agenttrace.errors import AgentTraceError
from agenttrace.evaluation.cases import Case, checked
from agenttrace.evaluation.loading import load_cases
from agenttrace.evaluation.outcomes import outcome_of
from agenttrace.evaluation.runner import Arm, RunOptions, run_suite
from agenttrace.evaluation.suite import Suite
from agenttrace.evaluation.summary import EvaluatedRun
from agenttrace.langchain.payloads import error_text
from agenttrace.langchain.tasks import root_step
from agenttrace.provenance import provenance
from agenttrace.recording import Recording, flush, record_run, trace_of
from agenttrace.records import RunRecord
from agenttrace.steps import JSON
from agenttrace.store.journal import process_name
from agenttrace.store.results import ResultRecord

PASSED = "passed"
"""The score of an attempt that a test is: 1 where its assertions held."""

ARGUMENTS = ("repeat", "name", "baseline", "changed")

REPORT_WIDTH = 100

_ids = random.Random()


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a comparison came to."""

    verdict: str
    exit_code: int
    text: str
    """As `agenttrace compare` draws it."""


@dataclass(slots=True)
class Plan:
    """The run of a test that is called once for each case."""

    run_id: str
    name: str
    node_id: str
    code: str
    """A digest of the test, which decides what an attempt scores."""
    repetitions: int
    workers: int
    baseline: str | None
    changed: tuple[str, ...]
    cases: dict[str, Case] = field(default_factory=dict)
    """Of the attempts that were chosen to run."""
    run: RunRecord | None = None

    def add(self, attempt: Attempted) -> None:
        """An attempt that will be made, unless the session ends first."""
        self.cases[attempt.case.id] = attempt.case

    def begun(self) -> RunRecord:
        """The run, with what it is planned to be."""
        if self.run is None:
            settings: dict[str, JSON] = {
                "data.cases": {case.id: case.input_hash for case in self.cases.values()},
                "data.expected": {case.id: case.expected_hash for case in self.cases.values()},
                "evaluator.code": {PASSED: self.code},
                "evaluator.judge": {PASSED: None},
                **provenance(Path.cwd()),
                "load": {"concurrency": self.workers},
            }
            suite = RecordedSuite(
                name=self.name,
                cases=tuple(self.cases),
                repetitions=self.repetitions,
                task=(self.node_id, self.code),
                settings=settings,
            )
            self.run = RunRecord(
                run_id=self.run_id,
                name=self.name,
                start_ns=clock.wall_ns(),
                metadata=suite_metadata(suite),
                process=process_name(),
            )
        return self.run


@dataclass(slots=True)
class Attempted:
    """One test: an attempt at a case."""

    plan: Plan
    case: Case
    repetition: int
    has_scored: bool = False
    """Whether it came to a result that a comparison can weigh."""

    @property
    def label(self) -> str:
        return self.case.id if self.plan.repetitions == 1 else f"{self.case.id}-{self.repetition}"


class Gathering:
    """The runs of one session of pytest. Under xdist each worker has its part of them, under the same ids."""

    def __init__(
        self,
        *,
        session: str,
        workers: int,
        store: str | None,
        name: str | None,
        repeat: int | None,
        baseline: str | None,
        changed: tuple[str, ...],
    ) -> None:
        self.store = store
        self.name = name
        self._session = session
        self._workers = workers
        self._repeat = repeat
        self._baseline = baseline
        self._changed = changed
        self._plans: dict[str, Plan] = {}
        self._suites: dict[int, EvaluatedRun] = {}
        self._recordings: dict[str, Recording] = {}

    def attempts(self, mark: pytest.Mark, node_id: str, test: Callable[..., Any]) -> list[Attempted] | None:
        """The attempts that a marked test is made into; None where the mark names a suite."""
        source, options = _arguments(mark)
        if isinstance(source, Suite):
            return None
        cases = _cases(source)
        repetitions = self._repetitions(options) or 1
        plan = self._plans[node_id] = Plan(
            run_id=blake2b(f"{self._session} {node_id}".encode(), digest_size=8).hexdigest(),
            name=self.name or options.get("name") or node_id,
            node_id=node_id,
            code=code_digest(test),
            repetitions=repetitions,
            workers=self._workers,
            baseline=self._baseline or options.get("baseline"),
            changed=(*self._changed, *options.get("changed", ())),
        )
        return [Attempted(plan, case, number) for number in range(1, repetitions + 1) for case in cases]

    def _repetitions(self, options: Mapping[str, Any]) -> int | None:
        wanted = self._repeat if self._repeat is not None else options.get("repeat")
        if wanted is not None and (not isinstance(wanted, int) or wanted < 1):
            pytest.fail(f"'repeat' of agent_eval is {wanted!r}. Give a whole number from 1.", pytrace=False)
        return wanted

    @contextmanager
    def recorded(self, attempt: Attempted) -> Iterator[None]:
        """Record what happens inside as the attempt's trace, and what the test came to as its result."""
        plan = attempt.plan
        langchain_run = UUID(int=_ids.getrandbits(128), version=4)
        metadata: dict[str, JSON] = {"case": attempt.case.id, "repetition": attempt.repetition}
        with record_run(plan.begun(), self.store) as recording:
            self._recordings[plan.run_id] = recording
            error: BaseException | None = None
            try:
                with root_step(plan.node_id.rpartition("::")[2], attempt.case.input, langchain_run, metadata):
                    yield
            except BaseException as raised:
                error = raised
                raise
            finally:
                # One that was skipped, or that whoever runs the tests broke off, came to nothing.
                if error is None or isinstance(error, (Exception, pytest.fail.Exception)):
                    self._keep(recording, attempt, error, trace_of(langchain_run))

    def _keep(
        self, recording: Recording, attempt: Attempted, error: BaseException | None, trace_id: str | None
    ) -> None:
        outcome, passed = _outcome(error)
        attempt.has_scored = outcome == "scored" or outcome in ("agent_error", "timeout", "limit", "refusal")
        told = None if error is None else f"{type(error).__name__}: {error_text(error)}"[:2_000]
        recording.add_result(
            ResultRecord(
                case=attempt.case.id,
                repetition=attempt.repetition,
                outcome=outcome,
                cluster=attempt.case.cluster,
                scores={} if passed is None else {PASSED: passed},
                trace_id=trace_id,
                detail={} if told is None else {"reasons": {PASSED: told}},
            )
        )

    def recording(self, plan: Plan) -> Recording:
        """The run that an attempt is recorded into."""
        return self._recordings.get(plan.run_id) or Recording(plan.run_id, plan.name, _store(self.store))

    def run_suite(self, mark: pytest.Mark) -> EvaluatedRun:
        """What the suite of a mark came to; run once."""
        suite, options = _arguments(mark)
        if id(mark) not in self._suites:
            arm = Arm(task=suite.task_name(None), run_name=self.name or options.get("name") or suite.name)
            try:
                [self._suites[id(mark)]] = run_suite(
                    suite,
                    [arm],
                    RunOptions(store=self.store, repetitions=self._repetitions(options), is_new=True),
                )
            except AgentTraceError as error:
                raise pytest.fail.Exception(str(error), pytrace=False) from None
        run = self._suites[id(mark)]
        if run.missing:
            pytest.fail(f"{run.missing} ({run.stopped}).", pytrace=False)
        return run

    def compared(self, run_id: str, mark: pytest.Mark) -> Told | None:
        """The run against the baseline that the command line names, else the mark; None where neither does."""
        _, options = _arguments(mark)
        baseline = self._baseline or options.get("baseline")
        return (
            None if baseline is None else self._compare(baseline, run_id, (*self._changed, *options.get("changed", ())))
        )

    def compared_plan(self, plan: Mapping[str, Any]) -> Told | None:
        """The same for a run that several tests made."""
        return (
            None
            if plan["baseline"] is None
            else self._compare(plan["baseline"], plan["run_id"], tuple(plan["changed"]))
        )

    def finish(self) -> list[dict[str, Any]]:
        """Write everything out, and tell the runs that several tests made. Under xdist this leaves the process: plain data."""
        flush()
        return [
            {"run_id": plan.run_id, "name": plan.name, "baseline": plan.baseline, "changed": list(plan.changed)}
            for plan in self._plans.values()
            if plan.run is not None
        ]

    def _compare(self, baseline: str, run_id: str, changed: Sequence[str]) -> Told:
        from agenttrace.errors import NoBaseline
        from agenttrace.judging import compare
        from agenttrace.store.reading import open_store

        flush()
        project = read_configuration()
        try:
            with open_store(self.store) as opened:
                comparison = compare(
                    opened, baseline, run_id, changed, severity=project.severity, policy=project.policy()
                )
        except AgentTraceError as error:
            return Told(
                verdict="no baseline" if isinstance(error, NoBaseline) else "not compared",
                exit_code=13,
                text=str(error),
            )
        return Told(verdict=comparison.verdict, exit_code=comparison.exit_code, text=_drawn(comparison, self.store))


def _drawn(comparison: Any, store: str | os.PathLike[str] | None) -> str:
    from rich.console import Console

    from agenttrace.report.compare_report import draw_comparison
    from agenttrace.report.console import put

    text = StringIO()
    console = Console(file=text, width=REPORT_WIDTH, highlight=False, markup=False, emoji=False)
    put(draw_comparison(comparison, width=REPORT_WIDTH, store=None if store is None else os.fspath(store)), console)
    return text.getvalue()


def _store(store: str | None) -> Path:
    from agenttrace.store.layout import store_path

    return store_path(store)


def _outcome(error: BaseException | None) -> tuple[Outcome, float | None]:
    """How an attempt counts, and what it scored; None where it has no score."""
    if error is None:
        return "scored", 1.0
    if isinstance(error, (AssertionError, pytest.fail.Exception)):
        return "scored", 0.0
    return outcome_of(error), None


def _arguments(mark: pytest.Mark) -> tuple[Any, Mapping[str, Any]]:
    """What the mark is about, and the rest of it."""
    options = dict(mark.kwargs)
    given = [*mark.args, *(options.pop(name) for name in ("suite", "cases") if name in options)]
    unknown = sorted(options.keys() - set(ARGUMENTS))
    if len(given) != 1 or unknown:
        what = (
            f"has no argument '{unknown[0]}'"
            if unknown
            else f"takes one suite or one list of cases, and was given {len(given)}"
        )
        pytest.fail(f"agent_eval {what}. It is agent_eval(suite or cases, {', '.join(ARGUMENTS)}).", pytrace=False)
    changed = options.get("changed", ())
    options["changed"] = (changed,) if isinstance(changed, str) else tuple(changed)
    return given[0], options


def _cases(source: Any) -> tuple[Case, ...]:
    try:
        if isinstance(source, (str, os.PathLike)):
            return load_cases(Path(source))
        return checked(source)
    except (AgentTraceError, TypeError) as error:
        problem = f"The cases of agent_eval cannot be used. {error}"
    pytest.fail(problem, pytrace=False)  # not within `except`, which would show the first error too
