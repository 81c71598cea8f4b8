"""Judges paired metrics: each gets an interval and a verdict, and those that decide give the verdict of the comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agenttrace.comparison.derived import pass_metrics
from agenttrace.comparison.estimates import Estimate, Sample, estimate, sample
from agenttrace.comparison.evidence import RunEvidence
from agenttrace.comparison.metrics import MetricKey
from agenttrace.comparison.missing import bounds
from agenttrace.comparison.needs import needed
from agenttrace.comparison.outcome import MetricComparison
from agenttrace.comparison.p_values import p_values
from agenttrace.comparison.pairing import PairedMetric, Pairing
from agenttrace.comparison.policy import FEW_CLUSTERS, MIN_CLUSTERS, Policy
from agenttrace.comparison.power import smallest_detectable
from agenttrace.comparison.resampling import Ratio, quantile_ratios, total_ratio
from agenttrace.comparison.verdicts import Verdict, decide, overall, upheld

TAILS = ("latency_s", "model_s", "first_token_s", "inter_token_s")
"""Times whose quantiles are told, of call sites too."""

TOTALS = ("cost_usd", "input_tokens", "output_tokens")
"""Whose totals are told."""

HOLM = "It is lower on its own, and not after Holm's correction for all metrics that decide."


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the numbers show."""

    verdict: Verdict
    metrics: tuple[MetricComparison, ...]
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


def judge(
    paired: Pairing,
    baseline: RunEvidence,
    candidate: RunEvidence,
    policy: Policy,
    primary: Sequence[MetricKey],
    forbidden: Mapping[str, str],
) -> Judged:
    """Judge all metrics.

    Args:
        paired: The values of both runs by case.
        baseline: For what is missing, and for the price of more.
        candidate: The same.
        policy: Margins and error rates.
        primary: The metrics that decide; one that is not paired decides against a verdict.
        forbidden: By kind of metric, why it may not decide.
    """
    judged: list[MetricComparison] = []
    for metric in paired.metrics:
        is_primary = metric.key in primary
        judged.append(judge_metric(metric, paired.clusters, policy, is_primary=is_primary, forbidden=forbidden))
        judged += [judge_metric(row, paired.clusters, policy, is_quick=True) for row in pass_metrics(metric)]
        judged += _ratio_rows(metric, policy, primary)
    by_key = {metric.key: metric for metric in paired.metrics}
    judged = corrected(judged, policy)
    judged = [
        _with_missing(row, by_key, baseline, candidate, paired.clusters, policy) if row.primary else row
        for row in judged
    ]
    judged = [_with_needs(row, by_key, baseline, candidate, paired.clusters, policy) for row in judged]
    deciding = [row for row in judged if row.primary]
    absent = [key.name for key in primary if not any(row.name == key.name and row.primary for row in judged)]
    verdicts: list[Verdict] = [row.verdict for row in deciding]
    if absent:
        verdicts.append("inconclusive")
    return Judged(
        verdict=overall(verdicts),
        metrics=tuple(judged),
        reasons=(*(f"{name} was measured in one run only, or at no common case." for name in absent),),
        notes=tuple(_cluster_notes(deciding)),
    )


def judge_metric(
    metric: PairedMetric,
    clusters: Mapping[str, str],
    policy: Policy,
    *,
    is_primary: bool = False,
    forbidden: Mapping[str, str] | None = None,
    is_quick: bool = False,
) -> MetricComparison:
    """One metric with its interval and verdict. `is_quick` leaves out what never decides."""
    data = sample(metric, clusters)
    found = estimate(data, policy.alpha)
    margin = policy.margins.get(metric.key.name, metric.key.default_margin(metric.is_bounded, data.effect))
    low, high = found.interval.low, found.interval.high
    verdict, label = decide(low, high, _oriented_margin(margin, data))
    reason = _objection(metric, found, policy, forbidden or {}, is_primary)
    if reason is not None:
        verdict, label = "inconclusive", None
    ends = _told(low, metric.key, data), _told(high, metric.key, data)
    return MetricComparison(
        name=metric.key.name,
        kind=metric.key.kind,
        primary=is_primary,
        better=metric.key.better,
        effect=data.effect,
        n=metric.n,
        k_baseline=metric.k_baseline,
        k_candidate=metric.k_candidate,
        baseline=metric.baseline,
        candidate=metric.candidate,
        delta=_told(found.delta, metric.key, data),
        low=ends[0] if metric.key.is_score else ends[1],
        high=ends[1] if metric.key.is_score else ends[0],
        margin=margin,
        verdict=verdict,
        label=label,
        reason=reason,
        method=found.method,
        standard_error=found.standard_error,
        better_cases=found.up,
        worse_cases=found.down,
        clusters=found.clusters,
        correlation=found.correlation,
        noise_share=found.noise_share,
        smallest_detectable=_detectable(found, policy, data),
        p=found.interval.p,
        p_values={} if is_quick or not metric.key.is_score else p_values(data, margin),
    )


def _oriented_margin(margin: float | None, data: Sample) -> float | None:
    """A share as what it is of a logarithm."""
    return math.log1p(margin) if margin is not None and data.effect == "relative" else margin


