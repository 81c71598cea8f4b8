"""A client that is watched behaves as one that is not."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agenttrace import clock
from agenttrace.steps import OpenAttempt, current_model_call
from agenttrace.transport import observing
from agenttrace.transport.observing import MARKS, TIMED_READS, WHOLE_BODY, mark_event, received, responded, tap_faults
from agenttrace.transport.tap import install_tap
from tests.model_server import Exchange, chat_completion, serve
from tests.transport.test_tap import attempts, model_call, post

CLIENTS = [(module, asynchronous) for module in ("httpx", "httpx2") for asynchronous in (False, True)]


@pytest.fixture(params=CLIENTS, ids=lambda client: f"{client[0]}-{'async' if client[1] else 'sync'}")
def client(request: pytest.FixtureRequest) -> tuple[Any, bool]:
    """A client library, and whether to use it asynchronously."""
    name, asynchronous = request.param
    module = importlib.import_module(name)
    install_tap()
    return module, asynchronous


def test_the_users_trace_decides_as_before(client: tuple[Any, bool]) -> None:
    """What a user's trace callable raises reaches the user, and the attempt says that the request failed of it."""
    module, asynchronous = client

    def refuse(name: str, info: Any) -> Any:
        raise LookupError(name)

    step = model_call()
    with serve(chat_completion) as server, pytest.raises(LookupError):
        post(module, server, asynchronous, {}, extensions={"trace": refuse})
    assert attempts(step)[0].error == "LookupError"


def test_a_trace_of_the_wrong_kind_is_refused_as_before(client: tuple[Any, bool]) -> None:
    """httpcore refuses a coroutine function in a sync client, a plain one in an async client: also through the tap."""
    module, asynchronous = client

    refused: list[Any] = []

    async def nothing() -> None: ...

    def wrong(name: str, info: Any) -> Any:
        refused.append(None if asynchronous else nothing())
        return refused[-1]

    with serve(chat_completion) as server:
        with pytest.raises(TypeError) as without:
            post(module, server, asynchronous, {}, extensions={"trace": wrong})
        model_call()
        with pytest.raises(TypeError) as within:
            post(module, server, asynchronous, {}, extensions={"trace": wrong})
    assert str(within.value) == str(without.value)
    assert len(refused) == 2
    for coroutine in filter(None, refused):
        coroutine.close()  # nobody was to await it


def test_the_request_is_given_back_as_it_was(client: tuple[Any, bool]) -> None:
    """A request that is sent again outside of the call carries nothing of the call."""
    module, asynchronous = client
    step = model_call()

    async def twice_async(url: str) -> Any:
        async with module.AsyncClient(trust_env=False) as http:
            request = http.build_request("POST", url, json={})
            await http.send(request)
            current_model_call.set(None)
            await http.send(request)
            return request

    def twice(url: str) -> Any:
        with module.Client(trust_env=False) as http:
            request = http.build_request("POST", url, json={})
            http.send(request)
            current_model_call.set(None)
            http.send(request)
            return request

    carried: list[bool] = []

    def note(exchange: Exchange) -> None:
        carried.append("traceparent" in exchange.headers)
        chat_completion(exchange)

    with serve(note) as server:
        request = asyncio.run(twice_async(server.url)) if asynchronous else twice(server.url)
    assert carried == [True, False]
    assert "traceparent" not in request.headers
    assert "trace" not in request.extensions
    assert len(step.attempts or ()) == 1


