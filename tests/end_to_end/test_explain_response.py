"""`agenttrace explain-response` from a file and from a pipe: what it cannot use it names, and it never makes up a phase."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

GROQ = {"queue_time": 0.017, "prompt_time": 0.024, "completion_time": 0.062, "total_time": 0.086}


def explain(file: str, *arguments: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "agenttrace", "explain-response", file, *arguments],
        input=given, capture_output=True, check=False,
    )  # fmt: skip


def explained(document: Any) -> dict[str, Any]:
    result = explain("-", "--json", given=document if isinstance(document, bytes) else json.dumps(document).encode())
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


def seconds(document: dict[str, Any]) -> dict[str, float]:
    return {name: phase["seconds"] for name, phase in document["phases"].items() if phase["seconds"] is not None}


def usage(**fields: Any) -> dict[str, Any]:
    return {"provider": "groq", "payload": {"usage": {**GROQ, **fields}}}


def test_a_file_and_a_pipe_say_the_same(tmp_path: Path) -> None:
    """The design's example, both ways, for people and for machines."""
    file = tmp_path / "response.json"
    file.write_text(json.dumps(usage()))
    assert json.loads(explain(str(file), "--json").stdout) == explained(usage())
    shown = explain(str(file)).stdout.decode()
    assert "queue" in shown
    assert "17 ms" in shown


@pytest.mark.parametrize(
    ("given", "said"),
    [(b"not json", "is no JSON"), (b"[1]", "holds no JSON object"), (b"", "is no JSON"), (b"\xff{}", "is no JSON"),
     (b"[" * 100_000, "is no JSON")],
)  # fmt: skip
def test_what_is_no_response_is_said(given: bytes, said: str) -> None:
    """One sentence and what to do; no traceback."""
    result = explain("-", given=given)
    assert result.returncode == 3
    assert said in result.stderr.decode()
    assert b"Traceback" not in result.stderr


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """The name is in the message."""
    result = explain(str(tmp_path / "none.json"))
    assert result.returncode == 3
    assert b"none.json" in result.stderr


@pytest.mark.parametrize(
    "document",
    [
        usage(queue_time=float("nan")),
        usage(queue_time=float("inf")),
        usage(queue_time=-1),
        usage(queue_time="0.017 s"),
        usage(queue_time=[0.017]),
        usage(queue_time={"seconds": 0.017}),
        usage(queue_time=True),
        usage(queue_time=17_000_000_000),
        usage(queue_time=1.7e300),
    ],
)
def test_a_value_that_is_no_time_is_no_phase(document: dict[str, Any]) -> None:
    """NaN, infinity, negative, text, lists, years: the queue is unknown, and what else is said stays."""
    found = explained(document)
    assert found["phases"]["queue"]["seconds"] is None
    assert seconds(found)["prefill"] == pytest.approx(0.024)
    assert seconds(found)["decode"] == pytest.approx(0.062)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"payload": None, "headers": None, "client": None, "provider": None},
        {"payload": [], "headers": "x", "client": 3, "provider": ["groq"]},
        {"provider": "groq", "payload": {"usage": None}},
        {"provider": "groq", "payload": {"usage": [GROQ]}},
        {"provider": "nobody", "payload": {"took": 3}},
        {"provider": "ollama", "payload": {"total_duration": "5", "eval_count": "many"}},
    ],
)
def test_a_shape_that_is_not_known_gives_no_phase(document: dict[str, Any]) -> None:
    """Without evidence there is no number, whatever the document looks like."""
    assert seconds(explained(document)) == {}


def test_an_unknown_shape_still_divides_what_the_client_saw() -> None:
    """The provider is not known; that it took two seconds, the first token after one, is."""
    found = explained(
        {"provider": "nobody", "payload": {"took": 3}, "client": {"e2e_s": 2.0, "ttft_s": 1.0, "streamed": True}}
    )
    assert sum(seconds(found).values()) == pytest.approx(2.0)
    assert found["notes"]


def test_times_in_the_wrong_unit_are_not_believed() -> None:
    """Milliseconds where seconds belong are longer than the client waited: rejected by name, with the reason."""
    found = explained(
        {**usage(queue_time=17.0, prompt_time=24.0, completion_time=62.0, total_time=86.0), "client": {"e2e_s": 0.2}}
    )
    assert sum(seconds(found).values()) == pytest.approx(0.2)
    assert found["rejected"]


def test_a_hundred_megabytes_are_read() -> None:
    """A response whose answer is huge says its times all the same."""
    padding = b'"' + b"x" * (100 << 20) + b'"'
    found = explained(json.dumps(usage()).encode()[:-1] + b', "padding": ' + padding + b"}")
    assert seconds(found)["queue"] == pytest.approx(0.017)
