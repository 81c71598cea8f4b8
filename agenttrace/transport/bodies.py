"""What the bodies of a request and its response say: settings that were sent, and the server's report.

Off the agent's thread. Only allow-listed keys are read; messages and answers are not kept a second time. Whatever the
bodies hold, nothing here raises: what cannot be parsed, or could not be written later, is no report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from agenttrace.clock import Anchor
from agenttrace.steps import JSON, Attempt, ModelCall, OpenAttempt
from agenttrace.transport.observing import count_fault
from agenttrace.transport.unpacking import unpack

SENT_KEYS = frozenset(
    """
    model temperature top_p top_k min_p n stop stop_sequences seed random_seed max_tokens max_completion_tokens max_output_tokens
    reasoning reasoning_effort thinking think response_format format text tools tool_choice parallel_tool_calls stream
    stream_options service_tier presence_penalty frequency_penalty repeat_penalty repetition_penalty logit_bias options
    keep_alive cache_prompt output_config generationConfig inferenceConfig toolConfig num_ctx num_predict max_new_tokens
    """.split()
)

REPORT_KEYS = frozenset(
    """
    usage timings metrics time_info x_groq nvext stats perf_metrics meta_info usageMetadata modelVersion provider model
    amazon-bedrock-invocationMetrics id system_fingerprint service_tier created created_at completed_at output_token_metrics total_duration load_duration
    prompt_eval_count prompt_eval_duration eval_count eval_duration done_reason
    """.split()
)

COUNTED_IN_PARTS = ("usage", "usageMetadata")
"""Reports that a stream gives in parts: Anthropic counts the prompt at the beginning and the answer at the end."""

REPORT_BYTES = 256 << 10
"""Bytes of JSON up to which a report is one; real ones have hundreds."""


def with_attempts(call: ModelCall) -> ModelCall:
    """The call with its requests read: what was sent, what the server reported."""
    if call.anchor is None or not call.seen_attempts:
        return call
    attempts = tuple(finish_attempt(attempt, call.anchor) for attempt in call.seen_attempts)
    return replace(call, attempts=attempts, seen_attempts=())


def finish_attempt(attempt: OpenAttempt, anchor: Anchor) -> Attempt:
    """The attempt as it is kept, its bodies read for what they tell. Never raises."""

    def moment(mark: int | None) -> int | None:
        return None if mark is None else anchor.at(mark)

    return Attempt(
        start_ns=anchor.at(attempt.start),
        end_ns=moment(attempt.end),
        host=attempt.host,
        path=attempt.path,
        status=attempt.status,
        connect_start_ns=moment(attempt.connect_start),
        connect_end_ns=moment(attempt.connect_end),
        send_start_ns=moment(attempt.send_start),
        sent_ns=moment(attempt.sent),
        headers_ns=moment(attempt.headers_at),
        first_byte_ns=moment(attempt.first_byte),
        reads=attempt.reads,
        read_times_ns=[at - attempt.start for at in attempt.read_times] if attempt.reads > 1 else (),
        read_bytes=sum(attempt.read_sizes) if attempt.reads else None,
        error=attempt.error,
        headers=attempt.headers,
        sent_settings=_read(_sent, attempt),
        report=_read(_report, attempt, REPORT_BYTES),
    )


def _read(
    reader: Callable[[OpenAttempt], dict[str, JSON]], attempt: OpenAttempt, limit: int | None = None
) -> Mapping[str, JSON]:
    """What a reader finds, if the journal can write it."""
    try:
        found = reader(attempt)
    except Exception as error:
        count_fault(error)
        return {}
    try:
        size = len(orjson.dumps(found))
    except TypeError:
        return {}  # nested deeper than JSON is written: no server means that
    return found if limit is None or size <= limit else {}


def _sent(attempt: OpenAttempt) -> dict[str, JSON]:
    document = _parse(attempt.request_body or b"")
    sent = {key: value for key, value in document.items() if key in SENT_KEYS}
    text = sent.pop("text", None)
    if isinstance(text, dict):  # of the Responses API, where it holds a format; elsewhere `text` is the prompt
        sent["text"] = {"format": text.get("format")}
    return sent


def _report(attempt: OpenAttempt) -> dict[str, JSON]:
    if attempt.content_type == "text/event-stream":
        return _merged(_events(_lines(attempt)))
    if "ndjson" in attempt.content_type or attempt.content_type == "application/stream+json":
        return _merged(_parse(line) for line in _lines(attempt))
    return _merged([_parse(_whole(attempt))])


def _whole(attempt: OpenAttempt) -> bytes:
    return unpack(b"".join([*attempt.head, *attempt.body]), attempt.content_encoding)


def _lines(attempt: OpenAttempt) -> list[bytes]:
    """The lines of a stream. Where its middle was let go, the halves around the gap must not become one line."""
    head, tail = list(attempt.head), list(attempt.body)
    if not head or len(head) + len(tail) == attempt.reads:
        return _whole(attempt).splitlines()
    return [*b"".join(head).splitlines(), b"", *b"".join(tail).splitlines()[1:]]


def _events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON of each server-sent event. Comments, `[DONE]` and broken events are passed over."""
    data: list[bytes] = []
    for line in (*lines, b""):
        if line.startswith(b"data:"):
            data.append(line[5:])
        elif not line and data:
            yield _parse(b"\n".join(data))
            if len(data) > 1:  # some servers forget the empty line between events: then each line is one
                yield from map(_parse, data)
            data = []


