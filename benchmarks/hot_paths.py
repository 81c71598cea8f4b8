"""What happens once a token, once a request and once a read, measured alone: ours and doing nothing, A B A B … in one process."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from typing import Any
from uuid import uuid4

BLOCKS = 15


def alternating(first: Callable[[], None], second: Callable[[], None], times: int) -> float:
    """How many microseconds of CPU one call of `first` takes longer than one of `second`; the median over blocks."""

    def block(work: Callable[[], None]) -> float:
        started = time.thread_time_ns()
        for _ in range(times):
            work()
        return (time.thread_time_ns() - started) / times / 1e3

    return statistics.median(block(first) - block(second) for _ in range(BLOCKS))


def tokens() -> dict[str, float]:
    """Microseconds that a streamed token costs over a handler that does nothing, and bytes that it leaves in memory."""
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import AIMessageChunk
    from langchain_core.outputs import ChatGenerationChunk

    from agenttrace import AgentTraceHandler

    ours, nothing, run_id = AgentTraceHandler(), BaseCallbackHandler(), uuid4()
    ours.on_chat_model_start({}, [[]], run_id=run_id)
    chunk = ChatGenerationChunk(message=AIMessageChunk(content="word "))
    cost = alternating(
        lambda: ours.on_llm_new_token("word ", chunk=chunk, run_id=run_id),
        lambda: nothing.on_llm_new_token("word ", chunk=chunk, run_id=run_id),
        5_000,
    )
    tracemalloc.start()
    before, count = tracemalloc.get_traced_memory()[0], 100_000
    for _ in range(count):
        ours.on_llm_new_token("word ", chunk=chunk, run_id=run_id)
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return {"token_us": cost, "token_bytes": kept / count}


def tap() -> dict[str, float]:
    """Microseconds that the tap adds to a request and to a read, inside a model call and outside; the network is stubbed."""
    import httpx

    from agenttrace import AgentTraceHandler
    from agenttrace.transport.httpx_tap import tap_httpx, untap_httpx

    class Body(httpx.SyncByteStream):
        def __init__(self, reads: int) -> None:
            self.reads = reads

        def __iter__(self) -> Any:
            for _ in range(self.reads):
                yield b'{"a": 1}'

    def original(self: Any, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Body(request.extensions["reads"]))

    httpx.HTTPTransport.handle_request = original  # type: ignore[method-assign]
    handler, client = AgentTraceHandler(), httpx.Client()

    def sender(client: httpx.Client, reads: int) -> Callable[[], None]:
        request = client.build_request("POST", "http://stub/v1/chat/completions", json={"model": "m"})
        request.extensions["reads"] = reads
        return lambda: client.send(request).close()

    def paired(reads: int, inside: bool) -> float:
        send = sender(client, reads)
        work = _inside_a_call(handler, send) if inside else send
        samples = []
        for _ in range(BLOCKS):
            untap_httpx(httpx)
            bare = _per_call(work)
            tap_httpx(httpx)
            samples.append(_per_call(work) - bare)
        return statistics.median(samples)

    few, many = paired(1, True), paired(201, True)
    return {"request_us": few, "read_us": (many - few) / 200, "outside_us": paired(1, False)}


def _inside_a_call(handler: Any, send: Callable[[], None]) -> Callable[[], None]:
    """Requests of one model call that is open all the while: what its callbacks cost is another figure."""
    from agenttrace.steps import current_model_call

    call = uuid4()  # held below: a call whose id is gone has ended
    handler.on_chat_model_start({}, [[]], run_id=call)
    step = current_model_call.get()
    assert step is not None

    def work() -> None:
        assert call is not None
        step.attempts = None  # as if each request were the call's first
        send()

    return work


def _per_call(work: Callable[[], None], times: int = 100) -> float:
    started = time.thread_time_ns()
    for _ in range(times):
        work()
    return (time.thread_time_ns() - started) / times / 1e3


def measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as store:
        os.environ["AGENTTRACE_STORE"] = store
        return tokens() | tap()
