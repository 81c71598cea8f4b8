"""Steps are nested, named and ended as the agent ran them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider

from agenttrace import AgentTraceHandler, open_store
from agenttrace.recording import flush
from agenttrace.records import SpanRecord
from tests.langchain.models import FakeModel, SlowModel


def recorded(store: Path) -> tuple[SpanRecord, ...]:
    """All spans in the store, in start order."""
    flush()
    with open_store(store) as reader:
        return tuple(span for summary in reversed(reader.traces()) for span in reader.trace(summary.trace_id))


def tree(spans: Sequence[SpanRecord]) -> list[str]:
    """Each span as `depth:kind:name`, in start order."""
    by_id = {span.span_id: span for span in spans}

    def depth(span: SpanRecord) -> int:
        above = by_id.get(span.parent_id or "")
        return 0 if above is None else 1 + depth(above)

    return [f"{'  ' * depth(span)}{span.kind} {span.name}" for span in spans]


@pytest.fixture
def config(store: Path) -> RunnableConfig:
    return {"callbacks": [AgentTraceHandler()]}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD_CALL = AIMessage("", tool_calls=[{"id": "call-1", "name": "add", "args": {"a": 1, "b": 2}}])


class Notes(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [Document("a note about " + query, metadata={"page": 3})]


def test_a_chain_is_nested(store: Path, config: RunnableConfig) -> None:
    """A chain's prompt, model and parser are its children."""
    chain = ChatPromptTemplate.from_messages([("system", "be brief"), ("user", "{x}")]) | FakeModel(replies=["ok"])
    assert (chain | StrOutputParser()).invoke({"x": "hi"}, config=config) == "ok"
    spans = recorded(store)
    assert tree(spans) == [
        "chain RunnableSequence",
        "  prompt ChatPromptTemplate",
        "  model FakeModel",
        "  parser StrOutputParser",
    ]
    model = spans[2]
    assert model.input == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert model.output == {"role": "assistant", "content": "ok"}
    assert model.settings["prompt.content"].value == "system: be brief\n\nuser: {x}"


@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream", "astream"])
def test_an_agent_is_one_tree(store: Path, config: RunnableConfig, mode: str) -> None:
    """An agent's model calls and tools stand under their nodes, however it is called."""
    agent: Any = create_agent(FakeModel(replies=[ADD_CALL, "three"]), [add], system_prompt="count")
    inputs = {"messages": [HumanMessage("1 + 2?")]}

    async def call() -> None:
        if mode == "ainvoke":
            await agent.ainvoke(inputs, config=config)
        else:
            async for _ in agent.astream(inputs, config=config):
                pass

    if mode == "invoke":
        agent.invoke(inputs, config=config)
    elif mode == "stream":
        list(agent.stream(inputs, config=config))
    else:
        asyncio.run(call())
    spans = recorded(store)
    assert tree(spans) == [
        "agent LangGraph",
        "  chain model",
        "    model FakeModel",
        "  chain tools",
        "    tool add",
        "  chain model",
        "    model FakeModel",
    ]
    assert {span.state for span in spans} == {"ok"}
    tool_step = spans[4]
    assert tool_step.input == {"a": 1, "b": 2}
    assert tool_step.output == {"role": "tool", "content": "3", "name": "add", "tool_call_id": "call-1"}
    phases = {phase.name: phase for phase in tool_step.phases}
    assert phases["wait"].ns is not None
    assert spans[2].call_site == "model"


def test_a_retriever_is_a_step(store: Path, config: RunnableConfig) -> None:
    """A retrieval keeps its query and its documents."""
    Notes().invoke("owls", config=config)
    [span] = recorded(store)
    assert (span.kind, span.input) == ("retriever", "owls")
    assert span.output == [{"page_content": "a note about owls", "metadata": {"page": 3}, "id": None}]


def test_a_fallback_stays_under_its_parent(store: Path, config: RunnableConfig) -> None:
    """LangChain loses the parent of fallbacks (#36072); its own context still knows it."""
    model = FakeModel(replies=[ValueError("first")]).with_fallbacks([FakeModel(replies=["second"])])
    (RunnableLambda(lambda x: x) | model).invoke("x", config=config)
    spans = recorded(store)
    assert tree(spans) == [
        "chain RunnableSequence",
        "  chain RunnableLambda",
        "  chain RunnableWithFallbacks",
        "    model FakeModel",
        "    model FakeModel",
    ]
    assert [span.state for span in spans[3:]] == ["error", "ok"]
    assert spans[3].error is not None
    assert spans[3].error.message == "first"


