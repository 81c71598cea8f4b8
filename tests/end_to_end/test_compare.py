"""Two runs through the command line: refused with reasons, compared when allowed, with the exit code of the verdict."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict
from xml.etree.ElementTree import fromstring

import pytest
from click.testing import CliRunner
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langgraph.graph import END, START, StateGraph

from agenttrace import record
from agenttrace.cli.main import group
from agenttrace.export.scored import import_scored
from agenttrace.records import SettingValue
from agenttrace.store.importing import import_records
from tests.builders import NOON, SECOND, a_model_call, a_run, a_span


class Question(TypedDict):
    """What goes through the agent."""

    question: str
    answer: str


KNOWN = {"model.served": "gpt-5-mini-2026-08-07", "sampling.temperature": 0.0}


def agenttrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agenttrace", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def a_scored_run(
    folder: Path,
    name: str,
    *,
    score: float = 1.0,
    cases: int = 5,
    settings: Mapping[str, Any] = KNOWN,
    prefix: str = "q",
) -> None:
    file = folder / f"{name}.jsonl"
    lines = [
        {"case": f"{prefix}{n}", "repetition": 1, "outcome": "scored", "scores": {"correct": score if n else 1.0},
         "metrics": {"latency_s": 1.0 + n}, "settings": dict(settings)}
        for n in range(cases)
    ]  # fmt: skip
    file.write_text("\n".join(json.dumps(line) for line in lines))
    import_scored(None, file, name)


@pytest.fixture
def runs(store: Path, tmp_path: Path) -> None:
    """A baseline, and a candidate at another temperature that is worse in all cases but one."""
    a_scored_run(tmp_path, "main")
    a_scored_run(tmp_path, "branch", score=0.0, settings={**KNOWN, "sampling.temperature": 0.7})


@pytest.mark.usefixtures("runs")
def test_an_unfair_comparison_is_refused() -> None:
    """Exit code 11, both values and the flag on one screen."""
    result = agenttrace("compare", "main", "branch")
    assert result.returncode == 11, result.stderr
    assert "These runs can't be compared: 1 setting differs." in result.stdout
    assert "baseline 0.0   candidate 0.7" in result.stdout
    assert "--changed sampling.temperature" in result.stdout
    assert len(result.stdout.splitlines()) < 24
    assert "\x1b" not in result.stdout


@pytest.mark.usefixtures("runs")
def test_a_declared_comparison_is_allowed() -> None:
    """Exit code 1: it is worse in every case but one; the numbers are paired by case."""
    result = agenttrace("compare", "main", "branch", "--changed", "sampling.temperature")
    assert result.returncode == 1, result.stderr
    assert "Treatment, declared to differ:" in result.stdout
    assert "Verdict: regressed" in result.stdout


@pytest.mark.usefixtures("runs")
def test_garbage_collection_goes_on_afterwards() -> None:
    """Comparing switches it off while it reads, and only then: it may have been called inside another program."""
    assert CliRunner().invoke(group, ["compare", "main", "branch"]).exit_code == 11
    assert gc.isenabled()


@pytest.mark.usefixtures("runs")
def test_json_has_the_same_verdict() -> None:
    """The exit code is that of the drawing, and the shape is the design's."""
    refused = agenttrace("compare", "main", "branch", "--json")
    allowed = agenttrace("compare", "main", "branch", "--json", "--changed", "sampling")
    assert (refused.returncode, allowed.returncode) == (11, 1)
    found = json.loads(agenttrace("sql", "--json", "SELECT verdict, result FROM comparisons ORDER BY at_ns").stdout)
    assert [row["verdict"] for row in found] == ["not_comparable", "regressed"]
    told = json.loads(refused.stdout)
    assert (told["verdict"], told["metrics"], told["cases"]) == ("not_comparable", [], [])
    assert told["differences"][0]["flag"] == "--changed sampling.temperature"
    told = json.loads(allowed.stdout)
    [score] = [metric for metric in told["metrics"] if metric["name"] == "correct"]
    assert (score["n"], score["k_baseline"], score["k_candidate"]) == (5, 1, 1)
    assert (score["baseline"], score["candidate"], score["delta"]) == (1.0, 0.2, -0.8)
    assert score["low"] < score["delta"] < score["high"] < 0
    assert (score["margin"], score["verdict"], score["primary"]) == (0.05, "regressed", True)
    assert told["verdict"] == "regressed"
    assert told["unverified"] is True
    assert told["changed"] == ["sampling"]


