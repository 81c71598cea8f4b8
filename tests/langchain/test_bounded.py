"""A handler that lives as long as its process holds no more than it must."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from langchain_core.outputs import ChatResult
from langchain_core.runnables import RunnableConfig

from agenttrace import AgentTraceHandler, open_store
from agenttrace.langchain.ambient import AmbientSpan
from agenttrace.langchain.open_steps import MAX_OPEN, REMEMBERED, SET_ASIDE
from agenttrace.recording import flush
from tests.langchain.models import FakeModel


def start(handler: AgentTraceHandler, parent: UUID | None = None) -> UUID:
    run_id = uuid4()
    handler.on_chain_start({"name": "x"}, {"a": 1}, run_id=run_id, parent_run_id=parent, metadata={}, tags=[])
    return run_id


def test_steps_that_never_end_are_bounded(store: Path) -> None:
    """However many steps never end, the handler's maps stay within their bounds; others end as ever."""
    handler = AgentTraceHandler()
    held = []
    for number in range(3 * MAX_OPEN):
        held.append(start(handler))  # held: else its end would be seen by its id going away
        if number % 100 == 0:
            flush()
    steps = handler._steps
    assert len(steps._open) <= MAX_OPEN
    assert len(steps._aside) <= SET_ASIDE
    assert len(steps._ended) <= REMEMBERED
    last = start(handler)
    handler.on_chain_end({}, run_id=last)
    flush()
    assert sum(trace.state == "ok" for trace in open_store().traces()) == 1


def ambient_spans() -> int:
    gc.collect()
    return sum(isinstance(one, AmbientSpan) for one in gc.get_objects())


def test_what_never_ended_is_let_go(store: Path) -> None:
    """A step that is left behind in a thread's context does not keep all that were left behind before it."""
    handler = AgentTraceHandler()
    held = [start(handler) for _ in range(2 * (MAX_OPEN + SET_ASIDE))]
    flush()
    assert ambient_spans() <= MAX_OPEN + SET_ASIDE + 1
    for run_id in held:
        handler.on_chain_end({}, run_id=run_id)


class Hanging(FakeModel):
    """Waits without a timer: asyncio keeps a cancelled timer for a while, and with it the context it was set in."""

    async def _agenerate(self, *_: Any, **__: Any) -> ChatResult:
        await asyncio.Event().wait()
        raise AssertionError("never")


def test_a_task_that_lives_long_keeps_no_cancelled_calls(store: Path) -> None:
    """A worker whose calls time out one after another does not hold all of them."""
    config: RunnableConfig = {"callbacks": [AgentTraceHandler()]}
    slow = Hanging(replies=["x"])
    before = ambient_spans()

    async def work() -> int:
        for _ in range(50):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.001):
                    await slow.ainvoke("x", config)
        return ambient_spans() - before

    assert asyncio.run(work()) <= 5  # the last one, and what the event loop has not let go of yet
    flush()
    assert {trace.state for trace in open_store().traces()} == {"cancelled"}


def test_a_late_end_corrects_a_quiet_step(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step whose trace was quiet for the settable time is unfinished, until its end comes after all."""
    monkeypatch.setattr("agenttrace.langchain.open_steps.FIRST_LOOK", 1)
    monkeypatch.setenv("AGENTTRACE_QUIET_S", "0")
    handler = AgentTraceHandler()
    handler._steps._look_at = 1
    late = start(handler)
    others = [start(handler) for _ in range(5)]
    assert late.int in handler._steps._aside
    flush()
    assert {trace.state for trace in open_store().traces()} == {"unfinished"}
    handler.on_chain_end({"found": True}, run_id=late)
    flush()
    [ended] = [trace for trace in open_store().traces() if trace.state == "ok"]
    assert open_store().trace(ended.trace_id)[0].output == {"found": True}
    for other in others:
        handler.on_chain_end({}, run_id=other)
