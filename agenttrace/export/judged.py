"""A run that was judged, as a backend for evaluations wants it: each attempt with its first step and with what was found.

In: a run, its steps, its results. Out: attempts with findings. An attempt in which the agent failed counts as 0, as it does
in `compare`: a version that fails often must not look better for having fewer scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from agenttrace.comparison.evidence import AGENT_FAILURES
from agenttrace.comparison.recorded_suite import RecordedSuite, recorded_suite
from agenttrace.records import RunRecord, SpanRecord
from agenttrace.steps import EVALUATOR
from agenttrace.store.results import ResultRecord

Judge: TypeAlias = Literal["CODE", "LLM"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one evaluator found of one attempt."""

    name: str
    judge: Judge
    score: float | None = None
    label: str | None = None
    explanation: str | None = None
    error: str | None = None
    """What the evaluator raised, in place of a score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAttempt:
    """One attempt at a case."""

    case: str
    repetition: int
    cluster: str | None
    root: SpanRecord | None
    """Its first step; None for an attempt of which no step was recorded."""
    error: str | None
    """Why there is no answer; None where there is one."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run with its attempts."""

    run: RunRecord
    suite: RecordedSuite | None
    """None where no suite made the run."""
    attempts: tuple[JudgedAttempt, ...]

    @property
    def is_complete(self) -> bool:
        """Whether all that its suite planned has a result."""
        done = [(attempt.case, attempt.repetition) for attempt in self.attempts]
        return self.suite is not None and not self.suite.missing(done)


def judged_run(run: RunRecord, spans: Iterable[SpanRecord], results: Iterable[ResultRecord]) -> JudgedRun:
    """Join a run's results with the first steps of their traces."""
    results = tuple(results)
    roots: dict[str, SpanRecord] = {}
    judging: set[str] = set()
    for span in spans:
        if span.parent_id is None:
            roots.setdefault(span.trace_id, span)
        if span.kind == "model" and EVALUATOR in span.metadata:
            judging.add(str(span.metadata[EVALUATOR]))
    suite = recorded_suite(run)
    told: Any = suite.settings.get("evaluator.judge") if suite else None
    judging |= {name for name, settings in told.items() if settings} if isinstance(told, Mapping) else set()
    names = sorted({name for result in results for name in result.scores})
    return JudgedRun(
        run=run,
        suite=suite,
        attempts=tuple(
            JudgedAttempt(
                case=result.case,
                repetition=result.repetition,
                cluster=result.cluster,
                root=roots.get(result.trace_id or ""),
                error=_error(result),
                findings=_findings(result, names, judging),
            )
            for result in results
        ),
    )


def _error(result: ResultRecord) -> str | None:
    if result.outcome in ("scored", "grader_error"):
        return None
    tries: Any = result.detail.get("tries")
    last = tries[-1] if isinstance(tries, list) and tries and isinstance(tries[-1], Mapping) else {}
    return f"{result.outcome}: {last['error']}" if last.get("error") else result.outcome


def _findings(result: ResultRecord, names: Iterable[str], judging: Iterable[str]) -> tuple[Finding, ...]:
    if result.outcome in AGENT_FAILURES:
        why = f"the attempt ended as {result.outcome}, which counts as 0"
        return tuple(Finding(name=name, judge="CODE", score=0.0, explanation=why) for name in names)
    labels, reasons, errors = (_texts(result.detail.get(key)) for key in ("labels", "reasons", "errors"))
    return tuple(
        Finding(
            name=name,
            judge="LLM" if any(name == judge or name.startswith(f"{judge}.") for judge in judging) else "CODE",
            score=result.scores.get(name),
            label=labels.get(name),
            explanation=reasons.get(name),
            error=errors.get(name),
        )
        for name in sorted({*result.scores, *labels, *errors})
    )


def _texts(value: Any) -> Mapping[str, str]:
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, Mapping) else {}
