"""Metrics made of others: whether a case passes every time, whether it ever passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import comb
from statistics import fmean

from agenttrace.comparison.metrics import MetricKey
from agenttrace.comparison.pairing import PairedMetric


def pass_every_time(passed: int, of: int, k: int) -> float:
    """pass^k: the chance that k attempts, drawn from those made, all passed (tau-bench, arXiv 2406.12045)."""
    return comb(passed, k) / comb(of, k)


def pass_once(passed: int, of: int, k: int) -> float:
    """pass@k: the chance that one of k attempts, drawn from those made, passed (Chen et al. 2021)."""
    return 1 - comb(of - passed, k) / comb(of, k)


def pass_metrics(metric: PairedMetric) -> Iterator[PairedMetric]:
    """`NAME pass^k` and `NAME pass@k` of a score of 0 or 1, with as many repetitions as every case has; else nothing."""
    k = min(metric.k_baseline, metric.k_candidate)
    if k < 2 or not metric.key.is_score or not _is_binary(metric):
        return
    for sign, function in (("^", pass_every_time), ("@", pass_once)):
        before, after = (_made(side, metric.cases, function, k) for side in (metric.before, metric.after))
        yield replace(
            metric,
            key=MetricKey(True, f"{metric.key.name} pass{sign}{k}"),
            baseline=fmean(each[0] for each in before.values()),
            candidate=fmean(each[0] for each in after.values()),
            before=before,
            after=after,
        )


def _is_binary(metric: PairedMetric) -> bool:
    return metric.is_bounded and all(
        value in (0.0, 1.0) for side in (metric.before, metric.after) for case in metric.cases for value in side[case]
    )


def _made(
    side: Mapping[str, Sequence[float]], cases: Sequence[str], function: Callable[[int, int, int], float], k: int
) -> Mapping[str, Sequence[float]]:
    return {case: [function(int(sum(side[case])), len(side[case]), k)] for case in cases}
