"""Draws the screen at the end of a recorded program: where its time went, what was slow, what failed, what to type."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agenttrace.phases.summary import PhaseTotal, RunSummary, TokenTotal
from agenttrace.report.console import command_line
from agenttrace.report.drawing import Column, error_text, share_bar, step_name, table
from agenttrace.report.escaping import visible
from agenttrace.report.hints import show_command
from agenttrace.report.numbers import count, duration, percent, quantity
from agenttrace.report.phase_table import INDENT, PHASE_STYLES

SHOWN_STEPS = 3
"""Failed or cut off steps that are named; the rest are quantity, since this is one screen."""

BAR_WIDTH = 24


def draw_summary(summary: RunSummary, *, width: int = 80, store: str | None = None) -> RenderableType:
    """One screen. `store` goes into the command at its end; None is the default store."""
    names = ", ".join(dict.fromkeys(visible(run.name, limit=40) for run in summary.runs))
    title = Text("agenttrace", style="bold").append(f"  {names}" if names else "")
    if summary.trace_id is None:
        return Group(title, Text("  No step was recorded."))
    title.append(
        f"  {quantity(summary.traces, 'trace')}, {duration(summary.trace_ns)}, {quantity(summary.spans, 'step')}", "dim"
    )
    parts: list[RenderableType] = [title, Text(""), _times(summary), *_unknown(summary), Text(""), _facts(summary)]
    parts += [Text(""), command_line(show_command(summary.trace_id, store))]
    return Group(*parts)


def _times(summary: RunSummary) -> Table:
    """Where the time went: model calls by phase, then what is not a model call."""
    rows: list[list[Text | str]] = []
    if summary.model_calls:
        calls = quantity(summary.model_calls, "model call")
        rows.append([Text(calls, style="bold"), Text(duration(summary.model_ns), style="bold"), "", "", ""])
    rows += [_phase_row(phase, summary) for phase in summary.phases]
    if summary.phases and summary.undivided_ns > 0:
        share = summary.undivided_ns / summary.model_ns
        bar = share_bar(share, BAR_WIDTH, style="dim")
        rows.append(["  not divided", duration(summary.undivided_ns), percent(share), bar, ""])
    if summary.tool_calls:
        rows.append([quantity(summary.tool_calls, "tool call"), duration(summary.tool_ns), "", "", ""])
    rows.append(["own code, framework", duration(summary.own_ns), "", "", ""])
    columns = [Column(), Column(is_number=True), Column(is_number=True), Column(), Column()]
    return table(columns, rows, indent=INDENT)


def _phase_row(phase: PhaseTotal, summary: RunSummary) -> list[Text | str]:
    bar = share_bar(max(phase.share or 0, 0), BAR_WIDTH, style=PHASE_STYLES.get(phase.name, "blue"))
    share = "" if phase.share is None else percent(phase.share)
    known = "" if phase.known_calls == summary.model_calls else f"known in {phase.known_calls} of {summary.model_calls}"
    return [f"  {visible(phase.name, limit=60)}", duration(phase.ns), share, bar, Text(known, style="dim")]


def _unknown(summary: RunSummary) -> Iterator[RenderableType]:
    if summary.unknown_phases:
        yield Text(f"    unknown: {visible(', '.join(summary.unknown_phases), limit=300)}", style="dim")


def _facts(summary: RunSummary) -> Table:
    drawn = table([Column(), Column()], [], indent=INDENT)
    drawn.columns[-1].no_wrap = False
    for label, value in _fact_rows(summary):
        drawn.add_row(Text(""), Text(label, style="dim"), value)
    return drawn


def _fact_rows(summary: RunSummary) -> Iterator[tuple[str, Text]]:
    if summary.slowest is not None:
        yield "slowest call", _slowest(summary)
    if summary.model_calls:
        yield "tokens", Text(_tokens(summary))
    for label, spans in (("failed", summary.failed), ("stopped by length", summary.stopped_by_length)):
        for span in spans[:SHOWN_STEPS]:
            where = f" at {visible(span.call_site, limit=60)}" if span.kind == "model" and span.call_site else ""
            reason = f": {error_text(span, limit=120)}" if label == "failed" else ""
            yield label, step_name(span).append(where, style="dim").append(reason)
        if len(spans) > SHOWN_STEPS:
            yield label, Text(f"and {quantity(len(spans) - SHOWN_STEPS, 'step')} more")
    if summary.other_states:
        yield (
            "not finished well",
            Text(", ".join(f"{count(number)} {state}" for state, number in sorted(summary.other_states.items()))),
        )


def _slowest(summary: RunSummary) -> Text:
    assert summary.slowest is not None
    slowest = summary.slowest
    drawn = step_name(slowest.span).append(f" {duration(slowest.ns)}", style="bold")
    phase = slowest.phase
    if phase is None or phase.ns is None:
        return drawn.append(", no phase of it is known")
    share = f" ({percent(phase.ns / slowest.ns)})" if slowest.ns else ""
    return drawn.append(f", waited most for {visible(phase.name, limit=60)}: {duration(phase.ns)}{share}")


def _tokens(summary: RunSummary) -> str:
    kinds = (("in", summary.input), ("cached", summary.cached), ("out", summary.output))
    line = ", ".join(_token_total(label, tokens, summary.model_calls) for label, tokens in kinds)
    if not summary.cached.some_calls or not summary.input.total:
        return line
    # Two rates: of tokens and of requests. One long cached prompt among many short ones moves them apart.
    hits = f"{summary.cached.some_calls} of {summary.cached.known_calls}"
    return f"{line}; the cache held {percent((summary.cached.total or 0) / summary.input.total)} of the prompts, in {hits} calls"


def _token_total(label: str, tokens: TokenTotal, calls: int) -> str:
    if tokens.total is None:
        return f"{label} unknown"
    known = "" if tokens.known_calls == calls else f" (known in {tokens.known_calls} of {calls} calls)"
    return f"{count(tokens.total)} {label}{known}"
