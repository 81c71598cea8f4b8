"""Quantiles and totals of both runs, with intervals from resampling cases together with all their repetitions.

The percentile bootstrap, since no formula gives these a standard error; seeded, so that a comparison can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import special

from agenttrace.comparison.intervals import Floats
from agenttrace.comparison.pairing import PairedMetric

SEED: Final = 20_261_201

RESAMPLES: Final = 10_000
MIN_RESAMPLES: Final = 1_000
MAX_DRAWN: Final = 10_000_000
"""Values that all resamples of one metric may hold together: with many attempts there are fewer resamples."""

BATCH: Final = 2_000_000
"""Values of resamples that are held at a time."""

MIN_CASES: Final = 30
MIN_BEYOND: Final = 10
"""Attempts that must lie beyond a quantile, for it to be estimable."""

QUANTILES: Final = (0.5, 0.9, 0.95, 0.99)

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Of the candidate to the baseline."""

    name: str
    """`p95` or `total`."""
    baseline: float
    candidate: float
    low: float
    """Bounds of candidate ÷ baseline."""
    high: float
    p: float
    """Share of the resamples in which the candidate's is not higher."""

    @property
    def ratio(self) -> float:
        return self.candidate / self.baseline


def quantile_ratios(metric: PairedMetric, alpha: float, quantiles: Sequence[float] = QUANTILES) -> tuple[Ratio, ...]:
    """Of attempts, by Harrell and Davis's estimator (1982). Only those that the runs have enough attempts beyond."""
    attempts = min(sum(len(side[case]) for case in metric.cases) for side in (metric.before, metric.after))
    estimable = [q for q in quantiles if metric.n >= MIN_CASES and attempts * (1 - q) >= MIN_BEYOND]
    if not estimable:
        return ()
    sides = [_Pooled(metric.cases, side) for side in (metric.before, metric.after)]
    observed = [side.quantiles(np.ones((1, metric.n)), estimable)[0] for side in sides]
    if not all((values > 0).all() for values in observed):
        return ()
    drawn: list[Floats] = []
    for weights in _resampled(metric.n, attempts):
        before, after = (side.quantiles(weights, estimable) for side in sides)
        drawn.append(after / before)
    ratios = np.concatenate(drawn)
    bounds = np.quantile(ratios, (alpha, 1 - alpha), axis=0)
    return tuple(
        Ratio(
            name=f"p{q * 100:g}",
            baseline=float(observed[0][place]),
            candidate=float(observed[1][place]),
            low=float(bounds[0, place]),
            high=float(bounds[1, place]),
            p=float((ratios[:, place] <= 1).mean()),
        )
        for place, q in enumerate(estimable)
    )


def total_ratio(metric: PairedMetric, alpha: float) -> Ratio | None:
    """Of what one attempt at every case comes to, all cases together; None where a side comes to nothing."""
    totals = [np.array([np.mean(side[case]) for case in metric.cases]) for side in (metric.before, metric.after)]
    sums = [float(side.sum()) for side in totals]
    if metric.n < 2 or sums[0] <= 0 or sums[1] <= 0 or any((side < 0).any() for side in totals):
        return None
    drawn = np.concatenate(
        [(weights @ totals[1]) / np.maximum(weights @ totals[0], 1e-300) for weights in _resampled(metric.n, metric.n)]
    )
    low, high = np.quantile(drawn, (alpha, 1 - alpha))
    p = float((drawn <= 1).mean())
    return Ratio(name="total", baseline=sums[0], candidate=sums[1], low=float(low), high=float(high), p=p)


def _resampled(cases: int, values: int) -> Iterator[Weights]:
    """How often each case is drawn, a row a resample."""
    rng = np.random.default_rng(SEED)
    left = int(min(RESAMPLES, max(MIN_RESAMPLES, MAX_DRAWN // values)))
    while left:
        rows = min(left, max(1, BATCH // max(values, cases)))
        drawn = rng.integers(0, cases, size=(rows, cases)) + np.arange(rows)[:, None] * cases
        yield np.bincount(drawn.ravel(), minlength=rows * cases).reshape(rows, cases).astype(np.float64)
        left -= rows


class _Pooled:
    """The attempts of one run, in order of their values."""

    def __init__(self, cases: Sequence[str], values: Mapping[str, Sequence[float]]) -> None:
        by_case = [values[case] for case in cases]
        pooled = np.concatenate([np.asarray(each, dtype=np.float64) for each in by_case])
        owners = np.repeat(np.arange(len(cases)), [len(each) for each in by_case])
        order = np.argsort(pooled, kind="stable")
        self._values, self._owners = pooled[order], owners[order]

    def quantiles(self, weights: Weights, quantiles: Sequence[float]) -> Floats:
        """Of each row of weights, one a case: a row of the quantiles."""
        drawn = np.cumsum(weights[:, self._owners], axis=1)
        total = drawn[:, -1:]
        shares = drawn / total
        return np.stack([self._harrell_davis(shares, q) for q in quantiles], axis=1)

    def _harrell_davis(self, shares: Floats, q: float) -> Floats:
        n = len(self._values)
        grid = np.linspace(0, 1, 4001)
        # Finer where the weight lies: of many attempts only those near the quantile count.
        spread = 8 * np.sqrt(q * (1 - q) / (n + 2))
        near = np.linspace(max(q - spread, 0), min(q + spread, 1), 4001)
        places = np.union1d(grid, near)
        cumulated = np.interp(shares, places, special.betainc((n + 1) * q, (n + 1) * (1 - q), places))
        weights = np.diff(cumulated, axis=1, prepend=0.0)
        return np.asarray(weights @ self._values)
