"""Pairs two runs by case. The case is the unit: its repetitions are averaged first, and never paired one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from agenttrace.comparison.evidence import AGENT_FAILURES, NOT_THE_AGENT, Outcome, Repetition, RunEvidence
from agenttrace.comparison.metrics import MetricKey

FLOOR = 0.0
"""What an attempt that failed scores, where all scores of that name lie between 0 and 1."""

AGENT_FAILED = MetricKey(False, "agent_failures")
NOT_JUDGED = MetricKey(False, "not_judged")
"""Of each attempt 0 or 1; that more attempts of one side came to nothing is a difference too."""

Values: TypeAlias = Mapping[MetricKey, Mapping[str, Sequence[float]]]
"""Of one run: metric, case, one value a repetition."""

Means: TypeAlias = Mapping[MetricKey, Mapping[str, float]]
"""Of one run: metric, case, the mean over its repetitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedValue:
    """Means over a case's repetitions."""

    baseline: float
    candidate: float

    @property
    def delta(self) -> float:
        return self.candidate - self.baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCase:
    """One case in both runs."""

    case: str
    k_baseline: int
    """Repetitions that count."""
    k_candidate: int
    values: Mapping[MetricKey, PairedValue]
    """Only what both runs know of it."""

    @property
    def difference(self) -> tuple[float, float]:
        """How much it differs: its largest difference of a score, then of its time."""
        scores = [abs(value.delta) for key, value in self.values.items() if key.is_score]
        latency = self.values.get(MetricKey(False, "latency_s"))
        return max(scores, default=0.0), abs(latency.delta) if latency else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedMetric:
    """One metric over all cases that have it in both runs."""

    key: MetricKey
    n: int
    """Cases."""
    k_baseline: int
    """The fewest repetitions that any of these cases has."""
    k_candidate: int
    baseline: float
    """Mean of the cases' means."""
    candidate: float
    cases: tuple[str, ...]
    before: Mapping[str, Sequence[float]]
    """The baseline's values by case, one a repetition."""
    after: Mapping[str, Sequence[float]]
    is_bounded: bool
    """All of its values, of both runs, lie between 0 and 1."""

    @property
    def delta(self) -> float:
        """Candidate − baseline: the mean of the cases' differences."""
        return self.candidate - self.baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    cases: tuple[PairedCase, ...]
    """Those that differ most come first."""
    metrics: tuple[PairedMetric, ...]
    """Scores first."""
    clusters: Mapping[str, str]
    """Of the cases that have one."""
    notes: tuple[str, ...]
    """What was left out or counted as a failure."""


def pair(baseline: RunEvidence, candidate: RunEvidence) -> Pairing:
    """Pair the results of two runs by case."""
    bounded = scores_within_one((*baseline.repetitions, *candidate.repetitions))
    before, after = _values(baseline.repetitions, bounded), _values(candidate.repetitions, bounded)
    means = _means(before), _means(after)
    counts = _counted(baseline.repetitions), _counted(candidate.repetitions)
    keys = sorted((key for key in before if key in after), key=lambda key: key.rank)
    metrics = [
        metric for key in keys if (metric := _metric(key, (before, after), means, bounded.get(key.name))) is not None
    ]
    cases = [
        PairedCase(
            case=case,
            k_baseline=counts[0][case],
            k_candidate=counts[1][case],
            values={
                key: PairedValue(baseline=means[0][key][case], candidate=means[1][key][case])
                for key in (metric.key for metric in metrics)
                if case in means[0][key] and case in means[1][key]
            },
        )
        for case in baseline.cases
        if case in counts[1]
    ]
    notes = (*_failure_notes("baseline", baseline, bounded), *_failure_notes("candidate", candidate, bounded))
    return Pairing(
        cases=tuple(sorted(cases, key=lambda case: case.difference, reverse=True)),
        metrics=tuple(metrics),
        clusters={
            repetition.case: repetition.cluster
            for repetition in (*candidate.repetitions, *baseline.repetitions)
            if repetition.cluster is not None
        },
        notes=(*notes, *_unpaired_notes(before, after)),
    )


def scores_within_one(repetitions: Iterable[Repetition]) -> Mapping[str, bool]:
    """Every score's name, and whether all of its values lie between 0 and 1."""
    bounded: dict[str, bool] = {}
    for repetition in repetitions:
        for name, value in repetition.scores.items():
            bounded[name] = bounded.get(name, True) and 0 <= value <= 1
    return bounded


