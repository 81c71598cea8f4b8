"""What comparing two runs gives: plain data that reports draw and JSON is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agenttrace.comparison.case_flags import CaseFlag
from agenttrace.comparison.differences import SettingDifference, Unverified
from agenttrace.comparison.gate import GateResult
from agenttrace.comparison.metrics import Better, Effect, MetricKind
from agenttrace.comparison.pairing import PairedCase
from agenttrace.comparison.parting import Parting
from agenttrace.comparison.policy import Policy
from agenttrace.comparison.verdicts import EXIT_CODES, Label, Verdict
from agenttrace.records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What would probably decide a metric, if the runs differ as much as they seem to."""

    cases: int | None
    """With the repetitions there are; None where no number would do."""
    repetitions: int | None
    """Of the cases there are, in each run; None where cases differ too much for repetitions to help, or none is known."""
    attempts: int
    """More attempts than there are, both runs together, the cheaper way."""
    cost_usd: float | None
    """Of these attempts, from what the recorded ones cost; None where that is not known."""
    tokens: int | None
    seconds: float | None
    """One after another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """One metric in both runs, over the cases that have it in both."""

    name: str
    kind: MetricKind
    primary: bool = False
    """It takes part in the verdict; every other one informs."""
    better: Better = "higher"
    effect: Effect = "difference"
    """In what `delta`, `low`, `high` and `margin` are: the metric's unit, or shares of the baseline (0.1 is 10 % more)."""
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
    """Bounds of the difference; None where nothing bounds it, or no statistics were asked for."""
    high: float | None = None
    margin: float | None = None
    """How much worse still passes; None: any loss counts."""
    verdict: Verdict = "inconclusive"
    label: Label | None = None
    reason: str | None = None
    """Why it decides nothing, where that is not the interval's doing."""
    method: str | None = None
    """How the interval was had."""
    standard_error: float | None = None
    better_cases: int | None = None
    """Cases that changed for the better."""
    worse_cases: int | None = None
    clusters: int | None = None
    correlation: float | None = None
    noise_share: float | None = None
    """Of the variance of differences: what is noise of repetitions, so that more of them would help."""
    smallest_detectable: float | None = None
    """The smallest true loss that these cases would have shown in 80 % of such comparisons."""
    p: float | None = None
    """One-sided, of "not worse", by the same method as the interval."""
    p_values: Mapping[str, float] = field(default_factory=dict)
    """Two-sided, of "nothing changed", by the name of the test. They never decide."""
    needed: Needed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What comparing two runs gives."""

    baseline: RunRecord
    candidate: RunRecord
    verdict: Verdict
    gate: GateResult
    policy: Policy = field(default_factory=Policy)
    reasons: tuple[str, ...]
    """Why the verdict is what it is, one sentence each."""
    metrics: tuple[MetricComparison, ...] = ()
    """Empty unless comparable."""
    cases: tuple[PairedCase, ...] = ()
    """Those that differ most come first. Empty unless comparable."""
    flags: Mapping[str, tuple[CaseFlag, ...]] = field(default_factory=dict)
    """By case, the primary scores of 0 or 1 that changed."""
    traces: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    """By case, the traces of both runs."""
    partings: Mapping[str, Parting] = field(default_factory=dict)
    """By case whose scores differ, where an attempt of each run parted; the first cases only, and where traces are stored."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know."""

    @property
    def differences(self) -> tuple[SettingDifference, ...]:
        return self.gate.differences

    @property
    def unverified(self) -> tuple[Unverified, ...]:
        return self.gate.unverified

    @property
    def primary(self) -> tuple[MetricComparison, ...]:
        return tuple(metric for metric in self.metrics if metric.primary)

    @property
    def exit_code(self) -> int:
        """Of a command that compares."""
        if self.verdict == "inconclusive" and self.policy.on_inconclusive == "warn":
            return 0
        return EXIT_CODES[self.verdict]
