"""The tap sees every request of a model call, and the client never notices."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from agenttrace import clock
from agenttrace.steps import Attempt, OpenStep, current_model_call
from agenttrace.transport import observing
from agenttrace.transport.bodies import finish_attempt
from agenttrace.transport.tap import install_tap, remove_tap
from tests.model_server import TIMINGS, Exchange, ModelServer, chat_completion, serve


@pytest.fixture(params=["httpx", "httpx2"])
def client_module(request: pytest.FixtureRequest) -> Iterator[Any]:
    module = importlib.import_module(request.param)
    install_tap()
    yield module
    remove_tap()


def model_call() -> OpenStep:
    """An open model call, current in this context."""
    step = OpenStep(
        trace_id=0xABC,
        span_id=0xDEF,
        parent=None,
        outer_span_id=None,
        kind="model",
        name="m",
        start=clock.monotonic_ns(),
        anchor=clock.anchor(),
        run_id="r",
        call_site=None,
        owner=None,
    )
    current_model_call.set(step)
    return step


@pytest.fixture(autouse=True)
def _no_model_call() -> Iterator[None]:
    token = current_model_call.set(None)
    yield
    current_model_call.reset(token)


def attempts(step: OpenStep) -> list[Attempt]:
    return [finish_attempt(attempt, step.anchor) for attempt in step.attempts or ()]


def post(module: Any, server: ModelServer, asynchronous: bool, body: Any, **options: Any) -> Any:
    """POST with either client and read the whole answer."""
    if not asynchronous:
        with module.Client(trust_env=False, timeout=10) as client:
            return client.post(server.url + "/v1/chat/completions", json=body, **options)

    async def call() -> Any:
        async with module.AsyncClient(trust_env=False, timeout=10) as client:
            return await client.post(server.url + "/v1/chat/completions", json=body, **options)

    return asyncio.run(call())


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_is_timed_and_its_report_kept(client_module: Any, asynchronous: bool, stream: bool) -> None:
    """Times in order, settings from the request, the report from the answer, the header for the server's own spans."""
    step = model_call()
    body = {"model": "m", "temperature": 0.5, "stream": stream, "messages": [{"role": "user", "content": "secret"}]}
    with serve(chat_completion) as server:
        answer = post(client_module, server, asynchronous, body)
    assert answer.status_code == 200
    [attempt] = attempts(step)
    assert attempt.connect_start_ns is not None
    assert attempt.connect_end_ns is not None
    assert attempt.sent_ns is not None
    assert attempt.headers_ns is not None
    assert attempt.first_byte_ns is not None
    assert attempt.end_ns is not None
    times = [
        *(attempt.start_ns, attempt.connect_start_ns, attempt.connect_end_ns, attempt.sent_ns, attempt.headers_ns),
        *(attempt.first_byte_ns, attempt.end_ns),
    ]
    assert times == sorted(times)
    assert (attempt.status, attempt.path, attempt.error) == (200, "/v1/chat/completions", None)
    assert attempt.sent_settings == {"model": "m", "temperature": 0.5, "stream": stream}
    assert attempt.report["timings"] == TIMINGS
    assert attempt.report["finish_reason"] == "stop"
    assert "choices" not in attempt.report
    assert server.asked[0].headers["traceparent"] == "00-00000000000000000000000000000abc-0000000000000def-01"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_request_outside_of_a_model_call_passes_through(client_module: Any, asynchronous: bool) -> None:
    """No header, no attempt, also after the call has ended."""
    step = model_call()
    step.is_open = False
    with serve(chat_completion) as server:
        post(client_module, server, asynchronous, {})
    assert server.asked[0].headers["traceparent"] is None
    assert step.attempts is None


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_users_trace_extension_and_headers_stay(client_module: Any, asynchronous: bool) -> None:
    """A trace callable of the user's is called for each event, and a header that is there is not replaced."""
    model_call()
    events: list[str] = []

    async def trace_async(name: str, info: Any) -> None:
        events.append(name)

    trace = trace_async if asynchronous else lambda name, info: events.append(name)
    with serve(chat_completion) as server:
        post(client_module, server, asynchronous, {}, extensions={"trace": trace}, headers={"traceparent": "mine"})
    assert any(name.endswith("send_request_body.complete") for name in events)
    assert server.asked[0].headers["traceparent"] == "mine"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_error_stays_an_error(client_module: Any, asynchronous: bool) -> None:
    """A refused connection raises what it always raised, and the attempt is there."""
    step = model_call()
    with serve(chat_completion) as server:
        pass
    with pytest.raises(client_module.ConnectError):
        post(client_module, server, asynchronous, {})
    [attempt] = attempts(step)
    assert (attempt.error, attempt.status) == ("ConnectError", None)
    assert attempt.end_ns is not None


