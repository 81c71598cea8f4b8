"""How long `agenttrace compare` takes over scored runs of 10,000 cases with five repetitions, and how much memory it needs.

    python -m benchmarks.compare_scores [--cases 10000] [--repetitions 5] [--json]

Two scores (one of 0 or 1), latency and tokens an attempt, as one would import them. Process start is counted. Ends with exit
code 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from agenttrace.export.scored import import_scored
from benchmarks.compare_runs import ROUNDS, measure

TARGET_S = 5.0
TARGET_MB = 1000.0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--cases", type=int, default=10_000)
    arguments.add_argument("--repetitions", type=int, default=5)
    arguments.add_argument("--json", action="store_true", dest="as_json")
    arguments.add_argument("--build", metavar="FOLDER", help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    if asked.build:
        build(Path(asked.build), asked.cases, asked.repetitions)
        return 0
    with tempfile.TemporaryDirectory(prefix="agenttrace-benchmark-") as folder:
        sizes = ["--cases", str(asked.cases), "--repetitions", str(asked.repetitions)]
        # In a process of its own: on Linux a child's peak counts what its parent held when it was forked.
        subprocess.run([sys.executable, "-m", "benchmarks.compare_scores", *sizes, "--build", folder], check=True)
        command = [
            sys.executable,
            "-m",
            "agenttrace",
            "compare",
            "baseline",
            "candidate",
            "--store",
            str(Path(folder) / "store"),
        ]
        seconds, megabytes = measure(command, expected_exit=0)
    is_met = seconds < TARGET_S and megabytes < TARGET_MB
    told = {
        "cases": asked.cases,
        "repetitions": asked.repetitions,
        "seconds": round(seconds, 2),
        "peak_mb": round(megabytes),
        "target_s": TARGET_S,
        "target_mb": TARGET_MB,
        "load_average": round(os.getloadavg()[0], 2),
        "met": is_met,
    }
    if asked.as_json:
        print(json.dumps(told))
    else:
        print(
            f"compare, two runs of {asked.cases:,} cases × {asked.repetitions} (median of {ROUNDS}, process start included)"
        )
        print(f"  {seconds:6.2f} s  {megabytes:6.0f} MB   load average {told['load_average']}")
        print(f"< {TARGET_S:6.2f} s  {TARGET_MB:6.0f} MB   {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


def build(folder: Path, cases: int, repetitions: int) -> None:
    """Two runs that differ by chance only, imported."""
    rng = random.Random(1)
    for run in ("baseline", "candidate"):
        file = folder / f"{run}.jsonl"
        with open(file, "w") as lines:
            for case in range(cases):
                chance = rng.betavariate(2, 1)
                for _ in range(repetitions):
                    result = {
                        "case": f"case-{case:05}",
                        "scores": {"correct": int(rng.random() < chance), "judge": round(rng.random(), 2)},
                        "metrics": {"latency_s": rng.lognormvariate(0, 0.4), "output_tokens": rng.randint(1, 90)},
                    }
                    lines.write(json.dumps(result) + "\n")
        import_scored(folder / "store", file, run)


if __name__ == "__main__":
    sys.exit(main())
