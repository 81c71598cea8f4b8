"""How an evaluator is called, whatever its parameters; what it is called; and by which digest it is told from another one."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agenttrace.digest import code_digest
from agenttrace.errors import InvalidSuite
from agenttrace.evaluation.cases import Case
from agenttrace.evaluation.score import Judgement
from agenttrace.evaluation.trace import Trace
from agenttrace.langchain.tasks import in_context, judging_context
from agenttrace.steps import JSON

Evaluator: TypeAlias = Callable[..., Any]
"""Any sync or async callable on (case, output, trace), or on some of `PARAMETERS` by name. See `Judgement.add` for what
it may return."""

PARAMETERS = ("case", "output", "trace", "input", "expected")
"""Names that an evaluator's parameters may have."""

IN_ORDER = ("case", "output", "trace")
"""What parameters of other names mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedEvaluator:
    """An evaluator, ready to be called."""

    name: str
    call: Evaluator
    parameters: tuple[str, ...]
    """What each of its parameters is given, in their order."""
    code: str
    """A digest of its source and of what it was made with."""
    judge: JSON
    """The judge's settings as far as the evaluator tells them; None where it tells none, or there is no judge. A judge that
    is called through LangChain is seen at its own call site besides."""

    @property
    def is_quick(self) -> bool:
        """Whether it only looks at what it is given, so that nothing has to watch over it."""
        return bool(getattr(self.call, "is_quick", False))

    async def judge_attempt(self, case: Case, repetition: int, output: Any, trace: Trace, judgement: Judgement) -> None:
        """Call it, and take in what it returned. Raises what it raises."""
        known = {"case": case, "output": output, "trace": trace, "input": case.input, "expected": case.expected}
        args = [known[parameter] for parameter in self.parameters]
        if self.is_quick:
            judgement.add(self.name, self.call(*args))
            return
        context = judging_context(self.name, case.id, repetition)
        if _is_async(self.call):
            returned = await asyncio.get_running_loop().create_task(self.call(*args), context=context)
        else:
            run = functools.partial(in_context, context, self.call, *args)
            returned = await asyncio.get_running_loop().run_in_executor(None, run)
            if inspect.isawaitable(returned):
                returned = await returned
        judgement.add(self.name, returned)


def named_evaluators(evaluators: Sequence[Evaluator] | Mapping[str, Evaluator]) -> tuple[NamedEvaluator, ...]:
    """The evaluators with their names: those of a mapping, else their own.

    Raises:
        InvalidSuite: one of them cannot be called as evaluators are, or two have one name.
    """
    pairs = (
        list(evaluators.items())
        if isinstance(evaluators, Mapping)
        else [(name_of(evaluator), evaluator) for evaluator in evaluators]
    )
    problems = [problem for name, evaluator in pairs if (problem := _problem(name, evaluator))]
    names = [name for name, _ in pairs]
    problems += [f"two evaluators are named '{name}'" for name in dict.fromkeys(names) if names.count(name) > 1]
    if problems:
        raise InvalidSuite(
            f"{'; '.join(problems)}. An evaluator is a callable on (case, output, trace), or on some of "
            f"{', '.join(PARAMETERS)} by name; give two of one name as a mapping from name to evaluator. Nothing was run."
        )
    return tuple(
        NamedEvaluator(
            name=name,
            call=evaluator,
            parameters=_parameters(evaluator) or (),
            code=code_digest(evaluator),
            judge=getattr(evaluator, "judge_settings", None),
        )
        for name, evaluator in pairs
    )


def name_of(evaluator: Evaluator) -> str:
    """What an evaluator's scores are called: its `name`, else that of its function or class."""
    given = getattr(evaluator, "name", None)
    if isinstance(given, str) and given:
        return given
    if isinstance(evaluator, functools.partial):
        return name_of(evaluator.func)
    return str(getattr(evaluator, "__name__", type(evaluator).__name__))


def _problem(name: str, evaluator: Any) -> str | None:
    if not callable(evaluator):
        return f"the evaluator '{name}' is a {type(evaluator).__name__}, which cannot be called"
    if inspect.isclass(evaluator):
        return f"the evaluator '{name}' is a class: give an object of it, '{name}()'"
    if _parameters(evaluator) is None:
        return f"the evaluator '{name}' takes {inspect.signature(evaluator)}"
    return None


def _parameters(evaluator: Evaluator) -> tuple[str, ...] | None:
    """What to give for each parameter; None where that cannot be told."""
    try:
        parameters = list(inspect.signature(evaluator).parameters.values())
    except (TypeError, ValueError):
        return IN_ORDER
    positional = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    needed = [item for item in positional if item.default is item.empty or item.name in PARAMETERS]
    if any(item.kind is item.KEYWORD_ONLY and item.default is item.empty for item in parameters):
        return None
    if any(item.kind is item.VAR_POSITIONAL for item in parameters) and not needed:
        return IN_ORDER
    if needed and all(item.name in PARAMETERS for item in needed):
        return tuple(item.name for item in needed) if needed == positional[: len(needed)] else None
    if 2 <= len(needed) <= len(IN_ORDER):
        return IN_ORDER[: len(needed)]
    return None


def _is_async(evaluator: Evaluator) -> bool:
    function = evaluator.func if isinstance(evaluator, functools.partial) else evaluator
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # asks what kind it is
