"""Where integrations show less, more or other than what went over the wire. Real packages, loopback servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_groq import ChatGroq
from langchain_huggingface import ChatHuggingFace, HuggingFaceEndpoint
from langchain_mistralai import ChatMistralAI
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from agenttrace import AgentTraceHandler, watch
from agenttrace.recording import flush
from tests.model_server import Exchange, ModelServer, chat_completion, serve
from tests.settings.test_capture import call, ollama_answer, openai, told

KEY = SecretStr("k-abcdefghijklmnopqrst")


@tool
def search(query: str) -> str:
    """Search the notes."""
    return query


def test_a_temperature_that_the_integration_drops_was_requested_and_not_sent(store: Path) -> None:
    """A reasoning model's temperature is dropped on the way: what counts is what was sent, and the drop is said."""
    with serve(chat_completion) as server:
        span = call(openai(server, model="o1-mini").bind(temperature=0.3, top_p=0.5))
        body = server.asked[0].body
    dropped = [name for name in ("temperature", "top_p") if name not in body]
    for name in ("temperature", "top_p"):
        assert told(span, f"sampling.{name}") == (body.get(name), "sent")
    assert [note for note in span.notes if "not sent" in note] == [
        note for note in span.notes if any(f"sampling.{name} was requested" in note for name in dropped)
    ]


def responses_answer(exchange: Exchange) -> None:
    message = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "x", "annotations": []}],
    }
    usage = {
        "input_tokens": 7,
        "output_tokens": 3,
        "total_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    exchange.send(
        {"id": "r", "object": "response", "created_at": 1, "model": "gpt-5-2026-08-07", "status": "completed", "output": [message],
         "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None,
         "instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0}
    )  # fmt: skip


def test_stop_words_are_not_sent_to_the_responses_api(store: Path) -> None:
    """Stop words, which that API does not take, were asked for and not sent; a hosted MCP server is a tool by its name."""
    hosted = {"type": "mcp", "server_label": "notes", "server_url": "http://notes.example", "require_approval": "never"}
    with serve(responses_answer) as server:
        model = openai(
            server, model="gpt-5", use_responses_api=True, reasoning={"effort": "low"}, max_completion_tokens=30
        )
        span = call(model.bind_tools([search, hosted]).bind(stop=["END"]))
    assert told(span, "api") == ("openai.responses", "sent")
    assert told(span, "model.served") == ("gpt-5-2026-08-07", "served")
    assert told(span, "reasoning.effort") == ("low", "sent")
    assert told(span, "limits.max_output_tokens") == (30, "sent")
    assert told(span, "sampling.stop") == (None, "sent")
    assert any(note.startswith("sampling.stop was requested (['END']") for note in span.notes)
    assert told(span, "tools.names") == (["mcp:notes", "search"], "sent")
    assert span.usage is not None
    assert (span.usage.cached, span.usage.reasoning) == (4, 2)


def test_a_name_that_the_integration_fills_in_is_no_answer(store: Path) -> None:
    """Where the response names no model, the integration repeats the one that was asked for: nothing is known of it."""

    def nameless(exchange: Exchange) -> None:
        message = {"role": "assistant", "content": "x"}
        exchange.send(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            }
        )

    with serve(nameless) as server:
        span = call(openai(server, model="alias"))
        unwatched = call(openai(server, model="alias"), transport=False)
    assert told(span, "model.requested") == ("alias", "sent")
    assert told(span, "model.served") is told(unwatched, "model.served") is None


class RepeatsItsName(FakeListChatModel):
    """A model whose chunks each name the model, and change over in the middle."""

    served: list[str]

    def _stream(self, *_: Any, **__: Any) -> Any:
        for name in self.served:
            yield ChatGenerationChunk(message=AIMessageChunk(content="x", response_metadata={"model_name": name}))


def test_a_name_in_every_chunk_is_one_name(store: Path) -> None:
    """Merging joins texts: the name that each chunk repeats is there once."""
    span = call(RepeatsItsName(responses=[], served=["gpt-4o"] * 2), stream=True)
    assert told(span, "model.served") == ("gpt-4o", "served")


def test_a_model_that_changes_within_a_request_is_seen(store: Path) -> None:
    """A fallback at the server shows in the chunks: the last one answered, and both are told."""
    span = call(RepeatsItsName(responses=[], served=["big-model", "small-model"]), stream=True)
    assert told(span, "model.served") == ("small-model", "served")
    assert any("big-model, small-model" in note for note in span.notes)


def google_answer(exchange: Exchange) -> None:
    candidate = {"content": {"role": "model", "parts": [{"text": "x"}]}, "finishReason": "STOP", "index": 0}
    exchange.send(
        {
            "candidates": [candidate],
            "modelVersion": "gemini-2.5-flash-002",
            "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10},
        }
    )


def google(server: ModelServer) -> Any:
    model = ChatGoogleGenerativeAI(
        model="gemini-2.5-flash",
        base_url=server.url,
        api_key=KEY,
        temperature=0.2,
        top_k=3,
        max_output_tokens=20,
        max_retries=1,
    )
    return model.bind_tools([search])


def mistral(server: ModelServer) -> Any:
    model = ChatMistralAI(
        model_name="mistral-small",
        base_url=server.url + "/v1",
        api_key=KEY,
        temperature=0.2,
        random_seed=4,
        max_tokens=20,
    )
    return model.bind_tools([search])


