"""Annotations: one command a line, whatever was recorded."""

from __future__ import annotations

import pytest

from agenttrace.comparison.outcome import Comparison
from agenttrace.report.github_report import MAX_CASES, github_annotations
from tests.report.reports import hostile, refused, regressed, undecided


@pytest.mark.parametrize(
    ("comparison", "level"), [(regressed(), "error"), (refused(), "error"), (undecided(), "warning")]
)
def test_the_verdict_has_its_level(comparison: Comparison, level: str) -> None:
    """Regressed and not comparable are errors, inconclusive is a warning."""
    first = next(github_annotations(comparison))
    assert first.startswith(f"::{level} title=agenttrace%3A {comparison.verdict.replace('_', ' ')}")


def test_regressed_cases_are_named() -> None:
    """A few of them, since a step shows ten annotations of a level."""
    lines = list(github_annotations(regressed()))
    assert sum("title=case" in line for line in lines) == MAX_CASES


def test_a_name_begins_no_command() -> None:
    """A line break or a colon in a name stays in its annotation."""
    for line in github_annotations(hostile()):
        assert "\n" not in line
        head = line.removeprefix("::").partition("::")[0]
        assert head.split(" ")[0] in ("error", "warning")
        assert head.count(":") == 0
