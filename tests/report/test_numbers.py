"""Numbers are written for people: three digits, the unit that suits, and unknown as unknown."""

from __future__ import annotations

import pytest

from agenttrace.report.numbers import between, count, duration, percent, rate


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "unknown"), (0, "0 s"), (1_500, "1.5 µs"), (20_112_000, "20.1 ms"), (1_200_000_000, "1.2 s"),
        (6_000_000_000, "6.0 s"), (125_000_000_000, "2 min 5 s"), (-2_000_000, "−2 ms"),
    ],
)  # fmt: skip
def test_a_duration_has_the_unit_that_suits_it(ns: int | None, text: str) -> None:
    """An unknown duration is not zero."""
    assert duration(ns) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (2_100_000_000, 2_400_000_000, "2.1 to 2.4 s"), (None, None, "unknown"), (5_000_000, None, "at least 5 ms"),
        (None, 5_000_000, "at most 5 ms"),
    ],
)  # fmt: skip
def test_bounds_are_said_as_bounds(low: int | None, high: int | None, text: str) -> None:
    """What is only bounded is not given as a number."""
    assert between(low, high) == text


def test_shares_counts_and_rates() -> None:
    """A share that is there is never drawn as none."""
    assert (percent(0.2), percent(0.0004), percent(0)) == ("20 %", "<0.1 %", "0 %")
    assert count(4000) == "4,000"
    assert rate(4444.44) == "4,444 tokens/s"
    assert rate(None) == "unknown"
