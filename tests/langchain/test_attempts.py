"""Retries and fallbacks say which attempt a step is, whoever tries again; what failed keeps what it had."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware, ModelRetryMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage, AIMessageChunk, ToolCallChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

from agenttrace import AgentTraceHandler
from tests.langchain.models import FakeModel, SlowModel
from tests.langchain.test_handler import recorded

LOST = ConnectionError("the line is dead")
CALL = AIMessage("", tool_calls=[{"id": "call-1", "name": "flaky", "args": {"question": "x"}}])
ONCE_MORE = RetryPolicy(initial_interval=0.001, max_attempts=3)


@pytest.fixture
def config(store: Path) -> RunnableConfig:
    return {"callbacks": [AgentTraceHandler()]}


def model(*replies: Any) -> FakeModel:
    return FakeModel(replies=list(replies))


def fails_twice() -> Callable[[Any], Any]:
    calls = iter([LOST, LOST, None])

    def work(given: Any) -> Any:
        if (error := next(calls)) is not None:
            raise error
        return given

    return work


class Work(TypedDict):
    done: int


def graph_with_retries(asynchronous: bool) -> Runnable[Any, Any]:
    work = fails_twice()

    async def later(state: Work) -> Any:
        return work(state)

    node: Any = later if asynchronous else work
    graph = StateGraph(Work)
    graph.add_node("work", node, retry_policy=ONCE_MORE)
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    return graph.compile()


def agent(*replies: Any, middleware: list[Any]) -> Runnable[Any, Any]:
    work = fails_twice()

    @tool
    def flaky(question: str) -> str:
        """Fails at first."""
        return str(work(question))

    return create_agent(model(*replies), [flaky], middleware=middleware)


QUESTION = {"messages": [("user", "why?")]}

CASES: dict[str, tuple[Callable[[], Runnable[Any, Any]], Any, str]] = {
    "with_retry": (lambda: model(LOST, LOST, "yes").with_retry(wait_exponential_jitter=False), "x", "model"),
    "fallbacks": (lambda: model(LOST).with_fallbacks([model(LOST), model("yes")]), "x", "model"),
    "fallbacks in a sequence": (
        lambda: RunnableLambda(str) | model(LOST).with_fallbacks([model(LOST), model("yes")]),
        "x",
        "model",
    ),
    "fallbacks by another name": (
        lambda: model(LOST).with_fallbacks([model(LOST), model("yes")]).with_config(run_name="some model"),
        "x",
        "model",
    ),
    "a graph's node": (lambda: graph_with_retries(False), {"done": 0}, "chain work"),
    "a model in an agent": (
        lambda: agent(LOST, LOST, "yes", middleware=[ModelRetryMiddleware(max_retries=2, initial_delay=0)]),
        QUESTION,
        "model",
    ),
    "another model in an agent": (
        lambda: agent(LOST, middleware=[ModelFallbackMiddleware(model(LOST), model("yes"))]),
        QUESTION,
        "model",
    ),
    "a tool in an agent": (
        lambda: agent(CALL, "yes", middleware=[ToolRetryMiddleware(max_retries=2, initial_delay=0)]),
        QUESTION,
        "tool",
    ),
}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["invoke", "ainvoke"])
@pytest.mark.parametrize("case", CASES)
def test_each_attempt_has_its_number(store: Path, config: RunnableConfig, case: str, asynchronous: bool) -> None:
    """Two attempts fail and the third goes well: three steps side by side, numbered, each failure with its error."""
    build, given, what = CASES[case]
    subject = build()
    if asynchronous:
        subject = graph_with_retries(True) if case == "a graph's node" else subject
        asyncio.run(subject.ainvoke(given, config))
    else:
        subject.invoke(given, config)
    steps = [span for span in recorded(store) if f"{span.kind} {span.name}".startswith(what)][:3]
    assert [(span.attempt, span.state) for span in steps] == [(1, "error"), (2, "error"), (3, "ok")]
    assert [span.error and span.error.message for span in steps] == [str(LOST), str(LOST), None]
    assert len({span.parent_id for span in steps}) == 1


def test_a_task_of_a_graph_that_is_a_function_is_tried_again(store: Path, config: RunnableConfig) -> None:
    """LangGraph's functional API retries its tasks too."""
    work = fails_twice()

    @task(retry_policy=ONCE_MORE)  # type: ignore[arg-type]  # its own overloads leave mypy no type to choose
    def guess(given: str) -> str:
        return str(work(given))

    @entrypoint()
    def flow(given: str) -> str:
        return str(guess(given).result())  # type: ignore[arg-type]  # as above

    flow.invoke("x", config)
    assert [span.attempt for span in recorded(store) if span.name == "guess"] == [1, 2, 3]


def test_a_batch_falls_back_for_each_of_its_members(store: Path, config: RunnableConfig) -> None:
    """Each member has attempts of its own."""
    model(LOST, LOST).with_fallbacks([model("yes", "yes")]).batch(["x", "y"], config)
    attempts = sorted((span.attempt, span.state) for span in recorded(store) if span.kind == "model")
    assert attempts == [(1, "error"), (1, "error"), (2, "ok"), (2, "ok")]