def _values(repetitions: Iterable[Repetition], bounded: Mapping[str, bool]) -> Values:
    """What the attempts contribute. One that the agent failed scores the floor, and its times tell nothing."""
    values: dict[MetricKey, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    scores: dict[str, defaultdict[str, list[float]]] = {}
    metrics: dict[str, defaultdict[str, list[float]]] = {}
    lost, failed = values[NOT_JUDGED], values[AGENT_FAILED]
    for repetition in repetitions:
        case, outcome = repetition.case, repetition.outcome
        if outcome == "scored":
            for name, value in repetition.scores.items():
                if name not in scores:
                    scores[name] = values[MetricKey(True, name)]
                scores[name][case].append(value)
            for name, value in repetition.metrics.items():
                if name not in metrics:
                    metrics[name] = values[MetricKey(False, name)]
                metrics[name][case].append(value)
        elif outcome in AGENT_FAILURES:
            for name, is_bounded in bounded.items():
                if name in repetition.scores or is_bounded:
                    values[MetricKey(True, name)][case].append(repetition.scores.get(name, FLOOR))
        lost[case].append(float(outcome in NOT_THE_AGENT))
        if outcome not in NOT_THE_AGENT:
            failed[case].append(float(outcome != "scored"))
    return values


def _counted(repetitions: Iterable[Repetition]) -> Counter[str]:
    """Repetitions that count, by case; a case of which none counts is there with 0."""
    counts: Counter[str] = Counter()
    for repetition in repetitions:
        counts[repetition.case] += repetition.outcome == "scored" or repetition.outcome in AGENT_FAILURES
    return counts


def _means(values: Values) -> Means:
    # Most cases were tried once, and there are tens of thousands of values.
    return {
        key: {case: sum(each) / len(each) if len(each) > 1 else each[0] for case, each in cases.items()}
        for key, cases in values.items()
    }


def _metric(
    key: MetricKey, values: tuple[Values, Values], means: tuple[Means, Means], is_bounded: bool | None
) -> PairedMetric | None:
    before, after = values[0][key], values[1][key]
    common = tuple(case for case in before if case in after)
    if not common:
        return None
    baseline, candidate = (fmean([side[key][case] for case in common]) for side in means)
    is_outcome = key in (AGENT_FAILED, NOT_JUDGED)
    if (is_outcome or key.is_mostly_nothing) and not baseline and not candidate:
        return None
    return PairedMetric(
        key=key,
        n=len(common),
        k_baseline=min(len(before[case]) for case in common),
        k_candidate=min(len(after[case]) for case in common),
        baseline=baseline,
        candidate=candidate,
        cases=common,
        before=before,
        after=after,
        is_bounded=is_outcome or (key.is_score and bool(is_bounded)),
    )


def _failure_notes(side: str, evidence: RunEvidence, bounded: Mapping[str, bool]) -> Iterator[str]:
    outcomes = Counter(repetition.outcome for repetition in evidence.repetitions)
    failed = {outcome: count for outcome, count in outcomes.items() if outcome in AGENT_FAILURES}
    if failed:
        floor = f" They score {FLOOR:g}." if bounded and all(bounded.values()) else ""
        told = _counts(failed)
        yield f"{side}: {told} by the agent's own doing.{floor} Their times and tokens are not compared."
    left_out = {outcome: count for outcome, count in outcomes.items() if outcome in NOT_THE_AGENT}
    if left_out:
        yield f"{side}: {_counts(left_out)}, which say nothing about the agent and are left out."
    if evidence.unfinished_traces:
        yield f"{side}: {evidence.unfinished_traces} traces have a step that never ended."


def _counts(outcomes: Mapping[Outcome, int]) -> str:
    return ", ".join(f"{count} × {outcome}" for outcome, count in outcomes.items())


def _unpaired_notes(before: Values, after: Values) -> Iterator[str]:
    for side, ours, theirs in (("baseline", before, after), ("candidate", after, before)):
        names = [key.name for key in sorted(ours, key=lambda key: key.rank) if key.is_score and key not in theirs]
        if names:
            yield f"Only the {side} has: {', '.join(names)}."
