"""What a comparison knows of one run: its contract, and its results by case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from agenttrace.comparison.recorded_suite import RecordedSuite
from agenttrace.records import CaptureCounters, RunRecord
from agenttrace.settings.contract import Contract

Outcome: TypeAlias = Literal[
    "scored", "agent_error", "timeout", "limit", "refusal", "infra_error", "grader_error", "cancelled"
]
"""How one attempt at a case ended. The second to the fifth are the agent's doing, the last three are not."""

AGENT_FAILURES: frozenset[Outcome] = frozenset(("agent_error", "timeout", "limit", "refusal"))
NOT_THE_AGENT: frozenset[Outcome] = frozenset(("infra_error", "grader_error", "cancelled"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """One attempt at a case."""

    case: str
    number: int
    """From 1 within the case."""
    outcome: Outcome = "scored"
    cluster: str | None = None
    """Cases with one source share a cluster."""
    scores: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Times in seconds (`latency_s`), token counts (`input_tokens`), and whatever else was measured."""
    trace_id: str | None = None


@dataclass(frozen=True, kw_only=True)  # without slots, so that `cases` is gathered once
class RunEvidence:
    """One side of a comparison."""

    run: RunRecord
    contract: Contract
    repetitions: tuple[Repetition, ...] = ()
    """In the order of time. Traces that name no case are not among them."""
    counters: CaptureCounters | None = None
    """Of the process that recorded the run; None where nobody counted (imported)."""
    is_unfinished: bool = False
    """The process that recorded it ended first, or is still at it."""
    unfinished_traces: int = 0
    """Traces with a step that never ended."""
    suite: RecordedSuite | None = None
    """The suite that made the run; None where no suite did. Then every trace that names a case is a repetition."""

    @cached_property
    def cases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(repetition.case for repetition in self.repetitions))

    @property
    def missing(self) -> str | None:
        """Which attempts of the suite have no result, in words; None where all have."""
        done = [(repetition.case, repetition.number) for repetition in self.repetitions]
        return None if self.suite is None else self.suite.missing_text(done)

    @property
    def label(self) -> str:
        """How messages call it: its name, with the beginning of its id."""
        return f"{self.run.name} ({self.run.run_id[:8]})"
