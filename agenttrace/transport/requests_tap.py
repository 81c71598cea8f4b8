"""The tap in requests. It shows no connection events, so an attempt has its start, its head, its reads and its end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from agenttrace.steps import OpenAttempt
from agenttrace.transport.observing import begin, count_fault, ended, open_model_call, received, responded, traceparent


def tap_requests(module: Any) -> None:
    """Wrap `requests.adapters.HTTPAdapter.send`, through which every request of a session goes."""
    adapter = module.adapters.HTTPAdapter
    original = adapter.send

    @wraps(original)
    def send(self: Any, request: Any, *arguments: Any, **options: Any) -> Any:
        attempt = _begin(request)
        if attempt is None:
            return original(self, request, *arguments, **options)
        try:
            response = original(self, request, *arguments, **options)
        except BaseException as error:
            ended(attempt, error)
            raise
        return _watch(attempt, response)

    adapter.send = send


def untap_requests(module: Any) -> None:
    """Take the wrapping off again."""
    adapter = module.adapters.HTTPAdapter
    adapter.send = adapter.send.__wrapped__


def _begin(request: Any) -> OpenAttempt | None:
    step = open_model_call()
    if step is None:
        return None
    try:
        url = urlsplit(request.url)
        body = request.body.encode() if isinstance(request.body, str) else request.body
        attempt = begin(step, url.hostname if url.port is None else f"{url.hostname}:{url.port}", url.path, body)
        request.headers.setdefault("traceparent", traceparent(step))
        return attempt
    except Exception as error:
        count_fault(error)
        return None


def _watch(attempt: OpenAttempt, response: Any) -> Any:
    try:
        responded(attempt, response.status_code, response.headers.items())
        attempt.content_encoding = ""  # the body is unpacked on its way here
        raw = response.raw
        original = raw.stream

        def stream(*arguments: Any, **options: Any) -> Iterator[bytes]:
            try:
                for data in original(*arguments, **options):
                    received(attempt, data)
                    yield data
            except BaseException as error:
                ended(attempt, None if isinstance(error, GeneratorExit) else error)
                raise
            ended(attempt)

        raw.stream = stream
    except Exception as error:
        count_fault(error)
    return response
