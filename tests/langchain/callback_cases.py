"""Typical things that agents do, each small: what LangChain calls for them is recorded in `fixtures/callbacks`."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.callbacks import adispatch_custom_event
from langchain_core.callbacks.base import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt

from tests.langchain.models import FakeModel, SlowModel

Case = Callable[[BaseCallbackHandler], None]

LOST = ConnectionError("the line is dead")


def model(*replies: Any) -> FakeModel:
    return FakeModel(replies=list(replies))


def chain(model: Any) -> Runnable[Any, Any]:
    whole: Runnable[Any, Any] = (
        ChatPromptTemplate.from_messages([("system", "Be brief."), ("user", "{question}")]) | model | StrOutputParser()
    )
    return whole


def with_handler(handler: BaseCallbackHandler, **more: Any) -> RunnableConfig:
    config: RunnableConfig = {"callbacks": [handler]}
    config.update(more)  # type: ignore[typeddict-item]  # the names are those of a config
    return config


def invoke(handler: BaseCallbackHandler) -> None:
    config = with_handler(handler, metadata={"session_id": "s1", "user_id": "u1"}, tags=["night"])
    chain(model("four")).invoke({"question": "2 + 2?"}, config)


class Counted(FakeModel):
    """Streams a role, reasoning, words, token counts."""

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for message in (
            AIMessageChunk(content="", response_metadata={"model_name": "counted-1"}),
            AIMessageChunk(content="", additional_kwargs={"reasoning_content": "Two and two."}),
            AIMessageChunk(content="It is "),
            AIMessageChunk(content="four."),
            AIMessageChunk(content="", response_metadata={"finish_reason": "stop"}),
            AIMessageChunk(content="", usage_metadata={"input_tokens": 12, "output_tokens": 6, "total_tokens": 18}),
        ):
            yield ChatGenerationChunk(message=message)


def astream(handler: BaseCallbackHandler) -> None:
    async def consume() -> None:
        async for _ in chain(Counted(replies=[])).astream({"question": "2 + 2?"}, with_handler(handler)):
            pass

    asyncio.run(consume())


def stream_events_v3(handler: BaseCallbackHandler) -> None:
    for _ in Counted(replies=[]).stream_events("2 + 2?", version="v3", config=with_handler(handler)):
        pass


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def divide(a: int, b: int) -> float:
    """Divide one number by another."""
    return a / b


divide.handle_tool_error = "that cannot be divided"


def asking(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[{"id": f"call-{number}", "name": name, "args": args} for number, (name, args) in enumerate(calls)],
    )


QUESTION: Any = {"messages": [("user", "2 + 2 and 3 + 3?")]}


def parallel_tools(handler: BaseCallbackHandler) -> None:
    asks = asking(("add", {"a": 2, "b": 2}), ("add", {"a": 3, "b": 3}))
    agent: Any = create_agent(model(asks, "4 and 6"), [add], system_prompt="Add up.")
    asyncio.run(agent.ainvoke(QUESTION, with_handler(handler)))


def unknown_tool(handler: BaseCallbackHandler) -> None:
    agent: Any = create_agent(model(asking(("fly", {}), ("add", {"a": 2, "b": 2})), "sorry"), [add])
    agent.invoke(QUESTION, with_handler(handler))


def tool_retry(handler: BaseCallbackHandler) -> None:
    replies = iter([LOST, None])

    @tool
    def look_up(word: str) -> str:
        """Look up a word."""
        if (error := next(replies)) is not None:
            raise error
        return f"{word} is a word"

    retries: Any = ToolRetryMiddleware(max_retries=1, initial_delay=0)
    agent: Any = create_agent(model(asking(("look_up", {"word": "yes"})), "done"), [look_up], middleware=[retries])
    agent.invoke(QUESTION, with_handler(handler))


def fallback(handler: BaseCallbackHandler) -> None:
    chain(model(LOST).with_fallbacks([model("four")])).invoke({"question": "2 + 2?"}, with_handler(handler))


def retry(handler: BaseCallbackHandler) -> None:
    again = model(LOST, "four").with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    chain(again).invoke({"question": "2 + 2?"}, with_handler(handler))


class State(TypedDict, total=False):
    question: str
    answers: Annotated[list[str], operator.add]


def graph(**nodes: Any) -> Any:
    """A graph of these nodes, one after another."""
    built: Any = StateGraph(State)
    names = list(nodes)
    for name, node in nodes.items():
        built.add_node(name, node)
    for before, after in zip([START, *names], [*names, END], strict=True):
        built.add_edge(before, after)
    return built


def node_retry(handler: BaseCallbackHandler) -> None:
    answers = model(LOST, "four")
    built: Any = StateGraph(State)
    once_more = RetryPolicy(max_attempts=2, initial_interval=0.001)
    built.add_node(
        "answer", lambda state: {"answers": [answers.invoke(state["question"]).text]}, retry_policy=once_more
    )
    built.add_edge(START, "answer")
    built.compile().invoke({"question": "2 + 2?"}, with_handler(handler))


def cancelled_ainvoke(handler: BaseCallbackHandler) -> None:
    async def call() -> None:
        with suppress(TimeoutError):
            slow = chain(SlowModel(replies=["four"], seconds=60))
            await asyncio.wait_for(slow.ainvoke({"question": "2 + 2?"}, with_handler(handler)), 0.05)

    asyncio.run(call())


def abandoned_stream(handler: BaseCallbackHandler) -> None:
    slow = SlowModel(replies=["one two three four"], seconds=0.1)

    async def ask(state: State) -> State:
        return {"answers": [(await slow.ainvoke(state["question"])).text]}

    async def look() -> None:
        stream = graph(ask=ask).compile().astream({"question": "?"}, with_handler(handler), stream_mode="messages")
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(look())


def closed_sequence(handler: BaseCallbackHandler) -> None:
    stream: Any = chain(model("one two three")).stream({"question": "count"}, with_handler(handler))
    next(stream)
    stream.close()


def interrupt_and_resume(handler: BaseCallbackHandler) -> None:
    config = with_handler(handler, configurable={"thread_id": "t1"})
    paused = graph(ask=lambda _: {"answers": [interrupt("sure?")]}).compile(checkpointer=InMemorySaver())
    paused.invoke({"question": "2 + 2?"}, config)
    paused.invoke(Command(resume="yes"), config)


def send_fan_out(handler: BaseCallbackHandler) -> None:
    built: Any = StateGraph(State)
    built.add_node("split", lambda _: {})
    built.add_node("answer", lambda state: {"answers": [model("four").invoke(state["question"]).text]})
    built.add_edge(START, "split")
    parts = [Send("answer", {"question": question}) for question in ("2 + 2?", "3 + 1?")]
    built.add_conditional_edges("split", lambda _: parts, ["answer"])
    built.compile().invoke({"question": "both"}, with_handler(handler))


def subgraph(handler: BaseCallbackHandler) -> None:
    inner = graph(answer=lambda state: {"answers": [model("four").invoke(state["question"]).text]}).compile()
    graph(work=inner).compile().invoke({"question": "2 + 2?"}, with_handler(handler))


def batch(handler: BaseCallbackHandler) -> None:
    with suppress(ConnectionError):
        chain(model("four", LOST, "six")).batch(
            [{"question": f"{n} + {n}?"} for n in (2, 3, 4)], with_handler(handler, max_concurrency=1)
        )


def batch_of_prompts(handler: BaseCallbackHandler) -> None:
    with suppress(ConnectionError):
        model("four", LOST, "six").generate_prompt(
            [ChatPromptTemplate.from_messages([("user", str(n))]).invoke({}) for n in (2, 3, 4)], callbacks=[handler]
        )


class Notes(BaseRetriever):
    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [Document("a note about " + query, metadata={"page": 3})]


def retrieval_and_event(handler: BaseCallbackHandler) -> None:
    async def look_up(question: str) -> str:
        await adispatch_custom_event("looking", {"for": question})
        return (await Notes().ainvoke(question))[0].page_content

    asyncio.run(RunnableLambda(look_up).ainvoke("sums", with_handler(handler)))


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        invoke,
        astream,
        stream_events_v3,
        parallel_tools,
        unknown_tool,
        tool_retry,
        fallback,
        retry,
        node_retry,
        cancelled_ainvoke,
        abandoned_stream,
        closed_sequence,
        interrupt_and_resume,
        send_fan_out,
        subgraph,
        batch,
        batch_of_prompts,
        retrieval_and_event,
    )
}
