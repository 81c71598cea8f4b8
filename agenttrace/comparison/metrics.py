"""What is measured, which way is better, in what the effect is told, and the margin where nobody declared one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

MetricKind: TypeAlias = Literal["score", "time", "cost", "other"]

Better: TypeAlias = Literal["higher", "lower"]

Effect: TypeAlias = Literal["difference", "relative"]
"""Candidate − baseline in the metric's unit, or candidate ÷ baseline − 1."""

COST_ENDINGS = ("_tokens", "_usd")

LEADING = ("latency_s", "first_token_s", "model_s", "cost_usd", "input_tokens", "output_tokens")
"""Metrics that are told before all others."""

MOSTLY_NOTHING = (
    "tool_calls", "step_errors", "retries", "stopped_by_length", "cached_tokens", "reasoning_tokens", "cost_usd"
)  # fmt: skip
"""Metrics that are not told where both runs have nothing of them."""

SCORE_MARGIN = 0.05
"""Of scores between 0 and 1: five points."""

TIME_MARGIN = 0.20

COST_MARGIN = 0.10


class MetricKey(NamedTuple):
    """A score and a measurement may have the same name."""

    is_score: bool
    name: str

    @property
    def base(self) -> str:
        """Its name without the call site or statistic that narrows it."""
        return self.name.partition(":")[0].partition(" ")[0]

    @property
    def kind(self) -> MetricKind:
        """What it measures: what forbids comparing times and tokens leaves scores alone."""
        if self.is_score:
            return "score"
        if self.base.endswith("_s"):
            return "time"
        return "cost" if self.base.endswith(COST_ENDINGS) else "other"

    @property
    def is_mostly_nothing(self) -> bool:
        return not self.is_score and self.base in MOSTLY_NOTHING

    @property
    def better(self) -> Better:
        return "higher" if self.is_score else "lower"

    @property
    def sign(self) -> int:
        """Turns a difference so that more is better."""
        return 1 if self.is_score else -1

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Scores first, then what most people ask for."""
        place = LEADING.index(self.base) if self.base in LEADING else len(LEADING)
        return not self.is_score, place, self.name

    def default_margin(self, is_bounded: bool, effect: Effect) -> float | None:
        """The margin where none was declared; None where the scale tells none."""
        if self.kind == "time" and effect == "relative":
            return TIME_MARGIN
        if self.kind == "cost" and effect == "relative":
            return COST_MARGIN
        return SCORE_MARGIN if self.is_score and is_bounded else None


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that tells the metric which was probably meant, or all there are."""
    from difflib import get_close_matches

    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"Did you mean '{near[0]}'?"
    return f"There are: {', '.join(names)}." if names else "The runs have no metric in common."
