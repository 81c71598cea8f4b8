"""pytest's way into agenttrace: marked tests are recorded as runs, and compared with a baseline where one is named.

Nothing heavy is imported, and nothing is done or printed, until a test carries the mark or asks for a fixture: this is loaded in
every suite of whoever has agenttrace installed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agenttrace.evaluation.cases import Case
    from agenttrace.evaluation.summary import EvaluatedRun
    from agenttrace.pytest_plugin.runs import Attempted, Gathering
    from agenttrace.recording import AgentTraceHandler, Recording

MARK = "agent_eval"
CASE = "agenttrace_case"
RUNS = "agenttrace_runs"

HELP = (
    f"{MARK}(suite or cases, *, repeat=1, name=None, baseline=None, changed=()): run a suite of agenttrace, or the test once "
    "for each case, record it as a run, and compare that with the baseline where one is named"
)

_gathering = pytest.StashKey["Gathering"]()
_from_workers = pytest.StashKey[list[dict[str, Any]]]()
_reports = pytest.StashKey[list[tuple[str, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("agenttrace", "agenttrace: record tests that are marked agent_eval")
    group.addoption("--agenttrace-store", metavar="FOLDER", help="Where runs are kept. [default: ./.agenttrace]")
    group.addoption(
        "--agenttrace-name", metavar="NAME", help="A name for the runs, instead of the suite's or the test's."
    )
    group.addoption("--agenttrace-repeat", type=int, metavar="K", help="Attempts at each case, instead of the mark's.")
    group.addoption(
        "--agenttrace-baseline",
        metavar="REF",
        help="Compare each run with this one ('accepted', 'branch:main', a name): then the comparison decides.",
    )
    group.addoption(
        "--agenttrace-changed", action="append", default=[], metavar="DIMENSION", help="What differs on purpose."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", HELP)
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_Workers(config), "agenttrace-workers")


class _Workers:
    """What xdist tells the process that hands out the tests: it collects none itself."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        runs = getattr(node, "workeroutput", {}).get(RUNS)
        if runs:
            self._config.stash.setdefault(_from_workers, []).extend(runs)


