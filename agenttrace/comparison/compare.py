"""Compares two runs: the gate first, then, where it allows, their results paired by case.

In: the evidence of two runs, and what was declared to differ. Out: a `Comparison`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from agenttrace.comparison.differences import (
    SettingDifference,
    Unverified,
    counted,
    difference_json,
    unverified_json,
)
from agenttrace.comparison.dimensions import Severity
from agenttrace.comparison.evidence import RunEvidence
from agenttrace.comparison.gate import GateResult, gate
from agenttrace.comparison.pairing import MetricKind, PairedCase, PairedMetric, Pairing, pair
from agenttrace.comparison.restricting import restrict as restrict_runs
from agenttrace.records import RunRecord

Verdict: TypeAlias = Literal["pass", "regressed", "inconclusive", "not_comparable", "invalid"]

EXIT_CODES: Mapping[Verdict, int] = {"pass": 0, "regressed": 1, "inconclusive": 10, "not_comparable": 11, "invalid": 12}

NO_STATISTICS = (
    "There are no statistics yet: differences are shown and not tested, so nothing can be called passed or regressed."
)
NO_CASES = (
    "The runs name no cases, so nothing could be paired. Give each invocation its case: "
    "config={'metadata': {'case': 'q17'}}."
)
NOTHING_MEASURED = "No case has a result that counts in both runs, so nothing could be paired."


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """One metric in both runs, over the cases that have it in both."""

    name: str
    kind: MetricKind
    n: int
    """Cases."""
    k_baseline: int
    """The fewest repetitions that any of these cases has."""
    k_candidate: int
    baseline: float
    candidate: float
    delta: float | None
    """Candidate − baseline; None where it may not be compared."""
    low: float | None = None
    """Bounds of the difference; None until there are statistics."""
    high: float | None = None
    margin: float | None = None
    verdict: Verdict = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What comparing two runs gives."""

    baseline: RunRecord
    candidate: RunRecord
    verdict: Verdict
    gate: GateResult
    reasons: tuple[str, ...]
    """Why the verdict is what it is, one sentence each."""
    metrics: tuple[MetricComparison, ...] = ()
    """Empty unless comparable."""
    cases: tuple[PairedCase, ...] = ()
    """Those that differ most come first. Empty unless comparable."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know."""

    @property
    def differences(self) -> tuple[SettingDifference, ...]:
        return self.gate.differences

    @property
    def unverified(self) -> tuple[Unverified, ...]:
        return self.gate.unverified


def compare(
    baseline: RunEvidence,
    candidate: RunEvidence,
    changed: Sequence[str] = (),
    *,
    strict: bool = False,
    severity: Mapping[str, Severity] = MappingProxyType({}),
    restrict: Sequence[str] = (),
) -> Comparison:
    """Compare two runs. Raises what `gate` and `restrict` raise; numbers are only there where the gate lets them pass."""
    (baseline, candidate), restricted = restrict_runs((baseline, candidate), restrict)
    passed = gate(baseline, candidate, changed, strict=strict, severity=severity, restrict=restricted)
    if passed.verdict != "comparable":
        return Comparison(
            baseline=baseline.run,
            candidate=candidate.run,
            verdict=passed.verdict,
            gate=passed,
            reasons=(*passed.reasons, *_difference_reason(passed)),
            notes=passed.notes,
        )
    paired = pair(baseline, candidate)
    metrics = tuple(_metric(metric, passed) for metric in paired.metrics)
    is_refused = bool(metrics) and all(metric.verdict == "not_comparable" for metric in metrics)
    return Comparison(
        baseline=baseline.run,
        candidate=candidate.run,
        verdict="not_comparable" if is_refused else "inconclusive",
        gate=passed,
        reasons=tuple(_reasons(passed, baseline, candidate, paired, is_refused)),
        metrics=metrics,
        cases=paired.cases,
        notes=(*_same_run(baseline, candidate), *passed.notes, *paired.notes),
    )


def _same_run(baseline: RunEvidence, candidate: RunEvidence) -> Iterator[str]:
    if baseline.run.run_id == candidate.run.run_id:
        yield "Baseline and candidate are one and the same run."


def _difference_reason(passed: GateResult) -> Iterator[str]:
    blocking = dict.fromkeys(difference.dimension for difference in passed.blocking)
    if blocking:
        yield f"{counted(len(blocking), 'setting differs', 'settings differ')}: {', '.join(blocking)}."


def _metric(metric: PairedMetric, passed: GateResult) -> MetricComparison:
    is_blocked = metric.key.kind in ("time", "cost") and bool(passed.blocking_cost)
    return MetricComparison(
        name=metric.key.name,
        kind=metric.key.kind,
        n=metric.n,
        k_baseline=metric.k_baseline,
        k_candidate=metric.k_candidate,
        baseline=metric.baseline,
        candidate=metric.candidate,
        delta=None if is_blocked else metric.delta,
        verdict="not_comparable" if is_blocked else "inconclusive",
    )


def _reasons(
    passed: GateResult, baseline: RunEvidence, candidate: RunEvidence, paired: Pairing, is_refused: bool
) -> Iterator[str]:
    if passed.blocking_cost:
        names = ", ".join(dict.fromkeys(difference.dimension for difference in passed.blocking_cost))
        rest = ", and nothing else was measured" if is_refused else ""
        yield f"Times and tokens are not comparable, since these differ: {names}{rest}."
    if not baseline.cases and not candidate.cases:
        yield NO_CASES
    elif not paired.metrics:
        yield NOTHING_MEASURED
    if not is_refused:
        yield NO_STATISTICS


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as `compare --json` prints it."""
    return {
        "verdict": comparison.verdict,
        "reasons": list(comparison.reasons),
        "unverified": bool(comparison.unverified),
        "confounded": comparison.gate.confounded,
        "changed": list(comparison.gate.changed),
        "baseline": {"run_id": comparison.baseline.run_id, "run": comparison.baseline.name},
        "candidate": {"run_id": comparison.candidate.run_id, "run": comparison.candidate.name},
        "differences": [difference_json(difference) for difference in comparison.differences],
        "unverified_settings": unverified_json(comparison.unverified),
        "metrics": [
            {name: getattr(metric, name) for name in MetricComparison.__dataclass_fields__}
            for metric in comparison.metrics
        ],
        "cases": [_case_json(case) for case in comparison.cases],
        "notes": list(comparison.notes),
    }


def _case_json(case: PairedCase) -> dict[str, Any]:
    values: dict[str, dict[str, dict[str, float]]] = {"scores": {}, "metrics": {}}
    for key, value in case.values.items():
        values["scores" if key.is_score else "metrics"][key.name] = {
            "baseline": value.baseline,
            "candidate": value.candidate,
            "delta": value.delta,
        }
    return {"case": case.case, "k_baseline": case.k_baseline, "k_candidate": case.k_candidate, **values}