def test_a_handler_given_again_inside_a_node_doubles_nothing(store: Path, config: RunnableConfig) -> None:
    """Two handlers of one store record a step once, and under its node."""
    inner = FakeModel(replies=["ok"])
    graph: Any = StateGraph(dict)
    graph.add_node("ask", lambda _: {"answer": inner.invoke("x", config={"callbacks": [AgentTraceHandler()]}).content})
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    graph.compile().invoke({}, config=config)
    assert tree(recorded(store)) == ["agent LangGraph", "  chain ask", "    model FakeModel"]


def test_streaming_marks_skip_empty_chunks(store: Path, config: RunnableConfig) -> None:
    """A role chunk is a sign of life, not a token."""
    list(FakeModel(replies=["one two three"]).stream("x", config=config))
    [span] = recorded(store)
    assert span.marks is not None
    assert span.marks.chunks == 3
    assert span.marks.first_content_ns is not None
    assert span.output == {"role": "assistant", "content": "onetwothree"}


def test_an_interrupt_is_no_error(store: Path, config: RunnableConfig) -> None:
    """A graph that pauses for a person is interrupted, all the way up, and nothing failed."""

    def ask(_: Any) -> Any:
        return {"answer": interrupt("sure?")}

    graph: Any = StateGraph(dict)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    compiled = graph.compile(checkpointer=InMemorySaver())
    compiled.invoke({"x": 1}, config={**config, "configurable": {"thread_id": "t"}})
    spans = recorded(store)
    assert [span.state for span in spans] == ["interrupted", "interrupted"]
    assert [span.error for span in spans] == [None, None]


def test_an_abandoned_stream_keeps_what_came(store: Path, config: RunnableConfig) -> None:
    """A consumer that stops reading ends the call as abandoned."""
    stream = FakeModel(replies=["one two three"]).stream("x", config=config)
    next(stream)
    next(stream)
    stream.close()  # type: ignore[attr-defined]  # a generator
    [span] = recorded(store)
    assert span.state == "abandoned"
    assert span.output == {"role": "assistant", "content": "one"}


def test_a_swallowed_tool_error_is_an_error(store: Path, config: RunnableConfig) -> None:
    """A tool whose error became a message has failed all the same."""

    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError("broken")

    fail.handle_tool_error = True
    call = AIMessage("", tool_calls=[{"id": "c", "name": "fail", "args": {}}])
    agent: Any = create_agent(FakeModel(replies=[call, "sorry"]), [fail])
    with pytest.raises(ValueError, match="broken"):
        agent.invoke({"messages": [HumanMessage("go")]}, config=config)
    states = {span.name: span.state for span in recorded(store)}
    assert states["fail"] == "error"


