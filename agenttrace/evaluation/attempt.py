"""One attempt at a case: the task is called, again only after the infrastructure failed; then the evaluators judge."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agenttrace.comparison.evidence import Outcome
from agenttrace.evaluation.blocking import interruptions
from agenttrace.evaluation.cases import Case
from agenttrace.evaluation.evaluator import NamedEvaluator
from agenttrace.evaluation.outcomes import REFUSED, may_be_retried, outcome_of
from agenttrace.evaluation.score import Judgement
from agenttrace.evaluation.trace import Trace
from agenttrace.langchain.pacing import Pacing
from agenttrace.langchain.payloads import error_text
from agenttrace.langchain.tasks import AnyRunnable, start
from agenttrace.recording import trace_of
from agenttrace.steps import JSON
from agenttrace.store.results import ResultRecord

GRACE_S = 1.0
"""How long a cancelled attempt has to let go; one that does not is left behind."""

BACKOFF_S = 0.5
"""Before the second try; twice as long before each further one."""

MAX_BACKOFF_S = 30.0


_ids = random.Random()

_kept: list[asyncio.Task[Any]] = []
"""Calls that did not let go. Held until the process ends: one that is thrown away mid-way complains aloud."""


@dataclass(slots=True)
class Try:
    """One call of the task."""

    outcome: Outcome
    langchain_run: UUID
    output: Any = None
    error: BaseException | None = None

    @property
    def told(self) -> dict[str, JSON]:
        """As the result keeps it."""
        error = None if self.error is None else f"{type(self.error).__name__}: {error_text(self.error)}"
        return {"outcome": self.outcome, "error": error, "trace_id": trace_of(self.langchain_run)}


@dataclass(slots=True)
class Attempt:
    """A planned attempt, and what came of it."""

    case: Case
    repetition: int
    tries: list[Try] = field(default_factory=list)

    @property
    def last(self) -> Try:
        return self.tries[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempter:
    """How attempts are made: the same for all of a run."""

    task: AnyRunnable
    context: Context
    """In which the run is recorded."""
    pacing: list[Pacing]
    timeout_s: float | None
    retries: int
    left_behind: list[asyncio.Task[Any]]
    """Calls that did not let go when they were cancelled."""

    async def make(self, attempt: Attempt) -> None:
        """Call the task, again after the infrastructure failed."""
        for number in range(1 + self.retries):
            if number:
                await asyncio.sleep(min(BACKOFF_S * 2 ** (number - 1), MAX_BACKOFF_S))
            attempt.tries.append(await self._call(attempt.case, attempt.repetition, number + 1))
            error = attempt.last.error
            if error is None or not may_be_retried(error):
                return

    async def _call(self, case: Case, repetition: int, number: int) -> Try:
        # Not uuid4, which asks the system for each: a random one is all that LangChain wants.
        langchain_run = UUID(int=_ids.getrandbits(128), version=4)
        metadata: dict[str, JSON] = {"case": case.id, "repetition": repetition}
        if number > 1:
            metadata["try"] = number
        coroutine = start(self.task, case.input, langchain_run, metadata, list(self.pacing))
        try:
            output = await within(coroutine, self.timeout_s, self.left_behind, self.context.copy())
        except OutOfTime as error:
            return Try("timeout", langchain_run, error=error)
        except Exception as error:
            return Try(outcome_of(error), langchain_run, error=error)
        return Try("scored", langchain_run, output)


class OutOfTime(Exception):
    """A call took longer than it was given."""


async def within(
    coroutine: Coroutine[Any, Any, Any], timeout_s: float | None, left_behind: list[asyncio.Task[Any]], context: Context
) -> Any:
    """What the coroutine returns. After `timeout_s` it is cancelled; one that does not mind is left behind.

    Raises:
        OutOfTime: it took longer.
    """
    # Not `asyncio.timeout`, which waits for as long as a cancelled task goes on.
    task = asyncio.get_running_loop().create_task(coroutine, context=context)
    try:
        done = await _ended_in_time(task, timeout_s)
    except asyncio.CancelledError:
        await _let_go(task, left_behind)
        raise
    if not done:
        await _let_go(task, left_behind)
        raise OutOfTime(f"it did not return within {timeout_s:g} s")
    if task.cancelled():
        raise RuntimeError("the task cancelled itself")
    return task.result()


async def _ended_in_time(task: asyncio.Task[Any], timeout_s: float | None) -> bool:
    """Whether it ended within `timeout_s`; time in which another one blocked the event loop is given back."""
    while True:
        interrupted = interruptions()
        done, _ = await asyncio.wait([task], timeout=timeout_s)
        if done or interruptions() == interrupted:
            return bool(done)


async def _let_go(task: asyncio.Task[Any], left_behind: list[asyncio.Task[Any]]) -> None:
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=GRACE_S)
    if not done:
        left_behind.append(task)
        _kept.append(task)
    elif not task.cancelled():
        task.exception()  # looked at, so that nobody complains that it was not


async def judge(
    evaluators: Sequence[NamedEvaluator],
    attempt: Attempt,
    trace: Trace,
    timeout_s: float | None,
    left_behind: list[asyncio.Task[Any]],
    context: Context,
) -> ResultRecord:
    """Have each evaluator judge what the task returned, and make the result. A failed evaluator fails none of the others."""
    judgement = Judgement()
    outcome = attempt.last.outcome
    if trace.has_replay_miss:  # whatever the agent made of it: it was not tried
        outcome = "infra_error"
    elif outcome == "scored" and _is_refused(trace):
        outcome = "refusal"
    if outcome == "scored":
        judgement = await judgement_of(
            evaluators, attempt.case, attempt.repetition, attempt.last.output, trace, timeout_s, left_behind, context
        )
        if judgement.errors:
            outcome = "grader_error"
    return ResultRecord(
        case=attempt.case.id,
        repetition=attempt.repetition,
        outcome=outcome,
        cluster=attempt.case.cluster,
        scores=judgement.scores,
        metrics={"tries": float(len(attempt.tries))} if len(attempt.tries) > 1 else {},
        trace_id=trace_of(attempt.last.langchain_run),
        detail=_detail(attempt, judgement),
    )


async def judgement_of(
    evaluators: Sequence[NamedEvaluator],
    case: Case,
    repetition: int,
    output: Any,
    trace: Trace,
    timeout_s: float | None,
    left_behind: list[asyncio.Task[Any]],
    context: Context,
) -> Judgement:
    """What all evaluators say of an output. A failed evaluator fails none of the others."""
    judgement = Judgement()
    for evaluator in evaluators:
        judging = evaluator.judge_attempt(case, repetition, output, trace, judgement)
        try:
            await (judging if evaluator.is_quick else within(judging, timeout_s, left_behind, context.copy()))
        except Exception as error:
            judgement.errors[evaluator.name] = f"{type(error).__name__}: {error_text(error)}"
    return judgement


def _detail(attempt: Attempt, judgement: Judgement) -> Mapping[str, JSON]:
    told: dict[str, JSON] = {}
    if len(attempt.tries) > 1 or attempt.last.error is not None:
        told["tries"] = [one.told for one in attempt.tries]
    return {**told, **judgement.told}


def _is_refused(trace: Trace) -> bool:
    """Whether the model's last word was that it will not answer."""
    return bool(trace.model_calls) and trace.model_calls[-1].finish_reason in REFUSED
