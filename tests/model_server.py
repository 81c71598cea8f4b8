"""A loopback server that speaks to HTTP clients as model servers do, and remembers what it was asked."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[["Exchange"], None]


class Exchange(BaseHTTPRequestHandler):
    """One request, with ways to answer it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a small write waits up to 40 ms for an acknowledgement
    server: ModelServer

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        self.raw = self.rfile.read(length)
        is_binary = "protobuf" in (self.headers.get("content-type") or "")
        self.body = {} if is_binary else json.loads(self.raw or b"{}")
        self.server.asked.append(self)
        replies = self.server.replies
        (replies.pop(0) if len(replies) > 1 else replies[0])(self)

    do_GET = do_POST  # noqa: N815  # http.server looks for it

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def send(
        self, document: Any, *, status: int = 200, headers: dict[str, str] | None = None, packed: bool = False
    ) -> None:
        data = json.dumps(document).encode()
        if packed:
            data = gzip.compress(data)
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        if packed:
            self.send_header("content-encoding", "gzip")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def begin_stream(self, content_type: str = "text/event-stream") -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def part(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def event(self, document: Any) -> None:
        self.part(b"data: " + (document if isinstance(document, bytes) else json.dumps(document).encode()) + b"\n\n")

    def event_line(self, document: Any) -> None:
        self.part(json.dumps(document).encode() + b"\n")

    def end_stream(self) -> None:
        self.wfile.write(b"0\r\n\r\n")


class ModelServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # many clients connect at once

    def __init__(self, *replies: Reply) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.replies = list(replies)
        self.asked: list[Exchange] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: Any) -> None:
        """A client that hangs up is part of the tests."""


@contextmanager
def serve(*replies: Reply) -> Iterator[ModelServer]:
    """Serve the replies, one a request; the last one again and again."""
    server = ModelServer(*replies)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


TIMINGS = {"cache_n": 2, "prompt_n": 5, "prompt_ms": 10.0, "predicted_n": 3, "predicted_ms": 20.0}
CHAT_USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def chat_completion(exchange: Exchange, **more: Any) -> None:
    """A whole answer in the shape of OpenAI's chat API, with llama.cpp's timings, streamed if it was asked to be."""
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "served-model"}
    if not exchange.body.get("stream"):
        message = {"role": "assistant", "content": "hello you there"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        exchange.send({**head, "choices": [choice], "usage": CHAT_USAGE, "timings": TIMINGS, **more})
        return
    exchange.begin_stream()
    exchange.event({**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    exchange.part(b": keep-alive\n\n")
    for word in ("hello", " you", " there"):
        exchange.event({**head, "choices": [{"index": 0, "delta": {"content": word}}]})
    exchange.event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    exchange.event({**head, "choices": [], "usage": CHAT_USAGE, "timings": TIMINGS, **more})
    exchange.event(b"[DONE]")
    exchange.end_stream()