def test_nothing_is_read_ahead(client: tuple[Any, bool]) -> None:
    """The client has its first event while the server has not sent the second: a stream stays a stream."""
    module, asynchronous = client
    may_go_on = threading.Event()

    def hesitant(exchange: Exchange) -> None:
        exchange.begin_stream()
        exchange.event({"id": "first"})
        may_go_on.wait(10)
        exchange.event({"model": "second"})
        exchange.end_stream()

    step = model_call()

    def first_read() -> None:
        assert step.attempts is not None
        assert (step.attempts[0].reads, step.attempts[0].end) == (1, None)
        may_go_on.set()

    def read(url: str) -> None:
        with module.Client(trust_env=False) as http, http.stream("POST", url, json={}) as response:
            for number, _ in enumerate(response.iter_raw()):
                if number == 0:
                    first_read()

    async def read_async(url: str) -> None:
        async with module.AsyncClient(trust_env=False) as http, http.stream("POST", url, json={}) as response:
            number = 0
            async for _ in response.aiter_raw():
                if number == 0:
                    first_read()
                number += 1

    with serve(hesitant) as server:
        asyncio.run(read_async(server.url)) if asynchronous else read(server.url)
    assert attempts(step)[0].report == {"id": "first", "model": "second"}
    assert attempts(step)[0].end_ns is not None


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_an_async_stream_that_is_cancelled_is_ended(name: str, client: tuple[Any, bool]) -> None:
    """Cancelling reaches the client as it would, and the attempt has its end."""
    module = importlib.import_module(name)
    stopped = threading.Event()

    def endless(exchange: Exchange) -> None:
        exchange.begin_stream()
        exchange.event({"id": "first"})
        stopped.wait(10)

    step = model_call()

    async def read(url: str) -> None:
        arrived = asyncio.Event()

        async def stream() -> None:
            async with module.AsyncClient(trust_env=False) as http, http.stream("POST", url, json={}) as response:
                async for _ in response.aiter_raw():
                    arrived.set()

        task = asyncio.create_task(stream())
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with serve(endless) as server:
        asyncio.run(read(server.url))
        stopped.set()
    [attempt] = attempts(step)
    assert attempt.end_ns is not None
    assert attempt.error == "CancelledError"
    assert attempt.report == {"id": "first"}


def test_a_body_that_is_streamed_up_is_not_touched(client: tuple[Any, bool]) -> None:
    """What a generator yields goes to the server once, so the tap does not look at it."""
    module, asynchronous = client

    def parts() -> Iterator[bytes]:
        yield b'{"model": '
        yield b'"m"}'

    async def parts_async() -> Any:
        for part in parts():
            yield part

    step = model_call()
    headers = {"content-length": str(len(b"".join(parts())))}
    with serve(chat_completion) as server:
        content = parts_async() if asynchronous else parts()
        post(module, server, asynchronous, None, content=content, headers=headers)
    assert server.asked[0].body == {"model": "m"}
    assert attempts(step)[0].sent_settings == {}
    assert tap_faults() == (0, None)


def test_a_connection_that_was_open_has_no_connect_times(client: tuple[Any, bool]) -> None:
    """Only the first of two requests on one connection connects."""
    module, asynchronous = client
    step = model_call()

    def twice(url: str) -> None:
        with module.Client(trust_env=False) as http:
            for _ in range(2):
                http.post(url, json={})

    async def twice_async(url: str) -> None:
        async with module.AsyncClient(trust_env=False) as http:
            for _ in range(2):
                await http.post(url, json={})

    with serve(chat_completion) as server:
        asyncio.run(twice_async(server.url)) if asynchronous else twice(server.url)
    first, second = attempts(step)
    assert first.connect_end_ns is not None
    assert (second.connect_start_ns, second.connect_end_ns) == (None, None)
    assert second.sent_ns is not None


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_waiting_for_a_free_connection_is_seen(name: str) -> None:
    """With one connection, the second request's sending begins when the first one's answer is read."""
    module = importlib.import_module(name)
    install_tap()
    limits = module.Limits(max_connections=1)
    answered = threading.Event()

    def slow(exchange: Exchange) -> None:
        if len(exchange.server.asked) == 1:
            answered.wait(10)
        chat_completion(exchange)

    async def both(url: str) -> list[Any]:
        steps = []

        async def ask() -> None:
            steps.append(model_call())
            await http.post(url, json={})

        async with module.AsyncClient(trust_env=False, limits=limits) as http:
            first = asyncio.create_task(ask())
            while not len(server.asked):
                await asyncio.sleep(0.01)  # until the first one holds the connection
            second = asyncio.create_task(ask())
            while len(steps) < 2 or not steps[1].attempts:
                await asyncio.sleep(0.01)  # until the second one waits
            answered.set()
            await asyncio.gather(first, second)
        return steps

    with serve(slow) as server:
        first, second = (attempts(step)[0] for step in asyncio.run(both(server.url)))
    assert second.send_start_ns is not None
    assert first.end_ns is not None
    assert second.start_ns < first.end_ns <= second.send_start_ns


