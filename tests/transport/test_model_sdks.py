"""The tap under the model SDKs that agents use, each through its LangChain class."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from agenttrace.transport.observing import tap_faults
from agenttrace.transport.tap import install_tap
from tests.model_server import CHAT_USAGE, TIMINGS, Exchange, chat_completion, serve
from tests.transport.test_tap import attempts, model_call

KEY = SecretStr("sk-0000000000000000")


async def _collect(model: Any) -> str:
    return "".join([chunk.text async for chunk in model.astream("hi")])


ASK: dict[str, Callable[[Any], str]] = {
    "invoke": lambda model: model.invoke("hi").text,
    "stream": lambda model: "".join(chunk.text for chunk in model.stream("hi")),
    "ainvoke": lambda model: asyncio.run(model.ainvoke("hi")).text,
    "astream": lambda model: asyncio.run(_collect(model)),
}


@pytest.fixture(autouse=True, params=ASK)
def ask(request: pytest.FixtureRequest) -> Callable[[Any], str]:
    """One of the four ways to call a model."""
    return ASK[request.param]


def test_chat_openai(ask: Callable[[Any], str]) -> None:
    """What the SDK drops is there: the server's own timings, streamed or not."""
    with serve(chat_completion) as server:
        model = ChatOpenAI(model="m", base_url=server.url + "/v1", api_key=KEY, temperature=0.25)
        install_tap()
        step = model_call()
        assert ask(model) == "hello you there"
    [attempt] = attempts(step)
    assert attempt.report["timings"] == TIMINGS
    assert attempt.report["usage"] == CHAT_USAGE
    assert attempt.sent_settings["temperature"] == 0.25
    assert "messages" not in attempt.sent_settings
    assert None not in (attempt.connect_end_ns, attempt.sent_ns, attempt.first_byte_ns, attempt.end_ns)
    assert attempt.error is None
    assert tap_faults() == (0, None)


def test_an_sdks_own_retries_are_attempts(ask: Callable[[Any], str]) -> None:
    """A retry that no callback tells of is an attempt of its own, with its status and what the server asked for."""

    def busy(exchange: Exchange) -> None:
        exchange.send({"error": {"message": "busy"}}, status=429, headers={"retry-after-ms": "1"})

    with serve(busy, chat_completion) as server:
        model = ChatOpenAI(model="m", base_url=server.url + "/v1", api_key=KEY, max_retries=1)
        install_tap()
        step = model_call()
        ask(model)
    first, second = attempts(step)
    assert (first.status, second.status) == (429, 200)
    assert first.headers == {"retry-after-ms": "1"}
    assert first.end_ns is not None
    assert first.end_ns <= second.start_ns


def claude(exchange: Exchange) -> None:
    """A Claude answer, streamed if it was asked to be."""
    usage = {"input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 6}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-served", "content": []}
    if not exchange.body.get("stream"):
        content = [{"type": "text", "text": "hello"}]
        exchange.send(
            {**message, "content": content, "stop_reason": "end_turn", "usage": {**usage, "output_tokens": 5}}
        )
        return
    exchange.begin_stream()
    for kind, event in (
        ("message_start", {"message": {**message, "usage": usage}}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "hello"}}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
        ("message_stop", {}),
    ):
        exchange.part(f"event: {kind}\n".encode())
        exchange.event({"type": kind, **event})
    exchange.end_stream()


def test_chat_anthropic(ask: Callable[[Any], str]) -> None:
    """Usage is whole although a stream tells half of it at the beginning."""
    with serve(claude) as server:
        model: Any = ChatAnthropic(model_name="m", base_url=server.url, api_key=KEY, timeout=10, stop=None)
        install_tap()
        step = model_call()
        assert ask(model) == "hello"
    [attempt] = attempts(step)
    assert attempt.report["usage"] == {"input_tokens": 11, "output_tokens": 5, "cache_read_input_tokens": 6}
    assert (attempt.report["model"], attempt.report["finish_reason"]) == ("claude-served", "end_turn")
    assert attempt.path == "/v1/messages"
    assert tap_faults() == (0, None)


def llama(exchange: Exchange) -> None:
    """Ollama's lines: the answer in two, the report in the last."""
    exchange.begin_stream("application/x-ndjson")
    for content in ("hel", "lo"):
        exchange.part(_line(exchange, {"message": {"role": "assistant", "content": content}, "done": False}))
    durations = {"total_duration": 900, "load_duration": 100, "prompt_eval_count": 3, "prompt_eval_duration": 200}
    done = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop", **durations}
    exchange.part(_line(exchange, {**done, "eval_count": 2, "eval_duration": 500}))
    exchange.end_stream()


def _line(exchange: Exchange, document: dict[str, Any]) -> bytes:
    return (
        json.dumps({"model": exchange.body["model"], "created_at": "2026-01-01T00:00:00Z", **document}).encode() + b"\n"
    )


def test_chat_ollama(ask: Callable[[Any], str]) -> None:
    """It speaks through httpx where the others speak through httpx2."""
    with serve(llama) as server:
        model = ChatOllama(model="tiny", base_url=server.url, num_ctx=512, client_kwargs={"trust_env": False})
        install_tap()
        step = model_call()
        assert ask(model) == "hello"
    [attempt] = attempts(step)
    assert attempt.report["total_duration"] == 900
    assert attempt.report["done_reason"] == "stop"
    assert isinstance(attempt.sent_settings["options"], dict)
    assert attempt.sent_settings["options"]["num_ctx"] == 512
    assert tap_faults() == (0, None)
