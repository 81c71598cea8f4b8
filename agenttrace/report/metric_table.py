"""How a metric of a comparison is written: its values, the difference, the interval and what it decides."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from agenttrace.comparison.outcome import MetricComparison
from agenttrace.report.drawing import NAME_LIMIT, Column, table
from agenttrace.report.escaping import visible
from agenttrace.report.numbers import MINUS, NOTHING, count, duration, percent

VERDICT_STYLES = {
    "pass": "bold green",
    "regressed": "bold red",
    "inconclusive": "bold yellow",
    "not_comparable": "bold red",
    "invalid": "bold red",
}

WIDE = 100
"""From this width on there is room for the number of cases."""

WORDS = {"pass": "pass", "regressed": "regressed", "inconclusive": "inconclusive", "not_comparable": "not comparable"}


def amount(kind: str, value: float) -> str:
    """A value of a metric: seconds with their unit, all else as a plain number of three digits or so."""
    if kind == "time":
        return duration(round(value * 1e9))
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 3
    text = f"{abs(value):,.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{MINUS}{text}" if value < 0 and text != "0" else text


def signed(kind: str, value: float) -> str:
    """A difference, with its sign."""
    text = amount(kind, value)
    return text if value <= 0 or text == amount(kind, 0.0) else f"+{text}"


def difference_text(metric: MetricComparison, value: float | None) -> str:
    """A difference of this metric, in its unit or as a share of the baseline."""
    if value is None:
        return NOTHING
    if metric.effect == "relative":
        text = percent(abs(value)) if abs(value) >= 0.0005 else "0 %"
        return text if text == "0 %" else f"{MINUS if value < 0 else '+'}{text}"
    return signed(metric.kind, value)


def interval_text(metric: MetricComparison) -> str:
    """`−0.33 to −0.09`; open where nothing bounds it."""
    if metric.method is None:
        return NOTHING
    ends = (metric.low, metric.high)
    return " to ".join("…" if end is None else difference_text(metric, end) for end in ends)


def margin_text(metric: MetricComparison) -> str:
    """How much worse still passes."""
    return NOTHING if metric.margin is None else difference_text(metric, metric.margin).removeprefix("+")


def values_text(metric: MetricComparison) -> str:
    """Both means."""
    return f"{amount(metric.kind, metric.baseline)} → {amount(metric.kind, metric.candidate)}"


def verdict_text(metric: MetricComparison) -> Text:
    """What it decides; of a metric that informs, what it would."""
    if metric.verdict == "not_comparable":
        return Text("not comparable", style="red")
    word = WORDS[metric.verdict]
    if metric.primary:
        return Text(word, style=VERDICT_STYLES[metric.verdict])
    return Text("" if metric.verdict == "inconclusive" or metric.method is None else f"({word})", style="dim")


def sample_text(metric: MetricComparison) -> str:
    """Cases and repetitions: `60 × 3`."""
    k = (
        f"{metric.k_baseline}"
        if metric.k_baseline == metric.k_candidate
        else f"{metric.k_baseline}/{metric.k_candidate}"
    )
    return f"{count(metric.n)} × {k}"


def is_of_site(metric: MetricComparison) -> bool:
    """It informs about one call site, `model_s:planner`."""
    return metric.kind != "score" and not metric.primary and ":" in metric.name


def in_order(metrics: Sequence[MetricComparison]) -> list[MetricComparison]:
    """Those that decide first, those of single call sites last."""
    return sorted(metrics, key=lambda metric: (not metric.primary, is_of_site(metric)))


def metric_table(metrics: Sequence[MetricComparison], *, alpha: float, width: int, indent: int) -> Table:
    """In their order. Without statistics there are no intervals and no verdicts."""
    is_judged = any(metric.method is not None for metric in metrics)
    ordered = in_order(metrics)
    titles = (
        ["metric", "means", "change"]
        if width < WIDE and is_judged
        else ["metric", "baseline → candidate", "difference"]
    )
    if is_judged:
        titles += [f"{percent(1 - 2 * alpha)} interval", ""]
    if width >= WIDE or not is_judged:
        titles.insert(1, "cases")
    rows = [_row(metric, titles, is_judged) for metric in ordered]
    # Numbers keep their width; where the line is too long, it is a name that is cut.
    widths = [max(cell_len(title), *(cell_len(str(row[n])) for row in rows)) for n, title in enumerate(titles)]
    rest = [Column(title=titles[n], width=widths[n], is_number=bool(titles[n])) for n in range(1, len(titles))]
    return table([Column(title=titles[0]), *rest], rows, indent=indent)


def _row(metric: MetricComparison, titles: Sequence[str], is_judged: bool) -> list[Text | str]:
    difference: Text | str = difference_text(metric, metric.delta)
    if metric.delta is None and not is_judged:
        difference = verdict_text(metric)
    row: list[Text | str] = [
        Text(visible(metric.name, limit=NAME_LIMIT), style="bold" if metric.primary else ""),
        values_text(metric),
        difference,
    ]
    if is_judged:
        row += [interval_text(metric), verdict_text(metric)]
    if "cases" in titles:
        row.insert(1, sample_text(metric))
    return row
