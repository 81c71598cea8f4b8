"""What exporting costs. The exporter alone: spans a second and memory, beside OpenTelemetry's own, to a sink and, where
$AGENTTRACE_PHOENIX_PYTHON names one, to the real Phoenix. And how long an agent's invocation takes with an endpoint that is
black-holed or willing, beside none. Run: python -m benchmarks.exporting
"""

from __future__ import annotations

import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from subprocess import DEVNULL, PIPE

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from agenttrace import AgentTraceHandler
from agenttrace.export.otlp import send_spans
from agenttrace.export.phoenix import PYTHON, free_port, running_phoenix, serve_phoenix
from agenttrace.export.phoenix_traces import StoredTrace, show_traces
from agenttrace.records import PhaseTiming, SettingValue, SpanRecord, Usage
from agenttrace.spans.otel import readable_spans
from agenttrace.steps import JSON

STEPS = 10_000
PHOENIX_STEPS = 600
"""It keeps some hundred spans a second."""

BATCH = 500

PAUSE_S = 0.005
"""Between invocations, as if a model were waited for: an agent that never waits measures who gets the interpreter's lock."""

WARM_UP = 500
"""Invocations until the first steps have been sent, and all is loaded that sending needs."""

INVOCATIONS = 1_500
ROUNDS = 5

SINK = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *_): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@contextmanager
def sink() -> Iterator[str]:
    """An endpoint in a process of its own that reads everything and keeps nothing."""
    process = subprocess.Popen([sys.executable, "-c", SINK], stdout=PIPE, stderr=DEVNULL, text=True)
    assert process.stdout
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.communicate()


@contextmanager
def black_hole() -> Iterator[str]:
    """An endpoint that takes connections and whatever comes over them, and never says anything."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def steps(count: int) -> Iterator[SpanRecord]:
    """Traces of an agent with four model calls over a conversation that grows, with phases, messages and cost."""
    phases = tuple(
        PhaseTiming(name=name, ns=200_000_000, source="server-reported", definition="as the server says")
        for name in ("client_prep", "queue", "prefill", "decode")
    )
    settings = {
        "provider": SettingValue(value="openai", voice="requested", source="metadata"),
        "model.served": SettingValue(value="gpt-4o-mini", voice="served", source="response"),
    }
    start = time.time_ns()
    for number in range(count):
        trace, place = divmod(number, 5)
        messages: list[JSON] = [{"role": "user", "content": f"{turn} " + "word " * 80} for turn in range(place * 2)]
        yield SpanRecord(
            trace_id=f"{start + trace:032x}", span_id=f"{start + number:016x}",
            parent_id=f"{start + trace * 5:016x}" if place else None, run_id="run", kind="model" if place else "agent",
            name="ChatModel" if place else "agent", state="ok", start_ns=start, end_ns=start + 10**9, input=messages,
            output={"role": "assistant", "content": "word " * 40}, settings=settings if place else {},
            usage=Usage(input=400, output=40, total=440) if place else None, phases=phases if place else (),
        )  # fmt: skip


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def ours(address: str, count: int, note: Callable[[int], None]) -> int:
    return send_spans(steps(count), address, progress=note).spans


def opentelemetrys(address: str, count: int, note: Callable[[int], None]) -> int:
    """The same spans, made in the same way, through OpenTelemetry's own exporter."""
    exporter = OTLPSpanExporter(endpoint=f"{address}/v1/traces", compression=Compression.Gzip)
    batch: list[ReadableSpan] = []
    spans = 0
    for number, record in enumerate(steps(count), 1):
        batch += readable_spans(record, Resource({}))
        if len(batch) >= BATCH or number == count:
            exporter.export(batch)
            spans, batch = spans + len(batch), []
            note(number)
    return spans


def to_phoenix(address: str, count: int, note: Callable[[int], None]) -> int:
    """Until Phoenix says that it has them."""
    grouped = groupby(steps(count), key=lambda record: record.trace_id)
    traces = (StoredTrace(trace_id=trace_id, project="bench", spans=tuple(spans)) for trace_id, spans in grouped)
    return show_traces(running_phoenix(address), traces, progress=note).spans


