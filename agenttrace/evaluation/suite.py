"""A suite: cases, the task that is tried on them, the evaluators that judge, and how often and how long it may try."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from agenttrace.digest import code_digest
from agenttrace.errors import InvalidSuite
from agenttrace.evaluation.budgets import Limits
from agenttrace.evaluation.cases import Case, checked
from agenttrace.evaluation.evaluator import Evaluator, NamedEvaluator, named_evaluators
from agenttrace.evaluation.loading import load_cases
from agenttrace.langchain.tasks import AnyRunnable, FunctionTask, as_runnable

if TYPE_CHECKING:
    from agenttrace.evaluation.summary import EvaluatedRun

Cases: TypeAlias = Iterable[Case] | str | os.PathLike[str]
Task: TypeAlias = Any
"""A Runnable, a graph, or a sync or async callable on a case's input."""

MAIN = "main"
"""The name of a suite's only task."""


@dataclass(kw_only=True)
class Suite:
    """What is tried, on what, and how it is judged.

    Raises:
        InvalidSuite: the task, an evaluator or a number is not what it should be.
        InvalidCases: the cases cannot be used.
    """

    name: str
    cases: Cases
    """Cases, or the path of a file of them: JSON Lines, CSV or YAML. `loading.phoenix_dataset` brings those of Phoenix."""
    task: Task | Mapping[str, Task]
    """What is tried; several by name where they are to be compared (`agenttrace eval ab`)."""
    evaluators: Sequence[Evaluator] | Mapping[str, Evaluator]
    """Any callables on (case, output, trace); a mapping gives them other names than their own."""
    repetitions: int = 1
    timeout_s: float | None = 300.0
    """Of one attempt, and of each evaluator on it; None: no limit."""
    concurrency: int = 4
    """How many attempts are under way at a time."""
    retries: int = 2
    """How often an attempt is made again after the infrastructure failed, and only then."""
    calls_per_minute: Mapping[str, float] = field(default_factory=dict)
    """By provider, as LangChain calls it (`openai`, `anthropic`): how many model calls may begin in a minute."""
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Entered before the first attempt and left after the last: what the task needs to be there, like a model server."""

    def __post_init__(self) -> None:
        self._check_numbers()
        tasks = self.task if isinstance(self.task, Mapping) else {MAIN: self.task}
        runnables = {str(name): as_runnable(task) for name, task in tasks.items()}
        wrong = [name for name, runnable in runnables.items() if runnable is None]
        if wrong or not runnables:
            kind = type(tasks[wrong[0]]).__name__ if wrong else "empty mapping"
            raise InvalidSuite(
                f"The task of suite '{self.name}' is a {kind}. Give a Runnable, a graph or a callable; nothing was run."
            )
        self.tasks: Mapping[str, AnyRunnable] = {name: task for name, task in runnables.items() if task is not None}
        # Now, since what a task closes over may change while it runs.
        self.task_code = {name: _code_of(task) for name, task in self.tasks.items()}
        self.named_evaluators: tuple[NamedEvaluator, ...] = named_evaluators(self.evaluators)
        if not self.named_evaluators:
            raise InvalidSuite(
                f"Suite '{self.name}' has no evaluator, so nothing would be judged. Give it at least one."
            )
        is_path = isinstance(self.cases, (str, os.PathLike))
        self.loaded_cases: tuple[Case, ...] = (
            load_cases(Path(self.cases)) if is_path else checked(self.cases)  # type: ignore[arg-type]  # told apart by is_path
        )

    def _check_numbers(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidSuite("The suite has no name. Give it one: its runs are called so.")
        for name, least in (("repetitions", 1), ("concurrency", 1), ("retries", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidSuite(f"'{name}' of suite '{self.name}' is {value!r}. Give a whole number from {least}.")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise InvalidSuite(f"'timeout_s' of suite '{self.name}' is {self.timeout_s!r}. Give seconds, or None.")
        for provider, number in self.calls_per_minute.items():
            if not number > 0:
                raise InvalidSuite(
                    f"'calls_per_minute' allows {number!r} calls of {provider}. Give a number above zero."
                )

    def run(
        self,
        name: str | None = None,
        *,
        task: str | None = None,
        store: str | os.PathLike[str] | None = None,
        limits: Limits | None = None,
        record_replies: str | os.PathLike[str] | None = None,
        replay: str | os.PathLike[str] | None = None,
    ) -> EvaluatedRun:
        """Try every case, and record it as one run, named after the suite where no name is given.

        A run of this name that was broken off is gone on with: what it has is not tried again.

        Args:
            name: The run's name.
            task: Which task, by name; the first where there are several.
            store: The store's folder.
            limits: What the run may use; when it is used up, the run stops in order and can be gone on with.
            record_replies: A folder that gets what models reply, to be replayed.
            replay: The folder of a recording whose replies are given in place of models.

        Raises:
            SuiteChanged: the run that was broken off is of another suite.
            RunUnderWay: another process is at it.
            NoRecording, RecordingDamaged: the folder cannot be recorded into, or replayed from.
            KeyboardInterrupt: it was interrupted; what was made by then is stored.
        """
        from agenttrace.evaluation.runner import INTERRUPTED, Arm, RunOptions, run_suite

        arm = Arm(task=self.task_name(task), run_name=name or self.name)
        options = RunOptions(store=store, limits=limits or Limits(), record_replies=record_replies, replay=replay)
        [result] = run_suite(self, [arm], options)
        if result.stopped == INTERRUPTED:
            raise KeyboardInterrupt(f"{result.missing}; the same call goes on where it stopped")
        return result

    def task_name(self, name: str | None) -> str:
        """The task of a name; the first where none is given. `InvalidSuite`: there is none of that name."""
        if name is None:
            return next(iter(self.tasks))
        if name not in self.tasks:
            raise InvalidSuite(f"Suite '{self.name}' has no task '{name}'. There are: {', '.join(self.tasks)}.")
        return name


def _code_of(task: AnyRunnable) -> str:
    """A digest of a function's code; of a Runnable that is made of others, only of what it is: its parts have no source."""
    return code_digest(task.function if isinstance(task, FunctionTask) else type(task))
