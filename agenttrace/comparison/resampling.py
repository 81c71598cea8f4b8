"""Quantiles and totals of both runs, with intervals from resampling cases together with all their repetitions.

The percentile bootstrap, since no formula gives these a standard error; seeded, so that a comparison can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import Final, TypeAlias

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

FAR: Final = 6
"""Standard deviations beyond which an order statistic has no weight."""

MAX_PLACES: Final = 600
"""Order statistics that are looked at one by one about a quantile."""

GRID: Final = 10_001
"""Places at which the beta distribution is tabulated."""

QUANTILES: Final = (0.5, 0.9, 0.95, 0.99)

Weights: TypeAlias = npt.NDArray[np.uint8]


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
    attempts = _attempts(metric)
    estimable = [q for q in quantiles if metric.n >= MIN_CASES and attempts * (1 - q) >= MIN_BEYOND]
    if not estimable:
        return ()
    sides = [_Pooled(metric.cases, side) for side in (metric.before, metric.after)]
    observed = [side.quantiles(np.ones((metric.n, 1), dtype=np.uint8), estimable)[0] for side in sides]
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
    attempts = _attempts(metric)
    totals = [np.array([fmean(side[case]) for case in metric.cases]) for side in (metric.before, metric.after)]
    sums = [float(side.sum()) for side in totals]
    if metric.n < 2 or sums[0] <= 0 or sums[1] <= 0 or any((side < 0).any() for side in totals):
        return None
    drawn = np.concatenate(
        [
            (totals[1] @ drawn) / np.maximum(totals[0] @ drawn, 1e-300)
            for weights in _resampled(metric.n, attempts)
            for drawn in (weights.astype(np.float64),)
        ]
    )
    low, high = np.quantile(drawn, (alpha, 1 - alpha))
    p = float((drawn <= 1).mean())
    return Ratio(name="total", baseline=sums[0], candidate=sums[1], low=float(low), high=float(high), p=p)


def _attempts(metric: PairedMetric) -> int:
    return min(sum(len(side[case]) for case in metric.cases) for side in (metric.before, metric.after))


def _resampled(cases: int, values: int) -> Iterator[Weights]:
    """How often each case is drawn, a row a case and a column a resample: so neighbours in memory are used together."""
    yield from _draws(cases, int(min(RESAMPLES, max(MIN_RESAMPLES, MAX_DRAWN // values))))


@lru_cache(maxsize=2)
def _draws(cases: int, resamples: int) -> tuple[Weights, ...]:
    """In batches; the same for every metric of a comparison, so they are kept."""
    rng = np.random.default_rng(SEED)
    batches = []
    while resamples:
        rows = min(resamples, max(1, BATCH // cases))
        drawn = rng.integers(0, cases, size=(rows, cases), dtype=np.int32) + np.arange(rows)[:, None] * cases
        # No case is ever drawn 255 times: the chance is below 1 in 10**400.
        counts = np.bincount(drawn.ravel(), minlength=rows * cases).reshape(rows, cases).astype(np.uint8)
        batches.append(np.ascontiguousarray(counts.T))
        resamples -= rows
    return tuple(batches)


class _Pooled:
    """The attempts of one run, in order of their values."""

    def __init__(self, cases: Sequence[str], values: Mapping[str, Sequence[float]]) -> None:
        by_case = [values[case] for case in cases]
        pooled = np.concatenate([np.asarray(each, dtype=np.float64) for each in by_case])
        self._counts = np.array([len(each) for each in by_case], dtype=np.float64)
        owners = np.repeat(np.arange(len(cases)), self._counts.astype(np.intp))
        order = np.argsort(pooled, kind="stable")
        self._values, self._owners = pooled[order], owners[order]

    def quantiles(self, weights: Weights, quantiles: Sequence[float]) -> Floats:
        """Of each column of weights: a row of the quantiles."""
        exact = weights.astype(np.float64)
        totals = self._counts @ exact
        return np.stack([self._harrell_davis(weights, exact, totals, q) for q in quantiles], axis=1)

    def _harrell_davis(self, weights: Weights, exact: Floats, totals: Floats, q: float) -> Floats:
        """All order statistics, weighted by how probably each is the quantile: by a beta distribution about q.

        Only those near it have weight, so that of many attempts no more are looked at.
        """
        attempts, cases = len(self._values), len(self._counts)
        spread = FAR * np.sqrt(q * (1 - q) / (attempts + 2))
        reach = spread + FAR * np.sqrt(q * (1 - q) / cases)
        first, last = max(int((q - reach) * attempts), 0), min(int((q + reach) * attempts) + 1, attempts)
        # Of very many, neighbours are taken together: they hardly differ.
        together = max(1, (last - first) // MAX_PLACES)
        last -= (last - first) % together
        values = self._values[first:last].reshape(-1, together).mean(axis=1)
        below = np.bincount(self._owners[:first], minlength=cases).astype(np.float64)
        counts = weights[self._owners[first:last]].reshape(-1, together, weights.shape[1])
        drawn = np.cumsum(counts.sum(axis=1, dtype=np.float64), axis=0)
        drawn += below @ exact
        drawn /= totals
        low, high = max(q - spread, 0), min(q + spread, 1)
        chances = special.betainc((attempts + 1) * q, (attempts + 1) * (1 - q), np.linspace(low, high, GRID))
        chances[0], chances[-1] = 0.0, 1.0
        cumulated = chances[np.clip((drawn - low) * ((GRID - 1) / (high - low)) + 0.5, 0, GRID - 1).astype(np.intp)]
        # The sum of weights times values by parts: weights are what `cumulated` grows by.
        return np.asarray(cumulated[-1] * values[-1] - np.diff(values) @ cumulated[:-1])
