"""What LangSmith and Langfuse exported (fixtures/imports) becomes traces: nested, with settings, tokens, messages and ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace import open_store
from agenttrace.errors import InvalidRecord
from agenttrace.export.json_fields import BadRecords
from agenttrace.export.tracers import open_tracer_file, read_tracer
from agenttrace.records import SpanRecord

FILES = Path(__file__).parents[2] / "fixtures" / "imports"


def agenttrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "agenttrace", *arguments], capture_output=True, text=True, check=False)


def items(name: str) -> list[Any]:
    text = (FILES / name).read_text()
    return [json.loads(line) for line in text.splitlines()] if name.endswith("l") else list(json.loads(text)["data"])


def spans_of(values: object, *, skip: bool = False) -> list[SpanRecord]:
    opened = open_tracer_file(json.dumps(values).encode())
    assert opened is not None
    return read_tracer(*opened, "test", BadRecords("test.json", are_skipped=skip))[1]


def value(span: SpanRecord, dimension: str) -> Any:
    return span.settings[dimension].value


def test_langsmith_runs_are_nested_steps() -> None:
    """The tree, the places of model calls, their messages, and what a tool was given and gave."""
    spans = spans_of(items("langsmith.jsonl"))
    first = [span for span in spans if span.trace_id == spans[0].trace_id]
    names = {span.span_id: span.name for span in first}
    assert [(span.kind, span.name, names.get(span.parent_id or "")) for span in first] == [
        ("agent", "geographer", None),
        ("chain", "model", "geographer"),
        ("model", "M", "model"),
        ("chain", "tools", "geographer"),
        ("tool", "population_of", "tools"),
        ("chain", "model", "geographer"),
        ("model", "M", "model"),
    ]
    root, _, call, _, tool, *_ = first
    assert (root.session, root.tags) == ("s-1", ("demo",))
    assert call.call_site == "model"
    assert call.input == [{"role": "user", "content": "How many live in Bern?"}]
    asked = {"id": "call-1", "name": "population_of", "args": {"city": "Bern"}}
    assert call.output == {"role": "assistant", "content": "", "name": "geographer", "tool_calls": [asked]} or call.output == {
        "role": "assistant", "content": "", "tool_calls": [asked]
    }  # fmt: skip
    assert (tool.input, tool.output) == (
        {"city": "Bern"},
        {"role": "tool", "content": "134000", "name": "population_of", "tool_call_id": "call-1"},
    )


def test_settings_tokens_and_ends_of_langsmith() -> None:
    """As a recording of ours would have them; what LangSmith does not tell is unknown, not zero."""
    spans = spans_of(items("langsmith.jsonl"))
    call = next(span for span in spans if span.kind == "model")
    assert (value(call, "model.requested"), value(call, "model.served")) == ("gpt-5-mini", "gpt-5-mini-2026-08-07")
    assert (value(call, "provider"), value(call, "sampling.temperature")) == ("openai", 0.2)
    assert call.usage is not None
    assert (call.usage.input, call.usage.output, call.usage.cached) == (40, 9, None)
    assert call.finish_reason == "tool_calls"
    failed = [span for span in spans if span.state != "ok"]
    assert [(span.name, span.state) for span in failed] == [
        ("geographer", "error"),
        ("tools", "error"),
        ("population_of", "error"),
    ]
    assert all(span.error and (span.error.type, span.error.message) == ("ValueError", "it sank") for span in failed)


def test_langfuse_observations() -> None:
    """Kinds, labels, JSON within texts, tokens added up, the first token, and the version of a prompt."""
    spans = {span.name: span for span in spans_of(items("langfuse.json"))}
    root, planner = spans["support"], spans["planner"]
    assert (root.kind, root.session, root.user, root.tags, root.trace_id) == (
        "agent", "s-7", "u-1", ("beta",), "4bf92f3577b34da6a3ce929d0e0e4736"
    )  # fmt: skip
    assert (planner.kind, planner.parent_id) == ("model", root.span_id == "00f067aa0ba902b7" and root.span_id)
    assert isinstance(planner.input, list)
    assert planner.input[1] == {"role": "user", "content": "Where is my parcel?"}
    assert planner.usage is not None
    assert (planner.usage.input, planner.usage.cached, planner.usage.output, planner.usage.reasoning) == (
        1124,
        1024,
        84,
        64,
    )
    assert planner.marks is not None
    assert planner.marks.first_content_ns == 500_000_000
    assert value(planner, "prompt.label") == "planner@4"
    assert value(planner, "limits.max_output_tokens") == 300
    assert value(planner, "model.requested") == "gpt-5-mini-2026-08-07"
    assert "sampling.top_p" not in planner.settings
    assert (spans["track"].kind, spans["track"].input, spans["track"].output) == ("tool", {"number": 17}, "Bern")
    assert spans["notify"].error is not None
    assert spans["notify"].error.type == "TimeoutError"
    assert spans["docs"].kind == "retriever"
    assert spans["answer"].state == "unfinished"


@pytest.mark.parametrize("name", ["langsmith.jsonl", "langfuse.json"])
def test_the_command_takes_the_file_once(name: str, store: Path) -> None:
    """Without being told whose it is; a second time adds nothing; it can be looked at."""
    first, again = (
        json.loads(agenttrace("import", str(FILES / name), "--json", "--run", "theirs").stdout) for _ in range(2)
    )
    assert first["spans"] == len(items(name)) == again["already_there"]
    assert again["spans"] == again["runs"] == 0
    assert first["run_ids"] == again["run_ids"]
    assert open_store().run("theirs").metadata["imported_from"] == name.partition(".")[0]
    assert agenttrace("show", "last").returncode == 0


def change_first(change: Callable[[Any], object]) -> list[Any]:
    values = items("langfuse.json")
    change(values[1])
    return values


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda item: item.update(startTime="yesterday"), "item 2: ValueError: Invalid isoformat"),
        (lambda item: item.update(startTime="1969-01-01T00:00:00Z"), "item 2: 1969-01-01T00:00:00Z is no time between"),
        (lambda item: item.update(startTime=None), "item 2: it does not tell when it began"),
        (lambda item: item.clear(), "item 2: this is no step of langfuse"),
    ],
)
def test_a_bad_step_is_told_with_its_place(change: Callable[[Any], object], told: str) -> None:
    """Nothing is taken of such a file, unless it is said to leave it out; what stood below it then has no parent here."""
    values = change_first(change)
    with pytest.raises(InvalidRecord) as caught:
        spans_of(values)
    assert told in str(caught.value)
    assert len(spans_of(values, skip=True)) == len(values) - 1


def test_secrets_in_what_others_recorded_stay_outside(store: Path, tmp_path: Path) -> None:
    """A key within a setting or an error never reaches the store."""
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    values = change_first(
        lambda item: item.update(level="ERROR", statusMessage=f"AuthError: {secret}", metadata={"api_key": secret})
    )
    file = tmp_path / "export.json"
    file.write_text(json.dumps(values))
    assert agenttrace("import", str(file)).returncode == 0
    assert secret not in agenttrace("show", "last", "--json").stdout


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_whatever_the_tree_no_step_is_lost(parents: list[int]) -> None:
    """Parents that are missing, a step's own, and circles."""
    values = [
        {**items("langfuse.json")[0], "id": f"{n:016x}", "parentObservationId": f"{parent:016x}" if parent else None}
        for n, parent in enumerate(parents, 1)
    ]
    assert sorted(span.span_id for span in spans_of(values)) == [item["id"] for item in values]
