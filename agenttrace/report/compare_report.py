"""Draws a comparison: the refusal that explains itself, or the numbers that the gate let pass."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from agenttrace.comparison.differences import SettingDifference, counted
from agenttrace.comparison.dimensions import dimension_of
from agenttrace.comparison.outcome import Comparison
from agenttrace.comparison.pairing import PairedCase
from agenttrace.comparison.verdicts import Verdict
from agenttrace.report.console import command_line
from agenttrace.report.drawing import GAP, Column, table
from agenttrace.report.escaping import visible
from agenttrace.report.hints import show_command
from agenttrace.report.metric_table import VERDICT_STYLES, amount, is_of_site, metric_table
from agenttrace.report.numbers import NOTHING, quantity
from agenttrace.report.setting_text import short_lines
from agenttrace.report.settings_report import (
    INDENT,
    NAME_LIMIT,
    SEVERITY_STYLES,
    SHORT_ID,
    at_sites,
    draw_notes,
    draw_unverified,
    indented,
    run_name,
    severity_word,
)

SHOWN_CASES = 5

SHORT_TRACE = 12
"""Digits of a trace's id within a command."""

MAX_CELL = 40
"""Columns that names are lined up to; longer ones push what follows."""

BELOW = 4
"""How much further in the values stand that have no room beside their name."""

SHOWN_SCORES = 2
"""Scores that the table of cases has columns for, before the time."""

REASON_LIMIT = 600

SLUGS: dict[Verdict, str] = {"not_comparable": "settings-differ", "invalid": "invalid-run"}
"""Sections of docs/messages.md; every other verdict is explained by its reasons."""


def draw_comparison(comparison: Comparison, *, width: int = 80, store: str | None = None) -> RenderableType:
    """One screen. `store` goes into the commands that it tells; None is the default store."""
    if comparison.gate.verdict == "comparable":
        return Group(*_allowed(comparison, width, store), *_see(comparison.verdict))
    return Group(*_refusal(comparison, width, store), *_see(comparison.verdict))


def _see(verdict: Verdict) -> Iterator[RenderableType]:
    if verdict in SLUGS:
        yield Text(f"See docs/messages.md#{SLUGS[verdict]}", style="dim")


def _refusal(comparison: Comparison, width: int, store: str | None) -> Iterator[RenderableType]:
    blocking = comparison.gate.blocking
    names = len(dict.fromkeys(difference.dimension for difference in blocking))
    word = "judged" if comparison.verdict == "invalid" else "compared"
    headline = Text(f"These runs can't be {word}", style="bold red")
    yield headline.append(f": {counted(names, 'setting differs', 'settings differ')}." if blocking else ".")
    for reason in comparison.gate.reasons:
        yield indented(visible(reason, limit=REASON_LIMIT))
    yield from _difference_rows(blocking, width)
    others = [item for item in comparison.differences if item not in blocking]
    if others:
        yield Text("Also different:" if blocking else "Different:", style="dim")
        yield from _difference_rows(others, width)
    if not blocking:
        yield from draw_unverified(comparison.unverified)
    yield from _advice(comparison, blocking, store)


def _difference_rows(differences: Sequence[SettingDifference], width: int) -> Iterator[RenderableType]:
    """One difference a row, with all call sites that it holds at."""
    sites: dict[tuple[str, str, tuple[str, ...]], list[str | None]] = {}
    for item in differences:
        severity = "" if item.is_declared else severity_word(item)
        sites.setdefault((item.dimension, severity, tuple(short_lines(item))), []).append(item.call_site)
    rows = [
        ((visible(dimension, limit=NAME_LIMIT), at_sites(where), severity), lines)
        for (dimension, severity, lines), where in sites.items()
    ]
    widths = [min(max((len(cells[n]) for cells, _ in rows), default=0), MAX_CELL) for n in range(3)]
    for (dimension, where, severity), lines in rows:
        heading = Text(" " * INDENT).append(dimension.ljust(widths[0]), style="bold")
        for cell, size, style in ((where, widths[1], ""), (severity, widths[2], SEVERITY_STYLES.get(severity, ""))):
            heading.append(" " * GAP if size else "").append(cell.ljust(size), style=style)
        yield from _beside_or_below(heading, lines, width)


def _beside_or_below(heading: Text, lines: Sequence[str], width: int) -> Iterator[RenderableType]:
    """The lines beside the heading, or below it where there is no room beside it."""
    start = len(heading.plain) + GAP
    if start + max(cell_len(line) for line in lines) <= width:
        yield heading.append(" " * GAP).append(("\n" + " " * start).join(lines))
        return
    yield heading
    for line in lines:
        yield Padding(Text(line), (0, 0, 0, INDENT + BELOW))


def _advice(
    comparison: Comparison, blocking: Sequence[SettingDifference], store: str | None
) -> Iterator[RenderableType]:
    flags = tuple(dict.fromkeys(difference.flag for difference in blocking if difference.flag is not None))
    if len(flags) == 1:
        yield Text("If this is what you are testing, say so: ").append(flags[0], style="bold")
    elif flags:
        yield Text("If one of these is what you are testing, say so:")
        for flag in flags:
            yield command_line(flag)
    for dimension in dict.fromkeys(difference.dimension for difference in blocking if difference.flag is None):
        instead = dimension_of(dimension).instead or "Record a run in which it stays the same."
        yield Text(f"{visible(dimension)} cannot be declared like this. {instead}")
    if flags:
        runs = (comparison.baseline.run_id[:SHORT_ID], comparison.candidate.run_id[:SHORT_ID])
        yield Text("All of it in full:")
        yield command_line(_settings_command(runs, store))


