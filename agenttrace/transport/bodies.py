"""What the bodies of a request and its response say: settings that were sent, and the server's report. Off the agent's thread.

Only allow-listed keys are read; messages and answers are not kept a second time. What cannot be parsed is no report, never an
error.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from agenttrace.clock import Anchor
from agenttrace.steps import JSON, Attempt, ModelCall, OpenAttempt

INFLATED = 16 << 20
"""Bytes at most that a compressed body is unpacked to."""

SENT_KEYS = frozenset(
    """
    model temperature top_p top_k min_p n stop stop_sequences seed max_tokens max_completion_tokens max_output_tokens
    reasoning reasoning_effort thinking think response_format format text tools tool_choice parallel_tool_calls stream
    stream_options service_tier presence_penalty frequency_penalty repeat_penalty repetition_penalty logit_bias options
    keep_alive cache_prompt output_config generationConfig num_ctx num_predict
    """.split()
)

REPORT_KEYS = frozenset(
    """
    usage timings metrics time_info x_groq nvext stats perf_metrics meta_info usageMetadata modelVersion provider model id
    system_fingerprint service_tier created created_at completed_at output_token_metrics total_duration load_duration
    prompt_eval_count prompt_eval_duration eval_count eval_duration done_reason
    """.split()
)


def with_attempts(call: ModelCall) -> ModelCall:
    """The call with its requests read: what was sent, what the server reported."""
    if call.anchor is None or not call.seen_attempts:
        return call
    attempts = tuple(finish_attempt(attempt, call.anchor) for attempt in call.seen_attempts)
    return replace(call, attempts=attempts, seen_attempts=())


def finish_attempt(attempt: OpenAttempt, anchor: Anchor) -> Attempt:
    """The attempt as it is kept, its bodies read for what they tell."""

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
        sent_ns=moment(attempt.sent),
        headers_ns=moment(attempt.headers_at),
        first_byte_ns=moment(attempt.first_byte),
        reads=attempt.reads,
        error=attempt.error,
        headers=attempt.headers,
        sent_settings=_sent(attempt.request_body),
        report=_report(attempt),
    )


def _sent(body: bytes | None) -> Mapping[str, JSON]:
    document = _parse(body or b"")
    sent = {key: value for key, value in document.items() if key in SENT_KEYS}
    if isinstance(sent.get("text"), Mapping):
        sent["text"] = {"format": sent["text"].get("format")}  # the Responses API; the rest is not a setting
    return sent


def _parse(data: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _report(attempt: OpenAttempt) -> Mapping[str, JSON]:
    data = _inflate(b"".join([*attempt.head, *attempt.body]), attempt.content_encoding)
    if attempt.content_type == "text/event-stream":
        return _merged(_events(data))
    if "ndjson" in attempt.content_type or attempt.content_type == "application/stream+json":
        return _merged(_parse(line) for line in data.splitlines())
    return _merged([_parse(data)])


def _inflate(data: bytes, encoding: str) -> bytes:
    if not encoding or encoding == "identity":
        return data
    try:
        if encoding in ("gzip", "x-gzip"):
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, INFLATED)
        if encoding == "deflate":
            return zlib.decompressobj().decompress(data, INFLATED)
        if encoding == "br":
            import brotli

            return bytes(brotli.decompress(data))
        if encoding == "zstd":
            import zstandard

            return zstandard.ZstdDecompressor().decompressobj().decompress(data)[:INFLATED]
    except Exception:
        # A body that broke off, or an encoding whose library is not here: then there is no report.
        return b""
    return b""


def _events(data: bytes) -> Iterator[dict[str, Any]]:
    """The JSON of each `data:` line. Broken ones (the cut between beginning and end, comments, `[DONE]`) are passed over."""
    for line in data.splitlines():
        if line.startswith(b"data:"):
            yield _parse(line[5:].strip())


def _merged(documents: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> Mapping[str, JSON]:
    """The report that a sequence of documents makes: later values win, and usage is added to."""
    report: dict[str, JSON] = {}
    for document in documents:
        # Anthropic's stream begins with a message, the Responses API's ends with a response: the report is inside.
        for holder in (document, document.get("message"), document.get("response")):
            if isinstance(holder, dict):
                _add(report, holder)
    return report


def _add(report: dict[str, JSON], document: Mapping[str, Any]) -> None:
    for key, value in document.items():
        if key in REPORT_KEYS and value is not None:
            known = report.get(key)
            # Anthropic counts the prompt at a stream's beginning and the answer at its end.
            both = isinstance(known, Mapping) and isinstance(value, Mapping) and key == "usage"
            report[key] = {**known, **value} if both and isinstance(known, Mapping) else value
    delta = document.get("delta")
    reason = document.get("stop_reason") or (delta.get("stop_reason") if isinstance(delta, dict) else None)
    choices = document.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[-1], dict):
        reason = choices[-1].get("finish_reason") or reason
        if isinstance(choices[-1].get("meta_info"), dict):
            report["meta_info"] = choices[-1]["meta_info"]
    if isinstance(reason, str):
        report["finish_reason"] = reason
