"""Limits in time, tokens and money: of one attempt, as an evaluator, and of a whole run, as what ends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agenttrace import clock
from agenttrace.evaluation.cases import Case
from agenttrace.evaluation.score import Score
from agenttrace.evaluation.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Whether an attempt kept to its limits: one score a limit. What is not known of it is a grader error, not a pass.

    Of an attempt that was replayed only the tokens are judged: its times and its cost are a recording's.
    """

    latency_s: float | None = None
    tokens: int | None = None
    """Input and output of all its model calls."""
    cost_usd: float | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """By phase, over all its model calls: `{"queue": 0.5}`; `tool_run` and `tool_wait` are those of tool calls."""
    name: str = "budget"
    is_quick: ClassVar[bool] = True

    def __call__(self, case: Case, output: Any, trace: Trace) -> list[Score]:
        return [
            Score(name=name, value=used <= limit, reason=None if used <= limit else f"{used:g} of {limit:g} {unit}")
            for name, used, limit, unit in self._used(trace)
        ]

    def _used(self, trace: Trace) -> Iterator[tuple[str, float, float, str]]:
        is_live = not trace.is_replayed
        if self.latency_s is not None and is_live:
            yield "latency", _known("its time", trace.latency_ns) / 1e9, self.latency_s, "s"
        if self.tokens is not None:
            yield "tokens", _known("the number of its tokens", trace.tokens), self.tokens, "tokens"
        if self.cost_usd is not None and is_live:
            yield "cost", _known("its cost", trace.cost_usd), self.cost_usd, "USD"
        for phase, limit in self.phases_s.items() if is_live else ():
            yield phase, _known(f"its time in {phase}", trace.phase_ns(phase)) / 1e9, limit, "s"


def _known(what: str, value: float | None) -> float:
    if value is None:
        raise ValueError(f"{what} is not known, so no budget of it can be judged")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use, all attempts together; None: as much as it takes."""

    cost_usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None


@dataclass(slots=True)
class Used:
    """What attempts used of one thing."""

    known: float = 0
    told: int = 0
    """Attempts that told."""
    unknown: int = 0
    """Attempts that did not."""
    largest: float = 0
    """Of one attempt."""

    def add(self, amount: float | None) -> None:
        """Count an attempt that has ended."""
        if amount is None:
            self.unknown += 1
            return
        self.known += amount
        self.told += 1
        self.largest = max(self.largest, amount)

    @property
    def total(self) -> float | None:
        """None as soon as one attempt did not tell."""
        return None if self.unknown else self.known

    @property
    def assumed(self) -> float | None:
        """For limits: who did not tell counts as much as the largest that did; None where none did."""
        return self.known + self.unknown * self.largest if self.told or not self.unknown else None


@dataclass(slots=True)
class Spending:
    """What a run has used, and whether it may begin another attempt."""

    limits: Limits
    started_ns: int = field(default_factory=clock.monotonic_ns)
    attempts: int = 0
    """Ended, those of this process."""
    tokens: Used = field(default_factory=Used)
    cost_usd: Used = field(default_factory=Used)

    def add(self, trace: Trace) -> None:
        """Count an attempt that has ended."""
        self.attempts += 1
        self.tokens.add(trace.tokens)
        self.cost_usd.add(trace.cost_usd)

    def add_judging(self, calls: Trace) -> None:
        """Count what evaluators asked of models."""
        if calls.spans:
            self.tokens.add(calls.tokens)
            self.cost_usd.add(calls.cost_usd)

    def must_wait(self, under_way: int) -> bool:
        """Whether the next attempt has to wait until one is known to cost so and so much: the first one goes alone."""
        return self._counts_money and self.attempts == 0 and under_way > 0

    def why_stop(self, under_way: int) -> str | None:
        """Why no further attempt may begin, in words; None while one may. Those under way count as the mean of the others."""
        limits = self.limits
        if limits.seconds is not None and (clock.monotonic_ns() - self.started_ns) / 1e9 >= limits.seconds:
            return f"the time of {limits.seconds:g} s is used up"
        if not self.attempts:
            return None
        ahead = 1 + (under_way + 1) / self.attempts
        if limits.tokens is not None:
            tokens = self.tokens.assumed
            if tokens is None:
                return "an attempt's tokens are not known, so a limit of tokens cannot be kept"
            if tokens * ahead > limits.tokens:
                return f"{tokens:,.0f} of {limits.tokens:,} tokens are used, and the next attempt would be too much"
        if limits.cost_usd is not None:
            cost = self.cost_usd.assumed
            if cost is None:
                return "an attempt's cost is not known, so a limit of money cannot be kept; limit the tokens instead"
            if cost * ahead > limits.cost_usd:
                return f"{cost:.4f} of {limits.cost_usd:g} USD are spent, and the next attempt would be too much"
        return None

    @property
    def _counts_money(self) -> bool:
        return self.limits.tokens is not None or self.limits.cost_usd is not None
