"""The tap in requests. It shows no connection events, so an attempt has its start, its head, its reads and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from agenttrace.steps import OpenAttempt, OpenStep
from agenttrace.transport.observing import begin, count_fault, ended, open_model_call, received, responded, traceparent
from agenttrace.transport.wrapping import unwrap, wrap


def tap_requests(module: Any) -> None:
    """Wrap `requests.adapters.HTTPAdapter.send`, through which every request of a session goes."""
    wrap(module.adapters.HTTPAdapter, "send", _sender)


def untap_requests(module: Any) -> None:
    """Take the wrapping off again."""
    unwrap(module.adapters.HTTPAdapter, "send")


def _sender(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def send(self: Any, request: Any, *arguments: Any, **options: Any) -> Any:
        step = open_model_call()
        attempt = None if step is None else _begin(step, request)
        if step is None or attempt is None:
            return original(self, request, *arguments, **options)
        header = _put_header(step, request)
        try:
            response = original(self, request, *arguments, **options)
        except BaseException as error:
            ended(attempt, error)
            raise
        finally:
            _take_header(header, request)
        return _watch(attempt, response)

    return send


def _begin(step: OpenStep, request: Any) -> OpenAttempt | None:
    try:
        url = urlsplit(request.url)
        body = request.body.encode() if isinstance(request.body, str) else request.body
        return begin(step, url.hostname if url.port is None else f"{url.hostname}:{url.port}", url.path, body)
    except Exception as error:
        count_fault(error)
        return None


def _put_header(step: OpenStep, request: Any) -> str | None:
    """Our `traceparent`, which is in the request now; None where there was one."""
    try:
        if "traceparent" not in request.headers:
            header = request.headers["traceparent"] = traceparent(step)
            return header
    except Exception as error:
        count_fault(error)
    return None


def _take_header(header: str | None, request: Any) -> None:
    """The request is the caller's, who may send it again: under another model call, or under none."""
    try:
        if header is not None and request.headers.get("traceparent") == header:
            del request.headers["traceparent"]
    except Exception as error:
        count_fault(error)


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
