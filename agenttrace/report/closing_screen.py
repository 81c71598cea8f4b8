"""Draws the screen at the end of a recorded program: what its time hangs on, what was slow, what failed, what to type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from agenttrace.phases.advice import Advice
from agenttrace.phases.critical_path import PartOnPath
from agenttrace.phases.summary import RunSummary, TokenTotal
from agenttrace.report.console import command_line
from agenttrace.report.drawing import Column, error_text, part_name, step_name, table
from agenttrace.report.escaping import visible
from agenttrace.report.hints import show_command
from agenttrace.report.numbers import between, count, duration, percent, quantity
from agenttrace.report.phase_table import INDENT, PHASE_STYLES

SHOWN_STEPS = 2
"""Failed or cut off steps that are named; the rest are counted, since this is one screen."""

SHOWN_PARTS = 4
"""Of the critical path."""


def draw_summary(
    summary: RunSummary,
    *,
    path: Sequence[PartOnPath] = (),
    cost: str | None = None,
    advice: Sequence[Advice] = (),
    store: str | None = None,
) -> RenderableType:
    """About ten lines. `path`: the parts that the traces' time hangs on, the largest first; `cost` as it is to be shown.

    `store` goes into the command at its end; None is the default store.
    """
    names = ", ".join(dict.fromkeys(visible(run.name, limit=40) for run in summary.runs))
    title = Text("agenttrace", style="bold").append(f"  {names}" if names else "")
    if summary.trace_id is None:
        return Group(title, Text("  No step was recorded."))
    title.append(
        f"  {quantity(summary.traces, 'trace')}, {duration(summary.trace_ns)}, {quantity(summary.spans, 'step')}", "dim"
    )
    facts = table([Column(), Column()], [], indent=INDENT)
    facts.columns[-1].no_wrap = False
    for label, value in _rows(summary, path, cost, advice):
        facts.add_row(Text(""), Text(label, style="dim"), value)
    command = show_command(summary.trace_id, store, *(["--why"] if summary.model_calls else []))
    return Group(title, facts, command_line(command))


def _rows(
    summary: RunSummary, path: Sequence[PartOnPath], cost: str | None, advice: Sequence[Advice]
) -> Iterator[tuple[str, Text]]:
    if path:
        yield "hangs on", _joined(_part(part) for part in path[:SHOWN_PARTS])
        dearest = max(path, key=lambda part: part.saved_ns)
        if dearest.saved_ns:
            yield "half of", Text(f"{part_name(dearest)} would save {duration(dearest.saved_ns)}")
    yield "took", Text(_took(summary))
    if summary.model_calls:
        yield "phases", _joined(_phases(summary))
    if summary.first_token_ns:
        yield "first token", Text(_first_token(summary))
    if summary.slowest is not None:
        yield "slowest call", _slowest(summary)
    if summary.model_calls:
        yield "tokens", Text(_tokens(summary) + (f"; {cost}" if cost else ""))
    yield from _failures(summary)
    for item in advice:
        counts = f"{percent(item.share)} or more of {count(item.hits)} of {quantity(item.calls, 'call')}"
        yield "advice", Text(f"{item.phase} took {counts}: {item.remedy}", style="yellow")


def _joined(parts: Iterable[Text]) -> Text:
    return Text(", ").join(parts)


def _part(part: PartOnPath) -> Text:
    return Text(part_name(part), style=PHASE_STYLES.get(part.name, "")).append(
        f" {duration(part.ns)} ({percent(part.share)})"
    )


def _took(summary: RunSummary) -> str:
    """All calls' times added up, and the time in which none was under way."""
    parts = []
    if summary.model_calls:
        parts.append(f"{quantity(summary.model_calls, 'model call')} {duration(summary.model_ns)}")
    if summary.tool_calls:
        parts.append(f"{quantity(summary.tool_calls, 'tool call')} {duration(summary.tool_ns)}")
    return ", ".join([*parts, f"own code, framework {duration(summary.own_ns)}"])


def _phases(summary: RunSummary) -> Iterator[Text]:
    """Shares of the time of all model calls; then what nobody knows."""
    for phase in sorted(summary.phases, key=lambda phase: -phase.ns):
        if phase.share is not None and phase.share < 0.01:
            continue
        known = (
            ""
            if phase.known_calls == summary.model_calls
            else f" (known in {phase.known_calls} of {summary.model_calls})"
        )
        share = duration(phase.ns) if phase.share is None else percent(phase.share)
        yield Text(visible(phase.name, limit=60), style=PHASE_STYLES.get(phase.name, "")).append(f" {share}{known}")
    if summary.model_ns and summary.undivided_ns >= 0.01 * summary.model_ns:
        yield Text(f"not divided {percent(summary.undivided_ns / summary.model_ns)}")
    if summary.unknown_phases:
        yield Text(f"unknown: {visible(', '.join(summary.unknown_phases), limit=300)}", style="dim")


def _first_token(summary: RunSummary) -> str:
    """From the shortest to the longest: no quantile of a single run's few."""
    times = summary.first_token_ns
    known = "" if len(times) == summary.model_calls else f", seen in {len(times)} of {summary.model_calls} calls"
    return f"{between(times[0], times[-1])}{known}"


def _failures(summary: RunSummary) -> Iterator[tuple[str, Text]]:
    for label, spans in (("failed", summary.failed), ("cut off", summary.stopped_by_length)):
        for span in spans[:SHOWN_STEPS]:
            where = f" at {visible(span.call_site, limit=60)}" if span.kind == "model" and span.call_site else ""
            reason = f": {error_text(span, limit=120)}" if label == "failed" else " by its length limit"
            yield label, step_name(span).append(where, style="dim").append(reason)
        if len(spans) > SHOWN_STEPS:
            yield label, Text(f"and {quantity(len(spans) - SHOWN_STEPS, 'step')} more")
    if summary.other_states:
        states = ", ".join(f"{count(number)} {state}" for state, number in sorted(summary.other_states.items()))
        yield "not finished well", Text(states)


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
