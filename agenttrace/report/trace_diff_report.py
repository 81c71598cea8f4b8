"""Draws two traces side by side: where they part first, which settings differ, phase by phase and step by step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.text import Text

from agenttrace.comparison.trace_diff import Difference, PhasePair, StepPair, TraceDiff
from agenttrace.phases.summary import PhaseTotal, latest_ns
from agenttrace.records import SpanRecord
from agenttrace.report.drawing import Column, step_name, table
from agenttrace.report.escaping import visible, visible_lines
from agenttrace.report.numbers import NOTHING, duration, quantity
from agenttrace.report.setting_text import short_lines, spell
from agenttrace.report.settings_report import SHORT_ID, at_sites, indented
from agenttrace.steps import JSON

SHOWN_DIFFERENCES = 5
SHOWN_LINES = 16
"""Of one difference; all of it is in --json."""

SHOWN_STEPS = 60
MAX_DEPTH = 12
"""Steps further inside are drawn as far in as this."""

Marks: TypeAlias = Mapping[int, Sequence[str]]
"""By the identity of a pair, what differs there."""

COMPARED = 20_000
"""Characters of each text that are laid beside the other's."""


def draw_trace_diff(
    diff: TraceDiff, before: Sequence[SpanRecord], after: Sequence[SpanRecord], *, width: int, show_all: bool = False
) -> RenderableType:
    """One screen; `show_all` draws every difference and every step."""
    return Group(
        _heading("baseline ", before),
        _heading("candidate", after),
        Text(""),
        *_parting(diff, show_all),
        *_settings(diff),
        *_phases(diff),
        *_steps(diff, width, show_all),
    )


def _heading(side: str, spans: Sequence[SpanRecord]) -> Text:
    took = duration(latest_ns(spans) - spans[0].start_ns)
    text = Text(f"{side} trace ", style="dim").append(spans[0].trace_id[:SHORT_ID], style="bold")
    return text.append(f" {visible(spans[0].name, limit=60)}: {quantity(len(spans), 'step')}, {took}")


def _parting(diff: TraceDiff, show_all: bool) -> Iterator[RenderableType]:
    if not diff.differences:
        yield Text("Both were given the same and gave the same, at every step that is recorded.")
        return
    shown = diff.differences if show_all else diff.differences[:SHOWN_DIFFERENCES]
    for place, difference in enumerate(shown):
        yield (
            Text("They part first in the " if place == 0 else "then in the ")
            .append(difference_name(difference), style="bold")
            .append(f", {duration(difference.offset_ns)} after the start" if place == 0 else "")
        )
        yield from _diff_lines(difference, whole=show_all)
    if len(shown) < len(diff.differences):
        yield Text(f"and {quantity(len(diff.differences) - len(shown), 'difference')} more: --all", style="dim")


def difference_name(difference: Difference) -> str:
    """What differs and where, on one line: `prompt of ChatOpenAI (model) at planner`."""
    step = difference.pair.step
    site = f" at {visible(step.call_site, limit=60)}" if step.call_site else ""
    what = f"settings, {visible(difference.dimension, limit=60)}" if difference.dimension else difference.part
    return f"{what} of {visible(step.name, limit=60)}{site}"


def _diff_lines(difference: Difference, *, whole: bool) -> Iterator[RenderableType]:
    if difference.part == "steps":
        side = "candidate" if difference.before is None else "baseline"
        yield indented(f"only the {side} has this step")
        return
    if difference.part == "settings":
        yield indented(f"{spell(difference.before)} → {spell(difference.after)}")
        return
    lines = diff_lines(difference.before, difference.after)
    for line in lines if whole else lines[:SHOWN_LINES]:
        yield indented(line, style={"-": "red", "+": "green"}.get(line[:1], "dim"))
    if not whole and len(lines) > SHOWN_LINES:
        yield indented(f"and {quantity(len(lines) - SHOWN_LINES, 'line')} more: --all", style="dim")


def diff_lines(before: JSON, after: JSON) -> list[str]:
    """Two values as the lines of a text diff, without its head. Safe for a terminal."""
    sides = [visible_lines(_text(value)[:COMPARED]).splitlines() for value in (before, after)]
    return [
        line for line in unified_diff(sides[0], sides[1], n=1, lineterm="") if not line.startswith(("---", "+++", "@@"))
    ]


