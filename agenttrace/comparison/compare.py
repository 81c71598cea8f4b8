"""Compares two runs: the gate first, then, where it allows, their results paired by case and judged.

In: the evidence of two runs, what was declared to differ, and the policy. Out: a `Comparison`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from agenttrace.comparison.case_flags import CaseFlag, case_flags
from agenttrace.comparison.differences import counted
from agenttrace.comparison.dimensions import Severity
from agenttrace.comparison.evidence import RunEvidence
from agenttrace.comparison.gate import GateResult, gate
from agenttrace.comparison.metrics import MetricKey, nearest
from agenttrace.comparison.missing import invalid_reasons
from agenttrace.comparison.outcome import Comparison, MetricComparison
from agenttrace.comparison.pairing import PairedMetric, Pairing, pair
from agenttrace.comparison.policy import Policy, policy_problems
from agenttrace.comparison.restricting import restrict as restrict_runs
from agenttrace.comparison.verdicts import Verdict
from agenttrace.comparison.wording import metric_sentence
from agenttrace.errors import InvalidPolicy, MissingExtra, UnknownMetric
from agenttrace.records import EVALUATION

NO_CASES = (
    "The runs name no cases, so nothing could be paired. Give each invocation its case: "
    "config={'metadata': {'case': 'q17'}}."
)
NOTHING_MEASURED = "No case has a result that counts in both runs, so nothing could be paired."
NO_SCORES = (
    "Nothing was scored, so there is nothing that decides; times and tokens inform. "
    "--primary latency_s has one of them judged."
)
NOT_INTERLEAVED = (
    "It informs only: the runs did not take turns under the same load ('agenttrace eval ab'), "
    "so times of day and neighbours are in the difference."
)
REPLAYED = "It informs only: one of the runs was replayed, and what is replayed takes no time of its own."


def compare(
    baseline: RunEvidence,
    candidate: RunEvidence,
    changed: Sequence[str] = (),
    *,
    strict: bool = False,
    severity: Mapping[str, Severity] = MappingProxyType({}),
    restrict: Sequence[str] = (),
    policy: Policy | None = None,
) -> Comparison:
    """Compare two runs. Numbers are only there where the gate lets them pass.

    Raises:
        InvalidPolicy, UnknownMetric: the policy cannot be used, or names a metric that no run has.
        MissingExtra: there is something to judge, and the libraries that judge are not installed.
        Besides what `gate` and `restrict` raise.
    """
    policy = policy or Policy()
    require_usable(policy)
    (baseline, candidate), restricted = restrict_runs((baseline, candidate), restrict)
    passed = gate(baseline, candidate, changed, strict=strict, severity=severity, restrict=restricted)
    if passed.verdict != "comparable":
        return Comparison(
            baseline=baseline.run,
            candidate=candidate.run,
            verdict=passed.verdict,
            gate=passed,
            policy=policy,
            reasons=(*passed.reasons, *_difference_reason(passed)),
            notes=passed.notes,
        )
    paired = pair(baseline, candidate)
    primary = primary_keys(policy, baseline, candidate)
    notes = (*_same_run(baseline, candidate), *passed.notes, *_tokenizers(passed, paired), *paired.notes)
    comparison = Comparison(
        baseline=baseline.run,
        candidate=candidate.run,
        verdict="inconclusive",
        gate=passed,
        policy=policy,
        reasons=(),
        cases=paired.cases,
        traces=_traces(paired, baseline, candidate),
        notes=notes,
    )
    if primary and (faults := tuple(_invalid(baseline, candidate, paired, policy))):
        return replace(comparison, verdict="invalid", reasons=faults)
    if not primary or not paired.metrics:
        return _undecided(comparison, paired, passed, baseline, candidate)
    return _judged(comparison, paired, passed, baseline, candidate, primary)


def _judged(
    comparison: Comparison,
    paired: Pairing,
    passed: GateResult,
    baseline: RunEvidence,
    candidate: RunEvidence,
    primary: Sequence[MetricKey],
) -> Comparison:
    try:
        from agenttrace.comparison.judgement import judge
    except ImportError as error:
        raise MissingExtra("eval", "Judging a comparison") from error
    policy = comparison.policy
    allowed = replace(paired, metrics=tuple(metric for metric in paired.metrics if not _is_blocked(metric, passed)))
    judged = judge(allowed, baseline, candidate, policy, primary, forbidden(baseline, candidate))
    blocked = [_plain(metric, is_blocked=True) for metric in paired.metrics if _is_blocked(metric, passed)]
    blocked = [replace(row, primary=MetricKey(False, row.name) in primary) for row in blocked]
    metrics = (*judged.metrics, *blocked)
    flags: dict[str, tuple[CaseFlag, ...]] = {}
    for metric in paired.metrics:
        if metric.key in primary:
            for case, flag in case_flags(metric, policy.alpha).items():
                flags[case] = (*flags.get(case, ()), flag)
    verdict: Verdict = judged.verdict
    if verdict == "pass" and any(row.primary for row in blocked):
        verdict = "inconclusive"
    if not any(row.primary and row.verdict != "not_comparable" for row in metrics) and any(
        row.primary for row in blocked
    ):
        verdict = "not_comparable"
    rows = tuple(metrics)
    return replace(
        comparison,
        verdict=verdict,
        metrics=rows,
        flags=flags,
        reasons=(*_blocked_reason(passed, paired), *judged.reasons, *_metric_reasons(rows, verdict)),
        notes=(*comparison.notes, *judged.notes),
    )


def require_usable(policy: Policy) -> None:
    """Raise `InvalidPolicy` with all that is wrong with the rules."""
    if problems := policy_problems(policy):
        raise InvalidPolicy(f"{'; '.join(problems)}. Correct it in [tool.agenttrace] or on the command line.")


def primary_keys(policy: Policy, baseline: RunEvidence, candidate: RunEvidence) -> tuple[MetricKey, ...]:
    """The metrics that decide: those that are named, else every score of the baseline.

    Raises:
        UnknownMetric: none of the runs has a metric that is named.
    """
    scores: dict[str, float] = {}
    measured: dict[str, float] = {}
    for repetition in baseline.repetitions:
        scores.update(repetition.scores)
    of_baseline = tuple(scores)
    for run in (baseline, candidate):
        for repetition in run.repetitions:
            scores.update(repetition.scores)
            measured.update(repetition.metrics)
    if not policy.primary:
        return tuple(MetricKey(True, name) for name in of_baseline)
    known = (*scores, *measured)
    unknown = [name for name in policy.primary if name not in known]
    if unknown:
        raise UnknownMetric(f"No run has a metric '{unknown[0]}', which was to decide. {nearest(unknown[0], known)}")
    return tuple(MetricKey(name in scores, name) for name in dict.fromkeys(policy.primary))


def forbidden(baseline: RunEvidence, candidate: RunEvidence) -> Mapping[str, str]:
    """By kind of metric, why it may only inform: times and costs of runs that did not meet the same conditions."""
    if any(_is_replayed(run) for run in (baseline, candidate)):
        return {"time": REPLAYED, "cost": REPLAYED}
    if not all(_is_interleaved(run) for run in (baseline, candidate)) or not _overlap(baseline, candidate):
        return {"time": NOT_INTERLEAVED, "cost": NOT_INTERLEAVED}
    return {}


def _is_interleaved(run: RunEvidence) -> bool:
    kept = run.run.metadata.get(EVALUATION)
    return isinstance(kept, Mapping) and kept.get("interleaved") is True


def _overlap(baseline: RunEvidence, candidate: RunEvidence) -> bool:
    """Whether the runs were under way at the same time: both may have taken turns with another one."""
    first, second = baseline.run, candidate.run
    return first.start_ns <= (second.end_ns or second.start_ns) and second.start_ns <= (first.end_ns or first.start_ns)


def _is_replayed(run: RunEvidence) -> bool:
    return any(value.value is True for site in run.contract.sites.values() for value in site.get("replay").observed)


def _same_run(baseline: RunEvidence, candidate: RunEvidence) -> Iterator[str]:
    if baseline.run.run_id == candidate.run.run_id:
        yield "Baseline and candidate are one and the same run."


def _difference_reason(passed: GateResult) -> Iterator[str]:
    blocking = dict.fromkeys(difference.dimension for difference in passed.blocking)
    if blocking:
        yield f"{counted(len(blocking), 'setting differs', 'settings differ')}: {', '.join(blocking)}."


def _tokenizers(passed: GateResult, paired: Pairing) -> Iterator[str]:
    """Other models may cut the same text into more tokens or fewer."""
    differ = any(item.dimension in ("model.served", "model.requested", "provider") for item in passed.differences)
    if differ and any(metric.key.base.endswith("_tokens") for metric in paired.metrics):
        yield (
            "The models differ, and so may their tokenizers: counts of tokens and times per token are not of the same "
            "unit."
        )


def _invalid(baseline: RunEvidence, candidate: RunEvidence, paired: Pairing, policy: Policy) -> Iterator[str]:
    for side, metrics in (("baseline", "before"), ("candidate", "after")):
        broken = [
            metric.key.name
            for metric in paired.metrics
            if not math.isfinite(sum(map(sum, getattr(metric, metrics).values())))
        ]
        if broken:
            yield f"The {side} has values that are no numbers (NaN or infinity): {', '.join(broken)}."
    if not policy.allow_missing:
        yield from invalid_reasons("baseline", baseline, candidate)
        yield from invalid_reasons("candidate", candidate, baseline)


def _is_blocked(metric: PairedMetric, passed: GateResult) -> bool:
    return metric.key.kind in ("time", "cost") and bool(passed.blocking_cost)


def _plain(metric: PairedMetric, *, is_blocked: bool) -> MetricComparison:
    """A metric with its means and nothing that was calculated from them."""
    return MetricComparison(
        name=metric.key.name,
        kind=metric.key.kind,
        better=metric.key.better,
        n=metric.n,
        k_baseline=metric.k_baseline,
        k_candidate=metric.k_candidate,
        baseline=metric.baseline,
        candidate=metric.candidate,
        delta=None if is_blocked else metric.delta,
        verdict="not_comparable" if is_blocked else "inconclusive",
    )


def _undecided(
    comparison: Comparison, paired: Pairing, passed: GateResult, baseline: RunEvidence, candidate: RunEvidence
) -> Comparison:
    """Nothing decides: differences are shown and not tested."""
    metrics = tuple(_plain(metric, is_blocked=_is_blocked(metric, passed)) for metric in paired.metrics)
    is_refused = bool(metrics) and all(metric.verdict == "not_comparable" for metric in metrics)
    reasons = [*_blocked_reason(passed, paired)]
    if not baseline.cases and not candidate.cases:
        reasons.append(NO_CASES)
    elif not paired.metrics:
        reasons.append(NOTHING_MEASURED)
    elif not is_refused:
        reasons.append(NO_SCORES)
    return replace(
        comparison,
        verdict="not_comparable" if is_refused else "inconclusive",
        metrics=metrics,
        reasons=tuple(reasons),
    )


def _blocked_reason(passed: GateResult, paired: Pairing) -> Iterator[str]:
    if passed.blocking_cost:
        names = ", ".join(dict.fromkeys(difference.dimension for difference in passed.blocking_cost))
        is_all = all(_is_blocked(metric, passed) for metric in paired.metrics)
        rest = ", and nothing else was measured" if paired.metrics and is_all else ""
        yield f"Times and tokens are not comparable, since these differ: {names}{rest}."


def _metric_reasons(metrics: Sequence[MetricComparison], verdict: Verdict) -> Iterator[str]:
    """One sentence for each metric that made the verdict what it is."""
    for row in metrics:
        if not row.primary or row.verdict == "not_comparable":
            continue
        if verdict == "pass" or row.verdict != "pass":
            yield metric_sentence(row)


def _traces(
    paired: Pairing, baseline: RunEvidence, candidate: RunEvidence
) -> Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    found: tuple[dict[str, list[str]], dict[str, list[str]]] = {}, {}
    for traces, run in zip(found, (baseline, candidate), strict=True):
        for repetition in run.repetitions:
            if repetition.trace_id is not None:
                traces.setdefault(repetition.case, []).append(repetition.trace_id)
    return {
        case.case: (tuple(found[0].get(case.case, ())), tuple(found[1].get(case.case, ()))) for case in paired.cases
    }
