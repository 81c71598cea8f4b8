"""What real integration packages reply is recorded, and replayed with no server at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langchain_groq import ChatGroq
from langchain_mistralai import ChatMistralAI
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

from agenttrace import open_store, record
from agenttrace.errors import ReplayMiss
from agenttrace.records import REPLAYED
from tests.model_server import CHAT_USAGE, Exchange, chat_completion, serve

NOBODY = "http://127.0.0.1:9"
"""Where no server listens: what is replayed must not ask."""

CALL = {"id": "call-1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def tool_agent(exchange: Exchange) -> None:
    """Asks for the tool first, in pieces where it streams, and answers once it has its result."""
    if any(message["role"] == "tool" for message in exchange.body["messages"]):
        chat_completion(exchange)
        return
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "served-model"}
    if not exchange.body.get("stream"):
        message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
        exchange.send({**head, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
        return
    exchange.begin_stream()
    for arguments in ("", '{"a": 1,', ' "b": 2}'):
        first = {"id": "call-1", "type": "function"} if not arguments else {}
        name = {"name": "add"} if not arguments else {}
        piece = {"index": 0, **first, "function": {**name, "arguments": arguments}}
        exchange.event({**head, "choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]})
    exchange.event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    exchange.event(b"[DONE]")
    exchange.end_stream()


def anthropic_message(exchange: Exchange) -> None:
    head = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-served", "stop_sequence": None}
    usage = {"input_tokens": 7, "output_tokens": 3}
    if not exchange.body.get("stream"):
        content = [{"type": "text", "text": "hello you there"}]
        exchange.send({**head, "content": content, "stop_reason": "end_turn", "usage": usage})
        return
    exchange.begin_stream()
    events: list[Any] = [
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
            for text in ("hello", " you", " there")
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    for event in events:
        exchange.part(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    exchange.end_stream()


def ollama_chat(exchange: Exchange) -> None:
    exchange.begin_stream("application/x-ndjson")
    for word in ("hello", " you", " there"):
        exchange.event_line({"model": "m", "message": {"role": "assistant", "content": word}, "done": False})
    done = {"done": True, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 3, "total_duration": 9}
    exchange.event_line({"model": "m", "message": {"role": "assistant", "content": ""}, **done})
    exchange.end_stream()


Make = Callable[[str], BaseChatModel]
PROVIDERS: dict[str, tuple[Make, Callable[[Exchange], None]]] = {
    "openai": (lambda url: ChatOpenAI(model="m", base_url=f"{url}/v1", api_key="k"), chat_completion),  # type: ignore[arg-type]  # a text will do
    "anthropic": (lambda url: ChatAnthropic(model_name="claude", base_url=url, api_key="k"), anthropic_message),  # type: ignore[call-arg, arg-type]  # its own spelling of names, and a text will do
    "ollama": (lambda url: ChatOllama(model="m", base_url=url), ollama_chat),
    "groq": (lambda url: ChatGroq(model="m", base_url=url, api_key="k"), chat_completion),  # type: ignore[arg-type]  # a text will do
    "mistral": (lambda url: ChatMistralAI(model_name="m", base_url=f"{url}/v1", api_key="k"), chat_completion),  # type: ignore[arg-type]  # a text will do
}  # fmt: skip


@pytest.fixture
def folder(store: Path, tmp_path: Path) -> Path:
    return tmp_path / "recording"


def without_id(messages: Any) -> list[BaseMessage]:
    """LangChain numbers messages by its own run, which is another one each time."""
    items = messages if isinstance(messages, list) else [messages]
    return [message.model_copy(update={"id": None}) for message in items]


def ask_in_every_way(model: BaseChatModel) -> list[list[BaseMessage]]:
    """Sync and async, whole and as a stream, and several at a time."""

    async def together() -> list[list[BaseMessage]]:
        whole, batch = await asyncio.gather(model.ainvoke("a"), model.abatch(["b1", "b2", "b3"]))
        return [without_id(whole), without_id(batch), without_id([chunk async for chunk in model.astream("c")])]

    return [without_id(model.invoke("d")), without_id(list(model.stream("e"))), *asyncio.run(together())]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_provider_is_recorded_and_replayed(provider: str, folder: Path) -> None:
    """Replies, chunk by chunk, are what they were, and nobody is asked."""
    make, reply = PROVIDERS[provider]
    with serve(reply) as server:
        with record("live", record_replies=folder):
            live = ask_in_every_way(make(server.url))
        asked = len(server.asked)
    with record("again", replay=folder) as run:
        assert ask_in_every_way(make(NOBODY)) == live
    assert asked == 7
    spans = open_store().run_spans(run.run_id)
    assert len(spans) == 7
    assert all(span.settings["replay"].value is True and span.notes == (REPLAYED,) for span in spans)
    assert all(span.phases == () and not span.attempts for span in spans)
    streamed = [span.marks.chunks for span in spans if span.marks and span.marks.chunks]
    assert streamed == [3, 3]


def test_an_agent_with_tools_is_replayed(folder: Path) -> None:
    """A tool call comes back whole and in pieces, and its result leads to the same next request."""

    def run_agent(url: str) -> tuple[list[Any], list[Any]]:
        agent = create_agent(ChatOpenAI(model="m", base_url=f"{url}/v1", api_key="k"), [add])  # type: ignore[arg-type]  # a text will do
        question: Any = {"messages": [("user", "1 + 2?")]}
        whole = agent.invoke(question)["messages"]
        pieces = [message for message, _ in agent.stream(question, stream_mode="messages")]
        return without_id(whole), without_id(pieces)

    with serve(tool_agent) as server, record("live", record_replies=folder):
        live = run_agent(server.url)
    with record("again", replay=folder) as run:
        assert run_agent(NOBODY) == live
    assert live[0][2].content == "3"
    assert any(getattr(piece, "tool_call_chunks", None) for piece in live[1])
    assert {span.call_site for span in open_store().run_spans(run.run_id) if span.kind == "model"} == {"model"}


def anthropic_thinking(exchange: Exchange) -> None:
    """Thinks, signs what it thought, and asks for the tool in pieces."""
    head = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-served", "stop_sequence": None}
    usage = {"input_tokens": 7, "output_tokens": 3}
    deltas: list[tuple[int, dict[str, str]]] = [
        (0, {"type": "thinking_delta", "thinking": "hm"}),
        (0, {"type": "signature_delta", "signature": "abc=="}),
        (1, {"type": "input_json_delta", "partial_json": '{"a": 1,'}),
        (1, {"type": "input_json_delta", "partial_json": ' "b": 2}'}),
    ]
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {}},
    ]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "usage": usage}}
    ]
    for number, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": number, "content_block": block})
        events += [{"type": "content_block_delta", "index": at, "delta": it} for at, it in deltas if at == number]
        events.append({"type": "content_block_stop", "index": number})
    events += [
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    exchange.begin_stream()
    for event in events:
        exchange.part(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    exchange.end_stream()


@pytest.mark.parametrize("version", ["v0", "v1"])
def test_thinking_and_signatures_are_replayed(version: str, folder: Path) -> None:
    """Blocks of content come back block by block, in either form that LangChain gives them."""

    def ask(url: str) -> list[BaseMessage]:
        model = ChatAnthropic(model_name="claude", base_url=url, api_key="k", output_version=version)  # type: ignore[call-arg, arg-type]  # its own spelling of names, and a text will do
        return without_id(list(model.bind_tools([add]).stream("a")))

    with serve(anthropic_thinking) as server, record("live", record_replies=folder):
        live = ask(server.url)
    with record("again", replay=folder):
        assert ask(NOBODY) == live
    assert "abc==" in str(live)


def test_structured_output_is_replayed(folder: Path) -> None:
    """What an SDK parsed for its reader comes back as the same object."""

    class City(BaseModel):
        name: str

    def city(exchange: Exchange) -> None:
        message = {"role": "assistant", "content": '{"name": "Lima"}'}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        exchange.send({"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})

    def ask(url: str) -> Any:
        model = ChatOpenAI(model="m", base_url=f"{url}/v1", api_key="k")  # type: ignore[arg-type]  # a text will do
        return model.with_structured_output(City, method="json_schema").invoke("capital of Peru?")

    with serve(city) as server, record("live", record_replies=folder):
        assert ask(server.url) == City(name="Lima")
    with record("again", replay=folder):
        assert ask(NOBODY) == City(name="Lima")


def test_a_text_model_is_replayed(folder: Path) -> None:
    """Models that complete a text are models too."""

    def completion(exchange: Exchange) -> None:
        head = {"id": "c1", "object": "text_completion", "created": 1, "model": "m"}
        if not exchange.body.get("stream"):
            choices = [{"index": number, "text": f"<{text}>", "finish_reason": "stop", "logprobs": None}
                       for number, text in enumerate(exchange.body["prompt"])]  # fmt: skip
            exchange.send({**head, "choices": choices, "usage": CHAT_USAGE})
            return
        exchange.begin_stream()
        for word in ("one", " two"):
            exchange.event({**head, "choices": [{"index": 0, "text": word, "finish_reason": None, "logprobs": None}]})
        exchange.event(b"[DONE]")
        exchange.end_stream()

    def ask(url: str) -> Any:
        model = OpenAI(model="m", base_url=f"{url}/v1", api_key="k")  # type: ignore[arg-type]  # a text will do
        return model.invoke("a"), model.batch(["b", "c"]), list(model.stream("d"))

    with serve(completion) as server, record("live", record_replies=folder):
        live = ask(server.url)
    assert live == ("<a>", ["<b>", "<c>"], ["one", " two"])
    with record("again", replay=folder):
        assert ask(NOBODY) == live


def test_the_event_protocol_is_replayed(folder: Path) -> None:
    """LangChain's typed events of a stream are the same, and its callbacks fire."""

    def ask(url: str) -> list[Any]:
        model = ChatOpenAI(model="m", base_url=f"{url}/v1", api_key="k")  # type: ignore[arg-type]  # a text will do
        events = [dict(event) for event in model.stream_events("a", version="v3")]
        return [event for event in events if event["event"] != "message-start"]  # it carries the message's id

    with serve(chat_completion) as server, record("live", record_replies=folder):
        live = ask(server.url)
    with record("again", replay=folder):
        assert ask(NOBODY) == live
    assert any(event["event"] == "content-block-delta" for event in live)


