"""Settings are read from the wire, the call and the model object, each with its voice. Real integration packages, loopback servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from agenttrace import AgentTraceHandler, open_store
from agenttrace.recording import flush
from agenttrace.records import SpanRecord
from tests.model_server import Exchange, ModelServer, chat_completion, serve


@tool
def search(query: str, limit: int = 3) -> str:
    """Search the notes."""
    return query


class Answer(BaseModel):
    number: int


def openai(server: ModelServer, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=server.url + "/v1", api_key=SecretStr("sk-abcdefghijklmnopqrst"), max_retries=0, **options
    )


def call(model: Any, *, transport: bool = True, messages: Any = "hi", stream: bool = False) -> SpanRecord:
    """One call of the model, as it was recorded."""
    config = {"callbacks": [AgentTraceHandler(transport=transport)]}
    if stream:
        list(model.stream(messages, config=config))
    else:
        model.invoke(messages, config=config)
    flush()
    with open_store() as reader:
        spans = reader.trace("last")
    return next(span for span in spans if span.kind == "model")


def told(span: SpanRecord, dimension: str) -> tuple[Any, str] | None:
    """(value, voice) of a dimension; None if it is unknown."""
    setting = span.settings.get(dimension)
    return None if setting is None else (setting.value, setting.voice)


@pytest.mark.parametrize("stream", [False, True])
def test_openai_settings_come_from_the_wire(store: Path, stream: bool) -> None:
    """What went out is what counts; what is not in the request is known to be unset."""
    with serve(chat_completion) as server:
        model = openai(server, model="asked", temperature=0.3, seed=7, max_completion_tokens=50, stream_usage=True)
        span = call(model, messages=[("system", "be brief"), ("user", "hi")], stream=stream)
    assert told(span, "model.requested") == ("asked", "sent")
    assert told(span, "model.served") == ("served-model", "served")
    assert told(span, "provider") == ("openai", "requested")
    assert told(span, "api") == ("openai.chat", "sent")
    assert told(span, "sampling.temperature") == (0.3, "sent")
    assert told(span, "sampling.seed") == (7, "sent")
    assert told(span, "sampling.top_p") == (None, "sent")
    assert told(span, "limits.max_output_tokens") == (50, "sent")
    assert told(span, "delivery.streamed") == (stream, "sent")
    assert told(span, "tools.names") == (None, "sent")
    assert told(span, "output.schema") == (None, "sent")
    assert told(span, "prompt.content") == ("be brief", "requested")
    assert span.finish_reason == "stop"
    assert span.usage is not None
    assert (span.usage.input, span.usage.output) == (7, 3)
    assert "sk-abc" not in "".join(path.read_text(errors="replace") for path in store.rglob("*") if path.is_file())


def test_without_the_tap_the_calls_parameters_speak(store: Path) -> None:
    """The tap can be switched off; then what was requested is all there is, and is said to be no more."""
    with serve(chat_completion) as server:
        span = call(openai(server, model="asked", temperature=0.3), transport=False)
    assert told(span, "sampling.temperature") == (0.3, "requested")
    assert told(span, "model.served") == ("served-model", "served")
    assert told(span, "api") is None
    assert span.attempts == ()


@pytest.mark.parametrize("transport", [True, False])
def test_a_bound_model_wins(store: Path, transport: bool) -> None:
    """After `.bind(model=…)` the bound name is the requested one."""
    with serve(chat_completion) as server:
        span = call(openai(server, model="constructed").bind(model="bound"), transport=transport)
    assert span.settings["model.requested"].value == "bound"


def test_tools_are_told_apart(store: Path) -> None:
    """Names, parameters, descriptions and order are settings of their own."""
    with serve(chat_completion) as server:
        span = call(openai(server, model="m").bind_tools([search], tool_choice="any", parallel_tool_calls=False))
    assert told(span, "tools.names") == (["search"], "sent")
    assert told(span, "tools.descriptions") == ({"search": "Search the notes."}, "sent")
    parameters = span.settings["tools.parameters"].value
    assert isinstance(parameters, dict)
    assert parameters["search"]["properties"]["limit"] == {"default": 3, "type": "integer"}
    assert told(span, "tools.choice") == ("required", "sent")
    assert told(span, "tools.parallel") == (False, "sent")


def test_a_structured_output_is_a_format_and_a_schema(store: Path) -> None:
    """The schema that an answer must follow is a setting."""

    def structured(exchange: Exchange) -> None:
        message = {"role": "assistant", "content": '{"number": 4}'}
        exchange.send({"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    with serve(structured) as server:
        span = call(openai(server, model="m").with_structured_output(Answer, method="json_schema"))
    assert told(span, "output.format") == ("json_schema", "sent")
    schema = span.settings["output.schema"].value
    assert isinstance(schema, dict)
    assert schema["name"] == "Answer"


def ollama_answer(exchange: Exchange) -> None:
    done = {
        "model": "tiny:served", "created_at": "2026-01-01T00:00:00Z", "done": True, "done_reason": "stop",
        "message": {"role": "assistant", "content": ""}, "total_duration": 50_000_000, "load_duration": 1_000_000,
        "prompt_eval_count": 9, "prompt_eval_duration": 20_000_000, "eval_count": 4, "eval_duration": 25_000_000,
    }  # fmt: skip
    exchange.begin_stream("application/x-ndjson")
    import json

    exchange.part(json.dumps({"model": "tiny:served", "created_at": "2026-01-01T00:00:00Z", "done": False,
                              "message": {"role": "assistant", "content": "hello"}}).encode() + b"\n")  # fmt: skip
    exchange.part(json.dumps(done).encode() + b"\n")
    exchange.end_stream()


def test_ollama_settings_come_from_the_wire(store: Path) -> None:
    """ChatOllama shows next to nothing in callbacks; the request shows it all."""
    with serve(ollama_answer) as server:
        model = ChatOllama(
            model="tiny", base_url=server.url, temperature=0.1, num_ctx=512, num_predict=20, top_k=5, seed=3
        )
        span = call(model)
    assert told(span, "model.requested") == ("tiny", "sent")
    assert told(span, "model.served") == ("tiny:served", "served")
    assert told(span, "api") == ("ollama.chat", "sent")
    assert told(span, "sampling.temperature") == (0.1, "sent")
    assert told(span, "sampling.top_k") == (5, "sent")
    assert told(span, "limits.context") == (512, "sent")
    assert told(span, "limits.max_output_tokens") == (20, "sent")
    assert told(span, "delivery.streamed") == (True, "sent")
    assert span.finish_reason == "stop"
    assert span.usage is not None
    assert (span.usage.input, span.usage.output) == (9, 4)


def anthropic_answer(exchange: Exchange) -> None:
    exchange.send(
        {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-served", "stop_reason": "max_tokens",
            "content": [{"type": "text", "text": "hello"}], "stop_sequence": None,
            "usage": {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 3},
        }
    )  # fmt: skip


def test_anthropic_settings_come_from_the_wire(store: Path) -> None:
    """Cached tokens are a part of the prompt's, and the served model is the response's."""
    with serve(anthropic_answer) as server:
        model = ChatAnthropic(
            model_name="claude-asked", base_url=server.url, api_key=SecretStr("sk-ant-abcdefghijklmnopqrst"),
            max_tokens_to_sample=64, top_k=4, timeout=None, stop=["END"],
        )  # fmt: skip
        span = call(model, messages=[("system", "be kind"), ("user", "hi")])
    assert told(span, "model.requested") == ("claude-asked", "sent")
    assert told(span, "model.served") == ("claude-served", "served")
    assert told(span, "api") == ("anthropic.messages", "sent")
    assert told(span, "limits.max_output_tokens") == (64, "sent")
    assert told(span, "sampling.top_k") == (4, "sent")
    assert told(span, "sampling.stop") == (["END"], "sent")
    assert told(span, "prompt.content") == ("be kind", "requested")
    assert span.finish_reason == "max_tokens"
    assert span.usage is not None
    assert (span.usage.input, span.usage.cached, span.usage.cache_written) == (28, 20, 3)


def test_a_prompt_label_is_a_setting(store: Path) -> None:
    """A label given as metadata stands beside the text."""
    with serve(chat_completion) as server:
        model = openai(server, model="m").with_config(metadata={"prompt_label": "planner@12"})
        span = call(ChatPromptTemplate.from_messages([("system", "plan"), ("user", "{x}")]) | model, messages={"x": 1})
    assert told(span, "prompt.label") == ("planner@12", "requested")
    assert told(span, "prompt.content") == ("system: plan\n\nuser: {x}", "requested")


def test_retries_are_attempts(store: Path) -> None:
    """The SDK's own retries, which callbacks never see, are there with their status."""

    def busy(exchange: Exchange) -> None:
        exchange.send({"error": {"message": "busy"}}, status=503, headers={"retry-after": "0"})

    with serve(busy, chat_completion) as server:
        model = ChatOpenAI(base_url=server.url + "/v1", api_key=SecretStr("x"), model="m", max_retries=2)
        span = call(model)
    assert [attempt.status for attempt in span.attempts] == [503, 200]
    assert span.attempts[0].headers == {"retry-after": "0"}
