"""What users of other tracers reported, each as a test of what happens here; the numbers are those of the list in
docs/reliability.md, which also names the tests of the reports that stand in test_handler.py.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from opentelemetry import trace as otel
from pydantic import BaseModel, SecretStr

from agenttrace import AgentTraceHandler, open_store
from agenttrace.recording import _steps, flush
from tests.langchain.models import FakeModel, SlowModel
from tests.langchain.test_handler import ADD_CALL, add, recorded, tree
from tests.model_server import chat_completion, serve


@pytest.fixture
def config(store: Path) -> RunnableConfig:
    return {"callbacks": [AgentTraceHandler()]}


class Cancelling(FakeModel):
    """A model whose own code is cancelled from inside."""

    async def _agenerate(self, *_: Any, **__: Any) -> ChatResult:
        raise asyncio.CancelledError


def test_a_model_that_cancels_itself_is_cancelled(store: Path, config: RunnableConfig) -> None:
    """Report 2: whatever LangChain makes of it, the call was cancelled and did not fail."""

    async def call() -> None:
        with suppress(BaseException):
            await Cancelling(replies=["x"]).ainvoke("x", config=config)

    asyncio.run(call())
    gc.collect()
    [span] = recorded(store)
    assert span.state == "cancelled"


def test_a_child_may_end_after_its_root(store: Path, config: RunnableConfig) -> None:
    """Report 4: a stream of a chain that is closed early keeps what its model had answered, under one root."""
    chain = ChatPromptTemplate.from_template("{x}") | FakeModel(replies=["one two three"]) | StrOutputParser()
    stream = chain.stream({"x": "hi"}, config=config)
    assert isinstance(stream, Iterator)
    heard = next(stream) + next(stream)
    stream.close()  # type: ignore[attr-defined]  # a generator, though typed as an iterator
    gc.collect()
    spans = recorded(store)
    [model] = [span for span in spans if span.kind == "model"]
    assert [span.state for span in spans if span.parent_id is None] == ["abandoned"]
    assert model.state in ("ok", "abandoned")
    assert heard.strip() in str(model.output)
    assert all(span.end_ns is not None for span in spans)


def test_nothing_is_detached_in_another_context(
    store: Path, config: RunnableConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """Reports 5 and 14: async graphs, parallel tools and interrupts leave no line in anybody's log."""

    @tool
    async def ask(question: str) -> str:
        """Ask a person."""
        return str(interrupt(question))

    call = AIMessage("", tool_calls=[{"id": "c1", "name": "ask", "args": {"question": "really?"}}])
    agent: Any = create_agent(FakeModel(replies=[call, "done"]), [ask], checkpointer=InMemorySaver())
    thread: Any = {**config, "configurable": {"thread_id": "t"}}

    async def run() -> None:
        await agent.ainvoke({"messages": [HumanMessage("go")]}, config=thread)
        await agent.ainvoke(Command(resume="yes"), config=thread)

    with (
        caplog.at_level(logging.DEBUG, logger="opentelemetry"),
        caplog.at_level(logging.WARNING, logger="langchain_core"),
    ):
        asyncio.run(run())
        spans = recorded(store)
    assert not [record for record in caplog.records if record.name.startswith(("opentelemetry", "langchain"))]
    assert {span.state for span in spans} == {"ok", "interrupted"}
    assert not [span for span in spans if span.error]


def test_parallel_tools_are_one_trace(store: Path, config: RunnableConfig) -> None:
    """Report 7: two async tools at the same time, one trace, one root."""

    @tool
    async def slow(number: int) -> int:
        """Wait a little."""
        await asyncio.sleep(0.02)
        return number

    calls = AIMessage("", tool_calls=[{"id": f"c{n}", "name": "slow", "args": {"number": n}} for n in (1, 2)])
    agent: Any = create_agent(FakeModel(replies=[calls, "done"]), [slow])
    asyncio.run(agent.ainvoke({"messages": [HumanMessage("go")]}, config=config))
    spans = recorded(store)
    tools = [span for span in spans if span.kind == "tool"]
    assert len({span.trace_id for span in spans}) == len([span for span in spans if span.parent_id is None]) == 1
    assert len(tools) == 2
    assert tools[0].end_ns is not None
    assert tools[1].start_ns < tools[0].end_ns


