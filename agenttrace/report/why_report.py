"""Draws what a trace's time hangs on, and why its calls took longer than usual."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from agenttrace.phases.critical_path import CriticalPath, Stretch
from agenttrace.phases.why import ENOUGH, Cause, Why
from agenttrace.report.drawing import Column, part_name, share_bar, step_name, table
from agenttrace.report.escaping import visible
from agenttrace.report.numbers import MINUS, NOTHING, between, change, duration, percent, quantity
from agenttrace.report.phase_table import INDENT, PHASE_STYLES

SHOWN_STEPS = 8
SHOWN_PARTS = 8
BAR_WIDTH = 20


def draw_why(path: CriticalPath, whys: Sequence[Why], *, width: int = 80) -> RenderableType:
    """The critical path by cause and by step, then each call beside its usual one."""
    head = Text("critical path", style="bold").append(f"  {duration(path.ns)}", style="bold")
    if not path.has_ended:
        head.append("  of a trace that has not ended, or whose root is missing", style="yellow")
    parts: list[RenderableType] = [head]
    if path.parts:
        parts += [_parts(path), Text(""), _steps(path, width)]
    for told in whys:
        parts += [Text(""), *_why(told)]
    return Group(*parts)


def _parts(path: CriticalPath) -> RenderableType:
    columns = [
        Column(title="waits for", is_flexible=True),
        Column(title="time", is_number=True),
        Column(title="share", is_number=True),
        Column(width=BAR_WIDTH),
        Column(title="half of it saves", is_number=True),
    ]
    rows: list[list[Text | str]] = [
        [
            part_name(part),
            duration(part.ns),
            percent(part.share),
            share_bar(part.share, BAR_WIDTH, style=PHASE_STYLES.get(part.name, "blue")),
            duration(part.saved_ns) if part.saved_ns else NOTHING,
        ]
        for part in path.parts[:SHOWN_PARTS]
    ]
    return table(columns, rows, indent=INDENT)


def _steps(path: CriticalPath, width: int) -> RenderableType:
    """The longest stretches in their order; those of one step that follow each other are one."""
    begin = path.stretches[0].from_ns
    runs = [list(group) for _, group in groupby(path.stretches, key=lambda stretch: stretch.span.span_id)]
    longest = sorted(runs, key=_length, reverse=True)[:SHOWN_STEPS]
    rows: list[list[Text | str]] = [
        [
            duration(run[0].from_ns - begin) if run[0].from_ns > begin else "0 s",
            step_name(run[0].span),
            duration(_length(run)),
        ]
        for run in runs
        if run in longest
    ]
    columns = [
        Column(title="at", is_number=True),
        Column(title="step", is_flexible=True),
        Column(title="took", is_number=True),
    ]
    drawn = table(columns, rows, indent=INDENT)
    drawn.width = min(width, 80)
    if len(runs) > len(longest):
        shorter = sum(map(_length, runs)) - sum(map(_length, longest))
        drawn.add_row(Text(""), Text(""), Text("shorter stretches", style="dim"), Text(duration(shorter), style="dim"))
    return drawn


def _length(run: Sequence[Stretch]) -> int:
    return sum(stretch.ns for stretch in run)


def _why(told: Why) -> Iterator[RenderableType]:
    head = Text("why ", style="dim").append_text(step_name(told.span))
    head.append(f" took {duration(told.span.duration_ns)}", style="bold")
    if told.span.call_site:
        head.append(f" at {visible(told.span.call_site, limit=60)}", style="dim")
    yield head
    if told.usual_ns is None or told.span.duration_ns is None:
        reason = f"  {quantity(told.recent, 'earlier call')} of this call site ended well; it takes {ENOUGH} to say what is usual."
        yield Text(reason, style="dim")
        return
    usual = f"  {change(told.span.duration_ns - told.usual_ns)} beside the median of its {told.recent} latest calls before, "
    yield Text(f"{usual}{duration(told.usual_ns)}:")
    columns = [Column(), Column(is_number=True), Column(title=""), Column()]
    drawn = table(columns, [_cause(cause) for cause in told.causes], indent=INDENT)
    drawn.columns[-1].no_wrap = False
    yield drawn


def _cause(cause: Cause) -> list[Text | str]:
    bounds = between(cause.low_ns, cause.high_ns)
    is_exact = cause.low_ns == cause.high_ns == cause.ns
    return [
        cause.name,
        "" if cause.ns is None else change(cause.ns),
        Text("" if is_exact else bounds, style="dim"),
        Text(visible(cause.detail, limit=120).replace("-", MINUS), style="dim"),
    ]
