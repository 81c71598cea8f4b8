"""Writes a comparison as one HTML file that needs no network and runs no script.

Outputs are hostile input: Jinja escapes whatever it fills in, attributes of the plots too, and the page's own policy forbids all but
its one style sheet. The plots are in the template for that: of the libraries that write SVG, svg.py (1.10) escapes nothing and drawsvg
(2.4) leaves attributes as they are.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from agenttrace.comparison.outcome import Comparison, MetricComparison
from agenttrace.comparison.pairing import PairedCase
from agenttrace.errors import MissingExtra
from agenttrace.report.compare_report import case_value, flags_text, parted_text, scores_shown, verdict_line
from agenttrace.report.distribution_plot import phase_plots
from agenttrace.report.escaping import visible
from agenttrace.report.hints import show_command
from agenttrace.report.html_page import POLICY
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
from agenttrace.report.output_diff import output_diff, output_text
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


def changed_cases(comparison: Comparison) -> list[PairedCase]:
    """Those of which a score differs; the first `MAX_CASES` are shown with their outputs."""
    return [case for case in comparison.cases if case.difference[0] or case.case in comparison.flags]


def html_report(comparison: Comparison, details: Details, *, store: str | None, phoenix: str | None) -> str:
    """The whole page. `phoenix` is the address of one that has the traces, where that is known.

    Raises:
        MissingExtra: Jinja is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtra("eval", "Writing HTML") from error

    environment = Environment(
        loader=PackageLoader("agenttrace.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    style = environment.get_template("comparison.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = _page(comparison, details, store, phoenix)
    return environment.get_template("comparison.html.jinja").render(page=page, policy=POLICY.format(hash=digest))


def _page(comparison: Comparison, details: Details, store: str | None, phoenix: str | None) -> dict[str, Any]:
    changed = changed_cases(comparison)
    ordered = in_order(comparison.metrics)[:MAX_ROWS]
    return {
        "verdict": verdict_line(comparison),
        "verdict_class": CLASSES.get(comparison.verdict, "refused"),
        "baseline": run_name(comparison.baseline),
        "candidate": run_name(comparison.candidate),
        "cases": quantity(len(comparison.cases), "case") if comparison.cases else "",
        "level": percent(1 - 2 * comparison.policy.alpha),
        "reasons": [visible(reason, limit=SENTENCE) for reason in comparison.reasons[:MAX_ROWS]],
        "notes": [visible(note, limit=SENTENCE) for note in comparison.notes[:MAX_ROWS]],
        "metrics": [_metric(metric) for metric in ordered],
        "differences": _differences(comparison),
        "unverified": [
            visible(f"{one.dimension or 'all settings'} at {one.call_site}: {one.why}", limit=SENTENCE)
            for one in comparison.unverified[:MAX_ROWS]
        ],
        "changed": [_case(case, comparison, details, store, phoenix) for case in changed[:MAX_CASES]],
        "more_changed": max(0, len(changed) - MAX_CASES),
        "phases": phase_plots(details.baseline_times, details.candidate_times),
    }


def _metric(metric: MetricComparison) -> dict[str, Any]:
    return {
        "name": visible(metric.name, limit=NAME),
        "primary": metric.primary,
        "sample": sample_text(metric),
        "means": values_text(metric),
        "difference": difference_text(metric, metric.delta),
        "interval": interval_text(metric),
        "margin": margin_text(metric),
        "verdict": verdict_text(metric).plain,
        "plot": _plot(metric),
    }


def _plot(metric: MetricComparison) -> dict[str, float | None] | None:
    """Places along one line, in the plot's units; an end that nothing bounds is the plot's edge."""
    if metric.delta is None or metric.method is None:
        return None
    worse = -1 if metric.better == "higher" else 1
    margin = None if metric.margin is None else worse * metric.margin
    held = [0.0, metric.delta, *(value for value in (metric.low, metric.high, margin) if value is not None)]
    first, last = min(held), max(held)
    scale = (PLOT_WIDTH - 2 * PLOT_EDGE) / ((last - first) or 1.0)

    def place(value: float) -> float:
        return round(PLOT_EDGE + (value - first) * scale, 1)

    return {
        "zero": place(0.0),
        "delta": place(metric.delta),
        "low": 0 if metric.low is None else place(metric.low),
        "high": PLOT_WIDTH if metric.high is None else place(metric.high),
        "margin": None if margin is None else place(margin),
    }


def _differences(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "name": visible(item.dimension + (f" at {item.call_site}" if item.call_site else ""), limit=NAME),
            "effect": "declared" if item.is_declared else severity_word(item),
            "lines": short_lines(item),
            "flag": None if item.is_declared or item.flag is None else visible(item.flag, limit=2 * NAME),
        }
        for item in comparison.differences[:MAX_ROWS]
    ]


def _case(
    case: PairedCase, comparison: Comparison, details: Details, store: str | None, phoenix: str | None
) -> dict[str, Any]:
    traces = comparison.traces.get(case.case, ((), ()))
    texts = [output_text(details.outputs.get(side[0])) if side else None for side in traces]
    names = scores_shown(comparison)
    return {
        "name": visible(case.case, limit=NAME),
        "means": ", ".join(f"{visible(name, limit=24)} {case_value(case, name, is_score=True)}" for name in names),
        "flags": flags_text(comparison, case),
        "parted": parted_text(comparison, case),
        "side_by_side": _side_by_side(comparison, case, store),
        "sides": [
            {"title": title, "text": text, "traces": [_trace(one, store, phoenix) for one in side[:MAX_TRACES]]}
            for title, text, side in zip(("baseline", "candidate"), texts, traces, strict=True)
        ],
        "diff": output_diff(*texts),
    }


def _side_by_side(comparison: Comparison, case: PairedCase, store: str | None) -> str | None:
    parting = comparison.partings.get(case.case)
    if parting is None:
        return None
    return visible(show_command(parting.baseline, store, "--diff", parting.candidate), limit=2 * NAME)


def _trace(trace_id: str, store: str | None, phoenix: str | None) -> dict[str, str | None]:
    is_web = phoenix is not None and urlsplit(phoenix).scheme in ("http", "https")
    return {
        "command": visible(show_command(trace_id, store), limit=2 * NAME),
        "address": f"{phoenix.rstrip('/')}/redirects/traces/{quote(trace_id, safe='')}" if phoenix and is_web else None,
    }