def test_a_call_after_one_that_went_well_is_a_first_attempt(store: Path, config: RunnableConfig) -> None:
    """An attempt is one only while nothing has gone well; and what asks something else tries nothing again."""
    subject = model(LOST, "yes", "yes", LOST, "yes")

    def asks(_: str) -> None:
        for question in ("x", "x", "x", "y", "z"):
            with suppress(ConnectionError):
                subject.invoke(question)

    RunnableLambda(asks).invoke("go", config)
    assert [span.attempt for span in recorded(store) if span.kind == "model"] == [1, 2, 1, 1, 1]


def test_branches_are_no_attempts_at_each_other(store: Path, config: RunnableConfig) -> None:
    """Two branches ask two models the same, one after the other, and the first fails."""
    subject: Runnable[Any, Any] = RunnableParallel(
        first=model(LOST).with_fallbacks([model("a")]), second=model("b"), third=model(LOST)
    )
    with suppress(ConnectionError):
        subject.invoke("x", {**config, "max_concurrency": 1})
    models = [span for span in recorded(store) if span.kind == "model"]
    assert [(span.attempt, span.state) for span in models] == [(1, "error"), (2, "ok"), (1, "ok"), (1, "error")]


def test_what_was_asked_may_not_compare(store: Path, config: RunnableConfig) -> None:
    """Inputs whose comparison raises are no reason to lose a step."""

    class Odd:
        def __eq__(self, other: object) -> bool:
            raise TypeError("not with me")

    step = RunnableLambda(fails_twice(), name="work")

    def twice(_: str) -> None:
        for _attempt in range(2):
            with suppress(ConnectionError):
                step.invoke(Odd())

    RunnableLambda(twice).invoke("go", config)
    assert [span.attempt for span in recorded(store) if span.name == "work"] == [1, 1]


class CutShort(FakeModel):
    """Its reply breaks off in the middle of a tool call's arguments."""

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        call = ToolCallChunk(name="add", args='{"a": 1, ', id="call-1", index=1)
        for chunk in (
            AIMessageChunk(content="", additional_kwargs={"reasoning_content": "Let me see."}),
            AIMessageChunk(content="I add "),
            AIMessageChunk(content=[{"type": "text", "text": "them."}]),
            AIMessageChunk(content="", tool_call_chunks=[call]),
        ):
            yield ChatGenerationChunk(message=chunk)
        raise LOST


HOW: dict[str, Callable[[Any, RunnableConfig], Any]] = {
    "stream": lambda cut, config: list(cut.stream("x", config)),
    "invoke that streams": lambda cut, config: cut.bind(stream=True).invoke("x", config),
    "v3 events": lambda cut, config: list(cut.stream_events("x", config, version="v3")),
}


@pytest.mark.parametrize("how", HOW)
def test_a_failed_attempt_keeps_what_it_had(store: Path, config: RunnableConfig, how: str) -> None:
    """Words, reasoning and the tool call under way when the stream broke off, whoever reads it."""
    with suppress(ConnectionError):
        HOW[how](CutShort(replies=[]), config)
    [span] = recorded(store)
    assert span.state == "error"
    assert span.error is not None
    assert span.error.message == str(LOST)
    kept = json.dumps(span.output)
    for part in ("Let me see.", "I add ", "them.", "add", "call-1"):
        assert part in kept, (part, kept)
    assert span.marks is not None
    assert span.marks.chunks == 4


def test_a_cancelled_attempt_keeps_what_it_had(store: Path, config: RunnableConfig) -> None:
    """No callback ends a call that is cancelled: what its stream brought is all there is."""

    class Hanging(CutShort):
        async def _astream(self, *args: Any, **_: Any) -> AsyncIterator[ChatGenerationChunk]:
            with suppress(ConnectionError):
                for chunk in super()._stream(*args):
                    yield chunk
            await asyncio.sleep(60)

    async def cancel() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(Hanging(replies=[]).bind(stream=True).ainvoke("x", config), 0.2)

    asyncio.run(cancel())
    [span] = recorded(store)
    assert span.state == "abandoned"
    assert span.output == {
        "role": "assistant",
        "content": "I add them.",
        "reasoning": "Let me see.",
        "invalid_tool_calls": [{"id": "call-1", "name": "add", "args": '{"a": 1, '}],
    }


def test_an_attempt_that_brought_nothing_has_no_output(store: Path, config: RunnableConfig) -> None:
    """Nothing is unknown, not an empty list."""
    with suppress(ConnectionError):
        model(LOST).invoke("x", config)
    assert recorded(store)[0].output is None


def test_an_attempt_that_took_too_long_counts(store: Path, config: RunnableConfig) -> None:
    """A call that is cancelled by its timeout and made again is a second attempt."""
    slow = SlowModel(replies=["yes"], seconds=5)

    async def patient(_: str) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(slow.ainvoke("x"), 0.01)
        slow.seconds = 0
        await slow.ainvoke("x")

    asyncio.run(RunnableLambda(patient).ainvoke("go", config))
    models = [span for span in recorded(store) if span.kind == "model"]
    assert [(span.attempt, span.state) for span in models] == [(1, "cancelled"), (2, "ok")]