@pytest.mark.usefixtures("runs")
def test_reports_beside_the_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run of the command writes every form; on GitHub nothing recorded is taken for a command."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    files = {form: tmp_path / form for form in ("markdown", "junit")}
    options = [part for form, file in files.items() for part in (f"--{form}", str(file))]
    result = agenttrace("compare", "main", "branch", "--changed", "sampling", *options, "--github")
    assert (result.returncode, result.stderr) == (1, "")
    assert files["markdown"].read_text().startswith("<!-- agenttrace-comparison -->\n## ❌")
    assert fromstring(files["junit"].read_bytes()).get("failures") == "2"
    assert files["markdown"].read_text() in (tmp_path / "summary.md").read_text()
    stop, *_, last = [line for line in result.stdout.splitlines() if line.startswith("::")]
    token = stop.removeprefix("::stop-commands::")
    assert result.stdout.index("Verdict: regressed") < result.stdout.index(f"::{token}::\n")
    assert last.startswith("::error title=agenttrace%3A regressed")


@pytest.mark.usefixtures("runs")
def test_one_report_on_standard_output(tmp_path: Path) -> None:
    """It is alone there, with the verdict as exit code; two are refused, and so is a place that cannot be written."""
    result = agenttrace("compare", "main", "branch", "--changed", "sampling", "--junit", "-")
    assert (result.returncode, fromstring(result.stdout).tag) == (1, "testsuites")
    mixed = agenttrace("compare", "main", "branch", "--junit", "-", "--json")
    assert (mixed.returncode, mixed.stdout) == (2, "")
    assert "--junit - and --json would mix" in mixed.stderr
    nowhere = agenttrace("compare", "main", "branch", "--markdown", str(tmp_path / "no" / "where"))
    assert nowhere.returncode == 3
    assert "cannot be written" in nowhere.stderr


@pytest.mark.usefixtures("runs")
def test_strict_refuses_what_is_unverified() -> None:
    """The scored file tells two settings, so most cannot be verified."""
    result = agenttrace("compare", "main", "main", "--strict")
    assert result.returncode == 11
    assert "--strict" in result.stdout


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("sampling.temprature", "Did you mean 'sampling.temperature'?"),
        ("evaluator.code", "evaluator.code cannot be declared"),
        ("sampling:plan", "Neither run calls a model at 'plan'"),
    ],
)
def test_a_wrong_declaration_is_a_usage_error(changed: str, message: str) -> None:
    """Exit code 2 and one sentence; nothing is printed that looks like a result."""
    result = agenttrace("compare", "main", "branch", "--changed", changed)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.usefixtures("runs")
def test_a_change_that_did_not_take_effect_is_refused() -> None:
    """The declared change is not there."""
    result = agenttrace("compare", "main", "main", "--changed", "model.served")
    assert result.returncode == 11
    assert "The declared change did not take effect: model.served" in result.stdout.replace("\n  ", " ")


def test_runs_without_a_common_case(store: Path, tmp_path: Path) -> None:
    """Named on both sides, exit code 11."""
    a_scored_run(tmp_path, "main")
    a_scored_run(tmp_path, "other", prefix="r")
    result = agenttrace("compare", "main", "other")
    assert result.returncode == 11
    assert "no case in common" in result.stdout


def test_a_run_without_model_calls(store: Path, tmp_path: Path) -> None:
    """It is named on standard error, and the exit code is that of an invalid run."""
    a_scored_run(tmp_path, "main")
    import_records(store, [a_run(name="empty", end_ns=NOON + SECOND)], [a_span(1)])
    result = agenttrace("compare", "main", "empty")
    assert (result.returncode, result.stdout) == (12, "")
    assert "the candidate empty (run1) holds no finished model call" in result.stderr


