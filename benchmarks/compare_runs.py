"""How long `agenttrace compare` takes over two runs of 10,000 model calls each, and how much memory it needs.

    python benchmarks/compare_runs.py [--calls 10000] [--json]

The runs look like an agent's: three call sites, one with a prompt that is rendered with the input, six tools, messages,
phases. Process start is counted. Ends with exit code 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from agenttrace.records import Marks, PhaseTiming, RunRecord, SettingValue, SpanRecord, Usage
from agenttrace.settings.capture import PATHS
from agenttrace.steps import JSON
from agenttrace.store.importing import import_records

TARGET_S = 2.0
TARGET_MB = 300.0
CALLS_A_TRACE = 4
ROUNDS = 3

SECOND = 1_000_000_000
START = 1_764_590_400 * SECOND

TOOLS = ("search_notes", "read_page", "convert_units", "add_event", "find_person", "send_report")
SYSTEM = "You are an assistant that answers from the notes of a museum. Quote the note that an answer comes from. " * 12

PHASES = {"client_prep": 2, "connect": 0, "queue": 40, "prefill": 180, "decode": 700, "delivery": 12, "residual": 6}
"""Milliseconds."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--calls", type=int, default=10_000, help="model calls in each run")
    arguments.add_argument("--json", action="store_true", dest="as_json")
    arguments.add_argument("--build", metavar="STORE", help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    if asked.build:
        _build(Path(asked.build), asked.calls)
        return 0
    with tempfile.TemporaryDirectory(prefix="agenttrace-benchmark-") as folder:
        store = Path(folder) / "store"
        # In a process of its own: on Linux a child's peak counts what its parent held when it was forked.
        build = [sys.executable, __file__, "--calls", str(asked.calls), "--build", str(store)]
        subprocess.run(build, check=True)
        command = [sys.executable, "-m", "agenttrace", "compare", "baseline", "candidate", "--store", str(store)]
        refused = measure(command, expected_exit=11)
        allowed = measure([*command, "--changed", "sampling.temperature", "--json"], expected_exit=10)
    seconds, megabytes = max(refused[0], allowed[0]), max(refused[1], allowed[1])
    is_met = seconds < TARGET_S and megabytes < TARGET_MB
    result = {
        "model_calls_a_run": asked.calls,
        "refused_s": round(refused[0], 3),
        "allowed_s": round(allowed[0], 3),
        "peak_mb": round(megabytes, 1),
        "target_s": TARGET_S,
        "target_mb": TARGET_MB,
        "met": is_met,
    }
    if asked.as_json:
        print(json.dumps(result))
    else:
        print(f"compare, two runs of {asked.calls:,} model calls (median of {ROUNDS}, process start included)")
        print(f"  refused   {refused[0]:6.2f} s  {refused[1]:6.0f} MB")
        print(f"  allowed   {allowed[0]:6.2f} s  {allowed[1]:6.0f} MB")
        print(f"  target  < {TARGET_S:6.2f} s  {TARGET_MB:6.0f} MB   {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


def _build(store: Path, calls: int) -> None:
    for number, (name, temperature) in enumerate((("baseline", 0.0), ("candidate", 0.7)), 1):
        import_records(store, [a_run(number, name)], list(spans_of(number, calls, temperature)))


def measure(command: list[str], *, expected_exit: int) -> tuple[float, float]:
    """Median seconds and peak megabytes of the command."""
    seconds, megabytes = [], []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds.append(time.perf_counter() - begin)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != expected_exit:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}, expected {expected_exit}")
        # Kilobytes on Linux, bytes on macOS.
        megabytes.append(usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10))
    return sorted(seconds)[ROUNDS // 2], max(megabytes)


def a_run(number: int, name: str) -> RunRecord:
    start = START + number * 10**6 * SECOND
    return RunRecord(run_id=f"{number:016x}", name=name, start_ns=start, end_ns=start + 10**5 * SECOND)


def spans_of(number: int, calls: int, temperature: float) -> Iterator[SpanRecord]:
    """A run's spans: a root, its model calls and a tool call a trace."""
    for case in range(calls // CALLS_A_TRACE):
        trace_id = f"{number:08x}{case:024x}"
        start = START + number * 10**6 * SECOND + case * 8 * SECOND
        root = _span(trace_id, 0, None, "agent", "museum_agent", start, 7 * SECOND, number)
        yield _with(
            root, metadata={"case": f"case-{case:05}", "thread_id": trace_id}, input={"question": _question(case)}
        )
        for place in range(CALLS_A_TRACE):
            site = ("planner", "reader", "reader", "writer")[place]
            span = _span(
                trace_id, place + 1, root.span_id, "model", "ChatOpenAI", start + place * SECOND, SECOND, number
            )
            yield _with(
                span,
                call_site=site,
                settings=_settings(site, case, temperature),
                usage=Usage(input=900 + case % 50, output=60 + (case + place) % 40, total=960),
                marks=Marks(first_content_ns=SECOND // 4, last_content_ns=SECOND, chunks=60),
                phases=tuple(
                    PhaseTiming(name=name, ns=ms * 1_000_000, source="server-reported", method="openai.usage")
                    for name, ms in PHASES.items()
                ),
                input=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": _question(case) * 8}],
                output={"role": "assistant", "content": f"The note of room {case} says so. " * 10},
            )
        yield _span(trace_id, 9, root.span_id, "tool", "search_notes", start + 5 * SECOND, SECOND, number)


def _question(case: int) -> str:
    return f"Which painting hangs in room {case} of the east wing, and since when? "


def _span(
    trace_id: str, place: int, parent: str | None, kind: str, name: str, start: int, took: int, number: int
) -> SpanRecord:
    return SpanRecord(
        trace_id=trace_id,
        span_id=f"{int(trace_id[-8:], 16) * 16 + place + (number << 48):016x}",
        parent_id=parent,
        run_id=f"{number:016x}",
        kind=kind,  # type: ignore[arg-type]  # one of the literals above
        name=name,
        state="ok",
        start_ns=start,
        end_ns=start + took,
    )


def _with(span: SpanRecord, **fields: object) -> SpanRecord:
    return replace(span, **fields)  # type: ignore[arg-type]  # fields of a span


def _settings(site: str, case: int, temperature: float) -> Mapping[str, SettingValue]:
    sent: dict[str, JSON] = {
        "provider": "openai",
        "api": "openai.chat",
        "endpoint": "api.openai.com",
        "model.requested": "gpt-5-mini",
        "sampling.temperature": temperature,
        "limits.max_output_tokens": 512,
        "tools.names": sorted(TOOLS),
        "tools.order": list(TOOLS),
        "tools.descriptions": {name: f"{name}: {SYSTEM[:180]}" for name in TOOLS},
        "tools.parameters": {name: _schema(name) for name in TOOLS},
        "delivery.streamed": True,
        "prompt.content": SYSTEM if site != "writer" else f"{SYSTEM} The question was: {_question(case)}",
    }
    names = (*sent, *(name for name in PATHS if name not in sent), "output.format", "output.schema")
    settings = {name: SettingValue(value=sent.get(name), voice="sent", source="wire") for name in names}
    settings["model.served"] = SettingValue(value="gpt-5-mini-2026-08-07", voice="served", source="wire")
    return settings


def _schema(name: str) -> JSON:
    properties: dict[str, JSON] = {
        f"{name}_{part}": {"type": "string", "description": f"The {part} that {name} is asked for, in plain words."}
        for part in ("query", "room", "wing", "since", "until")
    }
    return {"type": "object", "properties": properties, "required": [f"{name}_query"]}


if __name__ == "__main__":
    sys.exit(main())