def _gathered(config: pytest.Config) -> Gathering:
    """The runs of this session, begun with the first marked test."""
    if _gathering not in config.stash:
        from agenttrace.pytest_plugin.runs import Gathering

        worker = getattr(config, "workerinput", {})
        config.stash[_gathering] = Gathering(
            session=worker.get("testrunuid") or uuid.uuid4().hex,
            workers=worker.get("workercount", 1),
            store=config.getoption("--agenttrace-store"),
            name=config.getoption("--agenttrace-name"),
            repeat=config.getoption("--agenttrace-repeat"),
            baseline=config.getoption("--agenttrace-baseline"),
            changed=tuple(config.getoption("--agenttrace-changed")),
        )
    return config.stash[_gathering]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        return
    attempts = _gathered(metafunc.config).attempts(mark, metafunc.definition.nodeid, metafunc.function)
    if attempts is None:  # a suite, which has its own cases
        return
    if CASE not in metafunc.fixturenames:
        pytest.fail(f"{metafunc.definition.nodeid} has cases and does not take '{CASE}'. Add it as a parameter.", False)
    metafunc.parametrize(CASE, attempts, ids=[attempt.label for attempt in attempts], indirect=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """What is left of the cases after -k and -m is what the run is planned to be."""
    if _gathering in config.stash:
        for item in items:
            if (attempt := _attempt(item)) is not None:
                attempt.plan.add(attempt)


def _attempt(item: pytest.Item) -> Attempted | None:
    """The attempt at a case that a test is; None for all other tests."""
    if item.get_closest_marker(MARK) is None:
        return None
    call = getattr(item, "callspec", None)
    return None if call is None else call.params.get(CASE)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker(MARK) is None:
        return
    reruns = getattr(item.config.option, "reruns", None)
    if reruns or (
        item.get_closest_marker("flaky") is not None and item.config.pluginmanager.hasplugin("rerunfailures")
    ):
        pytest.fail(
            "This test is marked agent_eval, and would be run again when it fails: that turns an agent which fails sometimes "
            "into one that passes. Leave --reruns and the mark flaky away for it, and say repeat=K in its mark instead.",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return (yield)
    gathering = _gathered(item.config)
    attempt = _attempt(item)
    if attempt is not None:
        item.user_properties.append(("agenttrace_run_id", attempt.plan.run_id))
        with gathering.recorded(attempt):
            return (yield)
    run = gathering.run_suite(mark)
    item.user_properties.append(("agenttrace_run_id", run.run_id))
    result = yield
    told = gathering.compared(run.run_id, mark)
    if told is not None:
        item.user_properties.append(("agenttrace_verdict", told.verdict))
        if told.exit_code:
            pytest.fail(told.text, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Where a comparison decides, an attempt that scored 0 is no failure of its own."""
    report = yield
    attempt = _attempt(item)
    if attempt is not None and call.when == "call" and report.failed and attempt.has_scored and attempt.plan.baseline:
        report.outcome = "skipped"
        report.wasxfail = f"scored 0; the comparison with {attempt.plan.baseline} decides"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Compare the runs that are made of several tests; under xdist, in the process that handed them out."""
    config = session.config
    plans: list[dict[str, Any]] = []
    if _gathering in config.stash:
        plans = config.stash[_gathering].finish()
    if hasattr(config, "workeroutput"):
        config.workeroutput[RUNS] = plans
        return
    plans = list({plan["run_id"]: plan for plan in (*plans, *config.stash.get(_from_workers, []))}.values())
    if not plans:
        return
    reports = config.stash.setdefault(_reports, [])
    for plan in plans:
        told = _gathered(config).compared_plan(plan)
        verdict = "recorded" if told is None else told.verdict
        reports.append((f"{plan['name']} ({plan['run_id']}): {verdict}", "" if told is None else told.text))
        _tell_junit(config, plan["run_id"], verdict)
        if told is not None and told.exit_code and session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _tell_junit(config: pytest.Config, run_id: str, verdict: str) -> None:
    from _pytest.junitxml import xml_key

    xml = config.stash.get(xml_key, None)
    if xml is not None:
        xml.add_global_property(f"agenttrace_verdict.{run_id}", verdict)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    reports = config.stash.get(_reports, [])
    if reports:
        terminalreporter.section("agenttrace")
        for line, text in reports:
            terminalreporter.write_line(f"run {line}")
            if text:
                terminalreporter.write_line(text)


@pytest.fixture
def agenttrace_case(request: pytest.FixtureRequest) -> Case:
    """The case that this test is an attempt at."""
    attempt: Attempted | None = getattr(request, "param", None)
    if attempt is None:
        pytest.fail(f"'{CASE}' is for tests marked {MARK} with cases. Mark this one.", pytrace=False)
    return attempt.case


@pytest.fixture
def agenttrace_run(request: pytest.FixtureRequest) -> Iterator[EvaluatedRun | Recording]:
    """What the suite of the mark came to; for all other tests the run that is being recorded while the test runs."""
    gathering = _gathered(request.config)
    mark = request.node.get_closest_marker(MARK)
    attempt = _attempt(request.node)
    if attempt is not None:
        yield gathering.recording(attempt.plan)
    elif mark is not None:
        yield gathering.run_suite(mark)
    else:
        from agenttrace.recording import record

        with record(gathering.name or request.node.nodeid, store=gathering.store) as recording:
            yield recording


@pytest.fixture
def agenttrace_handler(request: pytest.FixtureRequest) -> AgentTraceHandler:
    """A handler for `config={"callbacks": [...]}` that records into this test's run."""
    from agenttrace.recording import AgentTraceHandler

    if request.node.get_closest_marker(MARK) is None:
        request.getfixturevalue("agenttrace_run")
    store: str | os.PathLike[str] | None = request.config.getoption("--agenttrace-store")
    return AgentTraceHandler(store)