def _settings_command(runs: Sequence[str], store: str | None) -> str:
    place = () if store is None else ("--store", os.fspath(store))
    return shlex.join(("agenttrace", "settings", *runs, *place))


def _allowed(comparison: Comparison, width: int, store: str | None) -> Iterator[RenderableType]:
    title = Text("baseline ", style="dim").append(run_name(comparison.baseline), style="bold")
    title.append("  candidate ", style="dim").append(run_name(comparison.candidate), style="bold")
    yield title.append(f"  {quantity(len(comparison.cases), 'case')} in both", style="dim")
    treatments = comparison.gate.treatments
    if treatments:
        yield Text("")
        yield Text("Treatment, declared to differ:")
        yield from _difference_rows(treatments, width)
    if comparison.gate.confounded:
        told = ", ".join(comparison.gate.changed)
        yield Text(f"Confounded: {visible(told)} changed together, so what is seen is due to no one of them.", "yellow")
    others = [item for item in comparison.differences if not item.is_declared]
    if others:
        yield Text("")
        yield Text("Also different:", style="dim")
        yield from _difference_rows(others, width)
    yield from draw_unverified(comparison.unverified)
    if comparison.metrics:
        yield Text("")
        shown = [metric for metric in comparison.metrics if not is_of_site(metric)]
        yield metric_table(shown, alpha=comparison.policy.alpha, width=width, indent=INDENT)
        if hidden := len(comparison.metrics) - len(shown):
            yield Text(f"  {quantity(hidden, 'metric')} of single call sites: --json, --html", style="dim")
    yield from _case_table(comparison, width, store)
    yield from draw_notes(comparison.notes)
    yield Text("")
    yield Text("Verdict: ").append(verdict_line(comparison), style=VERDICT_STYLES[comparison.verdict])
    for reason in comparison.reasons:
        yield indented(visible(reason, limit=REASON_LIMIT))
    yield from _advice(comparison, comparison.gate.blocking_cost, store)


def verdict_line(comparison: Comparison) -> str:
    """The verdict with what qualifies it."""
    words = [comparison.verdict.replace("_", " ")]
    words += ["unverified"] if comparison.unverified else []
    words += ["confounded"] if comparison.gate.confounded else []
    words += (
        ["only a warning by on_inconclusive"]
        if comparison.verdict == "inconclusive" and not comparison.exit_code
        else []
    )
    return ", ".join(words)


def _case_table(comparison: Comparison, width: int, store: str | None) -> Iterator[RenderableType]:
    scores = scores_shown(comparison)
    has_times = any(metric.name == "latency_s" and metric.delta is not None for metric in comparison.metrics)
    shown = [case for case in comparison.cases[:SHOWN_CASES] if any(case.difference)]
    if not shown or not (scores or has_times):
        return
    has_flags = any(case.case in comparison.flags for case in shown)
    columns = [Column(title="case"), *(Column(title=visible(name, limit=24), is_number=True) for name in scores)]
    columns += [Column(title="latency_s", is_number=True)] if has_times else []
    columns += [Column(title="")] if has_flags else []
    columns += [Column(title="differs first in", is_flexible=True)] if comparison.partings else []
    rows: list[list[Text | str]] = [
        [
            visible(case.case, limit=40),
            *(case_value(case, name, is_score=True) for name in scores),
            *([case_value(case, "latency_s", is_score=False)] if has_times else []),
            *([flags_text(comparison, case)] if has_flags else []),
            *([parted_text(comparison, case)] if comparison.partings else []),
        ]
        for case in shown
    ]
    yield Text("")
    yield Text("Cases that differ most:")
    drawn = table(columns, rows, indent=INDENT)
    drawn.width = width if comparison.partings else None
    yield drawn
    told = next((comparison.partings[case.case] for case in shown if case.case in comparison.partings), None)
    if told is not None:
        yield Text("The first of them side by side:")
        yield command_line(show_command(told.baseline[:SHORT_TRACE], store, "--diff", told.candidate[:SHORT_TRACE]))


def scores_shown(comparison: Comparison, limit: int | None = SHOWN_SCORES) -> list[str]:
    """Names of the scores that a list of cases tells, without what is calculated from repetitions (`correct pass@3`)."""
    return [metric.name for metric in comparison.metrics if metric.kind == "score" and " pass" not in metric.name][
        :limit
    ]


def case_value(case: PairedCase, name: str, *, is_score: bool) -> str:
    """Both means of a case."""
    value = next((value for key, value in case.values.items() if key == (is_score, name)), None)
    kind = "score" if is_score else "time"
    return NOTHING if value is None else f"{amount(kind, value.baseline)} → {amount(kind, value.candidate)}"


def flags_text(comparison: Comparison, case: PairedCase) -> str:
    """Which scores of the case changed, as far as its repetitions allow to say."""
    found = [flag for flag in comparison.flags.get(case.case, ()) if flag.flag is not None]
    return ", ".join(
        f"{flag.flag}" if len(found) == 1 else f"{visible(flag.metric, limit=24)} {flag.flag}" for flag in found
    )


def parted_text(comparison: Comparison, case: PairedCase) -> str:
    """What differs between an attempt of each run at the case, first difference first; empty where nobody looked."""
    parting = comparison.partings.get(case.case)
    return "" if parting is None else ", ".join(parting.parts) or "nothing recorded"
