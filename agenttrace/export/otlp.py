"""Sends stored steps to an OpenTelemetry endpoint: OTLP over HTTP, protobuf, gzip, in batches of bounded size.

In: records and an endpoint. Out: how much was sent. Sending is at least once, with ids that stay, so sending again is
harmless. The connection is `http.client`'s: it follows no redirect and knows no proxy, so that loopback stays loopback.
"""

from __future__ import annotations

import gzip
import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from opentelemetry.sdk.resources import Resource

from agenttrace import clock
from agenttrace.errors import DISTRIBUTION, EndpointRefused, EndpointUnreachable, MissingExtra, UsageError
from agenttrace.export.refusals import sent_elsewhere, unsafe
from agenttrace.pricing import Prices
from agenttrace.records import SpanRecord
from agenttrace.spans.otel import TABLE_PRICES, readable_spans

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

SERVICE: Final = "service.name"
PROJECT: Final = "openinference.project.name"
"""Where Phoenix and Arize file the spans of a resource."""

MODEL_ID: Final = "model_id"
"""What Arize AX calls a project in a resource."""

TRACES_PATH = "/v1/traces"

MAX_BATCH_BYTES = 4 << 20
"""Of one request before compression. A collector takes 20 MiB by default; a step that is larger travels alone."""

MAX_BATCH_SPANS = 512

PATIENCE_S = 30.0
FIRST_DELAY_S = 0.25
LONGEST_DELAY_S = 5.0
TIMEOUT_S = 30.0
"""How long one request may take."""

MAX_ANSWER_BYTES = 64 << 10
SHOWN_REASON = 200
"""How many characters of an endpoint's answer an error repeats."""

GZIP_LEVEL = 4
"""Of what spans are made of, level 9 saves a tenth more and takes three times as long."""