def _parse(text: bytes) -> dict[str, Any]:
    """The JSON object in `text`, or an empty one."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        document = _parse_loosely(text)
    return document if isinstance(document, dict) else {}


def _parse_loosely(text: bytes) -> object:
    """Python's servers write `NaN` and `Infinity` where a rate divides by zero; what else they say is still true."""
    if b"NaN" not in text and b"Infinity" not in text:
        return None
    try:
        return json.loads(text, parse_int=_number)
    except (ValueError, RecursionError):
        return None


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) < 19 else float(digits)  # as orjson does: no integer beyond 64 bits


def _merged(documents: Iterable[dict[str, Any]]) -> dict[str, JSON]:
    """The report that a sequence of documents makes: later values win, null never does."""
    report: dict[str, JSON] = {}
    for document in documents:
        # Anthropic's stream begins with a message, the Responses API's ends with a response: the report is inside.
        for holder in (document, document.get("message"), document.get("response")):
            if isinstance(holder, dict):
                _add(report, holder)
    return report


def _add(report: dict[str, JSON], document: dict[str, Any]) -> None:
    for key in REPORT_KEYS & document.keys():
        _put(report, key, document[key])
    choice = _last(document.get("choices"))
    _put(report, "meta_info", choice.get("meta_info"))
    delta = document.get("delta")
    reasons = (
        choice.get("finish_reason"),
        document.get("stop_reason"),
        delta.get("stop_reason") if isinstance(delta, dict) else None,
        _last(document.get("candidates")).get("finishReason"),
    )
    _put(report, "finish_reason", next((reason for reason in reasons if isinstance(reason, str)), None))


def _put(report: dict[str, JSON], key: str, value: JSON) -> None:
    if value is None:
        return
    known = report.get(key)
    if key in COUNTED_IN_PARTS and isinstance(value, dict) and isinstance(known, dict):
        value = known | {name: part for name, part in value.items() if part is not None or name not in known}
    elif key == "meta_info" and isinstance(value, dict):
        value = {name: part for name, part in value.items() if not isinstance(part, list)}  # tokens, one by one
    report[key] = value


def _last(choices: object) -> dict[str, Any]:
    last = choices[-1] if isinstance(choices, list) and choices else None
    return last if isinstance(last, dict) else {}
