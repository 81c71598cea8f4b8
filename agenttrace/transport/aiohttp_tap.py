"""The tap in aiohttp. Bodies are seen where the connection feeds them to the response's reader."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

import orjson

from agenttrace.steps import OpenAttempt
from agenttrace.transport.observing import begin, count_fault, ended, open_model_call, received, responded, traceparent
from agenttrace.transport.wrapping import unwrap, wrap

LEAVING = ("close", "release")
"""Methods of a response after which nothing more of its body is read."""

_watched: dict[int, OpenAttempt] = {}
"""Reader (by id, for as long as its response lives) to attempt: readers have no room for an attribute of ours."""


def tap_aiohttp(module: Any) -> None:
    """Wrap `ClientSession._request`, through which every request goes, and what readers of bodies are told."""
    wrap(module.ClientSession, "_request", _requester)
    wrap(module.StreamReader, "feed_data", _feeder)
    wrap(module.StreamReader, "set_exception", _breaker)
    for method in LEAVING:
        wrap(module.ClientResponse, method, _leaver)


def untap_aiohttp(module: Any) -> None:
    """Take the wrapping off again."""
    unwrap(module.ClientSession, "_request")
    unwrap(module.StreamReader, "feed_data")
    unwrap(module.StreamReader, "set_exception")
    for method in LEAVING:
        unwrap(module.ClientResponse, method)


def _requester(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def request(self: Any, method: str, url: Any, **options: Any) -> Any:
        attempt = _begin(self, url, options)
        if attempt is None:
            return await original(self, method, url, **options)
        try:
            response = await original(self, method, url, **options)
        except BaseException as error:
            ended(attempt, error)
            raise
        _watch(attempt, response)
        return response

    return request


def _feeder(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def feed_data(self: Any, data: bytes, *arguments: Any) -> Any:
        attempt = _watched.get(id(self))
        if attempt is not None:
            received(attempt, bytes(data))
        return original(self, data, *arguments)

    return feed_data


def _breaker(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def set_exception(self: Any, error: BaseException, *arguments: Any) -> Any:
        attempt = _watched.pop(id(self), None)
        if attempt is not None:
            ended(attempt, error)
        return original(self, error, *arguments)

    return set_exception


def _leaver(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def leave(self: Any, *arguments: Any) -> Any:
        _finish(id(getattr(self, "content", None)))
        return original(self, *arguments)

    return leave


def _begin(session: Any, url: Any, options: dict[str, Any]) -> OpenAttempt | None:
    step = open_model_call()
    if step is None:
        return None
    try:
        target = session._build_url(url)
        body = options.get("data")
        if options.get("json") is not None:
            body = orjson.dumps(options["json"])
        elif isinstance(body, str):
            body = body.encode()
        # Together with the session's own, as it would put them together itself: a name may stand there twice.
        headers = session._prepare_headers(options.get("headers"))
        attempt = begin(step, target.authority, target.path, body)
        if "traceparent" not in headers:
            headers["traceparent"] = traceparent(step)
            options["headers"] = headers
        return attempt
    except Exception as error:
        count_fault(error)
        return None


def _watch(attempt: OpenAttempt, response: Any) -> None:
    try:
        responded(attempt, response.status, response.headers.items())
        attempt.content_encoding = ""  # the body is unpacked on its way here
        reader = response.content
        for data in getattr(reader, "_buffer", ()):  # what came together with the head
            received(attempt, bytes(data))
        if reader.is_eof():
            ended(attempt)
            return
        key = id(reader)
        _watched[key] = attempt
        reader.on_eof(lambda: _finish(key))
        weakref.finalize(response, _finish, key).atexit = False  # a response that is dropped unread
    except Exception as error:
        count_fault(error)


def _finish(key: int) -> None:
    attempt = _watched.pop(key, None)
    if attempt is not None:
        ended(attempt)
