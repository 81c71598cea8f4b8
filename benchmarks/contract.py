"""How long a run of 100,000 model calls takes to become a contract, a history of its settings, and a bill.

    python benchmarks/contract.py [--calls 100000] [--json]

Each command as a user calls it: process start, reading and drawing are counted. Ends with exit code 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from agenttrace.store.importing import import_records
from benchmarks.compare_runs import a_run, measure, spans_of

TARGET_S = 5.0
TARGET_MB = 500.0

COMMANDS = {
    "contract": ["settings", "nightly"],
    "history": ["settings", "nightly", "--since", "2000-01-01"],
    "cost": ["cost", "nightly"],
}
"""All of them under the same target."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--calls", type=int, default=100_000, help="model calls in the run")
    arguments.add_argument("--json", action="store_true", dest="as_json")
    arguments.add_argument("--build", metavar="STORE", help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    if asked.build:
        import_records(Path(asked.build), [a_run(1, "nightly")], list(spans_of(1, asked.calls, 0.0)))
        return 0
    with tempfile.TemporaryDirectory(prefix="agenttrace-benchmark-") as folder:
        store = str(Path(folder) / "store")
        # In a process of its own: on Linux a child's peak counts what its parent held when it was forked.
        build = [sys.executable, "-m", "benchmarks.contract", "--calls", str(asked.calls), "--build", store]
        subprocess.run(build, check=True)
        start = [sys.executable, "-m", "agenttrace"]
        measured = {
            name: measure([*start, *command, "--store", store], expected_exit=0) for name, command in COMMANDS.items()
        }
    seconds, megabytes = (max(row[place] for row in measured.values()) for place in (0, 1))
    is_met = seconds < TARGET_S and megabytes < TARGET_MB
    if asked.as_json:
        rows = {name: {"s": round(row[0], 3), "peak_mb": round(row[1], 1)} for name, row in measured.items()}
        print(
            json.dumps(
                {"model_calls": asked.calls, **rows, "target_s": TARGET_S, "target_mb": TARGET_MB, "met": is_met}
            )
        )
    else:
        print(f"one run of {asked.calls:,} model calls (median of 3, process start included)")
        for name, row in measured.items():
            print(f"  {name:10}{row[0]:6.2f} s  {row[1]:6.0f} MB")
        print(f"  target  < {TARGET_S:6.2f} s  {TARGET_MB:6.0f} MB   {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    raise SystemExit(main())
