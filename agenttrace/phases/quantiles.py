"""Which of n sorted values stand for a quantile and for its confidence interval. In: how many values. Out: their ranks.

Distribution-free: nothing is assumed of the values but that they come from one distribution. The rank below which a
quantile falls is binomial, so two order statistics bound it. Source: Hahn and Meeker 1991, Statistical Intervals, 5.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

CONFIDENCE = 0.95

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""What is shown of every distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Places among sorted values, from 1."""

    low: int
    value: int
    high: int


@lru_cache(maxsize=4096)
def quantile_ranks(n: int, share: float, confidence: float = CONFIDENCE) -> Ranks | None:
    """The ranks of the quantile `share` of `n` values, and of its interval. None where n is too small for both ends.

    Each end is wrong at most (1 - confidence) / 2 of the time.
    """
    if n < 1:
        return None
    tail = (1 - confidence) / 2
    low, high = _binomial_quantile(tail, n, share), _binomial_quantile(1 - tail, n, share) + 1
    if low < 1 or high > n:
        return None
    return Ranks(low=low, value=max(ceil(n * share), 1), high=high)


def _binomial_quantile(probability: float, n: int, share: float) -> int:
    """The smallest k with P(B <= k) >= probability. As `scipy.stats.binom.ppf`, whose module takes a second to import."""
    from scipy import special

    k: int = max(ceil(special.bdtrik(probability, n, share)), 0)
    return k - 1 if k > 0 and special.bdtr(k - 1, n, share) >= probability else k


def smallest_sample(share: float) -> int:
    """How many values it takes until the quantile `share` can be estimated."""
    n = 1
    while quantile_ranks(n, share) is None:
        n += 1
    return n


def wanted_ranks(n: int) -> list[int]:
    """The ranks that all quantiles of n values need, in order."""
    found: Iterable[Ranks | None] = (quantile_ranks(n, share) for share in QUANTILES.values())
    return sorted({rank for ranks in found if ranks for rank in (ranks.low, ranks.value, ranks.high)})


def share_at_least(hits: int, n: int, confidence: float = CONFIDENCE) -> float:
    """The least share of all that `hits` of `n` are compatible with: Clopper and Pearson's lower bound."""
    from scipy import special

    return float(special.betaincinv(hits, n - hits + 1, (1 - confidence) / 2)) if hits else 0.0
