"""The tap in httpx and in httpx2, which have the same shape. `Any` is at home here: either module may be the one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import wraps
from typing import Any

from agenttrace.steps import OpenAttempt
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


def tap_httpx(module: Any) -> None:
    """Wrap the transports of `httpx` or `httpx2`. Subclasses that call `super()` are seen, others are not."""
    sync_stream, async_stream = _streams(module)

    original = module.HTTPTransport.handle_request

    @wraps(original)
    def handle_request(self: Any, request: Any) -> Any:
        attempt = _begin(request)
        if attempt is None:
            return original(self, request)
        extensions = request.extensions
        request.extensions = {**extensions, "trace": _tracer(attempt, extensions.get("trace"))}
        try:
            response = original(self, request)
        except BaseException as error:
            ended(attempt, error)
            raise
        finally:
            request.extensions = extensions
        return _watch(attempt, response, sync_stream)

    original_async = module.AsyncHTTPTransport.handle_async_request

    @wraps(original_async)
    async def handle_async_request(self: Any, request: Any) -> Any:
        attempt = _begin(request)
        if attempt is None:
            return await original_async(self, request)
        extensions = request.extensions
        request.extensions = {**extensions, "trace": _async_tracer(attempt, extensions.get("trace"))}
        try:
            response = await original_async(self, request)
        except BaseException as error:
            ended(attempt, error)
            raise
        finally:
            request.extensions = extensions
        return _watch(attempt, response, async_stream)

    module.HTTPTransport.handle_request = handle_request
    module.AsyncHTTPTransport.handle_async_request = handle_async_request


def untap_httpx(module: Any) -> None:
    """Take the wrapping off again."""
    transport, asynchronous = module.HTTPTransport, module.AsyncHTTPTransport
    transport.handle_request = transport.handle_request.__wrapped__
    asynchronous.handle_async_request = asynchronous.handle_async_request.__wrapped__


def _begin(request: Any) -> OpenAttempt | None:
    """An attempt for this request; None outside of a model call, or where a fault of ours prevents it."""
    step = open_model_call()
    if step is None:
        return None
    try:
        url = request.url
        # `.content` of a request that streams its body would raise: there is nothing to look at then.
        attempt = begin(step, url.netloc.decode("ascii", "replace"), url.path, getattr(request, "_content", None))
        if "traceparent" not in request.headers:
            request.headers["traceparent"] = traceparent(step)
        return attempt
    except Exception as error:
        count_fault(error)
        return None


def _tracer(attempt: OpenAttempt, users: Callable[[str, Any], Any] | None) -> Callable[[str, Any], None]:
    def trace(name: str, info: Any) -> None:
        mark_event(attempt, name)
        if users is not None:
            users(name, info)

    return trace


def _async_tracer(attempt: OpenAttempt, users: Callable[[str, Any], Any] | None) -> Callable[[str, Any], Any]:
    async def trace(name: str, info: Any) -> None:
        mark_event(attempt, name)
        if users is not None:
            await users(name, info)

    return trace


def _watch(attempt: OpenAttempt, response: Any, stream_class: Any) -> Any:
    try:
        responded(attempt, response.status_code, response.headers.items())
        response.stream = stream_class(response.stream, attempt)
    except Exception as error:
        count_fault(error)
    return response


def _streams(module: Any) -> tuple[Any, Any]:
    """Stream classes of this module's own kind: its client asserts that."""

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

    return WatchedStream, WatchedAsyncStream
