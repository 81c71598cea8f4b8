"""How long the commands that explain time take over many spans, and how much memory they need.

    python -m benchmarks.insight [SPANS] [--keep FOLDER]
    python -m benchmarks.insight --browser

The store is filled by SQL: agents of ten steps, five of them model calls of five models at ten call sites, with phases,
marks and tokens. Process start is counted. Ends with exit code 1 when a target is missed. By default 500,000 spans;
5,000,000 are what the targets are for, and take half a GB of disk.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agenttrace.store.database import locked_database
from agenttrace.store.layout import Layout

TARGET_S = 2.0
TARGET_MB = 1000.0
ROUNDS = 3
SPANS_A_TRACE = 10
TRACES_A_RUN = 500
START = 1_764_590_400 * 10**9

FILL = f"""
SELECT setseed(0.5);
INSERT INTO runs BY NAME
SELECT 'run' || run AS run_id, 'bench' AS name, {START} + run * 1000000000000 AS start_ns,
    {START} + (run + 1) * 1000000000000 AS end_ns
FROM range($spans // {SPANS_A_TRACE * TRACES_A_RUN} + 1) AS runs(run);
INSERT INTO spans BY NAME
SELECT
    printf('%032x', number // {SPANS_A_TRACE}) AS trace_id,
    printf('%016x', number) AS span_id,
    CASE WHEN step > 0 THEN printf('%016x', number - step) END AS parent_id,
    'run' || (number // {SPANS_A_TRACE * TRACES_A_RUN}) AS run_id,
    CASE WHEN step = 0 THEN 'agent' WHEN step % 2 = 1 THEN 'model' ELSE 'tool' END AS kind,
    CASE WHEN step = 0 THEN 'agent' WHEN step % 2 = 1 THEN 'ChatModel' ELSE 'tool' || step END AS name,
    CASE WHEN random() < 0.005 THEN 'error' ELSE 'ok' END AS state,
    {START} + (number // {SPANS_A_TRACE}) * 2000000000 + step * 600000000 AS start_ns,
    {START} + (number // {SPANS_A_TRACE}) * 2000000000
        + CASE WHEN step = 0 THEN 6000000000 ELSE step * 600000000 + 200000000 + (random() * 380000000)::BIGINT END AS end_ns,
    CASE WHEN step % 2 = 1 THEN 'node' || (number // {SPANS_A_TRACE} % 2 * 5 + step // 2) END AS call_site,
    1 AS attempt,
    CASE WHEN step % 2 = 1 THEN 'model-' || (number // {SPANS_A_TRACE} % 5) END AS model_served,
    CASE WHEN step % 2 = 1 THEN 200 + (random() * 8000)::BIGINT END AS input_tokens,
    CASE WHEN step % 2 = 1 THEN 20 + (random() * 200)::BIGINT END AS output_tokens,
    CASE WHEN step % 2 = 1 THEN (random() * 200)::BIGINT END AS cached_tokens,
    CASE WHEN step % 2 = 1 THEN 50000000 + (random() * 80000000)::BIGINT END AS first_content_ns,
    CASE WHEN step % 2 = 1 THEN 50 END AS chunks
FROM (SELECT number, number % {SPANS_A_TRACE} AS step FROM range($spans) AS numbers(number));
INSERT INTO phases BY NAME
SELECT trace_id, span_id, phase AS name, (random() * 40000000)::BIGINT AS ns, 'server-reported' AS source, 'test' AS method
FROM spans CROSS JOIN (VALUES ('client_prep'), ('queue'), ('prefill'), ('decode'), ('delivery')) AS phases(phase)
WHERE kind = 'model';
CHECKPOINT;
"""

COMMANDS: dict[str, tuple[str, ...]] = {
    "phases": ("phases",),
    "phases --by call-site": ("phases", "--by", "call-site"),
    "phases --run": ("phases", "--run", "run1"),
    "phases --compare": ("phases", "--compare", "run1", "run2"),
    "show --why": ("show", f"{25_000:032x}", "--why"),
    "list --slow": ("list", "--slow"),
    "list --failed": ("list", "--failed"),
    "list --expensive": ("list", "--expensive"),
}


def fill(store: Path, spans: int) -> None:
    """A store of that many spans."""
    layout = Layout(store)
    layout.create()
    with locked_database(layout) as connection:
        for statement in FILL.split(";\n"):
            if statement.strip():
                connection.execute(statement, {"spans": spans} if "$spans" in statement else None)


def measure(command: list[str]) -> tuple[float, float]:
    """Median seconds and peak megabytes."""
    seconds, megabytes = [], []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds.append(time.perf_counter() - begin)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        # Kilobytes on Linux, bytes on macOS.
        megabytes.append(usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10))
    return sorted(seconds)[ROUNDS // 2], max(megabytes)


def open_in_browser(steps: int, folder: Path) -> float:
    """Median seconds until Chromium has loaded and drawn the page of a trace of so many steps."""
    from agenttrace.records import PhaseTiming, SpanRecord
    from agenttrace.report.trace_page import trace_page
    from tests.browser import open_page
    from tests.builders import NOON, SECOND, a_model_call, a_span

    spans: list[SpanRecord] = [a_span(1, end_ns=NOON + steps * SECOND)]
    phases = tuple(
        PhaseTiming(name=name, ns=SECOND // 5, source="server-reported") for name in ("queue", "prefill", "decode")
    )
    for number in range(2, steps + 1):
        start = NOON + number * SECOND
        make = a_model_call if number % 2 else a_span
        spans.append(
            make(number, parent_id=f"{1:016x}", start_ns=start, end_ns=start + SECOND, input="word " * 100, output="word " * 50,
                 phases=phases if number % 2 else ())
        )  # fmt: skip
    file = folder / "page.html"
    file.write_text(trace_page(None, spans))
    seconds = []
    with open_page() as page:
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            page.goto(file.as_uri())
            page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            seconds.append(time.perf_counter() - begin)
    return sorted(seconds)[ROUNDS // 2]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("spans", type=int, nargs="?", default=500_000)
    arguments.add_argument("--keep", metavar="FOLDER", help="use the store there, or fill one and keep it")
    arguments.add_argument("--browser", action="store_true", help="only open a trace of 10,000 steps in Chromium")
    arguments.add_argument("--fill", metavar="STORE", help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    if asked.fill:
        fill(Path(asked.fill), asked.spans)
        return 0
    if asked.browser:
        with tempfile.TemporaryDirectory(prefix="agenttrace-benchmark-") as folder:
            seconds = open_in_browser(10_000, Path(folder))
        print(f"a trace of 10,000 steps is open in Chromium after {seconds:.2f} s (target {TARGET_S:.0f} s)")
        return 0 if seconds < TARGET_S else 1
    with tempfile.TemporaryDirectory(prefix="agenttrace-benchmark-") as folder:
        store = Path(asked.keep or folder) / "store"
        if not store.exists():
            # In a process of its own: on Linux a child's peak counts what its parent held when it was forked.
            subprocess.run(
                [sys.executable, "-m", "benchmarks.insight", str(asked.spans), "--fill", str(store)], check=True
            )
        print(f"{asked.spans:,} spans (median of {ROUNDS}, process start included)")
        is_met = True
        for name, command in COMMANDS.items():
            seconds, megabytes = measure([sys.executable, "-m", "agenttrace", *command, "--store", str(store)])
            is_met &= seconds < TARGET_S and megabytes < TARGET_MB
            print(f"  {name:<28}{seconds:6.2f} s  {megabytes:6.0f} MB", flush=True)
        print(f"  {'target':<28}{TARGET_S:6.2f} s  {TARGET_MB:6.0f} MB   {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
