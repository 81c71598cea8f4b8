"""An event loop that was blocked made everything look late: the bounds of what was seen meanwhile say so."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from agenttrace import AgentTraceHandler, open_store
from agenttrace.langchain import loop_lag
from agenttrace.recording import flush
from agenttrace.records import SpanRecord
from tests.model_server import chat_completion, serve

BLOCKED_S = 0.3


async def block() -> None:
    """Somebody else's code, which computes where it should wait."""
    await asyncio.sleep(0.02)
    time.sleep(BLOCKED_S)  # that is the fault


def call(url: str, *, blocked: bool) -> SpanRecord:
    """Two calls in one loop, the second one perhaps blocked: what loads on first use is loaded by then."""

    async def both() -> None:
        chat = ChatOpenAI(base_url=f"{url}/v1", model="m", api_key=SecretStr("x"))
        await chat.ainvoke("hi", config={"callbacks": [AgentTraceHandler()]})
        asked = asyncio.create_task(chat.ainvoke("hi", config={"callbacks": [AgentTraceHandler()]}))
        if blocked:
            await block()
        await asked

    asyncio.run(both())
    flush()
    [span] = [span for span in open_store().trace("last") if span.kind == "model"]
    return span


def slow(exchange: object) -> None:
    time.sleep(0.1)  # the server works meanwhile
    chat_completion(exchange)  # type: ignore[arg-type]  # what the server hands on


@pytest.mark.parametrize("blocked", [False, True])
def test_a_blocked_loop_widens_what_the_client_saw(store: Path, blocked: bool) -> None:
    """The wait for the loop is no server's: it is within the bounds, and a note says so."""
    with serve(slow) as server:
        span = call(server.url, blocked=blocked)
    told = [note for note in span.notes if "event loop was late" in note]
    assert bool(told) == blocked
    assert (
        sum(phase.ns for phase in span.phases if phase.ns is not None and phase.included_in is None) == span.duration_ns
    )
    if blocked:
        widened = [phase for phase in span.phases if phase.ns and (phase.low_ns or 0) <= phase.ns - BLOCKED_S * 1e9 / 2]
        assert widened or all((phase.low_ns or 0) == 0 for phase in span.phases if phase.source == "derived")


def test_no_timer_outlives_its_calls(store: Path) -> None:
    """When the last model call of a loop has ended, its timer ends."""

    async def calls() -> None:
        chat = ChatOpenAI(base_url=f"{server.url}/v1", model="m", api_key=SecretStr("x"))
        await asyncio.gather(*(chat.ainvoke("hi", config={"callbacks": [AgentTraceHandler()]}) for _ in range(3)))
        clock = loop_lag._clocks[asyncio.get_running_loop()]
        while clock._open:
            await asyncio.sleep(loop_lag.TICK_S)  # until the tick after the last call

    with serve(chat_completion) as server:
        asyncio.run(calls())
