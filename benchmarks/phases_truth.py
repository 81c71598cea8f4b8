"""How close phases come to a model server that writes down what it really took: `python -m benchmarks.phases_truth [--json]`.

Loopback servers that report as llama.cpp, vLLM and Groq do, or not at all, asked through ChatOpenAI: sync and async, streamed
and not, one call at a time and eight at once. The aim is 2 ms + 1 % of the truth; the truth must be within the bounds always.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count, product
from typing import Any

from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from agenttrace import AgentTraceHandler, open_store
from agenttrace.recording import flush
from agenttrace.records import SpanRecord
from tests.model_server import serve
from tests.truth_server import Report, Truth, groq, llama_cpp, nothing, timed, vllm

CALLS = 16
AT_ONCE = 8
AIM_NS, AIM_SHARE = 2_000_000, 0.01

WHAT = {
    "time to first token": ("queue", "prefill"),
    "queue": ("queue",),
    "prefill": ("prefill",),
    "decode": ("decode",),
}


@dataclass
class Row:
    """What was seen of one quantity in one mode."""

    errors_ns: list[int] = field(default_factory=list)
    within_aim: int = 0
    within_bounds: int = 0
    calls: int = 0


def ask(report: Report, streaming: bool, asynchronous: bool, at_once: int) -> list[tuple[SpanRecord, Truth]]:
    """Calls with the truth of each."""
    truths: list[Truth] = []
    first = next(numbers)
    calls = [str(first + number) for number in range(CALLS)]
    handler = AgentTraceHandler()

    def settings(call: str) -> dict[str, Any]:
        return {"config": {"callbacks": [handler], "metadata": {"call": call}}, "user": call}

    async def ask_async(model: ChatOpenAI) -> None:
        gate = asyncio.Semaphore(at_once)

        async def one(call: str) -> None:
            async with gate:
                await model.ainvoke("x", **settings(call))

        await asyncio.gather(*map(one, calls))

    with serve(timed(truths, report)) as server:
        model = ChatOpenAI(
            base_url=server.url + "/v1", model="m", api_key=SecretStr("x"), stream_usage=True, streaming=streaming
        )
        if asynchronous:
            asyncio.run(ask_async(model))
        else:
            with ThreadPoolExecutor(at_once) as pool:
                list(pool.map(lambda call: model.invoke("x", **settings(call)), calls))
    flush()
    with open_store() as store:
        spans = {
            str(span.metadata.get("call")): span
            for trace in store.traces(CALLS)
            for span in store.trace(trace.trace_id)
        }
    return [(spans[truth.user], truth) for truth in truths]


numbers = count(0, 1_000)


def observed(span: SpanRecord) -> Iterator[tuple[str, int, int | None, int | None]]:
    """(what, nanoseconds, lower bound, upper bound) of all that has a number."""
    if span.marks and span.marks.first_token_ns is not None:
        sent = sum(phase.ns or 0 for phase in span.phases if phase.name in ("client_prep", "connect", "retry_backoff"))
        yield "time to first token", span.marks.first_token_ns - sent, None, None
    for phase in span.phases:
        if phase.name in ("queue", "prefill", "decode"):
            yield phase.name, -1 if phase.ns is None else phase.ns, phase.low_ns, phase.high_ns


def measure() -> dict[tuple[str, str, str], Row]:
    rows: dict[tuple[str, str, str], Row] = defaultdict(Row)
    for report, streaming, asynchronous, at_once in product(
        (nothing, llama_cpp, vllm, groq), (True, False), (False, True), (1, AT_ONCE)
    ):
        mode = f"{'stream' if streaming else 'whole'}, {'async' if asynchronous else 'sync'}, {at_once} at once"
        for span, truth in ask(report, streaming, asynchronous, at_once):
            add(rows, report.__name__, mode, span, truth)
    return rows


def add(rows: dict[tuple[str, str, str], Row], server: str, mode: str, span: SpanRecord, truth: Truth) -> None:
    total = sum(phase.ns for phase in span.phases if phase.ns is not None and phase.included_in is None)
    assert total == span.duration_ns, "the sum is exact"
    for what, ns, low, high in observed(span):
        real = sum(getattr(truth, name) for name in WHAT[what])
        # What a server reports does not depend on how it was asked: one line says it.
        row = rows[server, mode if server == "nothing" or what == "time to first token" else "all", what]
        row.calls += 1
        row.within_bounds += (low is None or low <= real + 1_000) and (high is None or real <= high + 1_000)
        if ns >= 0:
            row.errors_ns.append(ns - real)
            row.within_aim += abs(ns - real) <= AIM_NS + AIM_SHARE * real


def table(rows: dict[tuple[str, str, str], Row]) -> Iterator[str]:
    yield f"{'server says':12} {'mode':26} {'what':20} {'known':>6} {'median':>9} {'largest':>9} {'in aim':>7} {'in bounds':>9}"
    for (server, mode, what), row in sorted(rows.items()):
        known = len(row.errors_ns)
        middle = f"{statistics.median(row.errors_ns) / 1e6:.2f} ms" if known else "-"
        largest = f"{max(row.errors_ns, key=abs) / 1e6:.2f} ms" if known else "-"
        aim = f"{row.within_aim / known:.0%}" if known else "-"
        yield (
            f"{server:12} {mode:26} {what:20} {known / row.calls:>6.0%} {middle:>9} {largest:>9} {aim:>7}"
            f" {row.within_bounds / row.calls:>9.0%}"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true", help="print JSON")
    as_json: bool = options.parse_args().json
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AGENTTRACE_STORE"] = folder + "/store"
        rows = measure()
        flush()
    if as_json:
        found: list[dict[str, Any]] = [
            {"server": server, "mode": mode, "what": what, "calls": row.calls, "within_bounds": row.within_bounds,
             "within_aim": row.within_aim, "errors_s": [ns / 1e9 for ns in row.errors_ns]}
            for (server, mode, what), row in rows.items()
        ]  # fmt: skip
        print(json.dumps(found, indent=2))
        return
    for line in table(rows):
        print(line)
    known = sum(len(row.errors_ns) for row in rows.values())
    aimed = sum(row.within_aim for row in rows.values())
    calls, inside = sum(row.calls for row in rows.values()), sum(row.within_bounds for row in rows.values())
    print(f"\nwithin 2 ms + 1 %: {aimed:,} of {known:,}; the truth within the bounds: {inside:,} of {calls:,}")


if __name__ == "__main__":
    main()
