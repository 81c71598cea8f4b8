"""Before a comparison: how many cases and repetitions it takes, and what they cost. In: a recorded run, or two.

What an unchanged agent would come to is simulated from what was recorded, and judged by the functions that judge runs, since
no formula knows their guards. Formulas (`power.py`) only say where to begin to look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agenttrace.comparison.compare import primary_keys, require_usable
from agenttrace.comparison.estimates import Sample, estimate, median_repetitions, sample
from agenttrace.comparison.evidence import RunEvidence
from agenttrace.comparison.intervals import Floats, cluster_interval, t_interval
from agenttrace.comparison.metrics import Effect, MetricKind
from agenttrace.comparison.needs import priced, variances
from agenttrace.comparison.outcome import Needed
from agenttrace.comparison.pairing import PairedMetric, pair
from agenttrace.comparison.policy import Policy
from agenttrace.comparison.power import POWER, Variances, cases_needed, cases_to_exclude, smallest_detectable
from agenttrace.comparison.verdicts import decide
from agenttrace.errors import InvalidPolicy, NoModelCalls

REPETITIONS = (1, 2, 3, 5, 10)

SIMULATIONS = 400
"""Of a rate: its standard error is 2 points at 0.8."""

MAX_SIMULATED = 4_000
"""Cases from which a simulation takes long and the guards no longer matter: there the formula stands."""

STEP = 1.25
NEAR = 1.04
"""How finely the number of cases is looked for: by a quarter, then to 4 %."""

SEED = 20_261_203


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """So many repetitions of each case, in each of the two runs."""

    repetitions: int
    passes: float
    """With the cases there are: the chance that an unchanged agent passes."""
    sees: float
    """With the cases there are: the chance that a loss of twice the margin is called regressed."""
    smallest_detectable: float
    """With the cases there are: the smallest true loss that would be seen with the power asked for."""
    cases: int
    """With which an unchanged agent passes with the power asked for."""
    needed: Needed
    """All attempts at these cases in both runs, and what they cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPlan:
    """Of one metric that decides."""

    name: str
    kind: MetricKind
    effect: Effect
    margin: float
    n: int
    """Cases there are."""
    repetitions: int
    """That they have, in the middle."""
    noise: float | None
    """Standard deviation of one repetition within a case, in the metric's unit or of its logarithm; None where no case was
    repeated.
    """
    between: float | None
    """Standard deviation of how differently cases change; None with one run."""
    rows: tuple[PlanRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pilot:
    """What was recorded, as a source to draw runs from. Turned so that more is better; logarithms where the effect is relative."""

    means: Floats
    """Of the cases, without the noise that is in recorded means."""
    changes: Floats
    """By which cases change, about 0."""
    residuals: Floats
    """Of single repetitions about their case."""
    parts: Variances
    shape: Sample
    is_yes_or_no: bool
    margin: float
    design_effect: float


def plan(
    baseline: RunEvidence,
    candidate: RunEvidence | None,
    policy: Policy,
    *,
    power: float = POWER,
    repetitions: Sequence[int] = REPETITIONS,
    moved: Callable[[str, int, int], None] = lambda name, done, of: None,
) -> tuple[MetricPlan, ...]:
    """A plan for each metric that decides.

    Args:
        baseline: The recorded run.
        candidate: Another one, which tells how differently cases change; None: as if all changed alike.
        policy: What decides, margins and alpha.
        power: The chance that an unchanged agent shall have to pass.
        repetitions: To choose from.
        moved: Is told of progress: metric, number of repetitions looked at, of how many.

    Raises:
        InvalidPolicy: a metric has no margin, or the power is no chance.
        UnknownMetric: the policy names a metric that no run has.
        NoModelCalls: the run has no metric that could decide.
    """
    require_usable(policy)
    if not 0.5 <= power < 1:
        raise InvalidPolicy(f"power is {power:g}, expected from 0.5 up and below 1. Correct it on the command line.")
    other = candidate or baseline
    paired, primary = pair(baseline, other), primary_keys(policy, baseline, other)
    metrics = [metric for metric in paired.metrics if metric.key in primary]
    if not metrics:
        raise NoModelCalls(
            f"The run {baseline.label} has no score at a case, so there is nothing to plan for. Run a suite, or name a "
            "metric: --primary latency_s."
        )
    runs = (baseline,) if candidate is None else (baseline, candidate)
    return tuple(_plan(metric, paired.clusters, policy, power, repetitions, runs, moved) for metric in metrics)


def _plan(
    metric: PairedMetric,
    clusters: Mapping[str, str],
    policy: Policy,
    power: float,
    repetitions: Sequence[int],
    runs: tuple[RunEvidence, ...],
    moved: Callable[[str, int, int], None],
) -> MetricPlan:
    data = sample(metric, clusters)
    margin = policy.margins.get(metric.key.name, metric.key.default_margin(metric.is_bounded, data.effect))
    if margin is None:
        raise InvalidPolicy(
            f"{metric.key.name} has no margin, so there is nothing to plan for. Say how much worse still passes: "
            f"--margin {metric.key.name}=NUMBER."
        )
    pilot, notes = _pilot(metric, data, margin, policy, is_one=len(runs) == 1)
    rows = []
    for done, count in enumerate(repetitions):
        moved(metric.key.name, done, len(repetitions))
        rows.append(_row(pilot, count, policy, power, runs))
    moved(metric.key.name, len(repetitions), len(repetitions))
    is_repeated = data.noise_before is not None
    return MetricPlan(
        name=metric.key.name,
        kind=metric.key.kind,
        effect=data.effect,
        margin=margin,
        n=data.n,
        repetitions=round(median_repetitions(data.k_before)),
        noise=math.sqrt(pilot.parts.noise_baseline) if is_repeated else None,
        between=math.sqrt(pilot.parts.between) if len(runs) > 1 and is_repeated else None,
        rows=tuple(rows),
        notes=notes,
    )


def _pilot(
    metric: PairedMetric, data: Sample, margin: float, policy: Policy, *, is_one: bool
) -> tuple[_Pilot, tuple[str, ...]]:
    values = [
        metric.key.sign * (np.log(each) if data.effect == "relative" else np.asarray(each, dtype=np.float64))
        for each in (metric.before[case] for case in metric.cases)
    ]
    pooled = np.concatenate(values)
    repeated = [each for each in values if len(each) > 1]
    notes = []
    if repeated:
        noise = float(np.mean([each.var(ddof=1) for each in repeated]))
        residuals = np.concatenate([(each - each.mean()) * math.sqrt(len(each) / (len(each) - 1)) for each in repeated])
    else:
        noise, residuals = float(pooled.var()), pooled - pooled.mean()
        notes.append(
            "No case was repeated, so all that differs between cases is taken for noise: the most it can be. Two repetitions "
            "tell more."
        )
    spread = float(data.before.var(ddof=1)) if data.n > 1 else 0.0
    in_means = noise / median_repetitions(data.k_before)
    kept = math.sqrt(max(0.0, 1 - in_means / spread)) if spread > 0 else 0.0
    between, changes = 0.0, np.zeros(data.n)
    parts = variances(data) if not is_one else None
    if parts is not None:
        between, differences = parts.between, data.differences
        scale = math.sqrt(between / float(differences.var(ddof=1))) if between else 0.0
        changes = scale * (differences - differences.mean())
    elif is_one:
        notes.append(
            "Planned for an agent that changes in no case: a real change moves cases differently and takes more of them. "
            "Give a second run to have that counted."
        )
    design = 1.0
    if data.clusters is not None:
        design = 1.0 if is_one else _design_effect(data, data.clusters, policy)
        notes.append("Cases of one source move together: at least 10 sources are needed, and new cases from new ones.")
    return (
        _Pilot(
            means=data.before.mean() + kept * (data.before - data.before.mean()),
            changes=changes,
            residuals=residuals,
            parts=Variances(between=between, noise_baseline=noise, noise_candidate=noise),
            shape=data,
            is_yes_or_no=data.is_bounded and bool(np.isin(pooled, (0.0, 1.0)).all()),
            margin=math.log1p(margin) if data.effect == "relative" else margin,
            design_effect=design,
        ),
        tuple(notes),
    )


def _design_effect(data: Sample, clusters: Sequence[str], policy: Policy) -> float:
    """How many times the variance is what it were if cases of one source did not move together."""
    codes = np.unique(np.array(clusters), return_inverse=True)[1]
    if data.n < 2 or codes.max() < 1 or not data.differences.std():
        return 1.0
    error = float(data.differences.std(ddof=1)) / math.sqrt(data.n)
    clustered = cluster_interval(data.differences, codes, policy.alpha)
    plain = t_interval(0.0, error, int(codes.max()), policy.alpha)
    return max(1.0, ((clustered.high - clustered.low) / (plain.high - plain.low)) ** 2)


def _row(pilot: _Pilot, repetitions: int, policy: Policy, power: float, runs: tuple[RunEvidence, ...]) -> PlanRow:
    n = max(1, round(pilot.shape.n / pilot.design_effect))
    unchanged = _rates(pilot, n, repetitions, 0.0, policy)
    worse = _rates(pilot, n, repetitions, 2 * pilot.margin, policy)
    variance = pilot.parts.of_difference(repetitions, repetitions)
    smallest = smallest_detectable(math.sqrt(variance), n, policy.alpha, power)
    cases = math.ceil(_cases(pilot, repetitions, policy, power) * pilot.design_effect)
    return PlanRow(
        repetitions=repetitions,
        passes=unchanged["pass"],
        sees=worse["regressed"],
        smallest_detectable=math.expm1(smallest) if pilot.shape.effect == "relative" else smallest,
        cases=cases,
        needed=priced(2 * cases * repetitions, cases, repetitions, runs),
    )


def _cases(pilot: _Pilot, repetitions: int, policy: Policy, power: float) -> int:
    """How many cases an unchanged agent needs to pass with this power."""
    variance = pilot.parts.of_difference(repetitions, repetitions)
    low = max(cases_needed(variance, pilot.margin, policy.alpha, power) if variance else 0, policy.min_cases)
    if pilot.shape.is_bounded:
        low = max(low, cases_to_exclude(pilot.shape.score_range, pilot.margin, policy.alpha))

    def is_enough(cases: int) -> bool:
        return _rates(pilot, cases, repetitions, 0.0, policy)["pass"] >= power

    if low >= MAX_SIMULATED or is_enough(low):
        return low
    high = low
    while high < MAX_SIMULATED:
        low, high = high, math.ceil(high * STEP)
        if is_enough(high):
            break
    while high > low * NEAR and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _rates(pilot: _Pilot, cases: int, repetitions: int, loss: float, policy: Policy) -> Mapping[str, float]:
    """How often each verdict comes, where the candidate is worse by `loss`."""
    verdicts = []
    for data in _simulated(pilot, cases, repetitions, loss):
        found = estimate(data, policy.alpha).interval
        is_few = cases < policy.min_cases
        verdicts.append("inconclusive" if is_few else decide(found.low, found.high, pilot.margin)[0])
    return {verdict: verdicts.count(verdict) / len(verdicts) for verdict in ("pass", "regressed", "inconclusive")}


def _simulated(pilot: _Pilot, cases: int, repetitions: int, loss: float) -> Iterator[Sample]:
    """Pairs of runs, drawn from what was recorded: cases with replacement, then repetitions."""
    rng = np.random.default_rng(SEED)
    counts = np.full(cases, float(repetitions))
    for _ in range(SIMULATIONS):
        drawn = rng.integers(0, len(pilot.means), cases)
        truth = pilot.means[drawn]
        worse = truth + pilot.changes[drawn]
        if pilot.is_yes_or_no:
            mean = max(float(pilot.means.mean()), 1e-9)
            sides = [truth, worse * max(0.0, 1 - loss / mean)]
            before, after = (rng.binomial(repetitions, np.clip(side, 0, 1)) / repetitions for side in sides)
        else:
            before, after = (
                side + rng.choice(pilot.residuals, (cases, repetitions)).mean(axis=1) for side in (truth, worse - loss)
            )
        yield Sample(
            before=before,
            after=after,
            k_before=counts,
            k_after=counts,
            noise_before=None,
            noise_after=None,
            is_binary=pilot.is_yes_or_no and repetitions == 1,
            score_range=pilot.shape.score_range,
            is_bounded=pilot.shape.is_bounded,
            clusters=None,
            effect=pilot.shape.effect,
        )
