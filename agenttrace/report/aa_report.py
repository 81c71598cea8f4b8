"""Draws how often each verdict came where nothing changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from agenttrace.comparison.aa import Rate, UnchangedRates
from agenttrace.comparison.verdicts import Verdict
from agenttrace.records import RunRecord
from agenttrace.report.drawing import Column, table
from agenttrace.report.escaping import visible
from agenttrace.report.numbers import percent, quantity

INDENT = 2


def draw_rates(rates: UnchangedRates, *, runs: Sequence[RunRecord], alpha: float) -> RenderableType:
    """All metrics together, then each of them where there are several."""
    names = " and ".join(visible(run.name, limit=60) for run in runs)
    first, second = rates.repetitions
    title = Text("A/A ", style="dim").append(names, style="bold")
    title.append(
        f"  {rates.divisions} random divisions, {quantity(rates.cases, 'case')} × {first} against {second}", style="dim"
    )
    titles = ("", "pass", "regressed", "inconclusive")
    rows = [_row("verdict", rates.verdicts)]
    if len(rates.metrics) > 1:
        rows += [_row(visible(name, limit=60), told) for name, told in rates.metrics.items()]
    regressed = rates.verdicts["regressed"]
    promise = f"Called regressed, a false alarm: {_told(regressed)}; at most {percent(alpha)} is promised."
    is_broken = regressed.low > alpha
    notes = [Padding(Text(note, style="dim"), (0, 0, 0, INDENT)) for note in rates.notes]
    return Group(
        title,
        table([Column(title=text) for text in titles], rows, indent=INDENT),
        Text(promise, style="bold red" if is_broken else ""),
        *notes,
    )


def _row(name: str, rates: Mapping[Verdict, Rate]) -> list[Text | str]:
    return [name, *(_told(rates[verdict]) for verdict in ("pass", "regressed", "inconclusive"))]


def _told(rate: Rate) -> str:
    return f"{percent(rate.rate)} ({percent(rate.low)} to {percent(rate.high)})"
