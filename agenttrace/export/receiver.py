"""An OTLP receiver over HTTP: what it acknowledges is on disk. Loopback by default, a token for any other address.

The protocol: https://opentelemetry.io/docs/specs/otlp/#otlphttp. No web page may use it: there is no CORS, and on loopback the
Host must be a name of this machine, so that no other name can be made to point here.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
import zlib
from collections.abc import Mapping
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from agenttrace import semconv
from agenttrace.errors import InvalidRecord, UsageError
from agenttrace.export.incoming import incoming_record, incoming_run
from agenttrace.export.otlp_decoding import Decoded, decode_json, decode_protobuf
from agenttrace.records import RunRecord, SpanRecord
from agenttrace.store.intake import Intake

PATH = "/v1/traces"
HEALTH = "/healthz"
PORT = 4318

MAX_BODY = 20 << 20
"""Of a request, packed and unpacked."""

MAX_SPANS = 20_000
"""Of one request."""

MAX_AT_ONCE = 8
"""Requests that are decoded at a time; more are told to come again."""

MAX_CONNECTIONS = 128
IDLE_S = 30.0
RETRY_S = 1

MERGE_EVERY_S = 5.0

PROTOBUF, JSON_TYPE = "application/x-protobuf", "application/json"

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]", "::1")


class Refused(Exception):  # it is an answer
    """A request that is answered with something else than success."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def read_token(file: str | os.PathLike[str]) -> str:
    """The token in a file that nobody else may read. Raises `UsageError`."""
    path = Path(file)
    try:
        mode = path.stat().st_mode
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The token file {path} cannot be read ({error}). Name a text file.") from error
    if stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"Others may read the token file {path}. Take that away: chmod 600 {path}.")
    if len(token) < 16:
        raise UsageError(f"The token in {path} is shorter than 16 characters. Make one: openssl rand -hex 32.")
    return token


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Receiver(ThreadingHTTPServer):
    """Serves until `shutdown`. `port` 0: a free one.

    Raises:
        UsageError: the address is not loopback and there is no token, or it is taken.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, intake: Intake, *, host: str = "127.0.0.1", port: int = PORT, token: str | None = None) -> None:
        if token is None and not is_loopback(host):
            raise UsageError(
                f"{host} is reached from other machines, which takes a token. Write one into a file and name it with --token-file."
            )
        self.intake = intake
        self.token = token
        self.is_local = is_loopback(host)
        self.decoding = threading.BoundedSemaphore(MAX_AT_ONCE)
        self.rejected = 0
        self.refused = 0
        self._open = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._ending = threading.Event()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise UsageError(f"{host}:{port} cannot be listened on ({error.strerror}). Give another --port.") from error
        self._merging = threading.Thread(target=self._merge, name="agenttrace-merge", daemon=True)
        self._merging.start()

    @property
    def url(self) -> str:
        host = (
            f"[{self.server_address[0]!s}]" if self.address_family == socket.AF_INET6 else str(self.server_address[0])
        )
        return f"http://{host}:{self.server_port}"

    def _merge(self) -> None:
        while not self._ending.wait(MERGE_EVERY_S):
            self.intake.merge()

    def server_close(self) -> None:
        """Stop listening, and leave everything merged."""
        self._ending.set()
        super().server_close()
        self._merging.join(timeout=30)
        self.intake.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """A connection more than there is room for is closed at once; its client comes again."""
        if not self._open.acquire(blocking=False):
            self.refused += 1
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is nothing to tell."""
        self.refused += 1


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"
    server_version = "agenttrace"
    sys_version = ""
    timeout = IDLE_S

    def do_GET(self) -> None:
        if self.path != HEALTH:
            self._refuse(Refused(HTTPStatus.NOT_FOUND, f"there are {PATH} and {HEALTH}"))
            return
        told = {"status": "ok", "spans": self.server.intake.spans, "rejected": self.server.rejected}
        self._answer(HTTPStatus.OK, json.dumps(told).encode(), JSON_TYPE)

    def do_POST(self) -> None:
        try:
            body = self._body()
            if not self.server.decoding.acquire(blocking=False):
                raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too many requests at once; come again")
            try:
                self._take(body)
            finally:
                self.server.decoding.release()
        except Refused as refused:
            self._refuse(refused)

    def _body(self) -> bytes:
        """The unpacked body, once everything around it is as it should be."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not length.isdigit():
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "tell Content-Length")
        if int(length) > MAX_BODY:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body is larger than {MAX_BODY >> 20} MiB; send fewer spans at once",
            )
        data = self.rfile.read(int(length))
        if len(data) < int(length):
            raise Refused(HTTPStatus.BAD_REQUEST, "the body ended early")
        self._check_sender()
        if self.path.partition("?")[0] != PATH:
            raise Refused(HTTPStatus.NOT_FOUND, f"spans are taken at {PATH}")
        encoding = self.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding == "gzip":
            return _unpacked(data)
        if encoding not in ("identity", ""):
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the body as it is, or packed by gzip")
        return data

    def _check_sender(self) -> None:
        server = self.server
        if server.is_local and not server.token:
            name = (
                self.headers.get("Host", "").rsplit(":", 1)[0] if "]" not in self.headers.get("Host", "") else "[::1]"
            )
            if name.lower() not in LOCAL_NAMES:
                raise Refused(HTTPStatus.FORBIDDEN, "the Host is no name of this machine")
        if self.headers.get("Origin"):
            raise Refused(HTTPStatus.FORBIDDEN, "web pages may not send spans")
        if server.token:
            told = self.headers.get("Authorization", "").removeprefix("Bearer ").encode("utf-8", "replace")
            if not compare_digest(told, server.token.encode()):
                raise Refused(HTTPStatus.UNAUTHORIZED, "send the token as 'Authorization: Bearer …'")

    @property
    def _type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def _take(self, body: bytes) -> None:
        try:
            if self._type == PROTOBUF:
                decoded = decode_protobuf(body)
            elif self._type == JSON_TYPE:
                decoded = decode_json(body)
            else:
                raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send {PROTOBUF} or {JSON_TYPE}")
        except InvalidRecord as error:
            raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
        if len(decoded.spans) > MAX_SPANS:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request holds at most {MAX_SPANS:,} spans; send fewer at once"
            )
        runs, spans = records_of(decoded)
        try:
            self.server.intake.add(runs.values(), spans)
        except OSError as error:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"the store cannot be written ({error.strerror})") from error
        self.server.rejected += len(decoded.rejected)
        self._answer(HTTPStatus.OK, _success(decoded, self._type), self._type)

    def _refuse(self, refused: Refused) -> None:
        self.server.refused += 1
        self.close_connection = True
        is_protobuf = self._type == PROTOBUF
        text = str(refused).encode()
        body = b"\x12" + _varint(len(text)) + text if is_protobuf else json.dumps({"message": str(refused)}).encode()
        self._answer(refused.status, body, PROTOBUF if is_protobuf else JSON_TYPE)

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            self.send_header("Retry-After", str(RETRY_S))
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Say nothing: a sender that fails says it itself."""