Progress = Callable[[int], None]
Encoder = Callable[[Sequence["ReadableSpan"]], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """What an endpoint has acknowledged."""

    steps: int
    """Records that were sent."""
    spans: int
    """The OpenTelemetry spans they became, with phases and attempts."""
    requests: int
    """Requests that were acknowledged; tries that failed on the way are not counted."""
    sent_bytes: int
    """On the wire, compressed."""
    rejected: int = 0
    """Spans that the endpoint says it did not keep, of those it acknowledged."""
    rejected_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    parts: tuple[bytes, ...]
    spans: int

    def body(self) -> bytes:
        # Encoded requests may be joined: protobuf reads their concatenation as one message with all of their spans.
        return gzip.compress(b"".join(self.parts), compresslevel=GZIP_LEVEL, mtime=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    """With names in small letters: servers write them as they like."""
    body: bytes


def send_spans(
    spans: Iterable[SpanRecord],
    endpoint: str,
    *,
    headers: Mapping[str, str] | None = None,
    project: str | None = None,
    prices: Prices = TABLE_PRICES,
    progress: Progress | None = None,
    patience_s: float = PATIENCE_S,
) -> SendResult:
    """Send steps, with their phases and attempts as spans below them.

    Args:
        spans: taken one by one, so that a generator's records are never all in memory.
        endpoint: `http://host:port`, or with the path that takes traces; `/v1/traces` is added unless it ends so.
        headers: sent with each request, for keys. Never shown in an error.
        project: where Phoenix files the spans; None leaves it to the endpoint.
        prices: by which model calls carry their cost.
        progress: called after each request with the number of steps acknowledged so far.
        patience_s: how long one request is tried again while nobody listens or the endpoint answers 429 or 5xx.

    Raises:
        EndpointUnreachable: nobody took the spans for `patience_s`.
        EndpointRefused: the endpoint does not take them, and says why.
        MissingExtra: the encoder is not installed.
    """
    encode = require_encoder()
    resource = Resource({SERVICE: project or "agenttrace"} | ({PROJECT: project, MODEL_ID: project} if project else {}))
    steps = span_count = requests = sent_bytes = rejected = 0
    reason = ""
    with _Client(endpoint, headers or {}, patience_s) as client:
        for batch in _batches(spans, resource, prices, encode):
            body = batch.body()
            answer = client.post(body)
            steps, span_count, requests = steps + len(batch.parts), span_count + batch.spans, requests + 1
            sent_bytes += len(body)
            count, text = _rejected(answer)
            rejected, reason = rejected + count, text or reason
            if progress:
                progress(steps)
    return SendResult(
        steps=steps,
        spans=span_count,
        requests=requests,
        sent_bytes=sent_bytes,
        rejected=rejected,
        rejected_reason=reason,
    )


def require_encoder() -> Encoder:
    """What turns spans into a request. Raises `MissingExtra` where it is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    except ModuleNotFoundError as error:
        raise MissingExtra("phoenix", "Sending spans") from error
    return lambda spans: encode_spans(spans).SerializeToString()


def _batches(spans: Iterable[SpanRecord], resource: Resource, prices: Prices, encode: Encoder) -> Iterator[_Batch]:
    parts: list[bytes] = []
    size = count = 0
    for span in spans:
        readable = list(readable_spans(span, resource, prices))
        part = encode(readable)
        if parts and (size + len(part) > MAX_BATCH_BYTES or count + len(readable) > MAX_BATCH_SPANS):
            yield _Batch(parts=tuple(parts), spans=count)
            parts, size, count = [], 0, 0
        parts.append(part)
        size += len(part)
        count += len(readable)
    if parts:
        yield _Batch(parts=tuple(parts), spans=count)


class _Client:
    """One connection to an endpoint, opened again when it breaks."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], patience_s: float) -> None:
        parts = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.username:
            raise UsageError(
                f"'{_without_user(endpoint)}' is no address to send spans to. "
                "Give one like http://127.0.0.1:4318, and keys as headers."
            )
        path = parts.path.rstrip("/")
        self._path = path if path.endswith(TRACES_PATH) else path + TRACES_PATH
        self.url = f"{parts.scheme}://{parts.netloc}{self._path}"
        self._patience_s = patience_s
        self._headers = {
            **headers,
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
            "User-Agent": f"agenttrace/{version(DISTRIBUTION)}",
        }
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, port, timeout=TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def post(self, body: bytes) -> _Answer:
        """Send one request, again and again while that may help, and return the acknowledgement."""
        deadline_ns = clock.monotonic_ns() + int(self._patience_s * 1e9)
        delay_s = FIRST_DELAY_S
        while True:
            answer = self._attempt(body)
            if isinstance(answer, _Answer):
                if answer.status // 100 == 2:
                    return answer
                if answer.status != http.HTTPStatus.TOO_MANY_REQUESTS and answer.status // 100 != 5:
                    raise _refusal(self.url, answer, len(body))
            wait_s = max(delay_s, _retry_after_s(answer))
            if clock.monotonic_ns() + int(wait_s * 1e9) > deadline_ns:
                raise EndpointUnreachable(_unreachable(self.url, answer, self._patience_s), _retry_after_s(answer))
            time.sleep(wait_s)
            delay_s = min(delay_s * 2, LONGEST_DELAY_S)

    def _attempt(self, body: bytes) -> _Answer | Exception:
        """The endpoint's answer, or what went wrong before there was one and may go right next time."""
        try:
            self._connection.request("POST", self._path, body, self._headers)
            response = self._connection.getresponse()
            text = response.read(MAX_ANSWER_BYTES)
            if not response.isclosed():  # more of an answer than anybody reads
                self._connection.close()
            return _Answer(
                status=response.status,
                headers={name.lower(): value for name, value in response.getheaders()},
                body=text,
            )
        except ssl.SSLError as error:
            self._connection.close()
            raise unsafe(self.url, error) from error
        except socket.gaierror as error:
            raise EndpointUnreachable(f"There is no host for {self.url}. Check the address.") from error
        except ValueError as error:  # http.client's word for a header that would break the request
            raise UsageError(
                f"A header for {self.url} cannot be sent: its name or value has a line break in it."
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return error


def _without_user(endpoint: str) -> str:
    """The endpoint as an error may show it: what stands before an @ may be a password."""
    return endpoint.rpartition("@")[2]


def _retry_after_s(answer: _Answer | Exception) -> float:
    """How long the endpoint asks to be left alone: seconds, or a date."""
    text = answer.headers.get("retry-after", "") if isinstance(answer, _Answer) else ""
    if text.strip().isdecimal():
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - clock.wall_ns() / 1e9
    except ValueError:
        return 0.0


def _unreachable(url: str, answer: _Answer | Exception, patience_s: float) -> str:
    tried = f"tried for {patience_s:g} s" if patience_s else "tried once"
    if isinstance(answer, _Answer):
        wait_s = _retry_after_s(answer)
        asked = f", and to be tried again in {wait_s:.0f} s" if wait_s > 0 else ""
        return (
            f"{url} answered HTTP {answer.status}{_reason(answer)}{asked} ({tried}). "
            "Send again later: the store has everything, and what arrived already stays one."
        )
    if isinstance(answer, ConnectionRefusedError):
        return f"Nobody listens at {url} ({tried}). Start what takes spans there, or name another address."
    what = "no answer in time" if isinstance(answer, TimeoutError) else str(answer) or type(answer).__name__
    return f"{url} could not be reached: {what} ({tried}). Check the address, and send again: the store has everything."


def _refusal(url: str, answer: _Answer, size: int) -> EndpointRefused:
    said = f"HTTP {answer.status}{_reason(answer)}"
    if answer.status // 100 == 3:
        return sent_elsewhere(url, answer.headers.get("location"))
    if answer.status in (401, 403):
        text = f"{url} refused the key: {said}. Give the right one as a header."
    elif answer.status in (404, 405):
        text = f"{url} takes no spans: {said}. Name an OTLP endpoint over HTTP; {TRACES_PATH} is added to its address."
    elif answer.status == 413:
        text = f"{url} takes no request of {size:,} bytes: {said}. Raise its limit, or send fewer traces."
    else:
        text = (
            f"{url} does not take these spans: {said}. Check that it is an OTLP endpoint over HTTP that reads protobuf."
        )
    return EndpointRefused(text)


def _reason(answer: _Answer) -> str:
    """What the endpoint said, on one line; nothing if it said nothing."""
    text = answer.body.decode(errors="replace")
    if "protobuf" in answer.headers.get("content-type", ""):
        text = _status_message(answer.body)
    text = " ".join(text.split()).rstrip(".")
    return f", {text[:SHOWN_REASON]}" if text else ""


def _status_message(body: bytes) -> str:
    try:
        return str(import_module("google.rpc.status_pb2").Status.FromString(body).message)
    except Exception:  # protobuf's DecodeError comes from a module without types
        return ""


def _rejected(answer: _Answer) -> tuple[int, str]:
    """Of an acknowledged request: how many spans the endpoint did not keep all the same, and why."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    if not answer.body or "protobuf" not in answer.headers.get("content-type", ""):
        return 0, ""
    try:
        partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
    except Exception:  # protobuf's DecodeError; what was acknowledged is acknowledged
        return 0, ""
    return int(partial.rejected_spans), str(partial.error_message)