@pytest.fixture
def nobody() -> ChatOpenAI:
    return ChatOpenAI(model="m", base_url=f"{NOBODY}/v1", api_key="k", max_retries=0)  # type: ignore[arg-type]  # a text will do


def test_a_model_that_raised_raises_again(folder: Path, nobody: ChatOpenAI) -> None:
    """So that a fallback takes over where it did: by the class of the error, which is the SDK's own."""
    from openai import RateLimitError

    def too_many(exchange: Exchange) -> None:
        exchange.send({"error": {"message": "slow down", "code": "rate_limit"}}, status=429)

    with serve(too_many) as busy, serve(chat_completion) as server, record("live", record_replies=folder):
        first = ChatOpenAI(model="m", base_url=f"{busy.url}/v1", api_key="k", max_retries=0)  # type: ignore[arg-type]  # a text will do
        second = ChatOpenAI(model="n", base_url=f"{server.url}/v1", api_key="k")  # type: ignore[arg-type]  # a text will do
        chain = first.with_fallbacks([second], exceptions_to_handle=(RateLimitError,))
        assert chain.invoke("a").content == "hello you there"
    with record("again", replay=folder) as run:
        second = ChatOpenAI(model="n", base_url=f"{NOBODY}/v1", api_key="k")  # type: ignore[arg-type]  # a text will do
        chain = nobody.with_fallbacks([second], exceptions_to_handle=(RateLimitError,))
        assert chain.invoke("a").content == "hello you there"
    errors = [span.error.type for span in open_store().run_spans(run.run_id) if span.kind == "model" and span.error]
    assert errors == ["OpenAIRateLimitError"]


def test_models_are_live_again_after_a_replay(folder: Path) -> None:
    """A tape is in place inside its block and nowhere else."""
    with serve(chat_completion) as server:
        model = ChatOpenAI(model="m", base_url=f"{server.url}/v1", api_key="k")  # type: ignore[arg-type]  # a text will do
        with record("live", record_replies=folder):
            model.invoke("a")
        with record("again", replay=folder), pytest.raises(ReplayMiss):
            model.invoke("b")
        model.invoke("b")
        assert len(server.asked) == 2
