"""The tap over TLS and HTTP/2: handshakes are part of connecting, and streams on one connection are not mixed up."""

from __future__ import annotations

import asyncio
import importlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypercorn.asyncio import serve as serve_asgi
from hypercorn.config import Config

from agenttrace.transport.observing import tap_faults
from agenttrace.transport.tap import install_tap
from tests.transport.test_tap import attempts, model_call


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Stream three parts, the last one a report that repeats the request's body."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            break
    head = [(b"content-type", b"text/event-stream"), (b"x-protocol", scope["http_version"].encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    for part in (b'data: {"a": 1}\n\n', b"data: " + body + b"\n\n", b'data: {"usage": {"prompt_tokens": 3}}\n\n'):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ssl.SSLContext]]:
    """A server of HTTP/2 over TLS on loopback, and what trusts it."""
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    for part in certificate.cert_chain_pems:
        part.write_to_path(folder / "cert.pem", append=True)
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.certfile, config.keyfile = str(folder / "cert.pem"), str(folder / "key.pem")
    config.accesslog = config.errorlog = None
    sockets = config.create_sockets()
    config.bind = [f"fd://{sockets.secure_sockets[0].fileno()}"]
    port = sockets.secure_sockets[0].getsockname()[1]
    loop, done = asyncio.new_event_loop(), asyncio.Event()
    run = serve_asgi(answer, config, shutdown_trigger=done.wait)
    thread = threading.Thread(target=loop.run_until_complete, args=(run,), daemon=True)
    thread.start()
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    yield f"https://localhost:{port}/v1/chat/completions", trusted
    loop.call_soon_threadsafe(done.set)
    thread.join(10)
    loop.close()


@pytest.fixture(params=["httpx", "httpx2"])
def module(request: pytest.FixtureRequest) -> Any:
    loaded = importlib.import_module(request.param)
    install_tap()
    return loaded


@pytest.mark.parametrize("http2", [False, True])
def test_tls_is_part_of_connecting(module: Any, endpoint: tuple[str, ssl.SSLContext], http2: bool) -> None:
    """Marks in order, the handshake inside of them, whichever protocol the two agree on."""
    url, trusted = endpoint
    step = model_call()
    with module.Client(http2=http2, verify=trusted, trust_env=False) as client:
        response = client.post(url, json={"model": "m"})
        client.post(url, json={"model": "again"})
    assert response.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
    first, second = attempts(step)
    moments = (
        first.start_ns, first.connect_start_ns, first.connect_end_ns, first.send_start_ns, first.sent_ns,
        first.headers_ns, first.first_byte_ns, first.end_ns,
    )  # fmt: skip
    assert None not in moments
    assert list(moments) == sorted(moment for moment in moments if moment is not None)
    assert second.connect_start_ns is None
    assert second.send_start_ns is not None
    assert (first.sent_settings, second.sent_settings) == ({"model": "m"}, {"model": "again"})
    assert first.report["usage"] == {"prompt_tokens": 3}
    assert tap_faults() == (0, None)


def test_streams_of_one_connection_are_told_apart(module: Any, endpoint: tuple[str, ssl.SSLContext]) -> None:
    """Twenty calls at once over HTTP/2: each attempt belongs to the call that sent it."""
    url, trusted = endpoint

    async def ask(client: Any, number: int) -> Any:
        step = model_call()
        response = await client.post(url, json={"model": f"m{number}"})
        assert f"m{number}" in response.text
        return step

    async def ask_all() -> list[Any]:
        async with module.AsyncClient(http2=True, verify=trusted, trust_env=False) as client:
            return await asyncio.gather(*(asyncio.create_task(ask(client, number)) for number in range(20)))

    for number, step in enumerate(asyncio.run(ask_all())):
        [attempt] = attempts(step)
        assert attempt.sent_settings == {"model": f"m{number}"}
        assert attempt.report["model"] == f"m{number}"
        assert attempt.end_ns is not None
