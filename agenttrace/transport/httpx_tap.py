"""The tap in httpx and in httpx2, which have the same shape. `Any` is at home here: either module may be the one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeAlias

from agenttrace.steps import OpenAttempt, OpenStep
from agenttrace.transport.observing import (
    begin,
    count_fault,
    ended,
    mark_event,
    open_model_call,
    received,
    responded,
    traceparent,
)
from agenttrace.transport.wrapping import unwrap, wrap

Trace: TypeAlias = Callable[[str, Any], Any]
"""httpcore's trace extension: a function in a sync client, a coroutine function in an async one."""


@dataclass(slots=True)  # not frozen: that takes three times as long to make
class Watched:
    """A request under watch, and what it was like before."""

    attempt: OpenAttempt
    extensions: Any
    header: str | None
    """The `traceparent` that we put in; None where there was one."""


def tap_httpx(module: Any) -> None:
    """Wrap the transports of `httpx` or `httpx2`. Subclasses that call `super()` are seen, others are not."""
    sync_stream, async_stream = _sync_stream(module), _async_stream(module)
    wrap(module.HTTPTransport, "handle_request", lambda original: _sync_handler(original, sync_stream))
    wrap(module.AsyncHTTPTransport, "handle_async_request", lambda original: _async_handler(original, async_stream))


def untap_httpx(module: Any) -> None:
    """Take the wrapping off again."""
    unwrap(module.HTTPTransport, "handle_request")
    unwrap(module.AsyncHTTPTransport, "handle_async_request")


def _sync_handler(original: Callable[..., Any], stream: Any) -> Callable[..., Any]:
    @wraps(original)
    def handle_request(self: Any, request: Any) -> Any:
        step = open_model_call()
        watched = None if step is None else _watch(step, request, _tracer)
        if watched is None:
            return original(self, request)
        try:
            response = original(self, request)
        except BaseException as error:
            ended(watched.attempt, error)
            raise
        finally:
            _restore(request, watched)
        return _watch_response(response, watched.attempt, stream)

    return handle_request


def _async_handler(original: Callable[..., Any], stream: Any) -> Callable[..., Any]:
    @wraps(original)
    async def handle_async_request(self: Any, request: Any) -> Any:
        step = open_model_call()
        watched = None if step is None else _watch(step, request, _async_tracer)
        if watched is None:
            return await original(self, request)
        try:
            response = await original(self, request)
        except BaseException as error:
            ended(watched.attempt, error)
            raise
        finally:
            _restore(request, watched)
        return _watch_response(response, watched.attempt, stream)

    return handle_async_request


def _watch(step: OpenStep, request: Any, make_tracer: Callable[[OpenAttempt, Trace | None], Trace]) -> Watched | None:
    """An attempt for this request; None where a fault of ours prevents it."""
    try:
        url, extensions, header = request.url, request.extensions, None
        attempt = begin(step, url.netloc.decode("ascii", "replace"), url.path, _body(request))
    except Exception as error:
        count_fault(error)
        return None
    try:
        request.extensions = {**extensions, "trace": make_tracer(attempt, extensions.get("trace"))}
        if "traceparent" not in request.headers:
            header = traceparent(step)
            request.headers["traceparent"] = header
    except Exception as error:
        count_fault(error)  # the attempt is there all the same: less is known of it
    return Watched(attempt=attempt, extensions=extensions, header=header)


def _body(request: Any) -> bytes | None:
    try:
        content: bytes = request.content
    except Exception:
        return None  # it streams its body: reading that here would take it from the transport
    return content


def _restore(request: Any, watched: Watched) -> None:
    """The request is the caller's, who may send it again: under another model call, or under none."""
    try:
        request.extensions = watched.extensions
        if watched.header is not None:
            del request.headers["traceparent"]
    except Exception as error:
        count_fault(error)


def _tracer(attempt: OpenAttempt, users: Trace | None) -> Trace:
    return (lambda name, info: mark_event(attempt, name)) if users is None else _with_users(attempt, users)


def _async_tracer(attempt: OpenAttempt, users: Trace | None) -> Trace:
    async def trace(name: str, info: Any) -> None:
        mark_event(attempt, name)

    return trace if users is None else _with_users(attempt, users)


def _with_users(attempt: OpenAttempt, users: Trace) -> Trace:
    def trace(name: str, info: Any) -> Any:
        mark_event(attempt, name)
        # What it returns, a coroutine in an async client, is httpcore's to await, or to refuse if it is the wrong kind.
        return users(name, info)

    return trace


def _watch_response(response: Any, attempt: OpenAttempt, stream: Any) -> Any:
    try:
        # Not `.items()`, which looks for the encoding that fits all headers: three times the cost.
        responded(attempt, response.status_code, response.headers.raw)
        response.stream = stream(response.stream, attempt)
    except Exception as error:
        count_fault(error)
    return response


def _sync_stream(module: Any) -> Any:
    """A stream class of this module's own kind: its client asserts that."""

    class WatchedStream(module.SyncByteStream):  # type: ignore[misc]  # the base is only known at run time
        def __init__(self, inner: Any, attempt: OpenAttempt) -> None:
            self._inner = inner
            self._attempt = attempt

        def __iter__(self) -> Iterator[bytes]:
            try:
                for data in self._inner:
                    received(self._attempt, data)
                    yield data
            except BaseException as error:
                ended(self._attempt, None if isinstance(error, GeneratorExit) else error)
                raise
            ended(self._attempt)

        def close(self) -> None:
            ended(self._attempt)
            self._inner.close()

    return WatchedStream


def _async_stream(module: Any) -> Any:
    """The same for async clients."""

    class WatchedAsyncStream(module.AsyncByteStream):  # type: ignore[misc]  # as above
        def __init__(self, inner: Any, attempt: OpenAttempt) -> None:
            self._inner = inner
            self._attempt = attempt

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for data in self._inner:
                    received(self._attempt, data)
                    yield data
            except BaseException as error:
                ended(self._attempt, None if isinstance(error, GeneratorExit) else error)
                raise
            ended(self._attempt)

        async def aclose(self) -> None:
            ended(self._attempt)
            await self._inner.aclose()

    return WatchedAsyncStream
