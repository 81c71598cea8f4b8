"""What attempts without a result could have changed: the worst and the best that they might have been."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from agenttrace.comparison.evidence import NOT_THE_AGENT, RunEvidence
from agenttrace.comparison.pairing import PairedMetric
from agenttrace.comparison.policy import MAX_INVALID_SHARE


def missing_values(metric: PairedMetric, evidence: RunEvidence) -> Counter[str]:
    """By case, the attempts that should have this score and do not. A case that never has it is not asked for it."""
    missing: Counter[str] = Counter()
    asked = metric.before.keys() | metric.after.keys()
    for repetition in evidence.repetitions:
        is_lost = repetition.outcome in NOT_THE_AGENT
        is_lost = is_lost or (repetition.outcome == "scored" and metric.key.name not in repetition.scores)
        if repetition.case in asked and is_lost:
            missing[repetition.case] += 1
    return missing


def bounds(metric: PairedMetric, baseline: RunEvidence, candidate: RunEvidence) -> Iterator[PairedMetric]:
    """The metric with everything that is missing at its worst for the candidate, and at its best; none without missing."""
    lost_before, lost_after = missing_values(metric, baseline), missing_values(metric, candidate)
    if not lost_before and not lost_after:
        return
    values = [value for side in (metric.before, metric.after) for each in side.values() for value in each]
    low, high = (0.0, 1.0) if metric.is_bounded else (min(values), max(values))
    for before_value, after_value in ((high, low), (low, high)):
        before = _filled(metric.before, lost_before, before_value)
        after = _filled(metric.after, lost_after, after_value)
        cases = tuple(case for case in before if case in after)
        yield replace(metric, n=len(cases), cases=cases, before=before, after=after)


def _filled(
    values: Mapping[str, Sequence[float]], missing: Counter[str], value: float
) -> Mapping[str, Sequence[float]]:
    filled = {case: list(each) for case, each in values.items()}
    for case, count in missing.items():
        filled.setdefault(case, []).extend([value] * count)
    return filled


def invalid_reasons(side: str, evidence: RunEvidence, other: RunEvidence) -> Iterator[str]:
    """Why so much of a run says nothing about the agent that it cannot be judged."""
    outcomes = Counter(repetition.outcome for repetition in evidence.repetitions)
    lost = {outcome: count for outcome, count in outcomes.items() if outcome in NOT_THE_AGENT}
    total = sum(outcomes.values())
    if total and sum(lost.values()) / total > MAX_INVALID_SHARE:
        told = ", ".join(f"{count} × {outcome}" for outcome, count in lost.items())
        yield (
            f"{sum(lost.values())} of {total} attempts of the {side} {evidence.label} say nothing about the agent "
            f"({told}), more than {MAX_INVALID_SHARE:.0%}. Run them again, or judge what is there with --allow-missing."
        )
    judged = {repetition.case for repetition in evidence.repetitions if repetition.outcome not in NOT_THE_AGENT}
    of_both = set(evidence.cases) & set(other.cases)
    bare = [case for case in evidence.cases if case in of_both and case not in judged]
    if bare:
        shown = ", ".join(bare[:6]) + (f" and {len(bare) - 6} more" if len(bare) > 6 else "")
        yield (
            f"No attempt of the {side} {evidence.label} at these cases counts: {shown}. "
            "Run them again, or judge what is there with --allow-missing."
        )