ASK: dict[str, Callable[[Any, RunnableConfig], object]] = {
    "invoke": lambda model, config: model.invoke("x", config=config),
    "stream": lambda model, config: list(model.stream("x", config=config)),
    "ainvoke": lambda model, config: asyncio.run(model.ainvoke("x", config=config)),
    "astream": lambda model, config: asyncio.run(_drain(model.astream("x", config=config))),
}


async def _drain(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass


@pytest.mark.parametrize("how", ASK)
def test_a_servers_spans_join_the_model_call(store: Path, config: RunnableConfig, how: str) -> None:
    """Report 11: the `traceparent` that reaches the server is the model call's, streamed or not."""
    with serve(chat_completion) as server:
        ASK[how](ChatOpenAI(base_url=server.url + "/v1", model="m", api_key=SecretStr("x")), config)
    [span] = recorded(store)
    assert server.asked[0].headers["traceparent"] == f"00-{span.trace_id}-{span.span_id}-01"


@pytest.mark.parametrize("usage", [{"cache_read": 30}, {"cache_read": 30, "cache_creation": 5}])
def test_cached_tokens_are_part_of_the_prompt(store: Path, config: RunnableConfig, usage: dict[str, int]) -> None:
    """Report 17: the total is input and output, whatever part of the input was cached."""
    counts = {"input_tokens": 40, "output_tokens": 2, "total_tokens": 42, "input_token_details": usage}
    FakeModel(replies=[AIMessage("ok", usage_metadata=counts)]).invoke("x", config=config)
    [span] = recorded(store)
    assert span.usage is not None
    assert (span.usage.input, span.usage.output, span.usage.total, span.usage.cached) == (40, 2, 42, 30)
    assert span.usage.cache_written == usage.get("cache_creation")


def test_only_model_calls_count_tokens(store: Path, config: RunnableConfig) -> None:
    """Report 18: a graph's messages carry their usage up the tree, and a trace adds it up once."""
    counts = {"input_tokens": 40, "output_tokens": 2, "total_tokens": 42}
    agent: Any = create_agent(FakeModel(replies=[AIMessage("ok", usage_metadata=counts)]), [])
    agent.invoke({"messages": [HumanMessage("hi")]}, config=config)
    recorded(store)
    [trace] = open_store(store).traces()
    assert (trace.usage.input, trace.usage.output, trace.usage.total) == (40, 2, 42)


class Chunks(FakeModel):
    """Streams exactly these chunks, with a pause before each."""

    chunks: list[Any]

    def _stream(self, *_: Any, run_manager: Any = None, **__: Any) -> Iterator[ChatGenerationChunk]:
        for message in self.chunks:
            threading.Event().wait(0.01)
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(str(message.content), chunk=chunk)
            yield chunk


EMPTY = AIMessageChunk(content="")
TEXT = AIMessageChunk(content="word")
THOUGHT = AIMessageChunk(content="", additional_kwargs={"reasoning_content": "hm"})
CALLED = AIMessageChunk(content="", tool_call_chunks=[{"name": "add", "args": "{}", "id": "c", "index": 0}])


@pytest.mark.parametrize("how", ["stream", "messages", "v3"])
@pytest.mark.parametrize(
    ("chunks", "first"),
    [([EMPTY, TEXT], "content"), ([EMPTY, THOUGHT, TEXT], "reasoning"), ([EMPTY, CALLED], "tool")],
    ids=["content", "reasoning", "tool"],
)
def test_the_first_token_is_the_first_that_holds_something(
    store: Path, config: RunnableConfig, how: str, chunks: list[Any], first: str
) -> None:
    """Report 19: neither missing nor the whole duration nor the empty role chunk, however the stream is read."""
    model = Chunks(replies=["x"], chunks=chunks)
    if how == "stream":
        list(model.stream("x", config=config))
    elif how == "v3":
        list(model.stream_events("x", config=config, version="v3"))
    else:
        graph: Any = StateGraph(dict)
        graph.add_node("ask", lambda _: {"answer": model.invoke("x").text})
        graph.add_edge(START, "ask")
        list(graph.compile().stream({}, config=config, stream_mode="messages"))
    [span] = [span for span in recorded(store) if span.kind == "model"]
    assert span.marks is not None
    assert span.marks.first_byte_ns is not None
    assert span.marks.first_token_ns == getattr(span.marks, f"first_{first}_ns")
    assert span.marks.first_byte_ns < (span.marks.first_token_ns or 0) < (span.duration_ns or 0)


@pytest.mark.parametrize(
    ("names", "served"),
    [([None, "gpt-a"], "gpt-a"), (["gpt-a", "gpt-a"], "gpt-a"), (["gpt-a", "gpt-b"], "gpt-b")],
    ids=["last chunk", "every chunk", "changing"],
)
def test_the_served_model_is_said_once(
    store: Path, config: RunnableConfig, names: list[str | None], served: str
) -> None:
    """Report 20: not missing, not doubled by merging; one that changes inside a call is the one that ended it."""
    chunks = [AIMessageChunk(content="w", response_metadata={"model_name": name} if name else {}) for name in names]
    list(Chunks(replies=["x"], chunks=chunks).stream("x", config=config))
    [span] = recorded(store)
    assert span.settings["model.served"].value == served
    assert any("several models" in note for note in span.notes) == (len(set(filter(None, names))) > 1)


def test_a_bound_model_is_the_requested_one(store: Path, config: RunnableConfig) -> None:
    """Report 21: what was bound later wins over what the model was made with."""
    with serve(chat_completion) as server:
        model = ChatOpenAI(model="a", base_url=server.url + "/v1", api_key=SecretStr("x")).bind(model="b")
        model.invoke("x", config=config)
    [span] = recorded(store)
    assert span.settings["model.requested"].value == "b"


class Nameless(FakeModel):
    """Names its model in the metadata alone, as ChatOllama does."""

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {**super()._get_ls_params(stop=stop, **kwargs), "ls_model_name": "llama"}


def test_a_model_that_is_named_in_metadata_alone_is_named(store: Path, config: RunnableConfig) -> None:
    """Report 22: no model among the parameters, and still known."""
    Nameless(replies=["x"]).invoke("x", config=config)
    [span] = recorded(store)
    assert span.settings["model.requested"].value == "llama"


class Search(BaseModel):
    """Look something up."""

    query: str


ANTHROPIC_SHAPE = {"name": "Search", "description": "Look something up.", "input_schema": {"type": "object"}}


@pytest.mark.parametrize("tools", [[add], [Search], [ANTHROPIC_SHAPE], [add, Search]], ids=str)
def test_tool_definitions_are_there(store: Path, config: RunnableConfig, tools: list[Any]) -> None:
    """Report 23: functions, pydantic classes and plain schemas, each with its name and description."""
    with serve(chat_completion) as server:
        model = ChatOpenAI(model="m", base_url=server.url + "/v1", api_key=SecretStr("x"))
        model.bind_tools(tools).invoke("x", config=config)
    [span] = recorded(store)
    names = ["add" if item is add else "Search" for item in tools]
    assert span.settings["tools.order"].value == names
    descriptions = span.settings["tools.descriptions"].value
    assert isinstance(descriptions, dict)
    assert all(descriptions[name] for name in names)


def test_a_thousand_calls_leave_nothing_behind(store: Path, config: RunnableConfig) -> None:
    """Report 24: a hundred of them cancelled; no call is open afterwards."""
    before = len(_steps)

    async def calls() -> None:
        quick, slow = FakeModel(replies=["x"]), SlowModel(replies=["x"], seconds=30)
        for number in range(1_000):
            if number % 10:
                await quick.ainvoke("x", config=config)
            else:
                task = asyncio.create_task(slow.ainvoke("x", config=config))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(calls())
    gc.collect()
    assert len(_steps) == before
    flush()
    states = [trace.state for trace in open_store(store).traces()]
    assert states.count("ok") == 900
    assert set(states) <= {"ok", "cancelled"}


def test_a_conversation_is_stored_once(store: Path, config: RunnableConfig) -> None:
    """Report 25: twenty turns with 10 KB tool results take less than three times their unique content."""
    size = 10_000

    @tool
    def read(page: int) -> str:
        """Read a page."""
        return f"page {page} " + "".join(chr(97 + (page * 7 + n * n) % 26) for n in range(size))

    turns = [AIMessage("", tool_calls=[{"id": f"c{n}", "name": "read", "args": {"page": n}}]) for n in range(20)]
    agent: Any = create_agent(FakeModel(replies=[*turns, "done"]), [read])
    agent.invoke({"messages": [HumanMessage("read all")]}, config={**config, "recursion_limit": 100})
    flush()
    journalled = sum(path.stat().st_size for path in (store / "journal").iterdir())
    steps = len(recorded(store))
    assert journalled < 3 * 20 * size + 400 * steps


def test_sends_and_subgraphs_keep_their_places(store: Path, config: RunnableConfig) -> None:
    """Fan-out with `Send` into a subgraph: each branch under the node that ran it, in one trace."""
    inner: Any = StateGraph(dict)
    inner.add_node("answer", lambda state: {"text": FakeModel(replies=["ok"]).invoke(str(state)).text})
    inner.add_edge(START, "answer")
    outer: Any = StateGraph(dict)
    outer.add_node("split", lambda _: {})
    outer.add_node("branch", inner.compile())
    outer.add_edge(START, "split")
    outer.add_conditional_edges("split", lambda _: [Send("branch", {"n": n}) for n in range(3)], ["branch"])
    outer.add_edge("branch", END)
    with suppress(Exception):  # three branches write one key of a plain dict: LangGraph's own refusal is not the point
        outer.compile().invoke({}, config=config)
    spans = recorded(store)
    models = [span for span in spans if span.kind == "model"]
    assert len(models) == 3
    assert {span.call_site for span in models} == {"branch/answer"}
    assert len({span.trace_id for span in spans}) == len([span for span in spans if span.parent_id is None]) == 1


def test_a_thread_with_a_copied_context_belongs_to_its_step(store: Path, config: RunnableConfig) -> None:
    """A thread that was started with the context of a node calls its model under that node."""

    def work(_: Any) -> str:
        answers: list[str] = []
        context = copy_context()
        thread = threading.Thread(
            target=context.run, args=(lambda: answers.append(FakeModel(replies=["ok"]).invoke("x").text),)
        )
        thread.start()
        thread.join()
        return answers[0]

    RunnableLambda(work).invoke("x", config=config)
    assert tree(recorded(store)) == ["chain work", "  model FakeModel"]


def test_a_retry_counts_its_attempts(store: Path, config: RunnableConfig) -> None:
    """`with_retry` runs the model again: two steps, the second one the second attempt."""
    model = FakeModel(replies=[ValueError("busy"), "ok"])
    model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False).invoke("x", config=config)
    models = [span for span in recorded(store) if span.kind == "model"]
    assert [(span.state, span.attempt) for span in models] == [("error", 1), ("ok", 2)]


