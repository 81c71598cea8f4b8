"""Two traces side by side as an HTML page: what differs, first difference first, then settings, phases and steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agenttrace.comparison.trace_diff import Difference, TraceDiff
from agenttrace.phases.summary import latest_ns
from agenttrace.records import SpanRecord
from agenttrace.report.html_page import html_page, html_table, lines, text
from agenttrace.report.numbers import duration, quantity
from agenttrace.report.setting_text import short_lines
from agenttrace.report.settings_report import at_sites
from agenttrace.report.trace_diff_report import (
    MAX_DEPTH,
    diff_lines,
    difference_name,
    marks_of,
    phase_cells,
    step_marks,
    step_times,
)

MAX_DIFFERENCES = 200
MAX_STEPS = 2_000
MAX_LINES = 400

SIDES = ("baseline", "candidate", "difference")
INDENT = "&nbsp;" * 3


def trace_diff_page(diff: TraceDiff, before: Sequence[SpanRecord], after: Sequence[SpanRecord]) -> str:
    """The whole page; both traces with their spans in start order."""
    body = [
        f"<p>{_about('baseline', before)}<br>{_about('candidate', after)}</p>",
        "<h2>Where they part</h2>",
        *_differences(diff),
        *_settings(diff),
        *_tables(diff),
    ]
    return html_page(f"{after[0].name}: two traces side by side", body)


def _about(side: str, spans: Sequence[SpanRecord]) -> str:
    took = duration(latest_ns(spans) - spans[0].start_ns)
    return f"{side}: trace <code>{text(spans[0].trace_id)}</code>, {text(quantity(len(spans), 'step'))}, {text(took)}"


def _differences(diff: TraceDiff) -> Iterator[str]:
    if not diff.differences:
        yield "<p>Both were given the same and gave the same, at every step that is recorded.</p>"
    for place, difference in enumerate(diff.differences[:MAX_DIFFERENCES]):
        opened = " open" if place == 0 else ""
        yield f"<details{opened}><summary>{text(difference_name(difference))}, {text(duration(difference.offset_ns))} after the start</summary>"
        yield f"<pre>{lines(_lines(difference))}</pre></details>"
    if len(diff.differences) > MAX_DIFFERENCES:
        yield f"<p>And {len(diff.differences) - MAX_DIFFERENCES} more.</p>"


def _lines(difference: Difference) -> str:
    if difference.part == "steps":
        return f"only the {'candidate' if difference.before is None else 'baseline'} has this step"
    told = diff_lines(difference.before, difference.after)
    return "\n".join(told[:MAX_LINES] + (["…"] if len(told) > MAX_LINES else []))


def _settings(diff: TraceDiff) -> Iterator[str]:
    if diff.settings:
        yield "<h2>Settings that differ</h2><ul>"
        for item in diff.settings:
            name = f"{item.dimension} {at_sites([item.call_site])}"
            yield f"<li><b>{text(name)}</b>: {lines(chr(10).join(short_lines(item)))}</li>"
        yield "</ul>"


def _tables(diff: TraceDiff) -> Iterator[str]:
    if diff.phases:
        yield "<h2>Phases of all model calls</h2>"
        rows = [[text(cell) for cell in phase_cells(phase)] for phase in diff.phases]
        yield html_table(("phase", *SIDES), rows, caption="Time of each phase in both traces")
    marks = marks_of(diff)
    rows = [
        [
            INDENT * min(pair.depth, MAX_DEPTH) + text(pair.step.name),
            *map(text, (*step_times(pair), step_marks(pair, marks))),
        ]
        for pair in diff.pairs[:MAX_STEPS]
    ]
    yield "<h2>Steps</h2>"
    yield html_table(("step", *SIDES, "differs"), rows, caption="Time of each step in both traces, and what differs")
    if len(diff.pairs) > MAX_STEPS:
        yield f"<p>{len(diff.pairs) - MAX_STEPS} steps are not shown.</p>"
