"""Quantiles and totals with intervals by resampling cases with all their repetitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from agenttrace.comparison.metrics import MetricKey
from agenttrace.comparison.pairing import PairedMetric
from agenttrace.comparison.resampling import quantile_ratios, total_ratio


def latencies(cases: int, repetitions: int, factor: float = 1.5, seed: int = 0) -> PairedMetric:
    rng = np.random.default_rng(seed)
    names = tuple(f"q{n}" for n in range(cases))
    own = rng.lognormal(0, 0.5, cases)

    def side(scale: float) -> dict[str, list[float]]:
        return {name: list(scale * own[n] * rng.lognormal(0, 0.2, repetitions)) for n, name in enumerate(names)}

    return PairedMetric(
        key=MetricKey(False, "latency_s"), n=cases, k_baseline=repetitions, k_candidate=repetitions,
        baseline=1.0, candidate=1.0, cases=names, before=side(1.0), after=side(factor), is_bounded=False,
    )  # fmt: skip


def test_quantiles_are_harrell_and_davis() -> None:
    """As scipy.stats.quantile(method="harrell-davis") has them."""
    metric = latencies(60, 3)
    for ratio in quantile_ratios(metric, 0.05):
        q = float(ratio.name[1:]) / 100
        for told, side in ((ratio.baseline, metric.before), (ratio.candidate, metric.after)):
            pooled = np.sort(np.concatenate([side[case] for case in metric.cases]))
            assert told == pytest.approx(float(stats.mstats.hdquantiles(pooled, [q])[0]), rel=1e-3)


def test_only_what_attempts_lie_beyond_is_told() -> None:
    """Ten attempts beyond it, and thirty cases; else a quantile is a guess."""
    assert [ratio.name for ratio in quantile_ratios(latencies(60, 3), 0.05)] == ["p50", "p90"]
    assert [ratio.name for ratio in quantile_ratios(latencies(250, 4), 0.05)] == ["p50", "p90", "p95", "p99"]
    assert quantile_ratios(latencies(29, 9), 0.05) == ()


def test_the_interval_covers_the_truth() -> None:
    """Of forty seeded comparisons at 90 %, no fewer than 30 hold the true ratio (chance of fewer: below 1 in 500)."""
    covered = {"p50": 0, "p90": 0}
    for seed in range(40):
        for ratio in quantile_ratios(latencies(40, 3, 1.5, seed), 0.05, (0.5, 0.9)):
            covered[ratio.name] += ratio.low <= 1.5 <= ratio.high
    assert min(covered.values()) >= 30, covered


def test_copies_of_attempts_narrow_nothing() -> None:
    """Cases are drawn, not attempts."""
    once = latencies(60, 3)
    twice = replace(
        once,
        before={case: [*values, *values] for case, values in once.before.items()},
        after={case: [*values, *values] for case, values in once.after.items()},
    )
    widths = [ratio.high - ratio.low for metric in (once, twice) for ratio in quantile_ratios(metric, 0.05, (0.5,))]
    assert widths[1] == pytest.approx(widths[0], rel=0.1)


def test_a_total_is_a_ratio_of_sums() -> None:
    """Twice as much of everything is exactly twice; nothing has no ratio."""
    doubled = latencies(20, 1)
    doubled = replace(doubled, after={case: [2 * value for value in values] for case, values in doubled.before.items()})
    found = total_ratio(doubled, 0.05)
    assert found is not None
    assert [found.ratio, found.low, found.high] == pytest.approx([2, 2, 2])
    assert total_ratio(replace(doubled, after={case: [0.0] for case in doubled.cases}), 0.05) is None


def test_the_same_numbers_give_the_same_interval() -> None:
    """The draw is seeded."""
    assert quantile_ratios(latencies(40, 3), 0.05) == quantile_ratios(latencies(40, 3), 0.05)
