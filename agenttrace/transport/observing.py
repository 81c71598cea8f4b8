"""What every client's tap does with a request: opens an attempt, marks it, keeps what the server reports.

All of it runs on the agent's thread, between the client and its bytes. So nothing is parsed or copied here, and what is
called with a response under way never raises: a fault of ours is counted, and `tap_faults` tells it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from agenttrace import clock
from agenttrace.steps import OpenAttempt, OpenStep, current_model_call
from agenttrace.transport.kept_headers import kept_headers

WHOLE_BODY = 4 << 20
"""Bytes up to which a body that does not stream, or is compressed, is kept for its report; a larger one is let go."""

STREAM_HEAD = 8 << 10
STREAM_TAIL = 64 << 10
"""Bytes of a stream's beginning and end that are kept: reports stand there."""

TIMED_READS = 65_536

STREAMED_TYPES = ("text/event-stream", "application/x-ndjson", "application/ndjson", "application/stream+json")

MARKS = {
    "connect_tcp.started": "connect_start",
    "connect_unix_socket.started": "connect_start",
    "connect_tcp.complete": "connect_end",
    "connect_unix_socket.complete": "connect_end",
    "setup_socks5_connection.complete": "connect_end",
    "start_tls.complete": "connect_end",
    "send_request_headers.started": "send_start",
    "send_request_body.complete": "sent",
    "receive_response_headers.complete": "headers_at",
}
"""Events of httpcore's trace extension, without the protocol in front (`http11.`, `http2.`, `connection.`)."""

_MARK_OF = {
    f"{protocol}.{event}": mark
    for event, mark in MARKS.items()
    for protocol in ("connection", "http11", "http2", "proxy", "http_proxy", "socks")
}
"""The same by the whole name: a request has a dozen events, and most of them mean nothing to us."""

_first_attempt = threading.Lock()
_faults = 0
_last_fault: str | None = None


def count_fault(error: BaseException) -> None:
    """Count an exception of our own."""
    global _faults, _last_fault
    _faults += 1
    _last_fault = f"{type(error).__name__}: {error}"


def tap_faults() -> tuple[int, str | None]:
    """How often watching failed in this process, and why the last time."""
    return _faults, _last_fault


def open_model_call() -> OpenStep | None:
    """The model call that runs here, if one does."""
    step = current_model_call.get()
    return step if step is not None and step.is_open else None


def begin(step: OpenStep, host: str, path: str, body: bytes | None) -> OpenAttempt:
    """A request of this model call starts now. May raise, and then there is no attempt."""
    attempt = OpenAttempt(start=clock.monotonic_ns(), host=host, path=path)
    if isinstance(body, bytes) and len(body) <= WHOLE_BODY:
        attempt.request_body = body
    if step.attempts is None:
        with _first_attempt:  # a model call may send several requests at once, from several threads
            if step.attempts is None:
                step.attempts = []
    step.attempts.append(attempt)
    return attempt


def traceparent(step: OpenStep) -> str:
    """The W3C header that makes a server's own spans children of this model call."""
    return f"00-{step.trace_id:032x}-{step.span_id:016x}-{step.traceparent_flags:02x}"


def mark_event(attempt: OpenAttempt, name: str) -> None:
    """Note an event of httpcore's trace extension, like `http11.send_request_body.complete`.

    Connecting starts once, however often it is tried. Of what repeats (a proxy is asked first) the last counts.
    """
    try:
        mark = _MARK_OF.get(name)
        if mark is not None and not (mark == "connect_start" and attempt.connect_start is not None):
            setattr(attempt, mark, clock.monotonic_ns())
    except Exception as error:
        count_fault(error)


def responded(attempt: OpenAttempt, status: int, headers: Iterable[tuple[str | bytes, str | bytes]]) -> None:
    """The response's head is here."""
    try:
        if attempt.headers_at is None:
            attempt.headers_at = clock.monotonic_ns()
        attempt.status = status
        attempt.content_type, attempt.content_encoding, attempt.headers = kept_headers(headers)
    except Exception as error:
        count_fault(error)


def received(attempt: OpenAttempt, data: bytes) -> None:
    """A part of the body was read."""
    try:
        now = clock.monotonic_ns()
        if attempt.first_byte is None:
            attempt.first_byte = now
        attempt.reads += 1
        if attempt.reads <= TIMED_READS:
            attempt.read_times.append(now)
            attempt.read_sizes.append(len(data))
        _keep(attempt, data)
    except Exception as error:
        count_fault(error)


def _keep(attempt: OpenAttempt, data: bytes) -> None:
    """Both ends of a stream, the whole of a document, nothing of a picture or a file."""
    kind = attempt.content_type
    if kind in STREAMED_TYPES:
        # The ends of a compressed stream cannot be read without its middle.
        (_keep_whole if attempt.content_encoding else _keep_ends)(attempt, data)
    elif not kind or "json" in kind:  # servers that name no type are small ones, and what they send is JSON
        _keep_whole(attempt, data)


def _keep_whole(attempt: OpenAttempt, data: bytes) -> None:
    if attempt.body_bytes <= WHOLE_BODY:
        attempt.body.append(data)
        attempt.body_bytes += len(data)
        if attempt.body_bytes > WHOLE_BODY:
            attempt.body.clear()  # half a document tells nothing


def _keep_ends(attempt: OpenAttempt, data: bytes) -> None:
    if attempt.head_bytes < STREAM_HEAD:
        attempt.head.append(data)
        attempt.head_bytes += len(data)
        return
    attempt.body.append(data)
    attempt.body_bytes += len(data)
    while attempt.body_bytes - len(attempt.body[0]) >= STREAM_TAIL:
        attempt.body_bytes -= len(attempt.body.popleft())


def ended(attempt: OpenAttempt, error: BaseException | None = None) -> None:
    """The body is complete, was closed early, or broke off. The first word counts."""
    try:
        if attempt.end is None:
            attempt.end = clock.monotonic_ns()
            if error is not None:
                attempt.error = type(error).__name__
    except Exception as fault:
        count_fault(fault)
