"""Small suites for tests: real LangGraph agents over fake models, and cases that expect something of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from agenttrace import Case, Suite
from agenttrace.evaluation.evaluators import Exact
from agenttrace.records import SpanRecord
from tests.builders import a_span
from tests.langchain.models import FakeModel


def some_cases(count: int = 3) -> list[Case]:
    return [Case(id=f"c{number}", input=f"in {number}", expected=f"in {number}") for number in range(1, count + 1)]


def a_suite(task: Any = None, **fields: Any) -> Suite:
    """A suite whose task gives back what it is given, unless told otherwise."""
    return Suite(
        **{
            "name": "echo",
            "cases": some_cases(),
            "task": task or (lambda given: given),
            "evaluators": [Exact()],
            "retries": 0,
            **fields,
        }
    )


@tool
def weather(city: str) -> str:
    """What the weather is in a city."""
    return f"sunny in {city}"


def weather_agent(*cities: str) -> Any:
    """A real agent that asks for the weather of each city in turn, and answers."""
    calls = [
        AIMessage("", tool_calls=[{"name": "weather", "args": {"city": city}, "id": f"t{number}"}])
        for number, city in enumerate(cities)
    ]
    return create_agent(FakeModel(replies=[*calls, AIMessage("It is sunny.")]), [weather])


class Counted:
    """Counts how often a task was called, by what it was given; what `does` raises or waits for is the attempt's fate."""

    def __init__(self, does: Callable[[Any, int], Any] = lambda given, _call: given) -> None:
        self.calls: dict[Any, int] = {}
        self.at_once = self.most_at_once = 0
        self._does = does
        self._lock = threading.Lock()

    async def __call__(self, given: Any) -> Any:
        with self._lock:
            self.calls[given] = self.calls.get(given, 0) + 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            result = self._does(given, self.calls[given])
            return await result if asyncio.iscoroutine(result) else result
        finally:
            with self._lock:
                self.at_once -= 1


def a_tool_call(number: int, name: str, arguments: Any = None, **fields: Any) -> SpanRecord:
    return a_span(number, kind="tool", name=name, input=arguments, parent_id=f"{1:016x}", **fields)
