"""Draws plans: for each number of repetitions what the cases there are would show, and how many it takes at what price."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from agenttrace.comparison.planning import MetricPlan, PlanRow
from agenttrace.records import RunRecord
from agenttrace.report.drawing import Column, table
from agenttrace.report.escaping import visible
from agenttrace.report.metric_table import amount
from agenttrace.report.numbers import NOTHING, count, duration, money, percent, quantity

INDENT = 2


def draw_plans(plans: Sequence[MetricPlan], *, run: RunRecord, alpha: float, power: float) -> RenderableType:
    """One table a metric."""
    parts: list[RenderableType] = [
        Text("plan ", style="dim")
        .append(visible(run.name, limit=60), style="bold")
        .append(f"  either error at most {percent(alpha)}", style="dim")
    ]
    for one in plans:
        parts += _metric(one)
    parts += [Text(""), *(Text(line, style="dim") for line in _legend(power))]
    return Group(*parts)


def _legend(power: float) -> tuple[str, ...]:
    return (
        "passes    the chance that an unchanged agent passes, with the cases there are",
        "seen      the chance that a loss of twice the margin is called regressed, with the same",
        f"cases     with which an unchanged agent passes with {percent(power)}",
        "attempts  at these cases in both runs together, with their cost and time, one after another",
    )


def _metric(plan: MetricPlan) -> Iterator[RenderableType]:
    title = Text("\n").append(visible(plan.name, limit=60), style="bold")
    title.append(
        f"  margin {_loss(plan, plan.margin)}, {quantity(plan.n, 'case')} × {plan.repetitions} recorded", style="dim"
    )
    yield title
    columns = [
        Column(title="repetitions", is_number=True),
        Column(title="passes", is_number=True),
        Column(title="seen", is_number=True),
        Column(title="cases", is_number=True),
        Column(title="attempts", is_number=True),
        Column(title="cost", is_number=True),
        Column(title="time", is_number=True),
    ]
    yield table(columns, [_row(row) for row in plan.rows], indent=INDENT)
    for note in plan.notes:
        yield Padding(Text(note, style="dim"), (0, 0, 0, INDENT))


def _row(row: PlanRow) -> list[Text | str]:
    needed = row.needed
    return [
        str(row.repetitions),
        percent(row.passes),
        percent(row.sees),
        count(row.cases),
        count(needed.attempts),
        NOTHING if needed.cost_usd is None else money(needed.cost_usd),
        NOTHING if needed.seconds is None else duration(needed.seconds * 1e9),
    ]


def _loss(plan: MetricPlan, value: float) -> str:
    return percent(value) if plan.effect == "relative" else amount(plan.kind, value)
