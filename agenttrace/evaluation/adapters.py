"""Evaluators of other libraries as ours: the functions of openevals and agentevals, and the judges and metrics of Phoenix."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agenttrace.digest import code_digest
from agenttrace.evaluation.cases import Case
from agenttrace.evaluation.evaluators import text_of
from agenttrace.evaluation.score import Score
from agenttrace.evaluation.trace import Trace
from agenttrace.steps import JSON

GIVEN = ("inputs", "outputs", "reference_outputs")
"""What functions of openevals and agentevals are given, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """Another library's evaluator, called as it wants to be."""

    name: str
    source: Any
    """The other library's object."""
    prepare: Callable[[Case, Any], Mapping[str, Any]]
    """Makes its arguments of a case and an output."""
    call: Callable[[Mapping[str, Any]], Any]
    judge_settings: JSON = None

    async def __call__(self, case: Case, output: Any, trace: Trace) -> list[Score]:
        returned = self.call(self.prepare(case, output))
        if inspect.isawaitable(returned):
            returned = await returned
        several = returned if isinstance(returned, (list, tuple)) else [returned]
        return [_score(one, self.name, len(several) > 1) for one in several]

    def __repr__(self) -> str:
        return f"{self.name} {code_digest(self.source)}"


def from_openevals(evaluator: Callable[..., Any], *, name: str | None = None, judge: JSON = None) -> Adapted:
    """A function of openevals, or one that it made (`create_llm_as_judge`): given inputs, outputs and reference outputs.

    Args:
        evaluator: Sync or async.
        name: Of the score; the function's own by default.
        judge: The judge's settings, where it calls a model: they are stored with the run. What is called through
            LangChain is seen at its call site besides.
    """
    parameters = inspect.signature(evaluator).parameters.values()
    wanted = {parameter.name for parameter in parameters}
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    def prepare(case: Case, output: Any) -> Mapping[str, Any]:
        given = dict(zip(GIVEN, (case.input, output, case.expected), strict=True))
        return {key: value for key, value in given.items() if takes_all or key in wanted}

    return Adapted(
        name=name or str(getattr(evaluator, "__name__", "openevals")),
        source=evaluator,
        prepare=prepare,
        call=lambda given: evaluator(**given),
        judge_settings=judge,
    )


def from_agentevals(evaluator: Callable[..., Any], *, name: str | None = None, judge: JSON = None) -> Adapted:
    """A function of agentevals: given the messages of the output (a graph's state, or a list) and those that are expected."""
    adapted = from_openevals(evaluator, name=name, judge=judge)

    def prepare(case: Case, output: Any) -> Mapping[str, Any]:
        return {"outputs": _messages(output), "reference_outputs": _messages(case.expected)}

    return Adapted(name=adapted.name, source=evaluator, prepare=prepare, call=adapted.call, judge_settings=judge)


def from_phoenix(evaluator: Any, *, name: str | None = None) -> Adapted:
    """A judge or metric of `arize-phoenix-evals`: given `input`, `output` and `expected` as text, and the case's metadata."""

    def prepare(case: Case, output: Any) -> Mapping[str, Any]:
        told = {"input": case.input, "output": output, "expected": case.expected}
        return {**case.metadata, **{key: text_of(value) for key, value in told.items() if value is not None}}

    llm = getattr(evaluator, "llm", None)
    judge: JSON = None
    if llm is not None:
        judge = {
            "provider": str(getattr(llm, "provider", None)),
            "model": str(getattr(llm, "model", None)),
            "prompt": str(getattr(evaluator, "prompt_template", None)),
        }
    return Adapted(
        name=name or str(getattr(evaluator, "name", "phoenix")),
        source=evaluator,
        prepare=prepare,
        call=lambda given: evaluator.async_evaluate(given) if llm is not None else evaluator.evaluate(given),
        judge_settings=judge,
    )


def _messages(value: Any) -> Any:
    return value["messages"] if isinstance(value, Mapping) and "messages" in value else value


def _score(returned: Any, name: str, is_one_of_several: bool) -> Score:
    """A result of another library: `{"key", "score", "comment"}`, or an object with `score`, `label` and `explanation`."""
    if isinstance(returned, Mapping):
        value, label = returned.get("score"), None
        reason, own = returned.get("comment") or returned.get("reasoning"), returned.get("key")
    else:
        value, label = getattr(returned, "score", None), getattr(returned, "label", None)
        reason, own = getattr(returned, "explanation", None), getattr(returned, "name", None)
    return Score(value=value, label=label, reason=reason, name=str(own) if is_one_of_several else None)
