"""Whatever is wrong with an endpoint is one clear sentence, at once where waiting cannot help, and no key is in it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trustme

from agenttrace.errors import EndpointRefused, EndpointUnreachable, ExportError, PhoenixNotHealthy, UsageError
from agenttrace.export.otlp import send_spans
from agenttrace.export.phoenix import running_phoenix
from tests.builders import a_span
from tests.model_server import Exchange, ModelServer, Reply, serve

SECRET = "s3cret-key"  # of nobody

PATIENCE_S = 2.0


def answer(status: int, body: object = None, **headers: str) -> Reply:
    return lambda exchange: exchange.send(
        body, status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def send(url: str, **options: Any) -> None:
    send_spans([a_span()], url, headers={"x-key": SECRET}, **{"patience_s": PATIENCE_S, **options})


def ask_phoenix(url: str) -> None:
    running_phoenix(url, {"authorization": f"Bearer {SECRET}"})


def said(error: pytest.ExceptionInfo[ExportError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert SECRET not in text
    return text


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (answer(401, {"detail": "bad key"}), ("refused the key", "HTTP 401", "bad key", "header")),
        (answer(403), ("refused the key", "HTTP 403")),
        (answer(404), ("takes no spans", "HTTP 404", "/v1/traces is added")),
        (answer(405), ("takes no spans", "HTTP 405")),
        (answer(413, "at most 1 byte"), ("takes no request of", "bytes", "HTTP 413", "Raise its limit")),
        (answer(400, "no protobuf here"), ("does not take these spans", "no protobuf here")),
        (answer(301, location="https://elsewhere.example/v1/traces"), ("sends elsewhere: https://elsewhere.example",)),
        (answer(307), ("it does not say where",)),
    ],
)
def test_a_refusal_is_said_at_once(reply: Reply, words: tuple[str, ...]) -> None:
    """Asked once: what is refused now is refused later. A redirect is not followed, since keys would go with it."""
    with serve(reply) as server, pytest.raises(EndpointRefused) as error:
        send(server.url)
    assert len(server.asked) == 1
    text = said(error)
    assert server.url in text
    for word in words:
        assert word in text


def test_too_many_requests_are_sent_again_when_asked_for() -> None:
    """429 with a time that can be waited for: waited, and sent."""
    with serve(answer(429, retry_after="1"), answer(200)) as server:
        send(server.url)
    assert len(server.asked) == 2
    assert server.asked[0].raw == server.asked[1].raw


@pytest.mark.parametrize("retry_after", ["3600", "Wed, 01 Jan 2200 00:00:00 GMT"])
def test_a_time_too_long_to_wait_for_is_said_at_once(retry_after: str) -> None:
    """429 that asks for an hour, or for a date: nobody sits through it, and the message says when."""
    with (
        serve(answer(429, "slow down", retry_after=retry_after)) as server,
        pytest.raises(EndpointUnreachable) as error,
    ):
        send(server.url)
    assert len(server.asked) == 1
    text = said(error)
    for word in ("HTTP 429", "slow down", "tried again in", "the store has everything"):
        assert word in text
    assert error.value.retry_after_s > PATIENCE_S


def test_an_endpoint_that_stays_broken_is_said_after_some_tries() -> None:
    """500 again and again: several tries within the time that is given."""
    with (
        serve(answer(500, "out of memory")) as server,
        pytest.raises(EndpointUnreachable, match="out of memory") as error,
    ):
        send(server.url)
    assert len(server.asked) > 1
    assert f"tried for {PATIENCE_S:g} s" in said(error)


@pytest.mark.parametrize(
    ("address", "kind", "words"),
    [
        ("http://127.0.0.1:1", EndpointUnreachable, "Nobody listens at"),
        ("http://no-such-host.invalid:4318", EndpointUnreachable, "There is no host"),
        ("http://127.0.0.1:notaport", UsageError, "is no address"),
        (f"http://user:{SECRET}@127.0.0.1:4318", UsageError, "keys as headers"),
        ("grpc://127.0.0.1:4317", UsageError, "is no address"),
    ],
)
def test_a_wrong_address_is_said(address: str, kind: type[Exception], words: str) -> None:
    """Nobody there, no such host, no address at all."""
    with pytest.raises(kind, match=words) as error:
        send(address, patience_s=0)
    assert SECRET not in str(error.value)


@pytest.fixture
def untrusted() -> Iterator[ModelServer]:
    """A server over TLS, with a certificate that nobody here knows."""
    with serve(answer(200)) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        yield server


@pytest.mark.parametrize("ask", [send, ask_phoenix])
def test_a_certificate_that_is_not_trusted_is_said(untrusted: ModelServer, ask: Callable[[str], None]) -> None:
    """With the variable that names one to trust."""
    with pytest.raises(EndpointRefused, match="CERTIFICATE_VERIFY_FAILED") as error:
        ask(untrusted.url.replace("http:", "https:"))
    assert "$SSL_CERT_FILE" in said(error)
    assert untrusted.asked == []


@pytest.mark.parametrize("ask", [send, ask_phoenix])
def test_https_to_a_port_without_it_is_said(ask: Callable[[str], None]) -> None:
    """The other way round: what listens speaks no TLS."""
    with serve(answer(200)) as server, pytest.raises(EndpointRefused, match="Check that it speaks https") as error:
        ask(server.url.replace("http:", "https:"))
    said(error)


def version(text: str) -> Reply:
    def reply(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.send_header("content-length", str(len(text)))
        exchange.end_headers()
        exchange.wfile.write(text.encode())

    return reply


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (version("14.2.0"), PhoenixNotHealthy, ("Phoenix '14.2.0'", "20 is the oldest", "pip install")),
        (version("<html>Welcome</html>"), PhoenixNotHealthy, ("<html>", "20 is the oldest")),
        (answer(404), PhoenixNotHealthy, ("answered HTTP 404", "which Phoenix does not")),
        (answer(401), EndpointRefused, ("refused the key", "$PHOENIX_API_KEY")),
        (answer(302, location="https://elsewhere.example/login"), EndpointRefused, ("sends elsewhere",)),
    ],
)
def test_a_phoenix_that_is_none_or_too_old_is_said(
    reply: Reply, kind: type[ExportError], words: tuple[str, ...]
) -> None:
    """Before anything is sent to it."""
    with serve(reply) as server, pytest.raises(kind) as error:
        ask_phoenix(server.url)
    for word in words:
        assert word in said(error)
    assert len(server.asked) == 1
