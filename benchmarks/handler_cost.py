"""What tracing adds to an agent: agenttrace beside other tracers, on the same work, in one run; and its targets.

    python -m benchmarks.handler_cost [--rounds N] [--peers PYTHON] [--json]

Each figure of an agent is the difference to the same agent untraced in the same round; tracers alternate (A B A B …), each in a
process of its own, and the median over rounds counts. CPU is that of all threads. The others record the same messages, tools
and outputs and export to nothing, while agenttrace writes its journal; what a tracer did not record is said, and it then
sets no target. The others live in an environment of their own: `make peers`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import hot_paths
from benchmarks.tracers import OURS, PEERS

ROOT = Path(__file__).parents[1]
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
TURNS = {"small": 2, "long": 160, "longer": 320}
TITLES = {
    "small": "small agent, 2 tool calls",
    "long": "160 turns, 2 KB tool results",
    "longer": "320 turns, 2 KB tool results",
}
Results = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What was promised, and what was seen; `seen` is None where it could not be measured."""

    what: str
    at_most: float
    seen: float | None

    @property
    def verdict(self) -> str:
        return "not measured" if self.seen is None else "met" if self.seen <= self.at_most else "MISSED"


def run(python: str, tracer: str, turns: int) -> dict[str, Any] | None:
    """One measurement in a process of its own; None, and a line on stderr, if the tracer cannot run there."""
    with tempfile.TemporaryDirectory() as store:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "AGENTTRACE_STORE": store, "LANGSMITH_TRACING": "false"}
        repetitions = 60 if turns == TURNS["small"] else 1
        command = [python, "-m", "benchmarks.tracers", tracer, str(turns), str(repetitions)]
        result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    try:
        return dict(json.loads(result.stdout.splitlines()[-1]))
    except (IndexError, json.JSONDecodeError):
        print(f"{tracer} could not run: {(result.stderr.splitlines() or ['no output'])[-1]}", file=sys.stderr)
        return None


def compare(python: str, tracers: Sequence[str], turns: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Per tracer the median of what it added to a run, in milliseconds, and what it recorded."""
    samples: dict[str, list[dict[str, Any]]] = {tracer: [] for tracer in tracers}
    for number in range(1, rounds + 1):
        found = {tracer: run(python, tracer, turns) for tracer in tracers}
        base = found["untraced"]
        for tracer, sample in found.items():
            if sample is not None and base is not None:
                added = {f"added_{key}": sample[key] - base[key] for key in ("cpu_ms", "wall_ms")}
                samples[tracer].append(sample | added)
        print(f"{turns} turns: round {number} of {rounds}", file=sys.stderr)
    keys = ("cpu_ms", "wall_ms", "added_cpu_ms", "added_wall_ms")
    return {
        tracer: taken[-1] | {key: statistics.median(sample[key] for sample in taken) for key in keys}
        for tracer, taken in samples.items()
        if taken
    }


def targets(results: Results, hot: dict[str, float]) -> list[Target]:
    def ratio(work: str, peer: str, key: str = "added_cpu_ms") -> float | None:
        theirs = results[work].get(peer)
        if theirs is None or theirs["missing"] or theirs[key] <= 0:
            return None
        return float(results[work]["agenttrace"][key] / theirs[key])

    long, longer = results["long"]["agenttrace"], results["longer"]["agenttrace"]
    long_ratios = [found for peer in PEERS if (found := ratio("long", peer)) is not None]
    allowed = 3 * long["content_bytes"] + 400 * long["spans"]
    return [
        Target(what="small agent, CPU: of OpenInference's", at_most=0.2, seen=ratio("small", "OpenInference")),
        Target(what="small agent, CPU: of Langfuse's", at_most=0.25, seen=ratio("small", "Langfuse")),
        Target(what="small agent, CPU: of genai-langchain's", at_most=1.0, seen=ratio("small", "genai-langchain")),
        Target(what="160 turns, CPU: of the best other's", at_most=0.1, seen=max(long_ratios, default=None)),
        Target(what="320 turns: times 160", at_most=2.4, seen=longer["added_cpu_ms"] / long["added_cpu_ms"]),
        Target(what="160 turns: journal, of what is allowed", at_most=1.0, seen=long["journal_bytes"] / allowed),
        Target(what="a streamed token, µs", at_most=3.0, seen=hot["token_us"]),
        Target(what="a streamed token, bytes kept (text of 5)", at_most=24.0, seen=hot["token_bytes"]),
        Target(what="the tap, µs a request", at_most=50.0, seen=hot["request_us"]),
        Target(what="the tap, µs a read", at_most=2.0, seen=hot["read_us"]),
        Target(what="the tap outside a step, µs a request", at_most=2.0, seen=hot["outside_us"]),
    ]


def tables(results: Results, goals: Sequence[Target]) -> list[Table]:
    drawn = []
    for work, tracers in results.items():
        table = Table(title=f"{TITLES[work]}: untraced {tracers['untraced']['cpu_ms']:.1f} ms CPU a run")
        for column in ("", "CPU added, ms", "wall added, ms", "agenttrace's CPU of it", "spans", "not recorded"):
            table.add_column(column, justify="left" if column in ("", "not recorded") else "right")
        ours = tracers["agenttrace"]["added_cpu_ms"]
        for tracer, found in tracers.items():
            if tracer == "untraced":
                continue
            cpu, wall = found["added_cpu_ms"], found["added_wall_ms"]
            share = f"{ours / cpu:.2f}" if tracer in PEERS and cpu > 0 else ""
            missing = ", ".join(found.get("missing", ()))
            table.add_row(tracer, f"{cpu:.2f}", f"{wall:.2f}", share, str(found.get("spans") or ""), missing)
        drawn.append(table)
    table = Table(title="targets")
    for column in ("", "at most", "seen", ""):
        table.add_column(column, justify="right" if column in ("at most", "seen") else "left")
    for goal in goals:
        seen = "" if goal.seen is None else f"{goal.seen:.2f}"
        table.add_row(goal.what, f"{goal.at_most:g}", seen, goal.verdict)
    return [*drawn, table]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peers", metavar="PYTHON", help="the Python that has the other tracers; .venv-peers's if made"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    peers = options.peers or (str(PEERS_PYTHON) if PEERS_PYTHON.exists() else None)
    if peers is None:
        print("No other tracers here: 'make peers' installs them. Measuring without.", file=sys.stderr)
    python, beside = peers or sys.executable, [*OURS, *(PEERS if peers else ())]
    results: Results = {
        work: compare(python, OURS if work == "longer" else beside, turns, options.rounds)
        for work, turns in TURNS.items()
    }
    goals = targets(results, hot_paths.measure())
    if options.json:
        print(json.dumps({"agents": results, "targets": [{**asdict(goal), "verdict": goal.verdict} for goal in goals]}))
        return
    console = Console()
    for table in tables(results, goals):
        console.print(table)


if __name__ == "__main__":
    main()
