"""What a run keeps of the suite that made it: which attempts were planned, and by what they were measured.

It lies in the run's metadata, under `evaluation`. There, `suite` holds the plan; `settings` holds what was set for the run as a whole, under the names
of the dimensions: `data.cases` and `data.expected` (a hash by case), `evaluator.code` (a hash by evaluator),
`evaluator.judge` (its settings by evaluator, where they can be read), `load`, `code.commit`, `code.packages`, `environment`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agenttrace.records import EVALUATION, PROVENANCE, RunRecord
from agenttrace.steps import JSON

CASES = "data.cases"

RESCORED_FROM = "rescored_from"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSuite:
    """The plan of an evaluation, as its run keeps it."""

    name: str
    cases: tuple[str, ...]
    """In the suite's order, which decides about shards."""
    repetitions: int
    task: tuple[str, str] = ("", "")
    """The name of what was tried, and a digest of its code."""
    shards: int = 1
    """How many parts the run was divided into; each part's results come from a process of its own."""
    settings: Mapping[str, JSON] = field(default_factory=dict)
    """By dimension."""

    @property
    def attempts(self) -> int:
        return len(self.cases) * self.repetitions

    def missing(self, done: Collection[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        """What was planned and has no result: case and repetition."""
        known = frozenset(done)
        planned = ((case, number) for number in range(1, self.repetitions + 1) for case in self.cases)
        return tuple(attempt for attempt in planned if attempt not in known)

    def shard_of(self, case: str) -> int:
        """Which part a case belongs to, from 1."""
        return self.cases.index(case) % self.shards + 1

    def missing_text(self, done: Collection[tuple[str, int]]) -> str | None:
        """What is missing, in words; None where nothing is."""
        missing = self.missing(done)
        if not missing:
            return None
        text = f"{len(missing)} of {self.attempts} attempts have no result"
        if self.shards > 1:
            lacking = sorted({self.shard_of(case) for case, _ in missing})
            shards = ", ".join(f"{number}/{self.shards}" for number in lacking)
            text += f" (missing: shard {shards})" if len(lacking) == 1 else f" (missing: shards {shards})"
        return text


def suite_metadata(suite: RecordedSuite) -> dict[str, Any]:
    """The suite as a run's metadata hold it."""
    plan = {"name": suite.name, "repetitions": suite.repetitions, "shards": suite.shards, "task": list(suite.task)}
    return {EVALUATION: {"suite": plan, "settings": dict(suite.settings)}}


def run_settings(run: RunRecord) -> Mapping[str, JSON]:
    """What was set for the run as a whole, by dimension: with its suite, else as it was recorded without one."""
    kept = run.metadata.get(EVALUATION)
    told = kept.get("settings") if isinstance(kept, Mapping) else run.metadata.get(PROVENANCE)
    return told if isinstance(told, Mapping) else {}


def compared_settings(run: RunRecord) -> Mapping[str, JSON]:
    """What held for the run as a whole and is compared as one; cases are compared one by one, with the results."""
    return {name: value for name, value in run_settings(run).items() if name != CASES}


def rescored_from(run: RunRecord) -> str | None:
    """The run whose stored outputs this one judged anew; None for every other run. It has results of its own, and the source's
    traces.
    """
    kept = run.metadata.get(EVALUATION)
    source = kept.get(RESCORED_FROM) if isinstance(kept, Mapping) else None
    return source if isinstance(source, str) else None


def recorded_suite(run: RunRecord) -> RecordedSuite | None:
    """The suite that made the run; None for a run that no suite made."""
    kept = run.metadata.get(EVALUATION)
    if not isinstance(kept, Mapping):
        return None
    plan, settings = kept.get("suite"), kept.get("settings")
    if not isinstance(plan, Mapping) or not isinstance(settings, Mapping):
        return None
    cases, repetitions, shards = settings.get("data.cases"), plan.get("repetitions"), plan.get("shards", 1)
    if not isinstance(cases, Mapping) or not isinstance(repetitions, int) or not isinstance(shards, int):
        return None
    task = plan.get("task")
    return RecordedSuite(
        name=str(plan.get("name")),
        cases=tuple(cases),
        repetitions=repetitions,
        task=(str(task[0]), str(task[1])) if isinstance(task, Sequence) and len(task) == 2 else ("", ""),
        shards=shards,
        settings=settings,
    )
