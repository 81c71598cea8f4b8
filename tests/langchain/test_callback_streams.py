"""Recorded callbacks, played again: the spans are those that stand beside the recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.langchain.callback_cases import CASES
from tests.langchain.callback_streams import FOLDER, as_text, spans_of

ACTUAL = Path(__file__).parents[1] / "actual" / "callbacks"


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_stream_becomes_these_spans(name: str) -> None:
    """What differs is left in tests/actual/callbacks; copying it to the fixtures accepts it."""
    actual = as_text(spans_of(FOLDER / f"{name}.jsonl"))
    expected = FOLDER / f"{name}.spans.json"
    if actual != expected.read_text():
        ACTUAL.mkdir(parents=True, exist_ok=True)
        (ACTUAL / expected.name).write_text(actual)
    assert actual == expected.read_text()


def test_every_recording_is_of_a_case() -> None:
    """No stream lies about unused, and none is without its spans."""
    assert {path.name for path in FOLDER.iterdir()} == {
        f"{name}.{ending}" for name in CASES for ending in ("jsonl", "spans.json")
    }
