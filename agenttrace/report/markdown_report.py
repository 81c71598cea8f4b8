"""Writes a comparison as Markdown for a pull request: verdict first, one table, details folded.

Recorded text is hostile: every character that Markdown, HTML or GitHub would act on is written as an entity, which never
counts as structure (CommonMark, section 6.4 "Entity and numeric character references").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agenttrace.comparison.outcome import Comparison, MetricComparison
from agenttrace.report.compare_report import SLUGS, case_value, flags_text, parted_text, scores_shown, verdict_line
from agenttrace.report.escaping import visible
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
from agenttrace.report.setting_text import short_lines
from agenttrace.report.settings_report import severity_word

MARKER = "<!-- agenttrace-comparison -->"
"""The first line, always the same: a bot finds its comment by it and updates it."""

MAX_CHARACTERS = 60_000
"""GitHub takes comments of up to 65,536 characters."""

NAME = 60
"""Characters of a recorded name."""

SENTENCE = 600

MARKS = {"pass": "✅", "regressed": "❌", "inconclusive": "⚠️", "not_comparable": "⛔", "invalid": "⛔"}

_ACTED_ON = re.compile(r"[^\w \-]|_", re.ASCII)
_SUMMONS = re.compile("([@#])")


def markdown_report(comparison: Comparison) -> str:
    """The whole comment, of at most `MAX_CHARACTERS` characters."""
    head = [MARKER, f"## {MARKS[comparison.verdict]} agenttrace: {verdict_line(comparison)}", "", _runs(comparison), ""]
    head += [f"- {prose(reason)}" for reason in comparison.reasons[:20]]
    if comparison.verdict in SLUGS:
        head.append(f"- See `docs/messages.md#{SLUGS[comparison.verdict]}`.")
    parts = [*head, "", *_fitting(_metrics(comparison), MAX_CHARACTERS // 3, "metric")]
    parts += _folded("Settings that differ", _differences(comparison), "difference")
    parts += _folded(
        "Not verified", [f"- {code(one.dimension or 'all settings')} {prose(one.why)}" for one in comparison.unverified]
    )
    parts += _folded("Cases that differ most", _cases(comparison), "case")
    parts += _folded("Notes", [f"- {prose(note)}" for note in comparison.notes])
    return "\n".join(parts).rstrip() + "\n"


def code(text: str, limit: int = NAME) -> str:
    """Recorded text where nothing in it is acted on, neither by Markdown nor by who is mentioned."""
    return f"<code>{_entities(visible(text, limit=limit))}</code>"


def prose(text: str, limit: int = SENTENCE) -> str:
    """A sentence that may quote recorded text. GitHub notifies `@name` and links `#12` anywhere but in code."""
    pieces = _SUMMONS.split(visible(text, limit=limit))
    return "".join(code(piece) if piece in ("@", "#") else _entities(piece) for piece in pieces)


def _entities(text: str) -> str:
    return _ACTED_ON.sub(lambda match: f"&#{ord(match[0])};" if match[0].isascii() else match[0], text)


def _runs(comparison: Comparison) -> str:
    names = [f"{code(run.name)} ({code(run.run_id, 8)})" for run in (comparison.baseline, comparison.candidate)]
    cases = f", {quantity(len(comparison.cases), 'case')} in both" if comparison.cases else ""
    return f"Baseline {names[0]}, candidate {names[1]}{cases}."


def _metrics(comparison: Comparison) -> list[str]:
    if not comparison.metrics:
        return []
    level = percent(1 - 2 * comparison.policy.alpha)
    ordered = in_order(comparison.metrics)
    return [
        f"| metric | cases | baseline → candidate | difference | {level} interval | margin | verdict |",
        "|---|--:|--:|--:|--:|--:|---|",
        *(_metric_row(metric) for metric in ordered),
    ]


def _metric_row(metric: MetricComparison) -> str:
    name = f"**{code(metric.name)}**" if metric.primary else code(metric.name)
    cells = (
        sample_text(metric),
        values_text(metric),
        difference_text(metric, metric.delta),
        interval_text(metric),
        margin_text(metric),
        verdict_text(metric).plain,
    )
    return f"| {name} | {' | '.join(cells)} |"


def _differences(comparison: Comparison) -> list[str]:
    return [
        f"- {code(item.dimension)}{f' at {code(item.call_site)}' if item.call_site else ''}, "
        f"{'declared' if item.is_declared else severity_word(item)}: {prose('; '.join(short_lines(item)))}"
        + (f" Declare it with {code(item.flag, 120)}." if item.flag and not item.is_declared else "")
        for item in comparison.differences
    ]


def _cases(comparison: Comparison) -> list[str]:
    scores = scores_shown(comparison)
    shown = [case for case in comparison.cases if any(case.difference)]
    if not shown:
        return []
    titles = ["case", *(code(name, 24) for name in scores), "latency_s", "changed", "differs first in"]
    rows = [
        [
            code(case.case),
            *(case_value(case, name, is_score=True) for name in scores),
            case_value(case, "latency_s", is_score=False),
            prose(flags_text(comparison, case)),
            parted_text(comparison, case),
        ]
        for case in shown
    ]
    return [f"| {' | '.join(titles)} |", "|---|" + "--:|" * (len(scores) + 1) + "---|---|"] + [
        f"| {' | '.join(row)} |" for row in rows
    ]


def _folded(title: str, lines: Sequence[str], thing: str = "line") -> Iterator[str]:
    if lines:
        inside = _fitting(lines, MAX_CHARACTERS // 8, thing)
        yield from ("", f"<details><summary>{title}</summary>", "", *inside, "", "</details>")


def _fitting(lines: Sequence[str], budget: int, thing: str) -> Iterator[str]:
    """The lines that fit, and how many more there are."""
    for number, line in enumerate(lines):
        budget -= len(line) + 1
        if budget < 0:
            yield ""
            yield f"And {quantity(len(lines) - number, thing)} more, in the other reports."
            return
        yield line
