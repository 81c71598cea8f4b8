"""What each server reports, through the LangChain package that people use with it, on loopback.

The servers say the same in their own words: 20 ms in the queue, 30 ms of prefill, 50 ms of decoding, as far as they say it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_aws import ChatBedrockConverse
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_groq import ChatGroq
from langchain_ollama import ChatOllama
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

from agenttrace import AgentTraceHandler, open_store
from agenttrace.recording import flush
from agenttrace.records import SpanRecord
from tests.model_server import Exchange, serve

MS = 1_000_000
QUEUE, PREFILL, DECODE = 20 * MS, 30 * MS, 50 * MS
KEY = SecretStr("k-0000000000000000")
USAGE = {"prompt_tokens": 40, "completion_tokens": 10, "total_tokens": 50}


def work() -> None:
    time.sleep((QUEUE + PREFILL + DECODE) / 1e9 + 0.01)  # as long as the servers say, and the network


def openai_like(
    more: dict[str, Any], headers: dict[str, str] | None = None, *, last: str = ""
) -> Callable[[Exchange], None]:
    """The chat API of OpenAI and of those who copied it; `more` stands in the body, or in a stream's last chunk."""

    def answer(exchange: Exchange) -> None:
        work()
        head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "served"}
        usage = USAGE | more.get("usage", {})
        if not exchange.body.get("stream"):
            message = {"role": "assistant", "content": "hello"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            exchange.send({**head, "choices": [choice], **more, "usage": usage}, headers=headers)
            return
        exchange.begin_stream()
        head["object"] = "chat.completion.chunk"
        for delta in ({"role": "assistant", "content": ""}, {"content": "hel"}, {"content": "lo"}):
            exchange.event({**head, "choices": [{"index": 0, "delta": delta}]})
        end = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        exchange.event({**end, last: {"id": "r", "usage": usage}} if last else {**end, **more, "usage": usage})
        exchange.event(b"[DONE]")
        exchange.end_stream()

    return answer


GROQ = {"queue_time": 0.02, "prompt_time": 0.03, "completion_time": 0.05, "total_time": 0.08}
VLLM = {"time_to_first_token_ms": 30.0, "generation_time_ms": 50.0, "queue_time_ms": 20.0}
LLAMA = {"prompt_n": 40, "cache_n": 0, "prompt_ms": 30.0, "predicted_n": 10, "predicted_ms": 50.0}


def ollama(exchange: Exchange) -> None:
    work()
    report = {
        "total_duration": 105 * MS, "load_duration": 5 * MS, "prompt_eval_count": 40, "prompt_eval_duration": PREFILL,
        "eval_count": 10, "eval_duration": DECODE,
    }  # fmt: skip
    head = {"model": "served", "created_at": "2026-12-01T00:00:00Z"}
    exchange.begin_stream("application/x-ndjson")
    for content, more in (("hello", {"done": False}), ("", {"done": True, "done_reason": "stop", **report})):
        exchange.event_line({**head, "message": {"role": "assistant", "content": content}, **more})
    exchange.end_stream()


def anthropic(exchange: Exchange) -> None:
    work()
    body = {
        "id": "m1", "type": "message", "role": "assistant", "model": "served", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hello"}], "usage": {"input_tokens": 40, "output_tokens": 10},
    }  # fmt: skip
    exchange.send(body, headers={"x-envoy-upstream-service-time": "100", "request-id": "req_1"})


def gemini(exchange: Exchange) -> None:
    work()
    parts = {"role": "model", "parts": [{"text": "hello"}]}
    usage = {"promptTokenCount": 40, "candidatesTokenCount": 10, "totalTokenCount": 50}
    body = {
        "candidates": [{"content": parts, "finishReason": "STOP"}],
        "usageMetadata": usage,
        "modelVersion": "served",
    }
    exchange.send(body, headers={"server-timing": "gfet4t7; dur=100"})


def bedrock(exchange: Exchange) -> None:
    work()
    message = {"role": "assistant", "content": [{"text": "hello"}]}
    usage = {"inputTokens": 40, "outputTokens": 10, "totalTokens": 50}
    body = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 100}}
    exchange.send(body)


def recorded(model: Any, *, stream: bool) -> SpanRecord:
    config = {"callbacks": [AgentTraceHandler()]}
    text = "".join(chunk.text for chunk in model.stream("hi", config)) if stream else model.invoke("hi", config).text
    assert text == "hello"
    flush()
    [span] = [span for span in open_store().trace("last") if span.kind == "model"]
    return span


def reported(span: SpanRecord) -> dict[str, int]:
    return {phase.name: phase.ns for phase in span.phases if phase.source == "server-reported" and phase.ns is not None}


