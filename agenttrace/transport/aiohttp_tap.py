"""The tap in aiohttp. Bodies are seen where the connection feeds them to the response's reader."""

from __future__ import annotations

from functools import wraps
from typing import Any

import orjson

from agenttrace.steps import OpenAttempt
from agenttrace.transport.observing import begin, count_fault, ended, open_model_call, received, responded, traceparent

_watched: dict[int, OpenAttempt] = {}
"""Reader (by id, until its body's end) to attempt: readers have no room for an attribute and cannot be weakly referred to."""


def tap_aiohttp(module: Any) -> None:
    """Wrap `ClientSession._request`, through which every request goes, and the readers of bodies."""
    session, reader = module.ClientSession, module.StreamReader
    original = session._request

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

    original_feed = reader.feed_data

    @wraps(original_feed)
    def feed_data(self: Any, data: bytes, *arguments: Any) -> Any:
        attempt = _watched.get(id(self))
        if attempt is not None:
            received(attempt, bytes(data))
        return original_feed(self, data, *arguments)

    session._request = request
    reader.feed_data = feed_data


def untap_aiohttp(module: Any) -> None:
    """Take the wrapping off again."""
    session, reader = module.ClientSession, module.StreamReader
    session._request = session._request.__wrapped__
    reader.feed_data = reader.feed_data.__wrapped__


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
        attempt = begin(step, target.authority, target.path, body)
        headers = dict(options.get("headers") or {})
        if not any(name.lower() == "traceparent" for name in headers):
            options["headers"] = {**headers, "traceparent": traceparent(step)}
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
    except Exception as error:
        count_fault(error)


def _finish(key: int) -> None:
    attempt = _watched.pop(key, None)
    if attempt is not None:
        ended(attempt)
