"""Draws what runs of a suite came to: outcomes, scores, the first attempts that failed, and how to compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from agenttrace.evaluation.progress import cost_text
from agenttrace.evaluation.summary import EvaluatedRun, Failure
from agenttrace.report.console import command_line
from agenttrace.report.drawing import Column, table
from agenttrace.report.escaping import visible
from agenttrace.report.hints import show_command
from agenttrace.report.numbers import NOTHING, count, percent, quantity

REASON_LIMIT = 160


def draw_evaluated(
    results: Sequence[EvaluatedRun], *, width: int = 80, shown: int = 10, store: str | None = None
) -> RenderableType:
    """One or two runs, side by side in one table of scores, and `shown` of their failed attempts."""
    parts: list[RenderableType] = [_heading(result) for result in results]
    scores = list(dict.fromkeys(name for result in results for name in result.means))
    if scores:
        columns = [
            Column(title="score", is_flexible=True),
            *(Column(title=visible(one.name, limit=30), is_number=True) for one in results),
        ]
        rows: list[list[Text | str]] = [
            [visible(name, limit=60), *(_mean(result, name) for result in results)] for name in scores
        ]
        drawn = table(columns, rows)
        drawn.width = width
        parts += [Text(""), drawn]
    for result in results:
        parts += _failures(result, shown)
    if len(results) > 1:
        where = f" --store {store}" if store else ""
        names = " ".join(result.run_id for result in results)
        parts += [
            Text(""),
            Text("Which is better, if that can be told:"),
            command_line(f"agenttrace compare {names}{where}"),
        ]
    elif results[0].failures and results[0].failures[0].trace_id:
        parts += [
            Text(""),
            Text("Look at the first one:"),
            command_line(show_command(results[0].failures[0].trace_id, store)),
        ]
    return Group(*parts)


def _heading(result: EvaluatedRun) -> Text:
    made = sum(result.outcomes.values())
    text = (
        Text("run ", style="dim")
        .append(visible(result.name, limit=60), style="bold")
        .append(f" {result.run_id}: ", style="dim")
    )
    text.append(f"{quantity(made, 'attempt')}")
    if made != result.planned:
        text.append(f" of {count(result.planned)}")
    if result.already_there:
        text.append(f", {count(result.already_there)} of them there before")
    told = ", ".join(f"{count(number)} × {outcome}" for outcome, number in result.outcomes.most_common())
    text.append(f" ({told}), {count(result.tokens)} tokens")
    if cost := cost_text(result.spending.cost_usd):
        text.append(f", {cost}")
    return text


def _mean(result: EvaluatedRun, name: str) -> str:
    """Shares as per cent; a score that is more than 1 is no share."""
    mean = result.mean(name)
    if mean is None:
        return NOTHING
    return percent(mean) if 0 <= mean <= 1 else f"{mean:.3g}"


def _failures(result: EvaluatedRun, shown: int) -> Iterator[RenderableType]:
    if not result.failures:
        return
    yield Text("")
    yield Text(
        f"{quantity(len(result.failures), 'attempt')} of {visible(result.name, limit=60)} that did not score in full:"
    )
    for failure in result.failures[:shown]:
        yield _failure(failure)
    if len(result.failures) > shown:
        yield Text(f"  and {count(len(result.failures) - shown)} more; --json tells all", style="dim")


def _failure(failure: Failure) -> Text:
    name = f"{failure.case} #{failure.repetition}" if failure.repetition > 1 else failure.case
    text = Text("  ").append(visible(name, limit=60), style="bold")
    if failure.outcome != "scored":
        text.append(f" {failure.outcome}", style="red")
    return text.append(f": {visible(failure.reason, limit=REASON_LIMIT)}")