def test_an_unfinished_run(store: Path, tmp_path: Path) -> None:
    """It cannot be judged, and says so in both forms."""
    import_records(store, [a_run(name="cut")], [a_span(1), a_model_call(2)])
    result = agenttrace("compare", "cut", "cut", "--json")
    assert result.returncode == 12
    assert json.loads(result.stdout)["verdict"] == "invalid"
    assert "unfinished" in json.loads(result.stdout)["reasons"][0]
    assert "These runs can't be judged." in agenttrace("compare", "cut", "cut").stdout


def test_a_run_that_is_not_there(store: Path, tmp_path: Path) -> None:
    """The runs there are are listed."""
    a_scored_run(tmp_path, "main")
    result = agenttrace("compare", "main", "nightly")
    assert (result.returncode, result.stdout) == (3, "")
    assert "There are: main" in result.stderr


def test_settings_of_a_run_and_of_two(store: Path) -> None:
    """The contract by call site, and the difference as a person reads it; each as JSON too."""
    for run_id, temperature in (("aaaa", 0.0), ("bbbb", 0.7)):
        told = {
            "model.served": SettingValue(value="m-1", voice="served", source="response"),
            "sampling.temperature": SettingValue(value=temperature, voice="sent", source="wire"),
        }
        trace_id = run_id * 8
        root = a_span(1, trace_id=trace_id, run_id=run_id, metadata={"case": "q1"})
        call = a_model_call(2, trace_id=trace_id, run_id=run_id, settings=told, call_site="planner")
        import_records(store, [a_run(run_id=run_id, name=f"run-{run_id}", end_ns=NOON + SECOND)], [root, call])
    drawn = agenttrace("settings", "run-aaaa")
    assert drawn.returncode == 0, drawn.stderr
    assert "planner  1 call" in drawn.stdout
    told_json = json.loads(agenttrace("settings", "aaaa", "--json").stdout)
    assert told_json["call_sites"][0]["settings"]["sampling.temperature"]["values"][0]["value"] == 0.0
    difference = agenttrace("settings", "run-aaaa", "run-bbbb")
    assert difference.returncode == 0
    assert "sampling.temperature  at planner  blocks\n  baseline 0.0   candidate 0.7" in difference.stdout
    [told_difference] = json.loads(agenttrace("settings", "aaaa", "bbbb", "--json").stdout)["differences"]
    assert (told_difference["baseline"], told_difference["candidate"]) == (0.0, 0.7)


def test_how_settings_moved_over_all_runs_of_a_name(store: Path) -> None:
    """Each start of a program is a run: --since reads all of them, draws what changed and says when."""
    for number, temperature in enumerate((0.0, 0.0, 0.7)):
        told = {"sampling.temperature": SettingValue(value=temperature, voice="sent", source="wire")}
        run_id, trace_id, at = f"run{number}", f"{number + 1:032x}", NOON + number * SECOND
        root = a_span(2 * number + 1, trace_id=trace_id, run_id=run_id, start_ns=at)
        call = a_model_call(
            2 * number + 2, trace_id=trace_id, run_id=run_id, settings=told, call_site="planner", start_ns=at
        )
        import_records(store, [a_run(run_id=run_id, name="agent", start_ns=at, end_ns=at + SECOND)], [root, call])
    drawn = agenttrace("settings", "agent", "--since", "2020-01-01")
    assert (drawn.returncode, drawn.stderr) == (0, "")
    assert "settings of agent  3 runs, 3 model calls" in drawn.stdout
    assert "0.0 → 0.7" in drawn.stdout
    told_json = json.loads(agenttrace("settings", "agent", "--since", "2020-01-01", "--json").stdout)
    [setting] = told_json["call_sites"][0]["changed"]
    assert [(item["at_ns"], item["trace_id"]) for item in setting["switches"]] == [(NOON + 2 * SECOND, f"{3:032x}")]
    one = json.loads(agenttrace("settings", "run1", "--since", "2020-01-01", "--json").stdout)
    assert (one["runs"], one["call_sites"][0]["calls"]) == (1, 1)
    assert "No model call since then" in agenttrace("settings", "agent", "--since", "1h").stdout
    assert agenttrace("settings", "agent", "run1", "--since", "1h").returncode == 2
    assert agenttrace("settings", "agent", "--since", "soon").returncode == 2


