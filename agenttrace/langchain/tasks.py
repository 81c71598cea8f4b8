"""Calls what a suite tries, and what judges it, so that each attempt is one trace and a judge's calls are told apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, TypeAlias
from uuid import UUID

from langchain_core.callbacks.base import BaseCallbackHandler
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
    patch_config,
    set_config_context,
    var_child_runnable_config,
)
from opentelemetry import context as otel_context

from agenttrace.steps import EVALUATOR, JSON


class FunctionTask:
    """A sync or async callable as a root step. Sync ones run in the event loop's threads.

    Not LangChain's `RunnableLambda`, which looks up the function's signature four times a call.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        inner = function.func if isinstance(function, partial) else function
        self._name = str(getattr(inner, "__name__", type(inner).__name__))
        self._is_async = iscoroutinefunction(inner) or iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004  # asks what kind it is

    async def ainvoke(self, given: Any, config: RunnableConfig) -> Any:
        """Call it inside a step of its own. Raises what it raises."""
        config = ensure_config(config)
        run_id = config.pop("run_id", None)
        manager = get_async_callback_manager_for_config(config)
        run = await manager.on_chain_start(None, given, run_id=run_id, name=self._name)
        try:
            with set_config_context(patch_config(config, callbacks=run.get_child())) as context:
                loop = asyncio.get_running_loop()
                if self._is_async:
                    output = await loop.create_task(self.function(given), context=context)
                else:
                    output = await loop.run_in_executor(None, context.run, self.function, given)
        except BaseException as error:
            await run.on_chain_error(error)
            raise
        await run.on_chain_end(output)
        return output


AnyRunnable: TypeAlias = Runnable[Any, Any] | FunctionTask


def as_runnable(task: Any) -> AnyRunnable | None:
    """A Runnable or graph as it is, a sync or async callable as one that is a step itself; None for anything else."""
    if isinstance(task, Runnable):
        return task
    return FunctionTask(task) if callable(task) else None


def start(
    task: AnyRunnable,
    given: Any,
    run_id: UUID,
    metadata: Mapping[str, JSON],
    callbacks: list[BaseCallbackHandler],
) -> Coroutine[Any, Any, Any]:
    """One attempt, to be awaited: a root step that LangChain knows as `run_id`."""
    return task.ainvoke(given, {"run_id": run_id, "metadata": dict(metadata), "callbacks": callbacks})


@contextmanager
def root_step(name: str, given: Any, run_id: UUID, metadata: Mapping[str, JSON]) -> Iterator[None]:
    """A step around what the block does, the root of a trace of its own; an exception that leaves the block is its error."""
    outer = otel_context.attach(otel_context.Context())
    inherited = var_child_runnable_config.set(None)
    config = ensure_config({"run_id": run_id, "metadata": dict(metadata)})
    run = get_callback_manager_for_config(config).on_chain_start(None, given, run_id=run_id, name=name)
    config.pop("run_id", None)
    var_child_runnable_config.set(patch_config(config, callbacks=run.get_child()))
    try:
        yield
    except BaseException as error:
        run.on_chain_error(error)
        raise
    else:
        run.on_chain_end(None)
    finally:
        var_child_runnable_config.reset(inherited)
        otel_context.detach(outer)


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
