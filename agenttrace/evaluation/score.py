"""What evaluators return, made into numbers, labels and reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agenttrace.steps import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What an evaluator found. Higher is better."""

    value: float | bool | None = None
    """True and false count as 1 and 0. None where there is only a label."""
    label: str | None = None
    reason: str | None = None
    """Why, for whoever reads the failed cases."""
    name: str | None = None
    """Where one evaluator finds several things; else the score has the evaluator's name."""


@dataclass(slots=True)
class Judgement:
    """What all evaluators found of one attempt, by the names of the scores."""

    scores: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    """Of evaluators that failed: what they raised."""

    @property
    def told(self) -> dict[str, JSON]:
        """What nobody calculates with, as a result keeps it."""
        return {name: dict(found) for name in ("labels", "reasons", "errors") if (found := getattr(self, name))}

    def add(self, name: str, returned: Any) -> None:
        """Take in what an evaluator returned: bool, number, text, `Score`, or several of them by name.

        Raises:
            TypeError, ValueError: it is no score.
        """
        if isinstance(returned, Mapping):
            for key, item in returned.items():
                self.add(f"{name}.{key}", item)
        elif isinstance(returned, Sequence) and not isinstance(returned, (str, bytes)):
            for item in returned:
                self.add(name, item)
        elif isinstance(returned, Score):
            self._add_score(f"{name}.{returned.name}" if returned.name else name, returned)
        elif isinstance(returned, str):
            self._add_score(name, Score(label=returned))
        else:
            self._add_score(name, Score(value=_number(returned)))

    def _add_score(self, name: str, score: Score) -> None:
        if name in self.scores or name in self.labels:
            raise ValueError(f"there are two scores named '{name}'")
        if score.value is None and score.label is None:
            raise ValueError("the score has neither a value nor a label")
        if score.value is not None:
            self.scores[name] = _number(score.value)
        if score.label is not None:
            self.labels[name] = str(score.label)
        if score.reason:
            self.reasons[name] = str(score.reason)


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)) and not hasattr(value, "__float__"):  # numbers of numpy
        raise TypeError(f"it returned {'nothing' if value is None else type(value).__name__}, which is no score")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"it returned {number}, which is no score")
    return number
