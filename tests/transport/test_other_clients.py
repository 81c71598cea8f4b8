"""The tap in requests and aiohttp, in the same shape as in httpx."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import pytest
import requests
from multidict import CIMultiDict

from agenttrace.transport.aiohttp_tap import _watched, tap_aiohttp
from agenttrace.transport.requests_tap import tap_requests
from agenttrace.transport.tap import install_tap, remove_tap
from tests.model_server import TIMINGS, Exchange, chat_completion, serve
from tests.transport.test_tap import attempts, drop, model_call


@pytest.fixture(autouse=True)
def _tapped() -> Iterator[None]:
    install_tap()
    yield
    remove_tap()


Ask = Callable[[str, Any], list[bytes]]


def ask_requests(url: str, body: Any) -> list[bytes]:
    with requests.Session() as session:
        session.trust_env = False
        response = session.post(url, json=body, stream=True)
        return list(response.iter_lines())


def ask_aiohttp(url: str, body: Any) -> list[bytes]:
    async def ask() -> list[bytes]:
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
            return [line async for line in response.content]

    return asyncio.run(ask())


@pytest.mark.parametrize("ask", [ask_requests, ask_aiohttp])
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_is_timed_and_its_report_kept(ask: Ask, stream: bool) -> None:
    """Times in order, settings, report and header, streamed and not."""
    step = model_call()
    with serve(chat_completion) as server:
        lines = ask(server.url + "/v1/chat/completions", {"model": "m", "stream": stream})
    assert b"hello" in b"".join(lines)
    [attempt] = attempts(step)
    assert (attempt.status, attempt.path, attempt.error) == (200, "/v1/chat/completions", None)
    assert attempt.headers_ns is not None
    assert attempt.first_byte_ns is not None
    assert attempt.end_ns is not None
    assert attempt.start_ns <= attempt.headers_ns <= attempt.first_byte_ns <= attempt.end_ns
    assert attempt.sent_settings == {"model": "m", "stream": stream}
    assert attempt.report["timings"] == TIMINGS
    assert server.asked[0].headers["traceparent"] == "00-00000000000000000000000000000abc-0000000000000def-01"


@pytest.mark.parametrize("ask", [ask_requests, ask_aiohttp])
def test_an_error_stays_an_error(ask: Ask) -> None:
    """A connection that breaks raises what it always raised, and the attempt says so."""
    step = model_call()
    with serve(drop) as server, pytest.raises((requests.RequestException, aiohttp.ClientError)):
        ask(server.url, {})
    with pytest.raises((requests.RequestException, aiohttp.ClientError)):
        ask(server.url, {})  # the server is gone by now
    broken, refused = attempts(step)
    assert broken.report == {"usage": {"prompt_tokens": 3}}
    assert refused.error is not None
    assert refused.status is None


@pytest.mark.parametrize("ask", [ask_requests, ask_aiohttp])
def test_a_compressed_report_is_read(ask: Ask) -> None:
    """These clients unpack before the tap sees the body."""

    def packed(exchange: Exchange) -> None:
        exchange.send({"usage": {"prompt_tokens": 9}}, packed=True)

    step = model_call()
    with serve(packed) as server:
        lines = ask(server.url, {})
    assert json.loads(b"".join(lines)) == {"usage": {"prompt_tokens": 9}}
    assert attempts(step)[0].report == {"usage": {"prompt_tokens": 9}}


@pytest.mark.parametrize("ask", [ask_requests, ask_aiohttp])
def test_a_request_outside_of_a_model_call_passes_through(ask: Ask) -> None:
    """No header, no attempt."""
    step = model_call()
    step.is_open = False
    with serve(chat_completion) as server:
        ask(server.url, {})
    assert server.asked[0].headers["traceparent"] is None
    assert step.attempts is None


@pytest.mark.parametrize(
    ("owner", "method"), [(requests.adapters.HTTPAdapter, "send"), (aiohttp.ClientSession, "_request")]
)
def test_a_client_is_wrapped_once(owner: type, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installing again, even under another's wrapping, counts no request twice."""
    ours = getattr(owner, method)

    def theirs(self: Any, *arguments: Any, **options: Any) -> Any:
        return ours(self, *arguments, **options)

    theirs.__wrapped__ = ours  # type: ignore[attr-defined]  # as functools.wraps does
    monkeypatch.setattr(owner, method, theirs)
    {"send": tap_requests, "_request": tap_aiohttp}[method](requests if method == "send" else aiohttp)
    assert getattr(owner, method) is theirs


def test_a_request_object_is_given_back_as_it_was() -> None:
    """A prepared request may be sent again under another call: our header is not on it."""
    step = model_call()
    with serve(chat_completion) as server, requests.Session() as session:
        session.trust_env = False
        request = session.prepare_request(requests.Request("POST", server.url, json={}))
        session.send(request)
        assert "traceparent" not in request.headers
        request.headers["traceparent"] = "the user's"
        session.send(request)
        assert request.headers["traceparent"] == "the user's"
    assert server.asked[0].headers["traceparent"] is not None
    assert len(attempts(step)) == 2


def endless(exchange: Exchange) -> None:
    """A stream whose first part comes and whose second never does."""
    exchange.begin_stream()
    exchange.event({"usage": {"prompt_tokens": 3}})
    exchange.rfile.read(1)  # until the client hangs up


@pytest.mark.parametrize("leave", ["close", "release", "drop"])
def test_a_body_that_is_left_early_ends_its_attempt(leave: str) -> None:
    """Closed, released or simply dropped: nothing is watched for ever, and no later body is taken for this one."""

    async def ask(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            response = await session.post(url, json={})
            await response.content.readline()
            if leave != "drop":
                getattr(response, leave)()
                assert not _watched
            del response
            gc.collect()

    step = model_call()
    with serve(endless) as server:
        asyncio.run(ask(server.url))
    gc.collect()
    assert not _watched
    [attempt] = attempts(step)
    assert attempt.end_ns is not None


@pytest.mark.parametrize("as_given", [list, CIMultiDict])
@pytest.mark.parametrize("has_its_own", [False, True])
def test_aiohttp_sends_the_headers_it_was_given(as_given: Callable[[Any], Any], has_its_own: bool) -> None:
    """A name that stands there twice arrives twice, and a `traceparent` of the session's own is not replaced."""
    own = f"00-{'1' * 32}-{'2' * 16}-01"
    model_call()

    async def ask(url: str) -> None:
        headers = as_given([("x-a", "1"), ("x-a", "2")])
        session = aiohttp.ClientSession(headers={"traceparent": own} if has_its_own else None)
        async with session, session.post(url, json={"model": "m"}, headers=headers) as response:
            await response.read()

    with serve(chat_completion) as server:
        asyncio.run(ask(server.url + "/v1/chat/completions"))
    [asked] = server.asked
    assert asked.headers.get_all("x-a") == ["1", "2"]
    assert (asked.headers["traceparent"] == own) is has_its_own
