"""Ranks of quantiles and of their intervals."""

from __future__ import annotations

import random

import pytest
from scipy import stats

from agenttrace.phases.quantiles import QUANTILES, Ranks, quantile_ranks, share_at_least, smallest_sample


@pytest.mark.parametrize("n", [6, 7, 50, 368, 1_000, 100_000])
@pytest.mark.parametrize("share", QUANTILES.values())
def test_each_end_is_wrong_at_most_a_fortieth_of_the_time(n: int, share: float) -> None:
    """The interval is the tightest whose ends are each wrong with at most 2.5 %, as scipy's binomial distribution says."""
    ranks = quantile_ranks(n, share)
    low, high = int(stats.binom.ppf(0.025, n, share)), int(stats.binom.ppf(0.975, n, share)) + 1
    if low < 1 or high > n:
        assert ranks is None
        return
    assert ranks is not None
    assert (ranks.low, ranks.high) == (low, high)
    assert stats.binom.cdf(ranks.low - 1, n, share) <= 0.025 < stats.binom.cdf(ranks.low, n, share)
    assert stats.binom.sf(ranks.high - 1, n, share) <= 0.025


def test_a_small_sample_has_no_tail() -> None:
    """Of six values the smallest and the largest hold the median in 97 % of samples; p99 takes 368."""
    assert quantile_ranks(6, 0.5) == Ranks(low=1, value=3, high=6)
    assert quantile_ranks(5, 0.5) is None
    assert quantile_ranks(0, 0.5) is None
    assert {name: smallest_sample(share) for name, share in QUANTILES.items()} == {
        "p50": 6,
        "p90": 36,
        "p95": 72,
        "p99": 368,
    }


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_intervals_hold_the_quantile_as_often_as_they_say(share: float) -> None:
    """Over many samples of a skewed distribution the true quantile is inside in at least 95 % of them."""
    source, truth, inside = random.Random(4), stats.expon.ppf(share), 0
    for _ in range(2_000):
        values = sorted(source.expovariate(1) for _ in range(60))
        ranks = quantile_ranks(60, share)
        assert ranks is not None
        inside += values[ranks.low - 1] <= truth <= values[ranks.high - 1]
    assert inside / 2_000 >= 0.945  # 0.95 less two standard errors of 2,000 samples


def test_the_least_share_is_that_of_clopper_and_pearson() -> None:
    """As scipy's exact test of proportions; of no hit nothing follows."""
    for hits, n in ((1, 1), (41, 60), (60, 60), (3, 1_000)):
        assert share_at_least(hits, n) == pytest.approx(stats.binomtest(hits, n).proportion_ci(0.95, "exact").low)
    assert share_at_least(0, 10) == 0