def test_parallel_calls_are_separate_traces(store: Path, config: RunnableConfig) -> None:
    """Calls that run at once keep their own trees."""

    async def both() -> None:
        model = SlowModel(replies=["ok"], seconds=0.02)
        chain = RunnableLambda(lambda x: x) | model
        await asyncio.gather(*(chain.ainvoke(str(number), config=config) for number in range(5)))

    asyncio.run(both())
    flush()
    with open_store(store) as reader:
        summaries = reader.traces()
        assert [summary.spans for summary in summaries] == [3] * 5
        inputs = {span.input for summary in summaries for span in reader.trace(summary.trace_id) if not span.parent_id}
    assert inputs == {"0", "1", "2", "3", "4"}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_user_spans_nest_and_the_context_is_left_as_it_was(
    store: Path, config: RunnableConfig, asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A user's span inside a step has that step as its parent; afterwards the current span is the one from before."""
    tracer = TracerProvider().get_tracer("user")
    inside: list[otel.SpanContext] = []

    def work(x: Any) -> Any:
        with tracer.start_as_current_span("mine") as span:
            assert span.parent is not None  # type: ignore[attr-defined]  # an SDK span
            inside.append(span.parent)  # type: ignore[attr-defined]  # an SDK span
        return x

    step = RunnableLambda(work)
    with caplog.at_level(logging.WARNING), tracer.start_as_current_span("around") as around:
        before = otel.get_current_span().get_span_context()
        if asynchronous:

            async def call() -> otel.SpanContext:
                await step.ainvoke("x", config=config)
                return otel.get_current_span().get_span_context()

            assert asyncio.run(call()) == before
        else:
            step.invoke("x", config=config)
            assert otel.get_current_span() is around
    [span] = recorded(store)
    assert span.span_id == f"{inside[0].span_id:016x}"
    assert span.parent_id == f"{before.span_id:016x}"
    assert span.trace_id == f"{before.trace_id:032x}"
    assert not [record for record in caplog.records if "opentelemetry" in record.name]


def test_a_consumers_loop_body_is_outside(store: Path, config: RunnableConfig) -> None:
    """Spans that a consumer opens between chunks belong to the consumer."""
    tracer = TracerProvider().get_tracer("user")
    chain = RunnableLambda(lambda x: x) | FakeModel(replies=["one two"])
    with tracer.start_as_current_span("around") as around:
        for _ in chain.stream("x", config=config):
            with tracer.start_as_current_span("body") as body:
                assert body.parent == around.get_span_context()  # type: ignore[attr-defined]  # an SDK span


def test_a_fault_of_ours_never_reaches_the_agent(
    store: Path, config: RunnableConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception inside a callback is counted and logged once; the agent gets its answer."""

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(AgentTraceHandler, "_start", broken)
    for _ in range(3):
        assert FakeModel(replies=["ok"]).invoke("x", config=config).content == "ok"
    monkeypatch.undo()
    monkeypatch.setenv("AGENTTRACE_STORE", str(store))
    FakeModel(replies=["ok"]).invoke("x", config=config)
    flush()
    [counters] = open_store(store).counters()
    assert counters.capture_errors == 3
    assert counters.last_error == "RuntimeError: a bug of ours"
    assert len([record for record in caplog.records if record.name == "agenttrace"]) == 1


def test_a_step_that_cannot_be_built_is_counted(
    store: Path, config: RunnableConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault on the writer's thread loses that step and no other."""
    from agenttrace import writer
    from agenttrace.spans.record import span_record as real

    def broken(step: Any) -> SpanRecord:
        if step.kind == "prompt":
            raise RuntimeError("no")
        return real(step)

    monkeypatch.setattr(writer, "span_record", broken)
    chain = ChatPromptTemplate.from_template("{x}") | FakeModel(replies=["ok"])
    chain.invoke({"x": 1}, config=config)
    assert tree(recorded(store)) == ["chain RunnableSequence", "  model FakeModel"]
    assert open_store(store).counters()[0].capture_errors > 0


def test_payloads_that_have_no_json_form_are_described(store: Path, config: RunnableConfig) -> None:
    """What travels through a chain may be anything; nothing in it is an error."""

    class Rude:
        def __repr__(self) -> str:
            raise ValueError("no repr for you")

    loop: list[Any] = []
    loop.append(loop)
    value: Any = {
        "rude": Rude(),
        "loop": loop,
        "bytes": b"\xff",
        "surrogate": "\ud800",
        "nan": float("nan"),
        "big": 1 << 80,
    }
    echo: Any = RunnableLambda(lambda x: "ok")
    echo.invoke(value, config=config)
    [span] = recorded(store)
    assert isinstance(span.input, dict)
    assert span.input["rude"] == {"unreadable": "Rude", "because": "ValueError"}
    assert span.input["bytes"] == {"bytes": 1}
    assert span.input["surrogate"] == "\\ud800"
    assert (span.input["nan"], span.input["big"]) == ("nan", str(1 << 80))
    assert open_store(store).counters()[0].capture_errors == 0


@pytest.mark.parametrize("how", ["cancel", "timeout", "wait_for", "sibling"])
def test_a_cancelled_call_is_closed(store: Path, config: RunnableConfig, how: str) -> None:
    """LangChain sends nothing when a call is cancelled; its span ends as cancelled all the same."""
    model = SlowModel(replies=["late"], seconds=30)

    async def fail() -> None:
        await asyncio.sleep(0.05)
        raise ValueError("sibling")

    async def call() -> None:
        if how == "cancel":
            task = asyncio.create_task(model.ainvoke("x", config=config))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        elif how == "timeout":
            with suppress(TimeoutError):  # `pytest.raises` would hold the exception, and with it the call's frames
                async with asyncio.timeout(0.05):
                    await model.ainvoke("x", config=config)
        elif how == "wait_for":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(model.ainvoke("x", config=config), 0.05)
        else:
            with suppress(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    group.create_task(model.ainvoke("x", config=config))
                    group.create_task(fail())
        for _ in range(100):  # the event loop lets go of the call's frames in its next turns
            if not otel.get_current_span().get_span_context().is_valid:
                return
            await asyncio.sleep(0.01)
        pytest.fail("the cancelled call is still the current span")

    asyncio.run(call())
    [span] = recorded(store)
    assert span.state == "cancelled"
    assert span.end_ns is not None


def test_a_graphs_stream_that_is_broken_off_keeps_what_came(store: Path, config: RunnableConfig) -> None:
    """A model call whose graph is no longer read ends as abandoned, with the text that had come."""
    model = SlowModel(replies=["one two three four"], seconds=0.1)
    graph: Any = StateGraph(dict)

    async def ask(_: Any) -> Any:
        return {"answer": (await model.ainvoke("x")).content}

    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    compiled = graph.compile()

    async def call() -> None:
        stream = compiled.astream({}, config=config, stream_mode="messages")
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(call())
    model_step = next(span for span in recorded(store) if span.kind == "model")
    assert model_step.state == "abandoned"
    assert model_step.output == {"role": "assistant", "content": "one"}


def test_a_batch_that_dies_leaves_nothing_open(store: Path, config: RunnableConfig) -> None:
    """Items that never ran to an end are not ok, and not left open."""
    model = FakeModel(replies=["one", ValueError("two"), "three"])
    with suppress(ValueError):
        model.generate([[HumanMessage("a")], [HumanMessage("b")], [HumanMessage("c")]], callbacks=config["callbacks"])
    states = [span.state for span in recorded(store)]
    assert states.count("error") == 1
    assert "ok" not in states
    assert "unfinished" not in states


def test_a_tool_that_does_not_exist_is_a_failed_step(store: Path, config: RunnableConfig) -> None:
    """LangGraph sends no callback for an unknown tool; the step is there all the same, as an error."""
    call = AIMessage("", tool_calls=[{"id": "c9", "name": "fly", "args": {}}, *ADD_CALL.tool_calls])
    agent: Any = create_agent(FakeModel(replies=[call, "sorry"]), [add])
    agent.invoke({"messages": [HumanMessage("go")]}, config=config)
    tools = {span.name: span for span in recorded(store) if span.kind == "tool"}
    assert {name: span.state for name, span in tools.items()} == {"fly": "error", "add": "ok"}
    assert tools["fly"].error is not None
    assert "fly" in tools["fly"].error.message


def test_a_resumed_graph_points_to_the_trace_it_continues(store: Path, config: RunnableConfig) -> None:
    """The trace after an interrupt is joined to the one before by its checkpoint."""

    def ask(_: Any) -> Any:
        return {"answer": interrupt("sure?")}

    graph: Any = StateGraph(dict)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    compiled = graph.compile(checkpointer=InMemorySaver())
    threaded: RunnableConfig = {**config, "configurable": {"thread_id": "t"}}
    compiled.invoke({"x": 1}, config=threaded)
    compiled.invoke(Command(resume="yes"), config=threaded)
    flush()
    with open_store(store) as reader:
        later, earlier = reader.traces()
        assert (later.resumes, earlier.resumes) == (earlier.trace_id, None)
        assert reader.resumes(later.trace_id) == earlier.trace_id
    assert (earlier.state, later.state) == ("interrupted", "ok")


def test_a_v3_stream_counts_once(store: Path, config: RunnableConfig) -> None:
    """Tokens and events of one reply are one stream."""
    for _ in FakeModel(replies=["one two three"]).stream_events("x", version="v3", config=config):
        pass
    [span] = recorded(store)
    assert span.marks is not None
    assert span.marks.chunks == 3
    assert span.marks.first_content_ns is not None


class Reporting(FakeModel):
    """Streams with token counts on the chunks that `usages` gives."""

    usages: list[Any]

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        for usage in self.usages:
            message: Any = AIMessageChunk(
                content="w", usage_metadata=usage, response_metadata={"model_name": "served-1"}
            )
            yield ChatGenerationChunk(message=message)


def counts(inputs: int, outputs: int, **details: Any) -> dict[str, Any]:
    return {"input_tokens": inputs, "output_tokens": outputs, "total_tokens": inputs + outputs, **details}


@pytest.mark.parametrize(
    ("usages", "expected"),
    [
        ([counts(9, 1), counts(9, 2), counts(9, 3)], (9, 3)),  # a running total in each chunk
        ([counts(9, 0), counts(0, 2), counts(0, 3)], (9, 5)),  # each chunk its share
        ([counts(9, 5, input_token_details={"cache_read": 4})], (9, 5)),
    ],
)
def test_tokens_come_from_single_chunks(
    store: Path, config: RunnableConfig, usages: list[dict[str, Any]], expected: tuple[int, int]
) -> None:
    """LangChain adds up what chunks report; a running total must not be added up."""
    list(Reporting(replies=["x"], usages=usages).stream("x", config=config))
    [span] = recorded(store)
    assert span.usage is not None
    assert (span.usage.input, span.usage.output) == expected
    assert span.settings["model.served"].value == "served-1"


def test_missing_token_counts_are_unknown(store: Path, config: RunnableConfig) -> None:
    """No count is not a count of zero."""
    FakeModel(replies=["ok"]).invoke("x", config=config)
    [span] = recorded(store)
    assert span.usage is not None
    assert (span.usage.input, span.usage.output, span.usage.total) == (None, None, None)
