"""What a run of a suite came to, kept in little: counts, means, and the first of the attempts that failed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from agenttrace.comparison.evidence import AGENT_FAILURES
from agenttrace.evaluation.budgets import Limits, Spending
from agenttrace.store.results import ResultRecord

KEPT_FAILURES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An attempt that did not score in full."""

    case: str
    repetition: int
    outcome: str
    reason: str
    trace_id: str | None


@dataclass(slots=True)
class Mean:
    total: float = 0.0
    count: int = 0

    @property
    def value(self) -> float | None:
        return self.total / self.count if self.count else None


@dataclass(slots=True, kw_only=True)
class EvaluatedRun:
    """A run of a suite, whole or stopped."""

    run_id: str
    name: str
    task: str
    planned: int
    """Attempts, those of other shards left out."""
    already_there: int = 0
    """Attempts that an earlier process had made."""
    outcomes: Counter[str] = field(default_factory=Counter)
    means: dict[str, Mean] = field(default_factory=dict)
    """By score. An attempt that the agent failed counts as 0, where the score lies between 0 and 1; what was not the
    agent's doing is left out."""
    failures: list[Failure] = field(default_factory=list)
    spending: Spending = field(default_factory=lambda: Spending(Limits()))
    """Of the attempts that this process made, and of their judges."""
    stopped: str | None = None
    """Why it ended early; None where it did not."""
    missing: str | None = None
    """How many attempts have no result, in words; None where all have."""
    tape: str | None = None
    """What became of its recording, or what was not in the one that was replayed, in words."""
    replay_misses: int = 0
    other_shards: str | None = None
    """Which shards were not there yet when this one ended, in words; None where all were, or there are none."""
    left_behind: int = 0
    """Attempts that went on after their time: their threads end with this process, and may cost until then."""

    @property
    def tokens(self) -> int:
        """Of model calls that tell them."""
        return int(self.spending.tokens.known)

    @property
    def cost_usd(self) -> float | None:
        """None: not known of every attempt."""
        return self.spending.cost_usd.total

    def add(self, result: ResultRecord) -> None:
        """Count a result."""
        self.outcomes[result.outcome] += 1
        for name, value in result.scores.items() if result.outcome == "scored" else ():
            mean = self.means.setdefault(name, Mean())
            mean.total += value
            mean.count += 1
        failed = [name for name, value in result.scores.items() if value <= 0]
        if (result.outcome != "scored" or failed) and len(self.failures) < KEPT_FAILURES:
            self.failures.append(
                Failure(
                    case=result.case,
                    repetition=result.repetition,
                    outcome=result.outcome,
                    reason=_reason(result, failed),
                    trace_id=result.trace_id,
                )
            )

    def mean(self, score: str) -> float | None:
        """The mean of a score over attempts, failed ones as 0; None where no attempt counts."""
        mean = self.means.get(score, Mean())
        count = mean.count + sum(self.outcomes[outcome] for outcome in AGENT_FAILURES)
        return mean.total / count if count else None

    def as_json(self) -> dict[str, Any]:
        """As `eval run --json` prints it."""
        return {
            "run_id": self.run_id,
            "run": self.name,
            "task": self.task,
            "attempts": self.planned,
            "already_there": self.already_there,
            "outcomes": dict(self.outcomes),
            "scores": {name: self.mean(name) for name in self.means},
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "stopped": self.stopped,
            "missing": self.missing,
            "other_shards": self.other_shards,
            "left_behind": self.left_behind,
            "replay_misses": self.replay_misses,
            "failures": [{name: getattr(one, name) for name in Failure.__dataclass_fields__} for one in self.failures],
        }


def _reason(result: ResultRecord, failed: list[str]) -> str:
    reasons, errors, tries = (result.detail.get(key) for key in ("reasons", "errors", "tries"))
    if isinstance(errors, dict) and errors:
        return "; ".join(f"{name}: {text}" for name, text in errors.items())
    if isinstance(tries, list) and tries and result.outcome != "scored":
        last: Any = tries[-1]
        return str(last.get("error") or result.outcome)
    told = reasons if isinstance(reasons, dict) else {}
    return "; ".join(f"{name}: {told[name]}" if name in told else name for name in failed)
