"""The pytest plugin in suites of its own, in processes of their own: inert where nothing is marked, a run where something is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest

from agenttrace import open_store
from agenttrace.judging import load_evidence

AGENT = """
import os
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

def answer(question):
    right = question != os.environ.get("WRONG_AT")
    model = GenericFakeChatModel(messages=iter([AIMessage(question.upper() if right else "no")]))
    return model.invoke(question).content
"""

CASES = """
import pytest
from agenttrace import Case
from agent import answer

CASES = [Case(id=f"c{n}", input=f"q{n}", expected=f"Q{n}") for n in range(8)]

@pytest.mark.agent_eval(CASES, repeat=3, name="letters")
def test_large(agenttrace_case):
    assert answer(agenttrace_case.input) == agenttrace_case.expected
"""

SUITE = """
import pytest
from agenttrace import Case, Suite
from agenttrace.evaluation.evaluators import Exact
from agent import answer

suite = Suite(name="letters", cases=[Case(id=f"c{n}", input=f"q{n}", expected=f"Q{n}") for n in range(8)], task=answer,
              evaluators=[Exact()], repetitions=3)

@pytest.mark.agent_eval(suite)
def test_letters(agenttrace_run):
    assert agenttrace_run.mean("exact") > 0.5
"""


@pytest.fixture
def project(pytester: pytest.Pytester, store: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with an agent; its store is the default one."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("WRONG_AT", raising=False)
    pytester.makepyfile(agent=AGENT)
    pytester.makepyprojecttoml(
        '[tool.pytest.ini_options]\naddopts = ["--strict-markers", "-p", "no:cacheprovider"]\n'
        "[tool.agenttrace.margins]\npassed = 0.5\nexact = 0.5\n"
    )
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess(*arguments)


def test_nothing_heavy_is_loaded_for_others(
    pytester: pytest.Pytester, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suite without marks: no import beyond pytest's own, no line of output, no store, no change of what is collected."""
    pytester.makepyfile(
        """
        import sys
        def test_nothing(request):
            heavy = {"duckdb", "langchain_core", "langgraph", "orjson", "rich", "opentelemetry", "numpy", "click"}
            assert not heavy & set(sys.modules)
            assert [name for name in sys.modules if name.startswith("agenttrace.")] == ["agenttrace.pytest_plugin"]
            assert not [name for name in request.fixturenames if "agenttrace" in name]
        """
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # what other plugins load is not ours
    result = pytester.runpytest_subprocess("-p", "agenttrace.pytest_plugin")
    result.assert_outcomes(passed=1)
    assert "agenttrace" not in result.stdout.str().replace(str(pytester.path), "")
    assert not store.exists()


def test_options_carry_the_products_name() -> None:
    """No option of another plugin is taken away."""
    text = subprocess.run([sys.executable, "-m", "pytest", "--help"], capture_output=True, text=True, check=True).stdout
    ours = text.partition("agenttrace: record tests")[2].partition("\n\n")[0]
    options = [line.split()[0].partition("=")[0] for line in ours.splitlines() if line.strip().startswith("--")]
    assert len(options) == 5
    assert all(option.startswith("--agenttrace-") for option in options)


def test_a_test_is_called_once_for_each_case(project: pytest.Pytester, store: Path) -> None:
    """Each attempt is a test and a trace; the run has the scores, the settings' call sites, and the plan."""
    project.makepyfile(test_agent=CASES)
    result = run(project, "-v")
    result.assert_outcomes(passed=24)
    result.stdout.fnmatch_lines(["*test_large[[]c0-1[]] PASSED*", "*run letters (*): recorded"])
    with open_store(store) as opened:
        evidence = load_evidence(opened, "letters")
        first = evidence.repetitions[0]
        spans = opened.trace(first.trace_id or "")
    assert len(evidence.repetitions) == 24
    assert evidence.missing is None
    assert not evidence.is_unfinished
    assert {tuple(one.scores.items()) for one in evidence.repetitions} == {(("passed", 1.0),)}
    assert [(span.name, span.kind) for span in spans] == [
        ("test_large", "agent"),
        ("GenericFakeChatModel", "model"),
    ] or [span.kind for span in spans] == ["chain", "model"]
    assert (spans[0].metadata["case"], spans[0].metadata["repetition"]) == (first.case, first.number)


def test_without_a_baseline_a_failed_attempt_is_a_failed_test(
    project: pytest.Pytester, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As everybody expects; it is recorded with why it failed. A skipped one is no result."""
    monkeypatch.setenv("WRONG_AT", "q2")
    project.makepyfile(
        test_agent=CASES.replace("    assert", "    if agenttrace_case.id == 'c3': pytest.skip()\n    assert")
    )
    run(project).assert_outcomes(passed=18, failed=3, skipped=3)
    with open_store(store) as opened:
        scores = {(one.case, one.number): one.scores for one in load_evidence(opened, "letters").repetitions}
    assert scores["c2", 1] == {"passed": 0.0}
    assert ("c3", 1) not in scores


def test_with_a_baseline_the_comparison_decides(
    project: pytest.Pytester, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unchanged agent passes; one that got worse everywhere fails with the report, and JUnit has run and verdict."""
    project.makepyfile(test_agent=CASES)
    run(project, "--agenttrace-name", "main").assert_outcomes(passed=24)
    same = run(project, "--agenttrace-baseline", "main")
    assert same.ret == 0
    same.stdout.fnmatch_lines(["run letters (*): pass", "*Verdict: pass*"])

    project.makepyfile(agent=AGENT.replace("right = ", "right = False and "))
    worse = run(project, "--agenttrace-baseline", "main", "--junit-xml", "junit.xml")
    assert worse.ret == 1
    worse.assert_outcomes(xfailed=24)
    worse.stdout.fnmatch_lines(["run letters (*): regressed", "*passed*1 → 0*", "*Verdict: regressed*"])
    properties = [(one.get("name"), one.get("value")) for one in parse(project.path / "junit.xml").iter("property")]
    [(name, verdict)] = [one for one in properties if str(one[0]).startswith("agenttrace_verdict.")]
    assert verdict == "regressed"
    assert ("agenttrace_run_id", str(name).partition(".")[2]) in properties


def test_a_suite_is_one_test(project: pytest.Pytester, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its assertions see what the run came to; after them the comparison decides, and fails the test with the report."""
    project.makepyfile(test_agent=SUITE)
    run(project, "--agenttrace-name", "main").assert_outcomes(passed=1)
    run(project, "--agenttrace-baseline", "main").assert_outcomes(passed=1)
    monkeypatch.setenv("WRONG_AT", "q1")
    project.makepyfile(test_agent=SUITE.replace("> 0.5", ">= 0"), agent=AGENT.replace("right = ", "right = False and "))
    worse = run(project, "--agenttrace-baseline", "main", "--agenttrace-repeat", "4", "--junit-xml", "junit.xml")
    worse.assert_outcomes(failed=1)
    worse.stdout.fnmatch_lines(["*Verdict: regressed*"])
    assert "pytest_plugin" not in worse.stdout.str()
    properties = {one.get("name"): one.get("value") for one in parse(project.path / "junit.xml").iter("property")}
    assert properties["agenttrace_verdict"] == "regressed"
    with open_store(store) as opened:
        assert len(load_evidence(opened, properties["agenttrace_run_id"] or "").repetitions) == 32


def test_a_baseline_that_is_not_there_fails(project: pytest.Pytester, store: Path) -> None:
    """Never a quiet pass."""
    project.makepyfile(test_agent=CASES)
    result = run(project, "--agenttrace-baseline", "accepted")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["run letters (*): no baseline"])


def test_xdist(project: pytest.Pytester, store: Path) -> None:
    """Workers make one run together; the process that hands out the tests compares it, once, and collects nothing itself."""
    project.makepyfile(test_agent=CASES)
    run(project, "--agenttrace-name", "main", "-n", "2").assert_outcomes(passed=24)
    project.makepyfile(agent=AGENT.replace("right = ", "right = False and "))
    worse = run(project, "--agenttrace-baseline", "main", "-n", "2")
    assert worse.ret == 1
    worse.assert_outcomes(xfailed=24)
    assert worse.stdout.str().count("Verdict: regressed") == 1
    with open_store(store) as opened:
        assert len(load_evidence(opened, "letters").repetitions) == 24
        assert load_evidence(opened, "letters").missing is None


def test_reruns_are_refused(project: pytest.Pytester, store: Path) -> None:
    """A rerun would make an agent that fails sometimes pass; other tests may be rerun."""
    project.makepyfile(test_agent=CASES, test_other="def test_other(): pass")
    result = run(project, "--reruns", "2")
    result.assert_outcomes(passed=1, errors=24)
    result.stdout.fnmatch_lines(["*say repeat=K in its mark instead*"])
    project.makepyfile(
        test_agent=CASES.replace("@pytest.mark.agent", "@pytest.mark.flaky(reruns=2)\n@pytest.mark.agent")
    )
    run(project).assert_outcomes(passed=1, errors=24)


def test_asyncio(project: pytest.Pytester, store: Path) -> None:
    """An async test's calls are its trace's too."""
    project.makepyfile(
        test_agent="""
        import pytest
        from agenttrace import Case
        from langchain_core.language_models import FakeListChatModel

        @pytest.mark.asyncio
        @pytest.mark.agent_eval([Case(id="a", input="x"), Case(id="b", input="y")], name="async")
        async def test_async(agenttrace_case):
            assert (await FakeListChatModel(responses=["z"]).ainvoke(agenttrace_case.input)).content == "z"
        """
    )
    run(project, "-p", "asyncio").assert_outcomes(passed=2)
    with open_store(store) as opened:
        repetitions = load_evidence(opened, "async").repetitions
        assert [len(opened.trace(one.trace_id or "")) for one in repetitions] == [2, 2]


def test_fixtures_for_any_test(project: pytest.Pytester, store: Path) -> None:
    """The handler records into a run that is called like the test; the run can be asked for."""
    project.makepyfile(
        test_agent="""
        from langchain_core.language_models import FakeListChatModel

        def test_it(agenttrace_handler, agenttrace_run):
            FakeListChatModel(responses=["z"]).invoke("x", config={"callbacks": [agenttrace_handler]})
            assert agenttrace_run.name.endswith("test_it")
        """
    )
    run(project).assert_outcomes(passed=1)
    with open_store(store) as opened:
        [trace] = opened.traces()
    assert trace.run == "test_agent.py::test_it"
    assert trace.spans == 1


WRONG = {
    "agent_eval()": "was given 0",
    "agent_eval([Case(id='a', input=1)], repeats=3)": "has no argument 'repeats'",
    "agent_eval([Case(id='a', input=1)], repeat=0)": "'repeat' of agent_eval is 0",
    "agent_eval('nowhere.jsonl')": "The cases of agent_eval cannot be used. The cases in nowhere.jsonl cannot be read",
    "agent_eval([Case(id='a', input=1), Case(id='a', input=2)])": "cases of agent_eval cannot be used. *2 cases have the id 'a'",
    "agent_eval(17)": "cases of agent_eval cannot be used. 'int' object is not iterable",
}


def test_a_wrong_mark_is_told(project: pytest.Pytester, store: Path) -> None:
    """One sentence at each test, no traceback of ours."""
    tests = [f"@pytest.mark.{mark}\ndef test_{n}(agenttrace_case): pass\n" for n, mark in enumerate(WRONG)]
    for number, text in enumerate([*tests, "@pytest.mark.agent_eval([Case(id='a', input=1)])\ndef test_it(): pass\n"]):
        project.makepyfile(**{f"test_{number}": f"import pytest\nfrom agenttrace import Case\n\n{text}"})
    result = run(project)
    result.assert_outcomes(errors=len(WRONG) + 1)
    for said in (*WRONG.values(), "does not take 'agenttrace_case'. Add it as a parameter."):
        result.stdout.fnmatch_lines([f"*{said.replace('[', '[[]')}*"])
    assert "pytest_plugin/" not in result.stdout.str()
    assert "another exception" not in result.stdout.str()
