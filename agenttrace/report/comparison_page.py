"""A comparison as one HTML page: verdict, metrics with their intervals, settings, changed cases with both outputs, times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from agenttrace.comparison.outcome import Comparison, MetricComparison
from agenttrace.comparison.pairing import PairedCase
from agenttrace.report.compare_report import case_value, flags_text, parted_text, scores_shown, verdict_line
from agenttrace.report.distribution_plot import PHASE_HEIGHT, PHASE_WIDTH, PhasePlot, phase_plots
from agenttrace.report.hints import show_command
from agenttrace.report.html_page import html_page, html_table, lines, listed, scrolled, text
from agenttrace.report.metric_table import (
    difference_text,
    in_order,
    interval_text,
    margin_text,
    sample_text,
    values_text,
    verdict_text,
)
from agenttrace.report.numbers import percent, quantity
from agenttrace.report.output_diff import Piece, output_diff, output_text
from agenttrace.report.setting_text import short_lines
from agenttrace.report.settings_report import run_name, severity_word

if TYPE_CHECKING:
    from agenttrace.judging import Details

MAX_CASES = 200
MAX_ROWS = 200
"""Of metrics, settings and notes each."""

MAX_TRACES = 5
"""Of one case and side."""

NAME = 100
SENTENCE = 600

PLOT_WIDTH = 200
PLOT_EDGE = 8

CLASSES = {"pass": "pass", "regressed": "regressed", "inconclusive": "inconclusive"}

METRIC_TITLES = ("metric", "cases", "baseline → candidate", "difference", "interval", "margin", "plot", "verdict")
PHASE_TITLES = ("time", "from", "distribution", "to", "calls with a number")


def changed_cases(comparison: Comparison) -> list[PairedCase]:
    """Those of which a score differs; the first `MAX_CASES` are shown with their outputs."""
    return [case for case in comparison.cases if case.difference[0] or case.case in comparison.flags]


def comparison_page(comparison: Comparison, details: Details, *, store: str | None, phoenix: str | None) -> str:
    """The whole page. `phoenix` is the address of one that has the traces, where that is known."""
    verdict, names = verdict_line(comparison), (run_name(comparison.baseline), run_name(comparison.candidate))
    common = f", {text(quantity(len(comparison.cases), 'case'))} in both" if comparison.cases else ""
    body = [
        f"<p>Baseline <b>{text(names[0])}</b>, candidate <b>{text(names[1])}</b>{common}.</p>",
        listed(text(reason, limit=SENTENCE) for reason in comparison.reasons[:MAX_ROWS]),
        *_metrics(comparison),
        *_settings(comparison),
        *_cases(comparison, details, store, phoenix),
        *_times(phase_plots(details.baseline_times, details.candidate_times)),
    ]
    if comparison.notes:
        body += ["<h2>Notes</h2>", listed(text(note, limit=SENTENCE) for note in comparison.notes[:MAX_ROWS])]
    kind = CLASSES.get(comparison.verdict, "refused")
    heading = f'Verdict: <span class="{kind}">{text(verdict)}</span>'
    return html_page(f"{verdict}: {names[1]} against {names[0]}", body, heading=heading)


def _metrics(comparison: Comparison) -> Iterator[str]:
    if comparison.metrics:
        yield '<h2 id="metrics">Metrics</h2>'
        level = text(percent(1 - 2 * comparison.policy.alpha))
        yield (
            f"<p>Each line is a {level} interval of the difference; the dashed line is the margin, beyond which it is worse. "
            "Each metric has its own scale.</p>"
        )
        rows = [_metric(metric) for metric in in_order(comparison.metrics)[:MAX_ROWS]]
        yield scrolled(html_table(METRIC_TITLES, rows, caption="Metrics of both runs"), "metrics")


def _metric(metric: MetricComparison) -> Sequence[str]:
    name = text(metric.name, limit=NAME)
    told = (sample_text(metric), values_text(metric), difference_text(metric, metric.delta), interval_text(metric))
    return (
        f"<b>{name}</b>" if metric.primary else f'<span class="light">{name}</span>',
        *map(text, (*told, margin_text(metric))),
        _interval_plot(metric),
        text(verdict_text(metric).plain),
    )


def _interval_plot(metric: MetricComparison) -> str:
    """Zero, margin, interval and difference along one line; an end that nothing bounds is the plot's edge."""
    if metric.delta is None or metric.method is None:
        return ""
    worse = -1 if metric.better == "higher" else 1
    margin = None if metric.margin is None else worse * metric.margin
    held = [0.0, metric.delta, *(value for value in (metric.low, metric.high, margin) if value is not None)]
    first, last = min(held), max(held)
    scale = (PLOT_WIDTH - 2 * PLOT_EDGE) / ((last - first) or 1.0)

    def place(value: float | None, otherwise: int = 0) -> str:
        return f"{otherwise if value is None else PLOT_EDGE + (value - first) * scale:.1f}"

    upright = [("zero", 0.0)] if margin is None else [("zero", 0.0), ("margin", margin)]
    drawn = [f'<line class="{kind}" x1="{place(at)}" x2="{place(at)}" y1="0" y2="20"/>' for kind, at in upright]
    drawn.append(
        f'<line class="interval" x1="{place(metric.low)}" x2="{place(metric.high, PLOT_WIDTH)}" y1="10" y2="10"/>'
        f'<circle cx="{place(metric.delta)}" cy="10" r="4"/>'
    )
    label = text(f"{metric.name}: {difference_text(metric, metric.delta)}, {interval_text(metric)}", limit=2 * NAME)
    size = f'viewBox="0 0 {PLOT_WIDTH} 20" width="{PLOT_WIDTH}" height="20"'
    return f'<svg {size} role="img" aria-label="{label}">{"".join(drawn)}</svg>'


