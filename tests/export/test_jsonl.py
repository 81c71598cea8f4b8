"""Runs and spans travel as JSON Lines and come back as they were; a broken file is refused whole, with the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.errors import InvalidRecord
from agenttrace.export.jsonl import read_lines, span_from_json, span_json, write_lines
from agenttrace.records import (
    AttemptRecord,
    ErrorRecord,
    EventRecord,
    Marks,
    PhaseTiming,
    SettingValue,
    SpanRecord,
    Usage,
)
from tests.builders import NOON, a_model_call, a_run, a_span

durations = st.none() | st.integers(0, 10**15)
counts = st.none() | st.integers(0, 10**9)
plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def model_calls(draw: st.DrawFn) -> SpanRecord:
    """Model calls with everything that a span may hold."""
    phases = [
        PhaseTiming(
            name=name,
            ns=draw(durations),
            low_ns=draw(durations),
            high_ns=draw(durations),
            source=draw(st.sampled_from(["server-reported", "derived", "unknown"])),
            method=draw(st.none() | plain),
            definition=draw(plain),
        )
        for name in draw(st.lists(st.sampled_from(["queue", "prefill", "decode", "delivery"]), unique=True))
    ]
    attempt = AttemptRecord(
        start_ns=NOON,
        end_ns=NOON + 5,
        status=draw(st.none() | st.integers(100, 599)),
        host=draw(plain),
        sent_ns=draw(durations),
    )
    return a_model_call(
        state=draw(st.sampled_from(["ok", "error", "abandoned"])),
        phases=tuple(phases),
        usage=Usage(input=draw(counts), output=draw(counts), cached=draw(counts)),
        marks=Marks(first_content_ns=draw(durations), chunks=draw(counts)),
        attempts=(attempt,),
        settings={
            "sampling.temperature": SettingValue(value=draw(st.none() | st.floats(0, 2)), voice="sent", source="wire")
        },
        events=(EventRecord(name=draw(plain), at_ns=NOON, data={"x": draw(counts)}),),
        error=draw(st.none() | st.builds(ErrorRecord, type=plain, message=plain)),
        notes=tuple(draw(st.lists(plain, max_size=2))),
        tags=tuple(draw(st.lists(plain, max_size=2))),
    )


@given(model_calls())
def test_a_span_comes_back_as_it_went(span: SpanRecord) -> None:
    """Writing and reading is the identity, to the nanosecond."""
    assert span_from_json(orjson.loads(orjson.dumps(span_json(span)))) == span


def test_a_file_comes_back_as_it_went(tmp_path: Path) -> None:
    """Runs and spans of a file are read in its order."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(write_lines([a_run()], [a_span(1), a_model_call(2)])))
    assert read_lines(path) == ([a_run()], [a_span(1), a_model_call(2)])


def changed(**values: Any) -> bytes:
    return orjson.dumps({**span_json(a_span(1)), "record": "span", **values})


@pytest.mark.parametrize(
    "line",
    [b"{broken", b"[1]", b'{"record":"song"}', changed(kind="tune"), changed(state="fine"), changed(span_id="xyz"),
     changed(start_ns="noon"), b"\xff\xfe"],
)  # fmt: skip
def test_a_broken_line_is_named(tmp_path: Path, line: bytes) -> None:
    """The message has the file, the line and what to do."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"".join(write_lines([a_run()], [a_span(1)])) + line + b"\n")
    with pytest.raises(InvalidRecord, match=r"bad\.jsonl.*3"):
        read_lines(path)
