"""The screen at the end of a recorded program."""

from __future__ import annotations

from rich.console import Console

from agenttrace.cli.summary import summary_of
from agenttrace.records import ErrorRecord, Marks, PhaseTiming, RunRecord, SettingValue, SpanRecord, Usage
from tests.builders import NOON, SECOND, a_model_call, a_run, a_span

MS = 10**6


def shown(spans: list[SpanRecord], runs: list[RunRecord] | None = None) -> str:
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(summary_of(runs or [a_run()], spans, None))
    return captured.get()


def an_agent(calls: int = 6, **fields: object) -> list[SpanRecord]:
    """Model calls of 2 s, of which 1.2 s in the queue, one after the other; then a tool of 1 s."""
    phases = tuple(
        PhaseTiming(name=name, ns=ms * MS, source="server-reported") for name, ms in (("queue", 1_200), ("decode", 800))
    )
    spans = [a_span(1, name="agent", kind="agent", end_ns=NOON + (2 * calls + 1) * SECOND)]
    for number in range(calls):
        start = NOON + 2 * number * SECOND
        spans.append(a_model_call(number + 2, **{
            "start_ns": start, "end_ns": start + 2 * SECOND, "phases": phases,
            "marks": Marks(first_content_ns=(1_300 + number) * MS),
            "settings": {"model.served": SettingValue(value="gpt-4o-2024-08-06", voice="served", source="response"),
                         "provider": SettingValue(value="openai", voice="requested", source="metadata")},
            "usage": Usage(input=1_000, output=100, cached=0),
            **fields,
        }))  # fmt: skip
    start = NOON + 2 * calls * SECOND
    return [
        *spans,
        a_span(99, kind="tool", name="search", parent_id=f"{1:016x}", start_ns=start, end_ns=start + SECOND),
    ]


def test_it_says_in_ten_lines_what_the_time_hangs_on() -> None:
    """Path, what half of it saves, times, phases, first tokens, the slowest call, tokens with their cost, advice, a command."""
    lines = [line.rstrip() for line in shown(an_agent()).splitlines()]
    text = "\n".join(lines)
    assert "hangs on      model: queue 7.2 s (55 %), model: decode 4.8 s (37 %), tool:" in text
    assert "half of       model: queue would save 3.6 s" in text
    assert "took          6 model calls 12.0 s, 1 tool call 1.0 s, own code, framework 0 s" in text
    assert "phases        queue 60 %, decode 40 %" in text
    assert "first token   1.3 to 1.31 s" in text
    assert "6,000 in, 0 cached, 600 out; $0.021" in text
    assert "queue took 20 % or more of 6 of 6 calls" in text
    assert lines[-1].endswith(f"agenttrace show {'a' * 32} --why")
    assert len(lines) <= 13  # ten, and what runs over at 80 columns


def test_what_is_unknown_is_said_and_gives_no_advice() -> None:
    """Phases without numbers are named; no rule fires on them; nothing costs nothing for want of a price."""
    unknown = (PhaseTiming(name="queue", ns=None), PhaseTiming(name="decode", ns=None))
    text = shown(an_agent(phases=unknown, usage=Usage(), settings={}, marks=Marks()))
    assert "unknown: queue, decode" in text
    assert "advice" not in text
    assert "$" not in text
    assert "first token" not in text
    assert "model: not divided" in text


def test_failures_are_named_and_counted() -> None:
    """Two failed steps are named, with where; the rest is counted."""
    failed = {"state": "error", "error": ErrorRecord(type="ValueError", message="no such door"), "call_site": "planner"}
    text = shown(an_agent(5, **failed))
    assert " ".join(text.split()).count("ValueError: no such door") == 2
    assert "and 3 steps more" in text


def test_a_run_without_steps_says_so() -> None:
    """Nothing recorded is one sentence; a run without model calls has no word of them."""
    assert "No step was recorded." in shown([])
    text = shown([a_span(1)])
    assert "own code, framework 1.0 s" in text
    assert "--why" not in text
