"""The price of certainty: how many cases or repetitions would probably decide a metric, and what they would cost."""

from __future__ import annotations

from statistics import fmean

from agenttrace.comparison.estimates import Sample, median_repetitions
from agenttrace.comparison.evidence import RunEvidence
from agenttrace.comparison.outcome import Needed
from agenttrace.comparison.policy import Policy
from agenttrace.comparison.power import Variances, cases_needed, cases_to_exclude, repetitions_needed


def variances(data: Sample) -> Variances | None:
    """What the variance of this sample's differences is made of; None where no case was repeated."""
    if data.noise_before is None or data.noise_after is None or data.n < 2:
        return None
    total = float(data.differences.var(ddof=1))
    return Variances(
        between=max(total - data.noise_before - data.noise_after, 0.0),
        noise_baseline=data.noise_before * median_repetitions(data.k_before),
        noise_candidate=data.noise_after * median_repetitions(data.k_after),
    )


def needed(
    data: Sample, margin: float | None, policy: Policy, baseline: RunEvidence, candidate: RunEvidence
) -> Needed | None:
    """What would decide, if the true difference is what was seen; None where nothing can be said.

    The distance is to the nearer of both answers' far side: a loss of zero must be excluded, or one of the margin.
    """
    if data.n < 2:
        return None
    seen = float(data.differences.mean())
    distance = max((margin or 0.0) + seen, -seen)
    if distance <= 0:
        return None
    total = float(data.differences.var(ddof=1))
    cases = max(cases_needed(total, distance, policy.alpha) if total else 0, policy.min_cases, data.n + 1)
    if data.is_bounded:
        cases = max(cases, cases_to_exclude(data.score_range, distance, policy.alpha))
    parts = variances(data)
    repetitions = repetitions_needed(parts, data.n, distance, policy.alpha) if parts and total else None
    k = median_repetitions(data.k_before), median_repetitions(data.k_after)
    if repetitions is not None and repetitions <= max(k):
        repetitions = None
    by_cases = round((cases - data.n) * sum(k))
    by_repetitions = None if repetitions is None else round(data.n * (2 * repetitions - sum(k)))
    attempts = by_cases if by_repetitions is None else min(by_cases, by_repetitions)
    return priced(attempts, cases, repetitions, (baseline, candidate))


def priced(attempts: int, cases: int | None, repetitions: int | None, runs: tuple[RunEvidence, ...]) -> Needed:
    """So many attempts at the mean price of those recorded."""
    tokens = [_mean(runs, name) for name in ("input_tokens", "output_tokens")]
    told = [one for one in tokens if one is not None]
    cost, seconds = _mean(runs, "cost_usd"), _mean(runs, "latency_s")
    return Needed(
        cases=cases,
        repetitions=repetitions,
        attempts=attempts,
        cost_usd=None if cost is None else cost * attempts,
        tokens=round(sum(told) * attempts) if len(told) == len(tokens) else None,
        seconds=None if seconds is None else seconds * attempts,
    )


def _mean(runs: tuple[RunEvidence, ...], name: str) -> float | None:
    values = [repetition.metrics[name] for run in runs for repetition in run.repetitions if name in repetition.metrics]
    return fmean(values) if values else None
