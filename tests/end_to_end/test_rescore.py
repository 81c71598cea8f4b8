"""`agenttrace rescore` as it is typed: new evaluators over stored outputs, and the agent left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace import open_store
from agenttrace.judging import load_evidence

AGENT = """
import pathlib
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from agenttrace import Case, Score, Suite
from agenttrace.evaluation.evaluators import Contains

calls = pathlib.Path(__file__).with_name("calls")

def agent(worse_from):
    def task(given):
        with calls.open("a") as file:
            file.write("x")
        if given == 7:
            raise ValueError("the agent broke")
        model = FakeListChatModel(responses=["no idea" if given >= worse_from else f"it is {given}"])
        return model.invoke([("system", "Answer."), ("human", str(given))]).content
    return task
"""

OLD = (
    AGENT
    + """
def judge(output):
    return len(output) > 100

suite = Suite(name="s", cases=[Case(id=f"c{n}", input=n, expected=str(n)) for n in range(24)],
              task={"old": agent(99), "new": agent(4)}, evaluators={"right": judge}, repetitions=2)
"""
)

NEW = (
    AGENT
    + """
def right(output, trace, case):
    model = FakeListChatModel(responses=["fine"])
    assert model.invoke("Is it fine?").content == "fine"
    assert [call.name for call in trace.model_calls] == ["FakeListChatModel"], trace
    return Score(value=case.expected in output, reason=f"{output} for {case.expected}")

suite = Suite(name="s", cases=[Case(id=f"c{n}", input=n, expected=str(n)) for n in range(24)],
              task={"old": agent(99)}, evaluators=[right])
"""
)


def agenttrace(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agenttrace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path, store: Path) -> Path:
    """Two runs judged by an evaluator that finds nothing right, and a suite with a better one."""
    (tmp_path / "old.py").write_text(OLD)
    (tmp_path / "new.py").write_text(NEW)
    made = agenttrace("eval", "ab", tmp_path / "old.py", "--baseline", "old", "--candidate", "new")
    assert made.returncode == 0, made.stderr
    return tmp_path


def test_both_runs_are_judged_by_the_new_evaluator(folder: Path) -> None:
    """The verdict is the new one's, over the same traces; the agent was not called, and what it failed is still failed."""
    called = (folder / "calls").read_text()
    before = json.loads(agenttrace("compare", "s-old", "s-new", "--json").stdout)
    assert [metric["candidate"] for metric in before["metrics"] if metric["kind"] == "score"][:1] == [0.0]
    judged = agenttrace("rescore", folder / "new.py", "s-old", "s-new")
    assert judged.returncode == 0, judged.stderr
    assert "s-old-rescored" in judged.stdout
    assert "agenttrace compare" in judged.stdout
    assert (folder / "calls").read_text() == called
    compared = agenttrace("compare", "s-old-rescored", "s-new-rescored", "--json")
    assert compared.returncode == 1, compared.stdout + compared.stderr
    told = json.loads(compared.stdout)
    [score] = [metric for metric in told["metrics"] if metric["name"] == "right"]
    assert (score["baseline"], score["candidate"]) == (pytest.approx(23 / 24), pytest.approx(4 / 24))
    assert {difference["dimension"] for difference in told["differences"]} <= {"load"}
    old, new = (load_evidence(open_store(), name) for name in ("s-old", "s-old-rescored"))
    times = [{one.trace_id: one.metrics.get("latency_s") for one in run.repetitions} for run in (old, new)]
    assert times[0] == times[1]
    assert [one.outcome for one in new.repetitions if one.case == "c7"] == ["agent_error"] * 2
    assert [site for site in new.contract.sites if site.startswith("evaluator:")] == ["evaluator:right"]


def test_a_rescored_run_against_one_that_was_not_is_refused(folder: Path) -> None:
    """The evaluators differ: that would measure them."""
    assert agenttrace("rescore", folder / "new.py", "s-old").returncode == 0
    refused = agenttrace("compare", "s-old", "s-old-rescored")
    assert refused.returncode == 11
    assert "evaluator.code" in refused.stdout


def test_what_cannot_be_judged_anew_is_said(folder: Path) -> None:
    """Other inputs, another suite, a run that is not there: one sentence, and no run is made."""
    new = folder / "new.py"
    edited = folder / "edited.py"
    edited.write_text(NEW.replace("input=n", "input=n + 1"))
    other = folder / "other.py"
    other.write_text(NEW.replace('f"c{n}"', 'f"d{n}"'))
    for suite, ref, code, message in (
        (edited, "s-old", 2, "Cases have other inputs now than when s-old was made: c0"),
        (other, "s-old", 2, "has no case of the suite s"),
        (new, "nothing", 3, "There is no run 'nothing'"),
    ):
        failed = agenttrace("rescore", suite, ref)
        assert (failed.returncode, failed.stdout) == (code, ""), failed.stderr
        assert message in failed.stderr
    assert {run.name for run in open_store().runs()} == {"s-old", "s-new"}
