"""Which traces a filter finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttrace.records import ErrorRecord, SettingValue, Usage
from agenttrace.store.filters import TraceFilter
from agenttrace.store.importing import import_records
from agenttrace.store.reading import Store, open_store
from tests.builders import NOON, SECOND, a_model_call, a_run, a_span

LONG = "filler " * 200
CHAT = [{"role": "user", "content": f"message {n} {LONG}"} for n in range(6)]


def model(name: str) -> dict[str, SettingValue]:
    return {"model.served": SettingValue(value=name, voice="served", source="response")}


@pytest.fixture
def opened(store: Path) -> Store:
    a, b, c = ("a" * 32, "b" * 32, "c" * 32)
    import_records(
        store,
        [a_run(tags={"branch": "main"}), a_run(run_id="run2", name="weekly")],
        [
            a_span(1, trace_id=a, session="s1", tags=("blue",)),
            a_model_call(2, trace_id=a, settings=model("gpt-4o"), usage=Usage(total=900), input=CHAT),
            a_span(3, trace_id=b, run_id="run2", start_ns=NOON + SECOND, end_ns=NOON + 10 * SECOND, state="error",
                   error=ErrorRecord(type="ValueError", message="Wrong_Door")),
            a_model_call(4, trace_id=b, run_id="run2", parent_id=f"{3:016x}", settings=model("llama"),
                         usage=Usage(input=5, output=5), start_ns=NOON + SECOND, end_ns=NOON + 2 * SECOND, input=CHAT[:5], output=LONG + 'said "Ünder" us'),
            a_span(5, trace_id=c, start_ns=NOON + 2 * SECOND, end_ns=None, state="unfinished", name="Thursday"),
        ],
    )  # fmt: skip
    return open_store(store)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (TraceFilter(), "cba"),
        (TraceFilter(run_id="run2"), "b"),
        (TraceFilter(has_failed=True), "b"),
        (TraceFilter(trace_ids=["a" * 32, "d" * 32]), "a"),
        (TraceFilter(session="s1"), "a"),
        (TraceFilter(tag="blue"), "a"),
        (TraceFilter(tag="branch=main"), "ca"),
        (TraceFilter(tag="branch=mai"), ""),
        (TraceFilter(model="gpt*"), "a"),
        (TraceFilter(model="gpt"), ""),
        (TraceFilter(state="error"), "b"),
        (TraceFilter(state="unfinished"), "c"),
        (TraceFilter(error="valueerror: wrong_"), "b"),
        (TraceFilter(error="wrong%"), ""),
        (TraceFilter(since_ns=NOON + SECOND), "cb"),
        (TraceFilter(until_ns=NOON + SECOND), "a"),
        (TraceFilter(min_ns=2 * SECOND), "b"),
        (TraceFilter(max_ns=2 * SECOND), "a"),
        (TraceFilter(max_tokens=10), "b"),
        (TraceFilter(max_tokens=9), ""),
        (TraceFilter(min_tokens=10), "ba"),
        (TraceFilter(min_tokens=11), "a"),
        (TraceFilter(text="thursDAY"), "c"),
        (TraceFilter(text='said "ünder"'), "b"),
        (TraceFilter(text="message 3"), "ba"),  # inside two conversations with one beginning
        (TraceFilter(text="message 5"), "a"),  # where only one of them went on
        (TraceFilter(text="nowhere"), ""),
        (TraceFilter(text="message 3", model="llama", min_ns=1), "b"),
    ],
)
def test_a_filter_finds_what_is_so(opened: Store, where: TraceFilter, found: str) -> None:
    """Each condition finds the traces that are so, newest first, and several narrow each other."""
    assert "".join(trace.trace_id[0] for trace in opened.traces(where=where)) == found


def test_pages_follow_each_other(opened: Store) -> None:
    """Page by page gives what all at once gives."""
    pages = [opened.traces(1, offset=n) for n in range(4)]
    assert sum(pages, ()) == opened.traces()
    assert [run.name for run in opened.runs(1, offset=1)] == [opened.runs()[1].name]


def test_the_slowest_come_first(opened: Store) -> None:
    """By the time from first start to last end, whole or narrowed; what has not ended has no time yet."""
    assert [trace.trace_id[0] for trace in opened.traces(order="slowest")] == ["b", "a"]
    assert [trace.trace_id[0] for trace in opened.traces(1, offset=1, order="slowest")] == ["a"]
    narrowed = opened.traces(where=TraceFilter(until_ns=NOON + 10 * SECOND), order="slowest")
    assert [trace.trace_id[0] for trace in narrowed] == ["b", "a", "c"]
