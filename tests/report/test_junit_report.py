"""JUnit XML: a test for the verdict, each primary metric and each case; red exactly where the exit code is."""

from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

import pytest

from agenttrace.comparison.outcome import Comparison
from agenttrace.report.junit_report import junit_report
from tests.report.reports import hostile, refused, regressed, undecided


def read(comparison: Comparison) -> dict[tuple[str, str], Element]:
    root = fromstring(junit_report(comparison))
    return {(test.get("classname", ""), test.get("name", "")): test for test in root.iter("testcase")}


def test_a_test_for_each_metric_and_case() -> None:
    """The verdict and the metric fail, and the cases that regressed; the others do not."""
    found = read(regressed())
    assert len(found) == 1 + 1 + 30
    assert found["agenttrace.verdict", "verdict"].find("failure") is not None
    assert found["agenttrace.metric", "correct"].find("failure") is not None
    assert found["agenttrace.case", "q1"].find("failure") is None
    assert found["agenttrace.case", "q9"].find("failure") is not None
    assert "1 → 0" in (found["agenttrace.case", "q9"].findtext("failure") or "")


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (regressed(), ("failures", 29)),
        (refused(), ("errors", 1)),
        (undecided(), ("failures", 1)),
        (undecided(on_inconclusive="warn"), ("failures", 0)),
    ],
)
def test_it_is_red_exactly_where_the_exit_code_is(comparison: Comparison, expected: tuple[str, int]) -> None:
    """What is only a warning is skipped; the counts are those of the elements."""
    root = fromstring(junit_report(comparison))
    name, number = expected
    assert int(root.get(name, "")) == number
    assert (int(root.get("failures", "")) + int(root.get("errors", "")) > 0) == (comparison.exit_code != 0)


def test_hostile_text_stays_text() -> None:
    """A name that XML cannot hold is still read back by a parser, and closes no element."""
    found = read(hostile())
    assert len(found) == 32
    assert any("<script>" in name for _, name in found)
