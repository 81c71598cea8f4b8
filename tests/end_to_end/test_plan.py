"""`agenttrace plan` and `aa` as they are typed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace.export.scored import import_scored


def agenttrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agenttrace", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def a_scored_run(
    folder: Path, name: str, *, repetitions: int, cases: int = 30, seed: int = 0, served: str = "m"
) -> None:
    rng = random.Random(seed)
    lines = [
        {"case": f"q{case}", "repetition": number, "scores": {"correct": float(rng.random() < 0.5 + case / 60)},
         "metrics": {"cost_usd": 0.002, "latency_s": 1.5}, "settings": {"model.served": served}}
        for case in range(cases)
        for number in range(1, repetitions + 1)
    ]  # fmt: skip
    file = folder / f"{name}.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    import_scored(None, file, name)


@pytest.mark.usefixtures("store")
def test_a_plan_is_printed_for_people_and_machines(tmp_path: Path) -> None:
    """With the price, and nothing on standard error; wrong rules are usage errors."""
    a_scored_run(tmp_path, "pilot", repetitions=4)
    options = ("--margin", "correct=0.2", "--repetitions", "3", "--repetitions", "5")
    drawn = agenttrace("plan", "pilot", *options)
    assert (drawn.returncode, drawn.stderr) == (0, "")
    assert "correct  margin 0.2, 30 cases × 4 recorded" in drawn.stdout
    assert "with which an unchanged agent passes with 80 %" in drawn.stdout
    told = json.loads(agenttrace("plan", "pilot", *options, "--json").stdout)
    [metric] = told["metrics"]
    assert [row["repetitions"] for row in metric["rows"]] == [3, 5]
    needed = metric["rows"][0]["needed"]
    assert needed["cost_usd"] == pytest.approx(0.002 * needed["attempts"])
    assert needed["attempts"] == 6 * metric["rows"][0]["cases"]
    failed = agenttrace("plan", "pilot", "--margin", "correct=-1")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "the margin of correct is -1" in failed.stderr


@pytest.mark.usefixtures("store")
def test_rates_of_an_unchanged_agent_are_printed(tmp_path: Path) -> None:
    """Of one run and of two; two that differ in a setting are refused with exit code 11."""
    a_scored_run(tmp_path, "pilot", repetitions=4)
    a_scored_run(tmp_path, "other", repetitions=1, served="n")
    drawn = agenttrace("aa", "pilot", "--divisions", "30", "--margin", "correct=0.2")
    assert (drawn.returncode, drawn.stderr) == (0, "")
    assert "30 random divisions, 30 cases × 2 against 2" in drawn.stdout
    assert "at most 5 % is promised" in drawn.stdout.replace("\n", " ")
    told = json.loads(agenttrace("aa", "pilot", "--divisions", "30", "--json").stdout)
    assert sum(rate["count"] for rate in told["verdicts"].values()) == told["divisions"] == 30
    refused = agenttrace("aa", "pilot", "other")
    assert (refused.returncode, refused.stdout) == (11, "")
    assert "model.served" in refused.stderr
    assert agenttrace("aa", "other").returncode == 2
