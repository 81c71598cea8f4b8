"""Calls what a suite tries, and what judges it, so that each attempt is one trace and a judge's calls are told apart."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, copy_context
from typing import Any, TypeAlias
from uuid import UUID

from langchain_core.callbacks.base import BaseCallbackHandler
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from opentelemetry import context as otel_context

from agenttrace.steps import EVALUATOR, JSON

AnyRunnable: TypeAlias = Runnable[Any, Any]


def as_runnable(task: Any) -> AnyRunnable | None:
    """A Runnable or graph as it is, a sync or async callable as one that is a step itself; None for anything else."""
    if isinstance(task, Runnable):
        return task
    return RunnableLambda(task) if callable(task) else None


def start(
    task: AnyRunnable,
    given: Any,
    run_id: UUID,
    metadata: Mapping[str, JSON],
    callbacks: list[BaseCallbackHandler],
) -> Coroutine[Any, Any, Any]:
    """One attempt, to be awaited: a root step that LangChain knows as `run_id`."""
    return task.ainvoke(given, {"run_id": run_id, "metadata": dict(metadata), "callbacks": callbacks})


def attempt_context() -> Context:
    """A context in which a step is the root of a trace of its own, whatever surrounds the runner."""
    context = copy_context()
    context.run(var_child_runnable_config.set, None)
    context.run(otel_context.attach, otel_context.Context())
    return context


def judging_context(evaluator: str, case: str, repetition: int) -> Context:
    """A context in which every LangChain call is the evaluator's, and the root of a trace of its own."""
    context = attempt_context()
    metadata = {EVALUATOR: evaluator, "judged_case": case, "judged_repetition": repetition}
    context.run(var_child_runnable_config.set, {"metadata": metadata})
    return context


def in_context(context: Context, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call inside the context."""
    return context.run(lambda: function(*args, **kwargs))