def sum_is_exact(span: SpanRecord) -> bool:
    return sum(phase.ns for phase in span.phases if phase.ns is not None and not phase.included_in) == span.duration_ns


ALL_THREE = {"queue": QUEUE, "prefill": PREFILL, "decode": DECODE}
NO_QUEUE = {"prefill": PREFILL, "decode": DECODE}


@pytest.fixture(params=[False, True], ids=["invoke", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize(
    ("report", "last", "expected"),
    [
        pytest.param({"metrics": VLLM}, "", ALL_THREE, id="vllm"),
        pytest.param({"timings": LLAMA}, "", NO_QUEUE, id="llama.cpp"),
        pytest.param({"usage": GROQ}, "x_groq", ALL_THREE, id="groq"),
    ],
)
def test_servers_with_openais_api(
    store: Path, stream: bool, report: dict[str, Any], last: str, expected: dict[str, int]
) -> None:
    """ChatOpenAI drops what these servers report, streamed or not; the tap has it."""
    with serve(openai_like(report, last=last)) as server:
        model = ChatOpenAI(base_url=server.url + "/v1", model="m", api_key=KEY, stream_usage=True)
        span = recorded(model, stream=stream)
    assert reported(span) == expected
    assert sum_is_exact(span)


def test_groq(store: Path, stream: bool) -> None:
    """ChatGroq keeps the times of an invoke and drops those of a stream: both are there, and total excludes the queue."""
    with serve(openai_like({"usage": GROQ}, last="x_groq")) as server:
        span = recorded(ChatGroq(base_url=server.url, model="m", api_key=KEY), stream=stream)
    assert reported(span) == ALL_THREE
    assert span.usage is not None
    assert (span.usage.input, span.usage.output) == (40, 10)
    assert sum_is_exact(span)


def test_ollama(store: Path, stream: bool) -> None:
    """Load, prefill and decode by name; what its total holds besides, the wait for a slot, is unattributed."""
    with serve(ollama) as server:
        span = recorded(ChatOllama(base_url=server.url, model="m"), stream=stream)
    assert reported(span) == {"load": 5 * MS, **NO_QUEUE}
    [rest] = [phase for phase in span.phases if "unattributed_server" in phase.name and phase.ns is not None]
    assert rest.ns == 20 * MS
    assert sum_is_exact(span)


def test_openais_header(store: Path) -> None:
    """Without a stream the header is the server's whole time."""
    with serve(openai_like({}, {"openai-processing-ms": "100"})) as server:
        span = recorded(ChatOpenAI(base_url=server.url + "/v1", model="m", api_key=KEY), stream=False)
    assert reported(span) == {"server_all": 100 * MS}
    assert sum_is_exact(span)


def test_azures_header(store: Path) -> None:
    """Azure sends the same header on a path of its own."""
    with serve(openai_like({}, {"openai-processing-ms": "100", "apim-request-id": "a"})) as server:
        model = AzureChatOpenAI(azure_endpoint=server.url, azure_deployment="d", api_version="2024-10-21", api_key=KEY)
        span = recorded(model, stream=False)
    assert reported(span) == {"server_all": 100 * MS}
    assert sum_is_exact(span)


def test_anthropics_header(store: Path) -> None:
    """Its body says nothing of time; a gateway's header does."""
    with serve(anthropic) as server:
        model: Any = ChatAnthropic(base_url=server.url, model_name="m", api_key=KEY, timeout=None, stop=None)
        span = recorded(model, stream=False)
    assert reported(span) == {"server_all": 100 * MS}
    assert sum_is_exact(span)


def test_geminis_server_timing(store: Path) -> None:
    """The front end's time is all that Google says."""
    with serve(gemini) as server:
        model: Any = ChatGoogleGenerativeAI(model="gemini-m", google_api_key=KEY, base_url=server.url)
        span = recorded(model, stream=False)
    assert reported(span) == {"server_all": 100 * MS}
    assert span.usage is not None
    assert (span.usage.input, span.usage.output) == (40, 10)
    assert sum_is_exact(span)


def test_bedrocks_latency(store: Path) -> None:
    """boto3 is not tapped; its integration keeps the latency, as a list, and that is enough."""
    with serve(bedrock) as server:
        model: Any = ChatBedrockConverse(
            model="m", provider="anthropic", base_url=server.url, region_name="us-east-1",
            aws_access_key_id=KEY, aws_secret_access_key=KEY,
        )  # fmt: skip
        span = recorded(model, stream=False)
    assert reported(span) == {"server_all": 100 * MS}
    assert sum_is_exact(span)