class Tuned(FakeListChatModel):
    """A model that describes itself, as the integration packages do."""

    temperature: float = 0.0

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": "fake-1", "temperature": self.temperature}


def ask(name: str, temperature: float, prompt: str = "Plan in one sentence.") -> None:
    """Record an agent with two nodes over four cases; the second node's prompt has the input in it."""
    model = Tuned(responses=["yes"], temperature=temperature)

    def plan(state: Question) -> dict[str, str]:
        return {"answer": str(model.invoke([("system", prompt), ("human", state["question"])]).content)}

    def write(state: Question) -> dict[str, str]:
        return {"answer": str(model.invoke([("system", f"Write about {state['question']}.")]).content)}

    graph = StateGraph(Question)
    graph.add_node("plan", plan)
    graph.add_node("write", write)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "write")
    graph.add_edge("write", END)
    agent = graph.compile()
    with record(name):
        for case in range(4):
            agent.invoke({"question": f"room {case}", "answer": ""}, config={"metadata": {"case": f"q{case}"}})


@pytest.mark.usefixtures("store")
def test_recorded_agents_are_compared() -> None:
    """What the handler recorded is gated by node, and its times are paired by case."""
    ask("main", 0.0)
    ask("branch", 0.7)
    refused = agenttrace("compare", "main", "branch")
    assert refused.returncode == 11, refused.stderr
    assert "sampling.temperature  at plan, write  blocks  baseline 0.0   candidate 0.7" in refused.stdout
    allowed = agenttrace("compare", "main", "branch", "--changed", "sampling.temperature", "--json")
    assert allowed.returncode == 10, allowed.stderr
    told = json.loads(allowed.stdout)
    page = agenttrace("compare", "main", "branch", "--changed", "sampling.temperature", "--html", "-")
    assert (page.returncode, page.stderr) == (10, "")
    assert page.stdout.startswith("<!doctype html>")
    assert "duration, from" in page.stdout
    assert {metric["name"]: metric["n"] for metric in told["metrics"]}["latency_s"] == 4
    assert sorted(case["case"] for case in told["cases"]) == ["q0", "q1", "q2", "q3"]
    assert {(item["dimension"], item["call_site"]) for item in told["unverified_settings"]} >= {
        ("model.served", "plan"),
        ("prompt.content", "write"),
    }


@pytest.mark.usefixtures("store")
def test_a_prompt_that_was_edited_is_shown_as_a_diff() -> None:
    """The refusal shows the place, `settings` the lines."""
    ask("main", 0.0)
    ask("branch", 0.0, prompt="Plan in one line.")
    assert "--changed prompt.content" in agenttrace("compare", "main", "branch").stdout
    difference = agenttrace("settings", "main", "branch").stdout
    assert "prompt.content  at plan  blocks" in difference


def test_a_run_whose_process_was_killed_is_invalid(store: Path) -> None:
    """What a killed process left is no basis for a verdict."""
    program = """
import os, time
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from agenttrace import record
with record("killed"):
    FakeListChatModel(responses=["yes"]).invoke("hello")
    time.sleep(0.5)
    os._exit(9)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    result = agenttrace("compare", "killed", "killed")
    assert result.returncode == 12, result.stderr
    assert "unfinished" in result.stdout


def test_no_store_is_created_by_comparing(store: Path) -> None:
    """A command that reads leaves nothing behind."""
    for command in (("compare", "a", "b"), ("settings", "a")):
        assert agenttrace(*command).returncode == 3
    assert not store.exists()
