"""What is read from the bodies of a request and a response."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.clock import Anchor
from agenttrace.steps import OpenAttempt
from agenttrace.transport.bodies import REPORT_KEYS, SENT_KEYS, finish_attempt
from agenttrace.transport.observing import STREAM_HEAD, STREAM_TAIL, received, tap_faults

SSE, NDJSON, DOCUMENT = "text/event-stream", "application/x-ndjson", "application/json"


def report(*parts: bytes, kind: str = DOCUMENT, encoding: str = "") -> Mapping[str, Any]:
    """The report of a response whose body came in these parts."""
    attempt = OpenAttempt(start=0, host="h", path="/", content_type=kind, content_encoding=encoding)
    for part in parts:
        received(attempt, part)
    return cast(Mapping[str, Any], finish_attempt(attempt, Anchor(0, 0)).report)


def events(*documents: object) -> bytes:
    return b"".join(b"data: " + json.dumps(document).encode() + b"\n\n" for document in documents)


def sent(body: object) -> Mapping[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    attempt = OpenAttempt(start=0, host="h", path="/", request_body=data)
    return cast(Mapping[str, Any], finish_attempt(attempt, Anchor(0, 0)).sent_settings)


def test_times_become_times_of_day() -> None:
    """Marks are turned by the trace's anchor; what was not seen stays unknown."""
    attempt = OpenAttempt(start=100, host="h", path="/p", sent=150, end=200)
    finished = finish_attempt(attempt, Anchor(wall_ns=1_000_000, monotonic_ns=90))
    assert (finished.start_ns, finished.sent_ns, finished.end_ns) == (1_000_010, 1_000_060, 1_000_110)
    assert finished.first_byte_ns is None


def test_settings_are_read_and_content_is_not() -> None:
    """Listed keys are kept as they are; messages, prompts and what nobody listed are not."""
    kept = {"model": "m", "temperature": 0, "stop": ["a"], "tools": [{"name": "t"}], "options": {"num_ctx": 5}}
    content = {"messages": [{"content": "s"}], "system": "s", "prompt": "s", "input": "s", "user": "u", "api_key": "k"}
    assert sent({**kept, **content}) == kept


def test_of_text_only_the_format_is_a_setting() -> None:
    """In the Responses API `text` holds a format; elsewhere it is what the user wrote."""
    assert sent({"text": {"format": {"type": "json_object"}, "x": 1}}) == {"text": {"format": {"type": "json_object"}}}
    assert sent({"text": "the user's own words", "model": "m"}) == {"model": "m"}


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"\xff\xfe", b"a=b", b"null", b'{"a":' * 5000])
def test_a_body_that_is_no_object_says_nothing(body: bytes) -> None:
    """Neither settings nor a report, no error, no fault."""
    assert sent(body) == {}
    for kind in (DOCUMENT, SSE, NDJSON, ""):
        assert report(body, kind=kind) == {}
    assert tap_faults() == (0, None)


def test_a_documents_report_is_its_listed_keys() -> None:
    """Usage, timings, ids and the last choice's reason; no choices, no text."""
    choices = [{"finish_reason": "stop", "message": {"content": "text"}}, {"finish_reason": "length"}]
    reported = {"id": "i", "model": "m", "usage": {"prompt_tokens": 3, "queue_time": None}, "timings": {"prompt_ms": 1}}
    body = json.dumps({**reported, "object": "chat.completion", "choices": choices}).encode()
    assert report(body) == {**reported, "finish_reason": "length"}


def test_a_choices_meta_info_is_read_without_its_tokens() -> None:
    """SGLang reports times there, and on request every token, which is content."""
    meta = {"queue_time": 0.5, "e2e_latency": 2, "output_token_logprobs": [[-0.1, 5, "word"]]}
    expected = {"queue_time": 0.5, "e2e_latency": 2}
    assert report(json.dumps({"choices": [{"meta_info": meta}]}).encode()) == {"meta_info": expected}
    assert report(json.dumps({"meta_info": meta}).encode()) == {"meta_info": expected}


def test_anthropics_stream_counts_at_both_ends() -> None:
    """The prompt is counted when the message starts, the answer when it ends; null takes nothing back."""
    start = {
        "type": "message_start",
        "message": {"id": "m1", "model": "c", "usage": {"input_tokens": 9, "output_tokens": 1}},
    }
    delta = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"input_tokens": None, "output_tokens": 7},
    }
    assert report(events(start, {"type": "ping"}, delta, {"type": "message_stop"}), kind=SSE) == {
        "id": "m1", "model": "c", "usage": {"input_tokens": 9, "output_tokens": 7}, "finish_reason": "end_turn",
    }  # fmt: skip


def test_the_responses_api_reports_in_its_last_event() -> None:
    """`response.completed` holds the response, and the response the usage."""
    created = {"type": "response.created", "response": {"id": "r", "usage": None, "created_at": 1}}
    completed = {"type": "response.completed", "response": {"id": "r", "usage": {"input_tokens": 4}, "completed_at": 2}}
    assert report(events(created, {"type": "response.output_text.delta", "delta": "text"}, completed), kind=SSE) == {
        "id": "r", "created_at": 1, "completed_at": 2, "usage": {"input_tokens": 4},
    }  # fmt: skip