def _text(value: JSON) -> str:
    """Messages as their roles and texts, everything else as JSON over several lines."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_text(held) for held in value)
    if isinstance(value, dict) and "role" in value:
        content = value.get("content")
        said = [] if not content else [content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)]
        rest = {key: held for key, held in value.items() if key not in ("role", "content")}
        said += [json.dumps(rest, ensure_ascii=False)] if rest else []
        return f"{value['role']}: " + "\n".join(said)
    return json.dumps(value, ensure_ascii=False, indent=1)


def _settings(diff: TraceDiff) -> Iterator[RenderableType]:
    if not diff.settings:
        return
    yield Text("")
    yield Text("Settings that differ:", style="dim")
    for item in diff.settings:
        yield indented(f"{visible(item.dimension, limit=60)} {at_sites([item.call_site])}".rstrip())
        for line in short_lines(item):
            yield indented(f"  {line}")


def _phases(diff: TraceDiff) -> Iterator[RenderableType]:
    if not diff.phases:
        return
    columns = [
        Column(title="phase of all model calls"),
        *(Column(title=title, is_number=True) for title in ("baseline", "candidate", "difference")),
    ]
    yield Text("")
    yield table(columns, [phase_cells(phase) for phase in diff.phases])


def phase_cells(phase: PhasePair) -> list[str]:
    """A phase, its time in both traces, and by how much it differs."""
    return [visible(phase.name, limit=60), _total(phase.before), _total(phase.after), _delta(phase.before, phase.after)]


def _total(total: PhaseTotal | None) -> str:
    return "unknown" if total is None else duration(total.ns)


def _delta(before: PhaseTotal | None, after: PhaseTotal | None) -> str:
    return NOTHING if before is None or after is None else signed(after.ns - before.ns)


def signed(ns: int | None) -> str:
    """A difference of times with its sign."""
    if ns is None:
        return NOTHING
    return f"{'+' if ns >= 0 else '−'}{duration(abs(ns))}"


def _steps(diff: TraceDiff, width: int, show_all: bool) -> Iterator[RenderableType]:
    marks = marks_of(diff)
    shown = diff.pairs if show_all else _telling(diff.pairs, marks)
    columns = [
        Column(title="step", is_flexible=True),
        *(Column(title=title, is_number=True) for title in ("baseline", "candidate", "difference")),
        Column(title="differs", width=max(width // 4, 12)),
    ]
    rows: list[list[Text | str]] = [
        [step_name(pair.step, prefix="  " * min(pair.depth, MAX_DEPTH)), *step_times(pair), step_marks(pair, marks)]
        for pair in shown
    ]
    yield Text("")
    drawn = table(columns, rows)
    drawn.width = width
    yield drawn
    if len(shown) < len(diff.pairs):
        yield Text(f"{quantity(len(diff.pairs) - len(shown), 'step')} not shown: --all", style="dim")


def marks_of(diff: TraceDiff) -> Marks:
    """What differs, by the pair it differs at."""
    marks: dict[int, list[str]] = {}
    for difference in diff.differences:
        marks.setdefault(id(difference.pair), []).append(difference.dimension or difference.part)
    return marks


def step_times(pair: StepPair) -> list[str]:
    """How long a step took in both traces, and by how much it differs."""
    return [
        _took(pair.before),
        _took(pair.after),
        signed(pair.delta_ns) if pair.before and pair.after else "only here",
    ]


def step_marks(pair: StepPair, marks: Marks) -> str:
    """What differs at a step, each once."""
    return visible(", ".join(dict.fromkeys(marks.get(id(pair), ()))), limit=60)


def _took(span: SpanRecord | None) -> str:
    return "" if span is None else NOTHING if span.duration_ns is None else duration(span.duration_ns)


def _telling(pairs: Sequence[StepPair], marks: Marks) -> list[StepPair]:
    """Those that differ or that one trace lacks, then those whose times differ most; in their order."""
    if len(pairs) <= SHOWN_STEPS:
        return list(pairs)
    ranked = sorted(
        range(len(pairs)),
        key=lambda place: (
            id(pairs[place]) not in marks and pairs[place].before is not None and pairs[place].after is not None,
            -abs(pairs[place].delta_ns or 0),
        ),
    )
    return [pairs[place] for place in sorted(ranked[:SHOWN_STEPS])]