def _settings(comparison: Comparison) -> Iterator[str]:
    if not comparison.differences and not comparison.unverified:
        return
    items = []
    for item in comparison.differences[:MAX_ROWS]:
        name = text(item.dimension + (f" at {item.call_site}" if item.call_site else ""), limit=NAME)
        effect = "declared" if item.is_declared else severity_word(item)
        told = "".join(f'<span class="line">{text(line)}</span>' for line in short_lines(item))
        if item.flag is not None and not item.is_declared:
            told += f'<span class="line">Declare it with <code>{text(item.flag, limit=2 * NAME)}</code></span>'
        items.append(f"<b>{name}</b> ({text(effect)}): {told}")
    for one in comparison.unverified[:MAX_ROWS]:
        why = f"{one.dimension or 'all settings'} at {one.call_site}: {one.why}"
        items.append(f"Not verified: {text(why, limit=SENTENCE)}")
    yield "<h2>Settings</h2>"
    yield listed(items)


def _cases(comparison: Comparison, details: Details, store: str | None, phoenix: str | None) -> Iterator[str]:
    changed = changed_cases(comparison)
    if changed:
        yield "<h2>Cases that changed</h2>"
    for case in changed[:MAX_CASES]:
        yield from _case(case, comparison, details, store, phoenix)
    if len(changed) > MAX_CASES:
        yield f"<p>And {len(changed) - MAX_CASES} more.</p>"


def _case(
    case: PairedCase, comparison: Comparison, details: Details, store: str | None, phoenix: str | None
) -> Iterator[str]:
    traces = comparison.traces.get(case.case, ((), ()))
    texts = [output_text(details.outputs.get(side[0])) if side else None for side in traces]
    means = ", ".join(f"{name} {case_value(case, name, is_score=True)}" for name in scores_shown(comparison))
    flags = f" <b>{text(told)}</b>" if (told := flags_text(comparison, case)) else ""
    yield f"<details><summary>{text(case.case, limit=NAME)}: {text(means, limit=3 * NAME)}{flags}</summary>"
    if parting := comparison.partings.get(case.case):
        command = show_command(parting.baseline, store, "--diff", parting.candidate)
        yield (
            f"<p>Differs first in: <b>{text(parted_text(comparison, case))}</b>. "
            f"Side by side: <code>{text(command, limit=2 * NAME)}</code></p>"
        )
    yield '<div class="pair">'
    for title, output, side in zip(("baseline", "candidate"), texts, traces, strict=True):
        shown = (
            "<p>No output is stored.</p>" if output is None else _preformatted(lines(output), f"Output of the {title}")
        )
        links = "".join(_trace(one, store, phoenix) for one in side[:MAX_TRACES])
        yield f"<section><h3>{title}</h3>{shown}{links}</section>"
    yield "</div>"
    if pieces := output_diff(*texts):
        yield f"<h3>Difference</h3>{_preformatted(_diff(pieces), 'Difference of both outputs')}"
    yield "</details>"


def _preformatted(html: str, label: str) -> str:
    return f'<pre tabindex="0" aria-label="{text(label)}">{html}</pre>'


def _diff(pieces: Sequence[Piece]) -> str:
    return "".join(lines(piece) if kind == "same" else f"<{kind}>{lines(piece)}</{kind}>" for kind, piece in pieces)


def _trace(trace_id: str, store: str | None, phoenix: str | None) -> str:
    command = f"<code>{text(show_command(trace_id, store), limit=2 * NAME)}</code>"
    if phoenix is None or urlsplit(phoenix).scheme not in ("http", "https"):
        return f"<p>{command}</p>"
    address = f"{phoenix.rstrip('/')}/redirects/traces/{quote(trace_id, safe='')}"
    return f'<p>{command} <a href="{text(address)}" rel="noreferrer">in Phoenix</a></p>'


def _times(plots: Sequence[PhasePlot]) -> Iterator[str]:
    if plots:
        yield '<h2 id="times">Times of model calls</h2>'
        yield (
            "<p>Each bar is a share of the run's calls; times grow tenfold within eight bars. Baseline above, candidate "
            "below.</p>"
        )
        rows = [(text(plot.name), text(plot.low), _bars(plot), text(plot.high), text(plot.counts)) for plot in plots]
        yield scrolled(html_table(PHASE_TITLES, rows, caption="Times of the model calls of both runs"), "times")


def _bars(plot: PhasePlot) -> str:
    label = text(f"{plot.name}, from {plot.low} to {plot.high}: {plot.counts}")
    size = f'viewBox="0 0 {PHASE_WIDTH} {PHASE_HEIGHT}" width="{PHASE_WIDTH}" height="{PHASE_HEIGHT}"'
    bars = "".join(
        f'<rect class="{bar.side}" x="{bar.x}" y="{bar.y}" width="{bar.width}" height="{bar.height}"/>'
        for bar in plot.bars
    )
    return f'<svg {size} role="img" aria-label="{label}">{bars}</svg>'
