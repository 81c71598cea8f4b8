"""Embedding models have no callbacks; wrapped, each of their calls is a step where it happened."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import OpenAIEmbeddings
from pydantic import SecretStr

from agenttrace import AgentTraceHandler, record, trace_embeddings
from tests.langchain.test_handler import recorded, tree
from tests.model_server import Exchange, serve


class Failing(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise ValueError("no such model")

    def embed_query(self, text: str) -> list[float]:
        raise TimeoutError


def test_it_is_the_model_it_wraps() -> None:
    """Same vectors, same attributes, and an `Embeddings` to whoever asks."""
    inner = DeterministicFakeEmbedding(size=4)
    traced: Any = trace_embeddings(inner)
    assert traced.size == 4
    assert traced.embed_query("x") == inner.embed_query("x")
    assert InMemoryVectorStore.from_texts(["a", "b"], traced).similarity_search("a", k=1)[0].page_content == "a"
    assert isinstance(traced, Embeddings)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_call_is_a_step_with_its_shape(store: Path, asynchronous: bool) -> None:
    """Texts in, how many vectors of how many dimensions out; a query is one."""
    traced = trace_embeddings(DeterministicFakeEmbedding(size=4))

    async def both() -> None:
        await traced.aembed_documents(["a", "b"])
        await traced.aembed_query("c")

    if asynchronous:
        asyncio.run(both())
    else:
        traced.embed_documents(["a", "b"])
        traced.embed_query("c")
    documents, query = recorded(store)
    assert (documents.kind, documents.name, documents.state) == ("embedding", "DeterministicFakeEmbedding", "ok")
    assert (documents.input, documents.output) == (["a", "b"], {"vectors": 2, "dimensions": 4})
    assert (query.input, query.output) == ("c", {"vectors": 1, "dimensions": 4})
    assert documents.trace_id != query.trace_id


def test_it_nests_where_it_happens(store: Path) -> None:
    """Inside a chain it is that chain's child, and belongs to the surrounding run."""
    traced = trace_embeddings(DeterministicFakeEmbedding(size=4))
    chain: Any = RunnableLambda(lambda x: traced.embed_query(x))
    with record("named") as run:
        chain.invoke("x")
    spans = recorded(store)
    assert tree(spans) == ["chain RunnableLambda", "  embedding DeterministicFakeEmbedding"]
    assert {span.run_id for span in spans} == {run.run_id}


@pytest.mark.parametrize(
    ("method", "argument", "state"), [("embed_documents", ["a"], "error"), ("embed_query", "a", "timed_out")]
)
def test_an_error_stays_an_error(store: Path, method: str, argument: Any, state: str) -> None:
    """It is raised as ever, and the step says so."""
    with pytest.raises((ValueError, TimeoutError)):
        getattr(trace_embeddings(Failing()), method)(argument)
    [span] = recorded(store)
    assert span.state == state


def embed(exchange: Exchange) -> None:
    vectors = [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}]
    exchange.send({"object": "list", "data": vectors, "model": "m-1", "usage": {"prompt_tokens": 3, "total_tokens": 3}})


def test_a_real_one_has_its_request_and_its_model(store: Path) -> None:
    """Through the tap: the request, the tokens that the server counted, and the model's name."""
    with serve(embed) as server:
        model = OpenAIEmbeddings(
            model="m", base_url=server.url + "/v1", api_key=SecretStr("x"), check_embedding_ctx_length=False
        )
        chain: Any = RunnableLambda(lambda x: trace_embeddings(model).embed_query(x))
        chain.invoke("hi", config={"callbacks": [AgentTraceHandler()]})
    [span] = [span for span in recorded(store) if span.kind == "embedding"]
    assert len(span.attempts) == 1
    assert span.settings["model.requested"].value == "m"
    assert span.settings["model.served"].value == "m-1"
    assert span.usage is not None
    assert span.usage.input == 3
    assert server.asked[0].headers["traceparent"].split("-")[2] == span.span_id
