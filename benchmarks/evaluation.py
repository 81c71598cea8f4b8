"""What the runner and the tracer add to a suite: 1,000 cases × 3 repetitions of a task that takes 50 ms, 64 at a time.

    python -m benchmarks.evaluation

Prints the time beside that of the same tasks without runner, tracer or LangChain, measured in turn in one process, and how much
memory a run of three times the cases takes beside one of a third. Aim: under 15 % added, memory flat.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from agenttrace import Case, Suite
from agenttrace.evaluation.evaluators import Exact

SECONDS, CASES, REPETITIONS, CONCURRENCY, ROUNDS = 0.05, 1_000, 3, 64, 3


async def task(given: int) -> int:
    await asyncio.sleep(SECONDS)
    return given


async def _bare(count: int) -> None:
    pending = iter(range(count))

    async def worker() -> None:
        for given in pending:
            await task(given)

    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))


def _suite(cases: int) -> Suite:
    return Suite(
        name="benchmark",
        cases=[Case(id=f"c{number}", input=number, expected=number) for number in range(cases)],
        task=task,
        evaluators=[Exact()],
        repetitions=REPETITIONS,
        concurrency=CONCURRENCY,
    )


def _seconds(folder: Path, name: str, cases: int) -> float:
    suite = _suite(cases)
    began = time.perf_counter()
    suite.run(name, store=folder)
    return time.perf_counter() - began


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        _seconds(store, "warm-up", 20)
        fixed = median(_seconds(store, f"fixed-{number}", 1) for number in range(3)) - SECONDS
        added = []
        for number in range(ROUNDS):
            began = time.perf_counter()
            asyncio.run(_bare(CASES * REPETITIONS))
            bare = time.perf_counter() - began
            took = _seconds(store, f"run-{number}", CASES)
            added.append(took / bare - 1)
            print(
                f"bare {bare:.2f} s, suite {took:.2f} s: {added[-1]:+.1%} ({fixed:.2f} s of it to begin and end a run)"
            )
        before = _megabytes()
        _seconds(store, "long", 3 * CASES)
        print(
            f"added, median: {median(added):+.1%}; peak memory {before:.0f} MB, after three times the cases {_megabytes():.0f} MB"
        )


if __name__ == "__main__":
    main()
