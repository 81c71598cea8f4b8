"""A loopback server that really waits, prefills and decodes, and keeps its own truth: the truth is within the bounds.

Real integration packages speak to it, sync and async, streaming and not, in parallel, through retries, keep-alive comments,
packed bodies, broken connections, and reports that are missing or lie.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from agenttrace import AgentTraceHandler, open_store
from agenttrace.phases.metrics import call_metrics
from agenttrace.recording import flush
from agenttrace.records import PhaseTiming, SpanRecord
from tests.model_server import Exchange, ModelServer, serve
from tests.truth_server import Report, Truth, groq, llama_cpp, nothing, timed, vllm, wrong_unit


def chat(server: ModelServer, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(base_url=server.url + "/v1", model="m", api_key=SecretStr("x"), stream_usage=True, **options)


def recorded() -> list[SpanRecord]:
    flush()
    with open_store() as reader:
        spans = [span for trace in reader.traces() for span in reader.trace(trace.trace_id)]
    return sorted((span for span in spans if span.kind == "model"), key=lambda span: span.start_ns)


def check(call: SpanRecord, truth: Truth) -> dict[str, PhaseTiming]:
    """Sums are exact, every bound is in order, and what really happened is within the bounds."""
    phases = {phase.name: phase for phase in call.phases}
    timed_ns = [phase.ns for phase in call.phases if phase.ns is not None and phase.included_in is None]
    assert sum(timed_ns) == call.duration_ns
    for name in ("queue", "prefill", "decode"):
        phase, real = phases[name], getattr(truth, name)
        if phase.ns is not None and phase.source == "server-reported":
            assert abs(phase.ns - real) <= 1_000  # what the report's own digits lose
        else:
            assert phase.low_ns is None or phase.low_ns <= real, name
            assert phase.high_ns is None or real <= phase.high_ns, name
    return phases


@pytest.mark.parametrize("report", [llama_cpp, vllm, groq, nothing], ids=lambda report: report.__name__)
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_truth_is_within_the_bounds(store: Path, report: Report, streaming: bool, asynchronous: bool) -> None:
    """Whatever a server reports, and however it is called."""
    truths: list[Truth] = []
    config: Any = {"callbacks": [AgentTraceHandler()]}
    with serve(timed(truths, report)) as server:
        model = chat(server, streaming=streaming)
        if asynchronous:
            asyncio.run(model.ainvoke("x", config=config))
        else:
            model.invoke("x", config=config)
    [call] = recorded()
    phases = check(call, truths[0])
    if report is nothing:
        assert phases["queue"].ns is None
        assert phases["prefill"].ns is None


def test_parallel_calls_keep_their_own_times(store: Path) -> None:
    """Calls that wait differently long at the same time are not mixed up."""
    truths: list[Truth] = []

    async def ask(server: ModelServer) -> None:
        config: Any = {"callbacks": [AgentTraceHandler()]}
        await asyncio.gather(*(chat(server, seed=seed).ainvoke("x", config=config) for seed in (1, 4, 8)))

    with serve(timed(truths, vllm)) as server:
        asyncio.run(ask(server))
    by_seed = {call.settings["sampling.seed"].value: call for call in recorded()}
    for seed, truth in zip((1, 4, 8), sorted(truths, key=lambda truth: truth.queue), strict=True):
        check(by_seed[seed], truth)


def test_a_retry_is_no_queue(store: Path) -> None:
    """What a failed attempt and the wait after it took is `retry_backoff`."""
    truths: list[Truth] = []

    def busy(exchange: Exchange) -> None:
        time.sleep(0.05)
        exchange.send({"error": {"message": "busy"}}, status=429, headers={"retry-after-ms": "60"})

    with serve(busy, timed(truths, llama_cpp)) as server:
        chat(server, max_retries=2).invoke("x", config={"callbacks": [AgentTraceHandler()]})
    [call] = recorded()
    phases = check(call, truths[0])
    assert [attempt.status for attempt in call.attempts] == [429, 200]
    assert (phases["retry_backoff"].ns or 0) >= 110_000_000
    assert (phases["queue"].high_ns or 0) < (phases["retry_backoff"].ns or 0) + truths[0].queue


def test_a_packed_body_is_read(store: Path) -> None:
    """A report that travels packed is as good as another."""
    truths: list[Truth] = []
    with serve(timed(truths, vllm, packed=True)) as server:
        chat(server).invoke("x", config={"callbacks": [AgentTraceHandler()]})
    [call] = recorded()
    assert check(call, truths[0])["queue"].source == "server-reported"


def test_a_connection_that_breaks_leaves_what_was_seen(store: Path) -> None:
    """The call failed; its time is divided as far as it was observed, and the sum is exact."""
    truths: list[Truth] = []
    with (
        serve(timed(truths, llama_cpp, drop=True)) as server,
        pytest.raises(Exception, match=r"(?i)peer|incomplete|connection"),
    ):
        chat(server, streaming=True, max_retries=0).invoke("x", config={"callbacks": [AgentTraceHandler()]})
    [call] = recorded()
    assert call.state == "error"
    check(call, truths[0])
    assert call.marks is not None
    assert call.marks.first_content_ns is not None


@pytest.mark.parametrize("streaming", [False, True])
def test_a_lie_is_not_believed(store: Path, streaming: bool) -> None:
    """A server a thousand times too slow for the client's own clock: named, and no phase of that length."""
    truths: list[Truth] = []
    with serve(timed(truths, wrong_unit)) as server:
        chat(server, streaming=streaming).invoke("x", config={"callbacks": [AgentTraceHandler()]})
    [call] = recorded()
    check(call, truths[0])
    assert any("impossible" in note for note in call.notes)
    assert all(phase.ns is None or phase.ns <= (call.duration_ns or 0) for phase in call.phases)


def test_a_stall_is_decoding_and_no_token(store: Path) -> None:
    """A server that stands still between two bursts: within decode's bounds, and named as a silence, not as a token's time."""
    truths: list[Truth] = []
    with serve(timed(truths, nothing, stall_s=0.2)) as server:
        chat(server, streaming=True).invoke("x", config={"callbacks": [AgentTraceHandler()]})
    [call] = recorded()
    phases = check(call, truths[0])
    assert (phases["decode"].ns or 0) >= 200_000_000
    silence = call_metrics(call).longest_silence_ns
    assert silence is not None
    assert silence >= 200_000_000


def test_waiting_for_a_rate_limiter_is_our_own_preparation(store: Path) -> None:
    """A limiter in the client holds the call back before any request: `client_prep`, never the server's queue."""
    truths: list[Truth] = []
    limiter = InMemoryRateLimiter(requests_per_second=5, check_every_n_seconds=0.01, max_bucket_size=1)
    with serve(timed(truths, vllm)) as server:
        model = chat(server, rate_limiter=limiter)
        for _ in range(2):
            model.invoke("x", config={"callbacks": [AgentTraceHandler()]})
    _, second = recorded()
    phases = check(second, truths[1])
    assert (phases["client_prep"].ns or 0) > 10_000_000
    assert phases["queue"].ns == pytest.approx(truths[1].queue, abs=1_000)
