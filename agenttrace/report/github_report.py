"""Writes a comparison as annotations of a GitHub Actions run.

Source of the format: GitHub's "Workflow commands for GitHub Actions".
"""

from __future__ import annotations

from collections.abc import Iterator

from agenttrace.comparison.outcome import Comparison
from agenttrace.report.compare_report import flags_text, verdict_line
from agenttrace.report.escaping import visible

MAX_CASES = 5
"""A step shows ten annotations of each level: the verdict's reasons, then these."""

MAX_REASONS = 4

LEVELS = {"pass": "notice", "inconclusive": "warning"}


def github_annotations(comparison: Comparison) -> Iterator[str]:
    """One command a line: the verdict with its reasons, then cases that regressed."""
    level = LEVELS.get(comparison.verdict, "error")
    title = f"agenttrace: {verdict_line(comparison)}"
    for reason in comparison.reasons[:MAX_REASONS] or (title,):
        yield _command(level, title, reason)
    regressed = [
        case
        for case in comparison.cases
        if any(flag.flag == "regressed" for flag in comparison.flags.get(case.case, ()))
    ]
    for case in regressed[:MAX_CASES]:
        yield _command("warning", f"case {case.case}", flags_text(comparison, case))


def _command(level: str, title: str, message: str) -> str:
    name = _escaped(visible(title, limit=100)).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={name}::{_escaped(visible(message, limit=600))}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
