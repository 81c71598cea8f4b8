"""How fast the store takes records in, how fast it answers, and how that grows.

    python -m benchmarks.store [SPANS …]

Each size fills a store of its own through the journal and is removed afterwards: 20 spans a trace, half of them model calls
with phases, settings and a conversation that grows, 500 traces a run. Times are those of whole answers, opening and closing
the store included. By default 50,000 and 500,000 spans; 5,000,000 take about 10 GB of disk while they are merged.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agenttrace.records import Marks, PhaseTiming, RunRecord, SettingValue, SpanRecord, Usage
from agenttrace.steps import JSON
from agenttrace.store.content import ContentWriter
from agenttrace.store.database import locked_database
from agenttrace.store.importing import write_segment
from agenttrace.store.layout import Layout
from agenttrace.store.merge import merge
from agenttrace.store.reading import open_store
from agenttrace.store.rows import Row, run_row, span_row

SPANS_A_TRACE = 20
TRACES_A_RUN = 500
SPANS_AT_ONCE = 100_000
NOON = 1_764_590_400 * 10**9
MS = 10**6
WORDS = "the agent looked up an order and found that its delivery had been delayed by weather near the depot".split()

PHASES_BY_MODEL = """
SELECT model, phase, quantile_cont(seconds, [0.5, 0.9, 0.99]) FROM phase_seconds GROUP BY ALL
"""
TWO_RUNS = """
WITH numbered AS (
    SELECT run_id, name, end_ns - start_ns AS ns, row_number() OVER (PARTITION BY run_id, name ORDER BY start_ns) AS n
    FROM spans WHERE run_id IN ('run0', 'run1')
)
SELECT name, count(*), median(b.ns - a.ns)
FROM numbered AS a JOIN numbered AS b USING (name, n) WHERE a.run_id = 'run0' AND b.run_id = 'run1' GROUP BY name
"""


def text(source: random.Random, words: int) -> str:
    return " ".join(source.choices(WORDS, k=words)) + f" {source.random()}"


def trace(number: int, source: random.Random) -> Iterator[SpanRecord]:
    trace_id, run_id = f"{number:032x}", f"run{number // TRACES_A_RUN}"
    began = NOON + number * 1000 * MS
    chat: list[dict[str, str]] = [{"role": "system", "content": text(random.Random(1), 200)}]
    for step in range(SPANS_A_TRACE):
        base: dict[str, Any] = {
            "trace_id": trace_id, "span_id": f"{number * SPANS_A_TRACE + step:016x}", "run_id": run_id, "state": "ok",
            "parent_id": None if step == 0 else f"{number * SPANS_A_TRACE:016x}", "metadata": {"thread_id": f"t{number}"},
            "start_ns": began + step * 40 * MS, "end_ns": began + (800 if step == 0 else step * 40 + 35) * MS,
        }  # fmt: skip
        if step == 0:
            yield SpanRecord(**base, kind="agent", name="agent", input=text(source, 20), output=text(source, 40))
        elif step % 2:
            chat.append({"role": "user", "content": text(source, 60)})
            answer = {"role": "assistant", "content": text(source, 40)}
            yield SpanRecord(**base, kind="model", name="ChatModel", call_site="agent.py:10", input=list(chat),
                             output=answer, usage=Usage(input=100 * step, output=50, total=100 * step + 50),
                             marks=Marks(first_byte_ns=5 * MS, first_content_ns=source.randrange(5 * MS, 20 * MS)),
                             settings=settings(number), phases=phases(source))  # fmt: skip
            chat.append(answer)
        else:
            yield SpanRecord(**base, kind="tool", name=f"tool{step % 5}", input={"query": text(source, 8)},
                             output=text(source, 100))  # fmt: skip


def settings(number: int) -> dict[str, SettingValue]:
    values: dict[str, JSON] = {
        "model.served": f"model-{number % 5}",
        "sampling.temperature": 0.2,
        "sampling.max_tokens": 1024,
    }
    return {name: SettingValue(value=value, voice="requested", source="body") for name, value in values.items()}


def phases(source: random.Random) -> tuple[PhaseTiming, ...]:
    names = ("client_prep", "queue", "prefill", "decode", "delivery")
    return tuple(
        PhaseTiming(name=name, ns=source.randrange(20 * MS), source="server-reported", method="usage") for name in names
    )


def fill(folder: Path, spans: int) -> tuple[float, float]:
    """Seconds to write the journal, and to merge it; in parts, so that the journal never holds all."""
    layout = Layout(folder)
    layout.create()
    written = merged = 0.0
    source = random.Random(7)
    for first in range(0, spans, SPANS_AT_ONCE):
        rows: list[Row] = []
        content = ContentWriter(rows.append)
        begin = time.perf_counter()
        for number in range(first // SPANS_A_TRACE, min(spans, first + SPANS_AT_ONCE) // SPANS_A_TRACE):
            if number % TRACES_A_RUN == 0:
                rows.append(run_row(RunRecord(run_id=f"run{number // TRACES_A_RUN}", name="bench", start_ns=NOON)))
            rows.extend(span_row(span, content) for span in trace(number, source))
        write_segment(layout, rows)
        written += time.perf_counter() - begin
        begin = time.perf_counter()
        with locked_database(layout) as connection:
            merge(layout, connection)
        merged += time.perf_counter() - begin
    return written, merged


def ask(folder: Path, query: str) -> None:
    with open_store(folder).connection() as connection:
        connection.execute(query).fetchall()


def fastest(question: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        question()
        times.append(time.perf_counter() - begin)
    return min(times)


def measure(folder: Path, spans: int) -> dict[str, str]:
    written, merged = fill(folder, spans)
    opened = open_store(folder)
    middle = f"{spans // SPANS_A_TRACE // 2:032x}"
    return {
        "built and written to the journal, spans/s": f"{spans / written:,.0f}",
        "merged, spans/s": f"{spans / merged:,.0f}",
        "bytes a span": f"{Layout(folder).database_bytes() / spans:,.0f}",
        "list 30, s": f"{fastest(lambda: opened.traces(30)):.3f}",
        "one trace, s": f"{fastest(lambda: opened.trace(middle)):.3f}",
        "phase quantiles by model, s": f"{fastest(lambda: ask(folder, PHASES_BY_MODEL)):.3f}",
        "two runs joined, s": f"{fastest(lambda: ask(folder, TWO_RUNS)):.3f}",
    }


def main() -> None:
    sizes = [int(size.replace(",", "").replace("_", "")) for size in sys.argv[1:]] or [50_000, 500_000]
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{size:,} spans", flush=True)
            for name, value in measure(Path(folder) / "store", size).items():
                print(f"  {name:<44}{value:>12}", flush=True)


if __name__ == "__main__":
    main()