def drop(exchange: Exchange) -> None:
    """Break the connection in the middle of a stream."""
    exchange.begin_stream()
    exchange.event({"usage": {"prompt_tokens": 3}})
    exchange.close_connection = True


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_stream_that_breaks_keeps_what_came(client_module: Any, asynchronous: bool) -> None:
    """The client sees the protocol error, and the attempt holds what had arrived."""
    step = model_call()
    with serve(drop) as server, pytest.raises(client_module.RemoteProtocolError):
        post(client_module, server, asynchronous, {})
    [attempt] = attempts(step)
    assert attempt.error == "RemoteProtocolError"
    assert attempt.report == {"usage": {"prompt_tokens": 3}}


def test_a_stream_closed_early_is_ended(client_module: Any) -> None:
    """Leaving a stream ends its attempt, without an error."""
    step = model_call()
    with (
        serve(chat_completion) as server,
        client_module.Client(trust_env=False) as client,
        client.stream("POST", server.url + "/v1/chat/completions", json={"stream": True}) as response,
    ):
        next(response.iter_raw())
    [attempt] = attempts(step)
    assert attempt.end_ns is not None
    assert attempt.error is None


def test_a_compressed_report_is_read(client_module: Any) -> None:
    """A body that travels packed is unpacked for its report, and reaches the client as ever."""
    step = model_call()
    with serve(lambda exchange: exchange.send({"usage": {"prompt_tokens": 9}}, packed=True)) as server:
        assert post(client_module, server, False, {}).json() == {"usage": {"prompt_tokens": 9}}
    assert attempts(step)[0].report == {"usage": {"prompt_tokens": 9}}


def test_only_listed_headers_are_kept(client_module: Any) -> None:
    """Request ids and timings are kept, cookies and keys never."""
    headers = {"x-request-id": "r1", "openai-processing-ms": "12", "set-cookie": "a=b", "x-secret": "s"}
    step = model_call()
    with serve(lambda exchange: exchange.send({}, headers=headers)) as server:
        post(client_module, server, False, {})
    assert attempts(step)[0].headers == {"x-request-id": "r1", "openai-processing-ms": "12"}


def test_parallel_calls_are_never_mixed_up(client_module: Any) -> None:
    """Each call's requests are its own, however many run at once."""

    def echo(exchange: Exchange) -> None:
        exchange.send({"usage": {"prompt_tokens": exchange.body["number"]}})

    async def one(client: Any, server: ModelServer, number: int) -> tuple[int, list[Attempt]]:
        step = model_call()
        for _ in range(2):
            await client.post(server.url, json={"number": number, "seed": number})
        return number, attempts(step)

    async def all_of_them(server: ModelServer) -> list[tuple[int, list[Attempt]]]:
        async with client_module.AsyncClient(trust_env=False) as client:
            return await asyncio.gather(*(one(client, server, number) for number in range(20)))

    with serve(echo) as server:
        for number, seen in asyncio.run(all_of_them(server)):
            assert [attempt.report for attempt in seen] == [{"usage": {"prompt_tokens": number}}] * 2
            assert [attempt.sent_settings for attempt in seen] == [{"seed": number}] * 2


def test_a_fault_of_ours_is_counted_and_never_reaches_the_client(
    client_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the tap cannot watch, the request goes on as if it were not there."""

    def broken(*_: Any) -> Any:
        raise RuntimeError("ours")

    monkeypatch.setattr("agenttrace.transport.httpx_tap.begin", broken)
    monkeypatch.setattr(observing, "_faults", 0)
    monkeypatch.setattr(observing, "_last_fault", None)
    model_call()
    with serve(chat_completion) as server:
        assert post(client_module, server, False, {}).status_code == 200
    assert observing.tap_faults() == (1, "RuntimeError: ours")


def test_a_long_stream_keeps_its_ends(client_module: Any) -> None:
    """Of a long stream the beginning and the end are kept, where reports stand, and the middle is let go."""

    def long(exchange: Exchange) -> None:
        exchange.begin_stream()
        exchange.event({"message": {"usage": {"input_tokens": 5}}})
        for _ in range(400):
            exchange.event({"delta": {"text": "x" * 1000}})
        exchange.event({"usage": {"output_tokens": 400}})
        exchange.end_stream()

    step = model_call()
    with serve(long) as server:
        post(client_module, server, False, {"stream": True})
    assert step.attempts
    assert sum(map(len, [*step.attempts[0].head, *step.attempts[0].body])) < 200_000
    assert attempts(step)[0].report == {"usage": {"input_tokens": 5, "output_tokens": 400}}
