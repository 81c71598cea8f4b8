"""What every client's tap does with a request: opens an attempt, marks it, keeps the server's report, counts its own faults."""

from __future__ import annotations

from collections.abc import Iterable

from agenttrace import clock
from agenttrace.steps import OpenAttempt, OpenStep, current_model_call

WHOLE_BODY = 4 << 20
"""Bytes up to which a body that does not stream, or is compressed, is kept for its report; a larger one is let go."""

STREAM_HEAD = 8 << 10
STREAM_TAIL = 64 << 10
"""Bytes of a stream's beginning and end that are kept: reports stand there."""

TIMED_READS = 65_536

STREAMED_TYPES = ("text/event-stream", "application/x-ndjson", "application/stream+json")

KEPT_HEADERS = frozenset(
    """
    retry-after retry-after-ms request-id x-request-id apim-request-id server-timing openai-processing-ms openai-version
    x-ms-region x-compute-time x-compute-type x-total-time x-validation-time x-queue-time x-inference-time x-time-per-token
    x-prompt-tokens x-generated-tokens x-should-retry x-amzn-requestid x-amzn-bedrock-invocation-latency
    x-amzn-bedrock-input-token-count x-amzn-bedrock-output-token-count
    """.split()
)
KEPT_PREFIXES = (
    *("x-ratelimit-", "anthropic-ratelimit-", "x-envoy-", "x-kong-", "x-metrics-", "fireworks-", "x-litellm-"),
    "llm_provider-",
)
"""Response headers that are kept. Everything else, cookies first of all, is never read."""

_faults = 0
_last_fault: str | None = None


def count_fault(error: BaseException) -> None:
    """Count an exception of our own."""
    global _faults, _last_fault
    _faults += 1
    _last_fault = f"{type(error).__name__}: {error}"


def tap_faults() -> tuple[int, str | None]:
    """How many requests could not be watched, and why the last one."""
    return _faults, _last_fault


def open_model_call() -> OpenStep | None:
    """The model call that runs here, if one does."""
    step = current_model_call.get()
    return step if step is not None and step.is_open else None


def begin(step: OpenStep, host: str, path: str, body: bytes | None) -> OpenAttempt:
    """A request of this model call starts now."""
    attempt = OpenAttempt(start=clock.monotonic_ns(), host=host, path=path)
    if isinstance(body, bytes) and len(body) <= WHOLE_BODY:
        attempt.request_body = body
    if step.attempts is None:
        step.attempts = []
    step.attempts.append(attempt)
    return attempt


def traceparent(step: OpenStep) -> str:
    """The W3C header that makes a server's own spans children of this model call."""
    return f"00-{step.trace_id:032x}-{step.span_id:016x}-{step.traceparent_flags:02x}"


def mark_event(attempt: OpenAttempt, name: str) -> None:
    """Note an event of httpcore's trace extension, like `http11.send_request_body.complete`."""
    if name.endswith(("connect_tcp.started", "connect_unix_socket.started")):
        if attempt.connect_start is None:
            attempt.connect_start = clock.monotonic_ns()
    elif name.endswith(("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")):
        attempt.connect_end = clock.monotonic_ns()
    elif name.endswith("send_request_body.complete"):
        attempt.sent = clock.monotonic_ns()
    elif name.endswith("receive_response_headers.complete"):
        attempt.headers_at = clock.monotonic_ns()


def responded(attempt: OpenAttempt, status: int, headers: Iterable[tuple[str, str]]) -> None:
    """The response's head is here."""
    if attempt.headers_at is None:
        attempt.headers_at = clock.monotonic_ns()
    attempt.status = status
    kept = {}
    for name, value in headers:
        name = name.lower()
        if name == "content-type":
            attempt.content_type = value.split(";")[0].strip().lower()
        elif name == "content-encoding":
            attempt.content_encoding = value.strip().lower()
        elif name in KEPT_HEADERS or name.startswith(KEPT_PREFIXES):
            kept[name] = value
    attempt.headers = kept


def received(attempt: OpenAttempt, data: bytes) -> None:
    """A part of the body was read."""
    now = clock.monotonic_ns()
    if attempt.first_byte is None:
        attempt.first_byte = now
    attempt.reads += 1
    if attempt.reads <= TIMED_READS:
        attempt.read_times.append(now)
        attempt.read_sizes.append(len(data))
    if attempt.content_type in STREAMED_TYPES and not attempt.content_encoding:
        _keep_ends(attempt, data)
    elif attempt.body_bytes <= WHOLE_BODY:
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
    if attempt.end is None:
        attempt.end = clock.monotonic_ns()
        if error is not None:
            attempt.error = type(error).__name__
