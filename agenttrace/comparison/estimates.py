"""From the values of both runs to a mean difference, its interval, and what its variance is made of.

The case is the unit: the repetitions of a case are averaged first, so that trying a case more often makes no more cases.
Model and notation: Miller 2024, "Adding error bars to evals", equations 9 and 10.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agenttrace.comparison.intervals import (
    ALMOST,
    Floats,
    Interval,
    cluster_interval,
    pseudo_cases,
    skewness_corrected,
    t_interval,
    tango,
    widest,
)
from agenttrace.comparison.metrics import Effect
from agenttrace.comparison.pairing import PairedMetric

FEW_CHANGED = 10
"""With fewer changed cases the differences are no sample to compute a variance from."""

FEW_BINARY = 20
"""Below this many cases Tango's interval alone errs up to 6.7 % instead of 5 % (`benchmarks/calibration.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One metric of both runs, averaged by case and turned so that more is better; logarithms where the effect is relative."""

    before: Floats
    after: Floats
    k_before: Floats
    """Repetitions of each case."""
    k_after: Floats
    noise_before: float | None
    """Mean over cases of the variance of a case's mean; None where no case has two repetitions."""
    noise_after: float | None
    is_binary: bool
    """Every value is 0 or 1, and each case has one."""
    score_range: float
    """How far a case can change; 0 where nothing tells."""
    is_bounded: bool
    clusters: tuple[str, ...] | None
    """Of each case; None where every case stands for itself."""
    effect: Effect

    @property
    def differences(self) -> Floats:
        return self.after - self.before

    @property
    def n(self) -> int:
        return len(self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean difference, turned so that more is better."""

    n: int
    delta: float
    interval: Interval
    method: str
    """How the interval was had."""
    standard_error: float | None
    """None with one case."""
    sd: float | None
    """Of the differences of cases."""
    up: int
    down: int
    """Cases that changed for the better, and for the worse."""
    correlation: float | None
    """Of the cases' means in both runs; None where one of them does not vary."""
    noise_share: float | None
    """How much of the variance of differences is sampling noise of repetitions; None where no case has two."""
    clusters: int | None
    """Independent sources; None where every case stands for itself."""


def sample(metric: PairedMetric, clusters: Mapping[str, str] | None = None) -> Sample:
    """A metric's values as arrays."""
    before, after = ([list(side[case]) for case in metric.cases] for side in (metric.before, metric.after))
    is_relative = metric.key.kind in ("time", "cost") and all(value > 0 for side in (before, after) for each in side for value in each)  # fmt: skip
    values = [np.array([value for each in side for value in each], dtype=np.float64) for side in (before, after)]
    if is_relative:
        values = [np.log(side) for side in values]
    counts = [np.array([len(each) for each in side], dtype=np.float64) for side in (before, after)]
    (mean_before, noise_before), (mean_after, noise_after) = (
        _by_case(metric.key.sign * side, count) for side, count in zip(values, counts, strict=True)
    )
    pooled = np.concatenate(values)
    is_single = bool((counts[0] == 1).all() and (counts[1] == 1).all())
    named = None
    if clusters and len({clusters[case] for case in metric.cases if case in clusters}) < sum(
        case in clusters for case in metric.cases
    ):
        named = tuple(clusters.get(case, f"\0{case}") for case in metric.cases)
    return Sample(
        before=mean_before,
        after=mean_after,
        k_before=counts[0],
        k_after=counts[1],
        noise_before=noise_before,
        noise_after=noise_after,
        is_binary=is_single and metric.is_bounded and bool(np.isin(pooled, (0.0, 1.0)).all()),
        score_range=1.0 if metric.is_bounded else float(pooled.max() - pooled.min()),
        is_bounded=metric.is_bounded,
        clusters=named,
        effect="relative" if is_relative else "difference",
    )


def _by_case(values: Floats, counts: Floats) -> tuple[Floats, float | None]:
    """Each case's mean, and the mean variance of such a mean."""
    starts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.intp)
    means: Floats = np.add.reduceat(values, starts) / counts
    repeated = counts > 1
    if not repeated.any():
        return means, None
    squares = np.add.reduceat((values - np.repeat(means, counts.astype(np.intp))) ** 2, starts)
    return means, float((squares[repeated] / (counts[repeated] - 1) / counts[repeated]).mean())


def estimate(data: Sample, alpha: float) -> Estimate:
    """The mean difference with the interval that suits the metric."""
    differences = data.differences
    n, mean = data.n, float(differences.mean())
    sd = float(differences.std(ddof=1)) if n > 1 else None
    up, down = int((differences > ALMOST).sum()), int((differences < -ALMOST).sum())
    clusters = None if data.clusters is None else len(set(data.clusters))
    interval, method = _interval(data, differences, up, down, alpha)
    return Estimate(
        n=n,
        delta=mean,
        interval=interval,
        method=method,
        standard_error=None if sd is None else sd / math.sqrt(n),
        sd=sd,
        up=up,
        down=down,
        correlation=_correlation(data.before, data.after),
        noise_share=_noise_share(data, sd),
        clusters=clusters,
    )


def _interval(data: Sample, differences: Floats, up: int, down: int, alpha: float) -> tuple[Interval, str]:
    n, changed = len(differences), up + down
    if n == 1:
        return Interval(-math.inf, math.inf, 1.0), "one case"
    if data.clusters is not None and len(set(data.clusters)) > 1:
        codes = np.unique(data.clusters, return_inverse=True)[1]
        clustered = cluster_interval(differences, codes, alpha)
        return _guarded(clustered, "cluster-robust t", data, differences, changed, alpha)
    if data.is_binary:
        scored = tango(up, down, n, alpha)
        if n >= FEW_BINARY:
            return scored, "Tango"
        return widest(scored, pseudo_cases(differences, data.score_range, alpha)), "Tango, pseudo-cases"
    student = t_interval(float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(n), n - 1, alpha)
    return _guarded(student, "t", data, differences, changed, alpha)


def _guarded(
    base: Interval, method: str, data: Sample, differences: Floats, changed: int, alpha: float
) -> tuple[Interval, str]:
    """The base, widened where it would promise too much."""
    if data.is_bounded:
        skewness, pseudo = skewness_corrected(differences, alpha), pseudo_cases(differences, data.score_range, alpha)
        return widest(base, skewness, pseudo), f"{method}, skewness-corrected t, pseudo-cases"
    # A scale without ends tells no worst case; what was seen of it stands for it where hardly anything changed.
    if data.effect == "difference" and changed < FEW_CHANGED and 2 * changed <= len(differences):
        return widest(base, pseudo_cases(differences, data.score_range, alpha)), f"{method}, pseudo-cases"
    return base, method


def _correlation(before: Floats, after: Floats) -> float | None:
    if len(before) < 2 or before.std() <= ALMOST or after.std() <= ALMOST:
        return None
    return float(np.corrcoef(before, after)[0, 1])


def _noise_share(data: Sample, sd: float | None) -> float | None:
    if data.noise_before is None or data.noise_after is None or sd is None:
        return None
    if sd <= ALMOST:
        return None
    return min((data.noise_before + data.noise_after) / sd**2, 1.0)


def median_repetitions(counts: Sequence[float] | Floats) -> float:
    """The middle of the cases' repetitions."""
    return float(np.median(np.asarray(counts)))
