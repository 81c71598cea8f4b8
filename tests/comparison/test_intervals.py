"""Intervals agree with published numbers and with other tools; each end is a one-sided test."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from agenttrace.comparison.intervals import (
    Floats,
    Interval,
    cluster_interval,
    pseudo_cases,
    skewness_corrected,
    t_interval,
    tango,
    widest,
)

SLEEP = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]) - np.array(
    [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
)
"""Student 1908: hours of sleep gained with two drugs, as R's `sleep` has them."""


def student(differences: Floats, alpha: float) -> Interval:
    n = len(differences)
    return t_interval(float(differences.mean()), float(differences.std(ddof=1)) / n**0.5, n - 1, alpha)


def test_students_sleep() -> None:
    """R 4: t.test(extra ~ group, data = sleep, paired = TRUE)."""
    found = student(SLEEP, 0.025)
    assert (found.low, found.high) == pytest.approx((-2.4598858, -0.7001142), abs=1e-7)
    assert 2 * found.p == pytest.approx(0.002832890, abs=1e-9)


@pytest.mark.parametrize(
    ("up", "down", "n", "low", "high"),
    [
        (1, 7, 21, -0.5172, -0.0260),
        (0, 0, 50, -0.07135, 0.07135),
        (0, 0, 21, -0.15464, 0.15464),
        (0, 0, 100, -0.0370, 0.0370),
    ],
)
def test_tangos_interval(up: int, down: int, n: int, low: float, high: float) -> None:
    """Airway data of Fagerland et al. 2013; without a change it is ±z²/(n + z²)."""
    found = tango(up, down, n, 0.025)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_tangos_p_is_mcnemars() -> None:
    """At no difference the score test is McNemar's: 0.0339 in the airway data, two-sided."""
    assert 2 * tango(1, 7, 21, 0.05).p == pytest.approx(0.0339, abs=5e-5)


def test_all_changed_one_way() -> None:
    """An end that nothing excludes is the scale's own."""
    assert tango(0, 5, 5, 0.05).low == -1
    assert tango(5, 0, 5, 0.05).high == 1


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 40))
def test_tango_mirrors(up: int, down: int, unchanged: int) -> None:
    """Swapping the runs mirrors the interval, which holds what was seen."""
    n = up + down + unchanged
    found, mirrored = tango(up, down, n, 0.05), tango(down, up, n, 0.05)
    assert (found.low, found.high) == pytest.approx((-mirrored.high, -mirrored.low), abs=1e-9)
    assert found.low <= (up - down) / n <= found.high


def test_the_cluster_interval() -> None:
    """√(G/(G−1)·Σ(Σu)²)/n with G − 1 degrees of freedom, and the other tool is statsmodels' sandwich."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(20), 3)
    differences = rng.normal(size=60) + np.repeat(rng.normal(size=20), 3)
    residuals = differences - differences.mean()
    error = np.sqrt(20 / 19 * sum(residuals[groups == g].sum() ** 2 for g in range(20))) / 60
    half = stats.t.ppf(0.95, 19) * error
    found = cluster_interval(differences, groups, 0.05)
    assert (found.low, found.high) == pytest.approx((differences.mean() - half, differences.mean() + half), abs=1e-10)
    assert found.high - found.low > student(differences, 0.05).high - student(differences, 0.05).low


def test_nothing_changed_is_not_nothing_can_change() -> None:
    """n equal cases leave an interval, which shrinks with n."""
    widths = [pseudo_cases(np.zeros(n), 1.0, 0.05).high for n in (10, 50, 200)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] > 0


def test_skewness_moves_the_low_end_down() -> None:
    """A few cases that broke outright: what Student's interval promises is too much."""
    broken = np.array([-1.0] * 3 + [0.02, -0.02, 0.0, 0.01] * 10)
    assert skewness_corrected(broken, 0.05).low < student(broken, 0.05).low
    assert skewness_corrected(np.tile([-0.5, 0.5], 20), 0.05).low == pytest.approx(
        student(np.tile([-0.5, 0.5], 20), 0.05).low
    )


@given(
    st.lists(st.floats(-1, 1), min_size=3, max_size=40),
    st.sampled_from([student, skewness_corrected, lambda d, a: pseudo_cases(d, 1.0, a)]),
)
def test_p_is_the_alpha_at_which_the_high_end_reaches_zero(values: list[float], interval: object) -> None:
    """Interval and p-value are one test, so that they never disagree."""
    differences = np.array(values)
    found = interval(differences, 0.05)  # type: ignore[operator]  # one of the three functions above
    if 1e-4 < found.p < 0.4 and differences.std() > 1e-3:
        assert interval(differences, found.p).high == pytest.approx(0, abs=1e-6)  # type: ignore[operator]


def test_the_widest_excludes_what_all_exclude() -> None:
    """Its p is the largest."""
    assert widest(Interval(-1, 2, 0.1), Interval(-2, 1, 0.3)) == Interval(-2, 2, 0.3)
