"""A tool's step says which call it answers, what the tool takes, and which code it is."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, tool
from opentelemetry.sdk.resources import Resource

from agenttrace import AgentTraceHandler, watch
from agenttrace.records import SpanRecord
from agenttrace.settings.implementations import _known
from agenttrace.spans.otel import readable_spans
from tests.langchain.models import FakeModel
from tests.langchain.test_handler import ADD_CALL, add, recorded


@pytest.fixture
def config(store: Path) -> RunnableConfig:
    return {"callbacks": [AgentTraceHandler()]}


def of_tool(span: SpanRecord, dimension: str) -> Any:
    value = span.settings[f"tools.{dimension}"].value
    assert isinstance(value, dict)
    return value[span.name]


def tools(store: Path) -> list[SpanRecord]:
    return [span for span in recorded(store) if span.kind == "tool"]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["invoke", "ainvoke"])
def test_a_tool_step_says_what_ran(store: Path, config: RunnableConfig, asynchronous: bool) -> None:
    """In an agent: the id of the call, the schema that a model is shown, the description, and a digest of the code."""
    agent: Any = create_agent(FakeModel(replies=[ADD_CALL, "three"]), [add])
    given = {"messages": [("user", "1 + 2?")]}
    asyncio.run(agent.ainvoke(given, config)) if asynchronous else agent.invoke(given, config)
    [span] = tools(store)
    assert span.metadata["tool_call_id"] == "call-1"
    assert of_tool(span, "descriptions") == "Add two numbers."
    assert set(of_tool(span, "parameters")["properties"]) == {"a", "b"}
    assert of_tool(span, "implementation").startswith("at1:")
    attributes = next(readable_spans(span, Resource.get_empty())).attributes or {}
    assert attributes["gen_ai.tool.call.id"] == "call-1"
    assert attributes["tool.description"] == "Add two numbers."
    assert not any(key.startswith("llm.tools") for key in attributes)


def test_a_tool_that_fails_keeps_its_call(store: Path, config: RunnableConfig) -> None:
    """No message comes back that would name the call."""

    @tool
    def breaks(x: int) -> int:
        """Break."""
        raise ValueError("no")

    call = AIMessage("", tool_calls=[{"id": "call-9", "name": "breaks", "args": {"x": 1}}])
    agent: Any = create_agent(FakeModel(replies=[call]), [breaks])
    with suppress(ValueError):
        agent.invoke({"messages": [("user", "go")]}, config)
    [span] = tools(store)
    assert (span.state, span.metadata["tool_call_id"]) == ("error", "call-9")


def multiplier(factor: int) -> StructuredTool:
    def times(a: int, secret: Annotated[str, InjectedToolArg] = "") -> int:
        """Multiply."""
        return a * factor

    return StructuredTool.from_function(times)


def test_the_implementation_is_the_code(store: Path, config: RunnableConfig) -> None:
    """The same code made anew is the same; another value that it closes over is another. What is injected is no parameter."""
    for factor in (2, 2, 3):
        multiplier(factor).invoke({"a": 1}, config)
    first, again, other = tools(store)
    assert of_tool(first, "implementation") == of_tool(again, "implementation")
    assert of_tool(first, "implementation") != of_tool(other, "implementation")
    assert set(of_tool(first, "parameters")["properties"]) == {"a"}


class Class(BaseTool):
    name: str = "class"
    description: str = "A tool that is a class."

    def _run(self, x: int) -> int:
        return x


def test_a_class_is_its_run_method(store: Path, config: RunnableConfig) -> None:
    """Tools that are classes have code too."""
    Class().invoke({"x": 1}, config)
    [span] = tools(store)
    assert of_tool(span, "implementation").startswith("at1:")


def test_what_watch_was_told_wins(store: Path, config: RunnableConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of a tool on a server is elsewhere: its version is what its owner says."""
    monkeypatch.setitem(_known, "add", "")
    watch(add, version="notes-server 1.4.2").invoke({"a": 1, "b": 2}, config)
    [span] = tools(store)
    assert of_tool(span, "implementation") == "notes-server 1.4.2"