def groq(server: ModelServer) -> Any:
    model = ChatGroq(
        model="llama-x",
        base_url=server.url,
        api_key=KEY,
        temperature=0.2,
        max_tokens=20,
        max_retries=0,
        model_kwargs={"seed": 4},
    )
    return model.bind_tools([search])


def hugging_face(server: ModelServer) -> Any:
    endpoint = HuggingFaceEndpoint(
        endpoint_url=server.url, huggingfacehub_api_token="hf_x", temperature=0.2, max_new_tokens=20, seed=4
    )  # type: ignore[call-arg]  # fields with defaults
    return ChatHuggingFace(llm=endpoint, model_id="m", tokenizer=object()).bind_tools([search])


@pytest.mark.parametrize(
    ("make", "reply", "api", "expected"),
    [
        (google, google_answer, "google.generate", {"sampling.top_k": 3, "sampling.n": 1, "sampling.seed": None, "model.served": "gemini-2.5-flash-002"}),
        (mistral, chat_completion, "openai.chat", {"sampling.seed": 4, "model.served": "served-model"}),
        (groq, chat_completion, "openai.chat", {"sampling.seed": 4, "service_tier": "on_demand", "model.served": "served-model"}),
        (hugging_face, chat_completion, "openai.chat", {"model.served": "served-model"}),
    ],
)  # fmt: skip
def test_what_was_sent_counts_with_every_provider(
    store: Path,
    make: Callable[[ModelServer], Any],
    reply: Callable[[Exchange], None],
    api: str,
    expected: dict[str, Any],
) -> None:
    """Each provider names its settings in its own way; the dimensions are the same."""
    with serve(reply) as server:
        span = call(make(server))
    assert told(span, "api") == (api, "sent")
    assert told(span, "sampling.temperature") == (0.2, "sent")
    assert told(span, "limits.max_output_tokens") == (20, "sent")
    assert told(span, "tools.names") == (["search"], "sent")
    assert told(span, "tools.descriptions") == ({"search": "Search the notes."}, "sent")
    assert told(span, "delivery.streamed") == (False, "sent")
    for dimension, value in expected.items():
        assert span.settings[dimension].value == value, dimension


def test_a_model_that_says_nothing_of_itself_is_read_from_its_text(store: Path) -> None:
    """Without the tap ChatOllama names its type and stop words; its text names what differs from the defaults."""
    with serve(ollama_answer) as server:
        model = ChatOllama(model="tiny", base_url=server.url, num_ctx=512, top_k=5, seed=3, stop=["END"])
        span = call(model, transport=False)
    assert told(span, "limits.context") == (512, "requested")
    assert told(span, "sampling.top_k") == (5, "requested")
    assert told(span, "sampling.seed") == (3, "requested")
    assert told(span, "sampling.min_p") is None
    assert span.settings["limits.context"].source == "repr"


def test_a_watched_model_tells_what_is_unset_too(store: Path) -> None:
    """Read from the object, what has no value is known to be unset; what the object has no field for stays unknown."""
    with serve(ollama_answer) as server:
        span = call(watch(ChatOllama(model="tiny", base_url=server.url, num_ctx=512)), transport=False)
    assert told(span, "limits.context") == (512, "requested")
    assert told(span, "sampling.temperature") == (None, "requested")
    assert told(span, "sampling.logit_bias") is None
    assert span.settings["limits.context"].source == "model object"
    assert "agenttrace_model" not in span.metadata


def test_limits_of_the_client_are_the_agents(store: Path) -> None:
    """When a call gives up decides about outcomes, and is in no request."""
    with serve(chat_completion) as server:
        span = call(ChatOpenAI(model="m", base_url=server.url + "/v1", api_key=KEY, max_retries=3, timeout=9))
    assert told(span, "agent.limits") == ({"timeout_s": 9.0, "max_retries": 3}, "requested")


def test_the_implementation_of_a_tool_is_told_where_it_is_watched(store: Path) -> None:
    """Same schema, other code: that is another experiment. A version may be given for code that is elsewhere."""

    @tool
    def lookup(query: str) -> str:
        """Look it up."""
        return query

    versions = []
    with serve(chat_completion) as server:
        for version in (None, "notes-server 1.4.2"):
            span = call(openai(server, model="m").bind_tools([watch(lookup, version=version), search]))
            implementation = span.settings["tools.implementation"].value
            assert isinstance(implementation, dict)
            assert implementation.keys() == {"lookup"}
            versions.append(implementation["lookup"])
    assert versions[1] == "notes-server 1.4.2"
    assert versions[0] != versions[1]


def test_only_models_and_tools_can_be_watched() -> None:
    """What is neither is told so at once."""
    with pytest.raises(Exception, match="watch\\(\\) was given a str"):
        watch("gpt-5")


def test_a_graphs_recursion_limit_is_a_limit(store: Path) -> None:
    """It is in the config that runs, and in nothing that a callback is given."""
    from langchain.agents import create_agent

    from agenttrace import open_store

    agent: Any = create_agent(FakeListChatModel(responses=["x"]), [], system_prompt="Be brief.")
    agent.invoke({"messages": [("user", "hi")]}, config={"callbacks": [AgentTraceHandler()], "recursion_limit": 7})
    flush()
    with open_store() as reader:
        [span] = [span for span in reader.trace("last") if span.kind == "model"]
    assert told(span, "agent.limits") == ({"recursion_limit": 7}, "requested")
    assert told(span, "prompt.content") == ("Be brief.", "requested")