def records_of(decoded: Decoded) -> tuple[Mapping[str, RunRecord], list[SpanRecord]]:
    """The steps of a request and the runs that they belong to. A span that cannot be understood counts as rejected."""
    runs: dict[str, RunRecord] = {}
    spans: list[SpanRecord] = []
    for span in decoded.spans:
        try:
            run = incoming_run(span)
            record = incoming_record(span, run.run_id)
        except Exception as error:  # what others write has no end of forms; the request's other spans are fine
            decoded.rejected.append(f"span '{span.name[:60]}': {type(error).__name__}: {error}"[:300])
            continue
        if record is None:
            continue
        spans.append(record)
        known = runs.get(run.run_id)
        if semconv.RUN_ID in span.attributes:
            continue  # ours: who recorded it has told its run
        if known is None or (known.end_ns or 0) < (run.end_ns or 0):
            runs[run.run_id] = run
    return runs, spans


def _unpacked(data: bytes) -> bytes:
    """gzip, as far as the limit: a small body may hold gigabytes of nothing."""
    unpacking = zlib.decompressobj(wbits=31)
    try:
        body = unpacking.decompress(data, MAX_BODY + 1)
    except zlib.error as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is no gzip ({error})") from error
    if len(body) > MAX_BODY:
        raise Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the unpacked body is larger than {MAX_BODY >> 20} MiB; send fewer spans at once",
        )
    if not unpacking.eof:
        raise Refused(HTTPStatus.BAD_REQUEST, "the packed body ended early")
    return body


def _success(decoded: Decoded, kind: str) -> bytes:
    """An `ExportTraceServiceResponse`, which tells what was rejected and why."""
    if not decoded.rejected:
        return b"" if kind == PROTOBUF else b"{}"
    reason = f"{decoded.rejected[0]}{f' (and {len(decoded.rejected) - 1} more)' if len(decoded.rejected) > 1 else ''}"
    if kind == JSON_TYPE:
        return json.dumps(
            {"partialSuccess": {"rejectedSpans": str(len(decoded.rejected)), "errorMessage": reason}}
        ).encode()
    text = reason.encode("utf-8", "replace")
    partial = b"\x08" + _varint(len(decoded.rejected)) + b"\x12" + _varint(len(text)) + text
    return b"\x0a" + _varint(len(partial)) + partial


def _varint(number: int) -> bytes:
    """Protobuf's spelling of a whole number."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
