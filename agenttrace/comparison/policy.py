"""By which rules numbers become a verdict: what gates, by which margin, at which error rate, and what doubt is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

OnInconclusive: TypeAlias = Literal["fail", "warn"]

MAX_ALPHA = 0.25
"""Beyond this the interval covers less than half of what it promises to cover."""

MAX_INVALID_SHARE = 0.02
"""Attempts that say nothing about the agent, of all attempts of a run; more of them make it invalid."""

MIN_CLUSTERS = 10
"""With fewer independent sources nothing is gated: their variance cannot be told from so few."""

FEW_CLUSTERS = 30
"""With fewer than these the interval is somewhat too narrow, and it is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of one comparison. `[tool.agenttrace]` of pyproject.toml sets them, the command line sets them again."""

    primary: tuple[str, ...] = ()
    """Metrics that decide. None named: all scores that evaluators gave."""
    margins: Mapping[str, float] = field(default_factory=dict)
    """By metric: how much worse still passes. A share (0.2 is 20 %) for times, tokens and cost, else in the metric's unit."""
    alpha: float = 0.05
    """The rate of either error: an unchanged agent called regressed, one that is worse by the margin passed."""
    min_cases: int = 5
    """With fewer paired cases nothing is decided."""
    on_inconclusive: OnInconclusive = "fail"
    """Whether `compare` ends with exit code 10 or 0 where the evidence decides nothing."""
    allow_missing: bool = False
    """Judge runs with many attempts that say nothing about the agent; bounds then show what they could have changed."""


def policy_problems(policy: Policy) -> tuple[str, ...]:
    """What is wrong with a policy, one phrase each; nothing where it may be used."""
    problems = []
    if not 0 < policy.alpha <= MAX_ALPHA:
        problems.append(f"alpha is {policy.alpha:g}, expected more than 0 and at most {MAX_ALPHA:g}")
    if policy.min_cases < 2:
        problems.append(f"min_cases is {policy.min_cases}, expected at least 2")
    if policy.on_inconclusive not in ("fail", "warn"):
        problems.append(f"on_inconclusive is '{policy.on_inconclusive}', expected 'fail' or 'warn'")
    problems += [
        f"the margin of {name} is {margin:g}, expected a number above 0"
        for name, margin in policy.margins.items()
        if not 0 < margin < float("inf")
    ]
    return tuple(problems)
