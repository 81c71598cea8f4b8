"""How often the gate decides something about an agent that did not change: its own attempts, divided at random into two runs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from agenttrace.comparison.compare import primary_keys, require_usable
from agenttrace.comparison.evidence import Repetition, RunEvidence
from agenttrace.comparison.gate import faults, gate
from agenttrace.comparison.judgement import corrected, judge_metric
from agenttrace.comparison.outcome import MetricComparison
from agenttrace.comparison.pairing import pair
from agenttrace.comparison.policy import Policy
from agenttrace.comparison.verdicts import Verdict, overall
from agenttrace.errors import NoModelCalls, NotComparable, UnfitBaseline, UsageError

DIVISIONS = 200

MIN_REPETITIONS = 4
"""Of a case in one run: each half then has two."""

VERDICTS: tuple[Verdict, ...] = ("pass", "regressed", "inconclusive")

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often something came, of all divisions."""

    count: int
    rate: float
    low: float
    """Wilson's 95 % interval of what more divisions of the same attempts would give."""
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchangedRates:
    """What the gate said of runs between which nothing changed."""

    divisions: int
    cases: int
    repetitions: tuple[int, int]
    """The fewest that a case has on each side."""
    verdicts: Mapping[Verdict, Rate]
    metrics: Mapping[str, Mapping[Verdict, Rate]]
    """The same of each metric that decides."""
    notes: tuple[str, ...]


def divide(
    runs: tuple[RunEvidence, ...],
    policy: Policy,
    *,
    divisions: int = DIVISIONS,
    seed: int = 0,
    moved: Callable[[int, int], None] = lambda done, of: None,
) -> UnchangedRates:
    """Judge random divisions of one run's repetitions, or of those of two runs with equal contracts.

    Args:
        runs: One, of which cases with at least four repetitions count, or two, whose attempts at a case are thrown together and
            divided in the numbers that they had.
        policy: What decides, margins and alpha.
        divisions: How many.
        seed: Of the divisions.
        moved: Is told how many of them are judged.

    Raises:
        UsageError: no case has enough repetitions.
        NotComparable: the contracts of the two runs are not equal.
        UnfitBaseline: a run cannot be judged.
        InvalidPolicy, UnknownMetric, NoModelCalls: as a comparison.
    """
    require_usable(policy)
    if problems := [problem for run in runs for problem in faults("run", run)]:
        raise UnfitBaseline(" ".join(dict.fromkeys(problems)))
    if len(runs) > 1:
        _require_equal(*runs)
    primary = primary_keys(policy, runs[0], runs[-1])
    if not primary:
        raise NoModelCalls(
            f"The run {runs[0].label} has no score, so nothing decides. Run a suite, or name a metric: --primary latency_s."
        )
    attempts, notes = _attempts(runs, keeps_metrics=not all(key.is_score for key in primary))
    clusters: dict[str, str] = {}
    told: list[tuple[Verdict, list[MetricComparison]]] = []
    drawn = random.Random(seed)
    fewest = (1 << 30, 1 << 30)
    for done in range(divisions):
        moved(done, divisions)
        sides = _divided(attempts, drawn)
        paired = pair(*(replace(runs[0], repetitions=tuple(side)) for side in sides))
        clusters = clusters or dict(paired.clusters)
        metrics = [metric for metric in paired.metrics if metric.key in primary]
        rows = corrected(
            [judge_metric(metric, clusters, policy, is_primary=True, is_quick=True) for metric in metrics], policy
        )
        told.append((overall([row.verdict for row in rows]), rows))
        fewest = (
            min(fewest[0], *(metric.k_baseline for metric in metrics)),
            min(fewest[1], *(metric.k_candidate for metric in metrics)),
        )
    moved(divisions, divisions)
    return UnchangedRates(
        divisions=divisions,
        cases=len(attempts),
        repetitions=fewest,
        verdicts=_rates(verdict for verdict, _ in told),
        metrics={
            key.name: _rates(row.verdict for _, rows in told for row in rows if row.name == key.name) for key in primary
        },
        notes=notes,
    )


def _require_equal(first: RunEvidence, second: RunEvidence) -> None:
    passed = gate(first, second)
    if first.run.run_id == second.run.run_id:
        raise UsageError("Both are one and the same run. Name it once, or another run of the same agent.")
    if passed.verdict == "comparable":
        return
    names = ", ".join(dict.fromkeys(difference.dimension for difference in passed.blocking))
    why = f"these differ: {names}." if names else " ".join(passed.reasons)
    raise NotComparable(
        f"The contracts of {first.label} and {second.label} are not equal, so something did change: {why} "
        "'agenttrace settings' with both shows what."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    attempts: tuple[Repetition, ...]
    first: int | None
    """How many make the first side; None: half of them, with chance deciding who gets the odd one."""


def _attempts(runs: tuple[RunEvidence, ...], *, keeps_metrics: bool) -> tuple[list[_Case], tuple[str, ...]]:
    by_case: dict[str, list[list[Repetition]]] = {}
    for place, run in enumerate(runs):
        for one in run.repetitions:
            kept = one if keeps_metrics else replace(one, metrics={})
            by_case.setdefault(one.case, [[] for _ in runs])[place].append(kept)
    least = MIN_REPETITIONS if len(runs) == 1 else 1
    cases = [
        _Case(attempts=tuple(one for side in sides for one in side), first=len(sides[0]) if len(runs) > 1 else None)
        for sides in by_case.values()
        if all(len(side) >= least for side in sides)
    ]
    if not cases:
        most = max((len(sides[0]) for sides in by_case.values()), default=0)
        raise UsageError(
            f"No case of {runs[0].label} has {least} repetitions (the most is {most}), so its attempts cannot be divided. "
            "Run it with --repeat 4 or more, or name a second run of the same agent."
        )
    left = len(by_case) - len(cases)
    notes = [f"{left} cases have fewer than {least} repetitions and are left out."] if left else []
    notes.append(
        "Each side has about half of the repetitions, so it is inconclusive more often than whole runs are."
        if len(runs) == 1
        else "Attempts of both runs are thrown together: a difference between the runs shows in 'agenttrace compare', not here."
    )
    return cases, tuple(notes)


def _divided(cases: Iterable[_Case], drawn: random.Random) -> tuple[list[Repetition], list[Repetition]]:
    sides: tuple[list[Repetition], list[Repetition]] = [], []
    for case in cases:
        mixed = drawn.sample(case.attempts, len(case.attempts))
        half = case.first if case.first is not None else (len(mixed) + drawn.randrange(2)) // 2
        sides[0].extend(mixed[:half])
        sides[1].extend(mixed[half:])
    return sides


def _rates(verdicts: Iterable[Verdict]) -> Mapping[Verdict, Rate]:
    from statsmodels.stats.proportion import proportion_confint

    counts = Counter(verdicts)
    of = counts.total()
    rates = {}
    for verdict in VERDICTS:
        low, high = proportion_confint(counts[verdict], of, alpha=1 - CONFIDENCE, method="wilson") if of else (0.0, 1.0)
        rates[verdict] = Rate(
            count=counts[verdict],
            rate=counts[verdict] / max(of, 1),
            low=round(float(low), 9),
            high=round(float(high), 9),
        )
    return rates