@pytest.mark.parametrize("part", ["_keep", "kept_headers"])
def test_a_fault_while_reading_is_counted_and_not_felt(
    client: tuple[Any, bool], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body arrives whole, whatever breaks in us on the way."""
    module, asynchronous = client

    def broken(*_: Any) -> Any:
        raise RuntimeError("ours")

    monkeypatch.setattr(observing, part, broken)
    step = model_call()
    with serve(chat_completion) as server:
        assert post(module, server, asynchronous, {}).json()["model"] == "served-model"
    assert tap_faults()[0] > 0
    assert attempts(step)[0].end_ns is not None


@pytest.mark.parametrize("readings", range(9))
def test_a_broken_clock_is_not_felt(client: tuple[Any, bool], readings: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mark may fail, from the first to the last, and the request goes on."""
    module, asynchronous = client
    left, here, sound = iter(range(readings)), threading.current_thread(), clock.monotonic_ns

    def failing() -> int:
        if threading.current_thread() is not here:  # a writer of another test may look at the clock
            return sound()
        for reading in left:
            return reading
        raise OSError("no clock")

    step = model_call()
    with serve(chat_completion) as server:
        monkeypatch.setattr(clock, "monotonic_ns", failing)
        assert post(module, server, asynchronous, {}).json()["model"] == "served-model"
    assert len(step.attempts or ()) == min(readings, 1)
    assert (tap_faults()[0] > 0) == (readings < 8)  # start, connecting twice, sending, sent, head, read, end


@pytest.mark.parametrize("protocol", ["http11", "http2"])
def test_events_of_both_protocols_are_marks(protocol: str) -> None:
    """HTTP/2 names its events after itself; they mean the same."""
    attempt = OpenAttempt(start=0, host="h", path="/")
    for event in ("send_request_headers", "send_request_body", "receive_response_headers", "receive_response_body"):
        for state in ("started", "complete"):
            mark_event(attempt, f"{protocol}.{event}.{state}")
    assert attempt.sent is not None
    assert attempt.headers_at is not None
    assert attempt.sent <= attempt.headers_at


def test_connecting_ends_with_the_last_handshake() -> None:
    """Tries start once; the time of TLS, and of a proxy before it, is inside."""
    attempt = OpenAttempt(start=0, host="h", path="/")
    mark_event(attempt, "connection.connect_tcp.started")
    started = attempt.connect_start
    for name in ("connection.connect_tcp.failed", "connection.connect_tcp.started", "connection.connect_tcp.complete"):
        mark_event(attempt, name)
    opened = attempt.connect_end
    mark_event(attempt, "connection.start_tls.complete")
    assert attempt.connect_start == started
    assert opened is not None
    assert attempt.connect_end is not None
    assert attempt.connect_end > opened


def test_only_names_of_fields_are_marks() -> None:
    """The table of events names fields that an attempt has."""
    assert set(MARKS.values()) <= set(OpenAttempt.__slots__)


def test_what_is_no_report_is_not_held() -> None:
    """A picture is not kept, and a document above the bound is let go whole."""
    picture = OpenAttempt(start=0, host="h", path="/")
    responded(picture, 200, [("content-type", "image/png")])
    received(picture, b"x" * 1000)
    assert (len(picture.body), len(picture.head), picture.reads) == (0, 0, 1)
    document = OpenAttempt(start=0, host="h", path="/")
    responded(document, 200, [("content-type", "application/json")])
    for _ in range(6):
        received(document, b"x" * (WHOLE_BODY // 4))
    assert len(document.body) == 0


def test_times_of_reads_are_numbers_and_bounded() -> None:
    """Of each read its time and size are kept, up to a bound; the count goes on."""
    attempt = OpenAttempt(start=0, host="h", path="/", content_type="image/png")
    for _ in range(TIMED_READS + 10):
        received(attempt, b"ab")
    assert (len(attempt.read_times), len(attempt.read_sizes), attempt.reads) == (
        TIMED_READS,
        TIMED_READS,
        TIMED_READS + 10,
    )
    assert (attempt.read_times.itemsize, attempt.read_sizes[0]) == (8, 2)