WAYS: dict[str, Callable[[str, int, Callable[[int], None]], int]] = {
    "agenttrace": ours, "OpenTelemetry's": opentelemetrys, "to Phoenix": to_phoenix
}  # fmt: skip


def send(way: str, address: str, count: int) -> None:
    """In a process of its own: send, and print spans, seconds, and memory before, after a tenth, and at the end."""
    list(readable_spans(list(steps(2))[1], Resource({})))  # what is loaded on first use
    early: list[float] = []

    def note(done: int) -> None:
        if not early and done >= count // 10:
            early.append(peak_mb())

    before, begun = peak_mb(), time.perf_counter()
    spans = WAYS[way](address, count, note)
    print(json.dumps([spans, time.perf_counter() - begun, before, early[0], peak_mb()]))


def in_own_process(*arguments: object) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.exporting", *map(str, arguments)]
    found: list[float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def measure_exporters() -> None:
    print(f"{'exporter alone':<18} {'spans/s':>8} {'MB before':>10} {'at a tenth':>11} {'at the end':>11}")
    with ExitStack() as stack:
        address = stack.enter_context(sink())
        places = [("agenttrace", address, STEPS), ("OpenTelemetry's", address, STEPS)]
        if os.environ.get(PYTHON):
            phoenix = stack.enter_context(serve_phoenix(Path(tempfile.mkdtemp()), port=free_port(0)))
            places.append(("to Phoenix", phoenix.address, PHOENIX_STEPS))
        for way, place, count in places:
            runs = [in_own_process("send", way, place, count) for _ in range(1 if way == "to Phoenix" else 3)]
            spans, seconds, *memory = sorted(runs, key=lambda run: run[1])[len(runs) // 2]
            print(
                f"{way:<18} {spans / seconds:8,.0f} {memory[0]:10.1f} {memory[1]:11.1f} {memory[2]:11.1f}", flush=True
            )


def measure_agent() -> None:
    with sink() as willing, black_hole() as silent:
        endpoints = {"none": "none", "willing": willing, "black-holed": silent}
        found: dict[str, list[list[float]]] = {name: [] for name in endpoints}
        for _ in range(ROUNDS):
            for name, endpoint in endpoints.items():  # in turns, so that what else the machine does meets all alike
                found[name].append(in_own_process("agent", endpoint))
    print(
        f"\n{'endpoint':<18} {'p50 µs':>8} {'p99 µs':>8} {'p50 ratio':>10} {'p99 ratio':>10}  (least to most of {ROUNDS})"
    )
    for name, rounds in found.items():
        p50, p99 = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratios = [
            sorted(one[place] / bare[place] for one, bare in zip(rounds, found["none"], strict=True))
            for place in (0, 1)
        ]
        middle = [statistics.median(column) for column in ratios]
        spread = f"({ratios[1][0]:.2f} to {ratios[1][-1]:.2f})"
        print(f"{name:<18} {p50:8.0f} {p99:8.0f} {middle[0]:10.2f} {middle[1]:10.2f}  {spread}")


def agent(endpoint: str) -> None:
    """In a process of its own: a chain of two steps, again and again; print the median and the 99th percentile."""
    chain = ChatPromptTemplate.from_template("{x}") | FakeListChatModel(responses=["ok"])
    handler = AgentTraceHandler(store=tempfile.mkdtemp(), export=None if endpoint == "none" else endpoint)
    times = []
    for _ in range(WARM_UP + INVOCATIONS):
        begun = time.perf_counter_ns()
        chain.invoke({"x": "hi"}, config={"callbacks": [handler]})
        times.append((time.perf_counter_ns() - begun) / 1e3)
        time.sleep(PAUSE_S)
    times = sorted(times[WARM_UP:])
    print(json.dumps([times[INVOCATIONS // 2], times[INVOCATIONS * 99 // 100]]))


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    match sys.argv[1:]:
        case ["send", way, address, count]:
            send(way, address, int(count))
        case ["agent", endpoint]:
            agent(endpoint)
        case _:
            measure_exporters()
            measure_agent()


if __name__ == "__main__":
    main()