def test_geminis_stream_is_read() -> None:
    """Its usage comes with every chunk, its reason with the last."""
    first = {"candidates": [{"content": {}}], "usageMetadata": {"promptTokenCount": 3, "cachedContentTokenCount": 2}}
    last = {
        "candidates": [{"finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 5},
    }
    usage = {"promptTokenCount": 3, "cachedContentTokenCount": 2, "candidatesTokenCount": 5}
    assert report(events(first, last), kind=SSE) == {"usageMetadata": usage, "finish_reason": "STOP"}


def test_groqs_last_chunk_is_read_and_its_null_stays() -> None:
    """A queue time of null means unknown, which absence would not say."""
    usage = {"queue_time": None, "prompt_time": 0.1}
    found = report(events({"x_groq": {"id": "q"}}, {"x_groq": {"id": "q", "usage": usage}}), kind=SSE)
    assert found == {"x_groq": {"id": "q", "usage": usage}}


def test_ollamas_last_line_is_the_report() -> None:
    """Durations stand in the line that says done; `message` holds the answer and is not read."""
    lines = [
        {"model": "l", "created_at": "1", "message": {"role": "assistant", "content": "hi"}, "done": False},
        {"model": "l", "created_at": "2", "done": True, "done_reason": "stop", "total_duration": 9, "eval_count": 4},
    ]
    data = b"\n".join(json.dumps(line).encode() for line in lines)
    assert report(data[:20], data[20:], kind=NDJSON) == {
        "model": "l", "created_at": "2", "done_reason": "stop", "total_duration": 9, "eval_count": 4,
    }  # fmt: skip


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_events_are_framed_as_the_standard_says(newline: bytes) -> None:
    """Any of three line ends, comments, other fields, data over several lines, no empty line at the end."""
    lines = [
        b": waiting",
        b"event: x",
        b'data:{"id":',
        b'data: "i"}',
        b"",
        b"data: broken",
        b"",
        b"data: [DONE]",
        b"",
        b'data: {"model": "m"}',
    ]
    assert report(newline.join(lines), kind=SSE) == {"id": "i", "model": "m"}


def test_events_without_empty_lines_between_them_are_read() -> None:
    """Not as the standard says, and yet some servers do."""
    assert report(b'data: {"id": "i"}\ndata: {"model": "m"}\n', kind=SSE) == {"id": "i", "model": "m"}


@pytest.mark.parametrize("kind", [SSE, NDJSON])
def test_the_gap_in_a_long_stream_never_makes_a_number(kind: str) -> None:
    """Where the middle was let go, what stood before and after it must not become one line that nobody sent."""
    prefix = b"data: " if kind == SSE else b""
    head = prefix + b'{"id": "' + b"y" * STREAM_HEAD + b'"}\n\n' + prefix + b'{"usage": {"prompt_tokens": 1'
    filler = b"z" * STREAM_TAIL
    tail = b"9}}\n\n" + prefix + b'{"model": "m"}\n\n'
    found = report(head, filler, filler, tail + b"\n" * STREAM_TAIL, kind=kind)
    assert found == {"id": "y" * STREAM_HEAD, "model": "m"}


def test_numbers_that_json_does_not_know_are_passed_on() -> None:
    """Whether they can be true is for others to judge; what stands beside them is not lost."""
    found = report(b'{"metrics": {"rate": NaN, "low": -Infinity, "n": 12345678901234567890123, "queue_ms": -5.0}}')[
        "metrics"
    ]
    assert math.isnan(found["rate"])
    assert (found["low"], found["n"], found["queue_ms"]) == (-math.inf, 12345678901234567890123.0, -5.0)


def test_what_cannot_be_written_later_is_no_report() -> None:
    """JSON nested as deep as can be read but not be written would cost the whole call its record."""
    assert report(b'{"usage": ' + b'{"a": ' * 400 + b"1" + b"}" * 401) == {}
    assert report(b'{"id": "' + b"x" * (1 << 20) + b'"}') == {}
    assert tap_faults() == (0, None)


NAMES = st.sampled_from(sorted(REPORT_KEYS | {"choices", "delta", "message", "response", "candidates", "text"}))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(
    documents=st.lists(json_values, max_size=4),
    cut=st.integers(0, 200),
    kind=st.sampled_from([SSE, NDJSON, DOCUMENT, ""]),
)
def test_no_body_makes_a_fault(documents: Sequence[object], cut: int, kind: str) -> None:
    """Whatever shape a server sends, whole or cut off, the result can be written and holds only what is listed."""
    prefix = b"data: " if kind == SSE else b""
    body = b"\n\n".join(prefix + json.dumps(document).encode() for document in documents)
    before = tap_faults()[0]
    for data in (body, body[:cut]):
        found = report(data, kind=kind)
        assert found.keys() <= REPORT_KEYS | {"finish_reason"}
        assert sent(data).keys() <= SENT_KEYS
        orjson.dumps(found)
    assert tap_faults()[0] == before