def _told(value: float, key: MetricKey, data: Sample) -> float | None:
    """As it is told: not turned, and relative where logarithms were compared."""
    if not math.isfinite(value):
        return None
    turned = key.sign * value
    return math.expm1(turned) if data.effect == "relative" else turned + 0.0


def _detectable(found: Estimate, policy: Policy, data: Sample) -> float | None:
    if found.sd is None:
        return None
    smallest = smallest_detectable(found.sd, found.n, policy.alpha)
    return math.expm1(smallest) if data.effect == "relative" else smallest


def _objection(
    metric: PairedMetric, found: Estimate, policy: Policy, forbidden: Mapping[str, str], is_primary: bool
) -> str | None:
    """Why the interval may not decide, whatever it shows."""
    if is_primary and metric.key.kind in forbidden:
        return forbidden[metric.key.kind]
    if metric.n < policy.min_cases:
        return (
            f"{metric.n} paired {'case' if metric.n == 1 else 'cases'}, and at least {policy.min_cases} are asked for."
        )
    if found.clusters is not None and found.clusters < MIN_CLUSTERS:
        return f"The cases come from {found.clusters} sources, and at least {MIN_CLUSTERS} are needed to judge by."
    return None


def _ratio_rows(metric: PairedMetric, policy: Policy, primary: Sequence[MetricKey]) -> Iterator[MetricComparison]:
    ratios: list[Ratio] = []
    if metric.key.base in TAILS:
        ratios += quantile_ratios(metric, policy.alpha)
    if metric.key.name in TOTALS and (total := total_ratio(metric, policy.alpha)):
        ratios.append(total)
    for ratio in ratios:
        name = f"{metric.key.name} {ratio.name}"
        margin = policy.margins.get(name, metric.key.default_margin(False, "relative"))
        verdict, label = decide(-math.log(ratio.high), -math.log(ratio.low), math.log1p(margin or 0.0))
        few = metric.n < policy.min_cases
        yield MetricComparison(
            name=name,
            kind=metric.key.kind,
            primary=False,
            better="lower",
            effect="relative",
            n=metric.n,
            k_baseline=metric.k_baseline,
            k_candidate=metric.k_candidate,
            baseline=ratio.baseline,
            candidate=ratio.candidate,
            delta=ratio.ratio - 1,
            low=ratio.low - 1,
            high=ratio.high - 1,
            margin=margin,
            verdict="inconclusive" if few else verdict,
            label=None if few else label,
            method="bootstrap of cases",
            p=ratio.p,
        )


def corrected(judged: Sequence[MetricComparison], policy: Policy) -> list[MetricComparison]:
    """Of several metrics that decide, one that is lower by chance is likelier: with Holm's correction for that."""
    deciding = [row for row in judged if row.primary and row.reason is None]
    stands = dict(zip(deciding_names(deciding), upheld([row.p or 0.0 for row in deciding], policy.alpha), strict=True))
    return [
        replace(row, verdict="inconclusive", label=None, reason=HOLM)
        if row.primary and row.verdict == "regressed" and not stands.get((row.kind, row.name), True)
        else row
        for row in judged
    ]


def deciding_names(rows: Sequence[MetricComparison]) -> list[tuple[str, str]]:
    """What tells rows apart: a score and a measurement may have one name."""
    return [(row.kind, row.name) for row in rows]


def _key(row: MetricComparison) -> MetricKey:
    return MetricKey(row.kind == "score", row.name)


def _with_missing(
    row: MetricComparison,
    by_key: Mapping[MetricKey, PairedMetric],
    baseline: RunEvidence,
    candidate: RunEvidence,
    clusters: Mapping[str, str],
    policy: Policy,
) -> MetricComparison:
    """A verdict that attempts without a result could have turned is none."""
    metric = by_key.get(_key(row))
    if metric is None or row.verdict == "inconclusive" or not metric.key.is_score:
        return row
    extremes = [
        judge_metric(filled, clusters, policy, is_primary=True, is_quick=True)
        for filled in bounds(metric, baseline, candidate)
    ]
    if all(extreme.verdict == row.verdict for extreme in extremes):
        return row
    told = ", ".join(f"{extreme.verdict} ({extreme.delta:+.3g})" for extreme in extremes if extreme.delta is not None)
    reason = f"Attempts without a result could turn it: at their worst and at their best, {told}."
    return replace(row, verdict="inconclusive", label=None, reason=reason)


def _with_needs(
    row: MetricComparison,
    by_key: Mapping[MetricKey, PairedMetric],
    baseline: RunEvidence,
    candidate: RunEvidence,
    clusters: Mapping[str, str],
    policy: Policy,
) -> MetricComparison:
    metric = by_key.get(_key(row))
    if not row.primary or row.verdict != "inconclusive" or metric is None or row.kind in ("time", "cost"):
        return row
    data = sample(metric, clusters)
    return replace(row, needed=needed(data, row.margin, policy, baseline, candidate))


def _cluster_notes(deciding: Sequence[MetricComparison]) -> Iterator[str]:
    counts = {row.clusters for row in deciding if row.clusters is not None and row.clusters >= MIN_CLUSTERS}
    if counts and min(counts) < FEW_CLUSTERS:
        yield (
            f"The cases come from {min(counts)} sources. With fewer than {FEW_CLUSTERS} intervals are somewhat too narrow."
        )