def test_a_message_changed_after_the_call_is_kept_as_it_was(store: Path, config: RunnableConfig) -> None:
    """What was sent is what is recorded, whatever the agent does to the list and its messages later."""
    messages: list[Any] = [HumanMessage("before"), HumanMessage([{"type": "text", "text": "a list"}])]
    answer = FakeModel(replies=["I think: ok"]).invoke(messages, config=config)
    answer.content = "ok"
    messages[0].content = "changed"
    messages[1].content.append("changed")
    messages.append(HumanMessage("later"))
    [span] = recorded(store)
    assert span.input == [
        {"role": "user", "content": "before"},
        {"role": "user", "content": [{"type": "text", "text": "a list"}]},
    ]
    assert span.output == {"role": "assistant", "content": "I think: ok"}


def test_what_changes_while_a_step_runs_is_kept_as_it_was(store: Path, config: RunnableConfig) -> None:
    """What a step was given is read once, when its start is recorded: a node may do to its state what it likes."""

    def work(state: dict[str, Any]) -> str:
        flush()  # as 50 ms would
        state["messages"][0].content = "changed"
        state["deep"]["list"].append("changed")
        return "done"

    RunnableLambda(work).invoke({"messages": [HumanMessage("before")], "deep": {"list": [1]}}, config=config)
    [span] = recorded(store)
    assert span.input == {"messages": [{"role": "user", "content": "before"}], "deep": {"list": [1]}}
    assert span.output == "done"


def test_a_users_span_is_its_own_after_all(store: Path, config: RunnableConfig) -> None:
    """Report 6: after the call the current span is what it was, object and all, in sync code."""
    before = otel.get_current_span()
    FakeModel(replies=["ok"]).invoke("x", config=config)
    assert otel.get_current_span() is before
    recorded(store)


def test_an_agents_tool_call_is_its_asking_messages(store: Path, config: RunnableConfig) -> None:
    """A tool step knows the id of the call that asked for it."""
    agent: Any = create_agent(FakeModel(replies=[ADD_CALL, "three"]), [add])
    agent.invoke({"messages": [HumanMessage("1 + 2?")]}, config=config)
    [step] = [span for span in recorded(store) if span.kind == "tool"]
    assert isinstance(step.output, dict)
    assert step.output["tool_call_id"] == "call-1"
