"""Which attempt at the same thing a step is: the second one after a first that failed.

Only `with_retry` says so. LangChain's fallbacks, LangGraph's retries and the retries of an agent's middleware run the step
once more beside the one that failed, and do not say why: what the two have in common tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agenttrace.langchain.payloads import StartFacts
from agenttrace.steps import FailedAttempt, OpenStep, State

FAILED: tuple[State, ...] = ("error", "timed_out", "cancelled")

KEPT = 64
"""Failed steps that are remembered of one parent."""

FALLBACKS = "RunnableWithFallbacks"
"""A chain of this name runs nothing but attempts, each with another runnable."""

GRAPH_TAG = "graph:step:"


def note_failed(step: OpenStep, start: StartFacts) -> None:
    """Remember at its parent that a step failed. May run inside garbage collection: no lock."""
    parent = step.parent
    if parent is None or not parent.is_open:
        return
    failed = FailedAttempt(step.attempt, step.kind, step.name, start.tags, _task(start), start.payload)
    if parent.failed is None:
        parent.failed = []
    parent.failed.append(failed)
    if len(parent.failed) > KEPT:
        del parent.failed[0]


def attempt_number(step: OpenStep, start: StartFacts, failed: list[FailedAttempt]) -> int:
    """The number of a step that starts now, from 1, given what has failed beside it."""
    task = _task(start)
    for one in reversed(failed[:]):
        if _repeats(step, start, task, one):
            failed.remove(one)
            return one.number + 1
    return 1


def _repeats(step: OpenStep, start: StartFacts, task: str | None, failed: FailedAttempt) -> bool:
    if step.parent is not None and step.parent.name == FALLBACKS:
        return True
    if step.kind != failed.kind or task != failed.task or tuple(start.tags) != tuple(failed.tags):
        return False
    if step.kind != "model" and step.name != failed.name:  # a fallback is another model
        return False
    return task is not None or _equal(start.payload, failed.given)


def _task(start: StartFacts) -> str | None:
    """What identifies a piece of work that may be tried again: a tool call's id, a graph's task."""
    call_id = start.extra.get("tool_call_id")
    if isinstance(call_id, str):
        return call_id
    if _is_node(start.tags):
        namespace = start.metadata.get("langgraph_checkpoint_ns")
        return namespace if isinstance(namespace, str) else None
    return None


def _is_node(tags: Sequence[Any]) -> bool:
    return any(isinstance(tag, str) and tag.startswith(GRAPH_TAG) for tag in tags)


def _equal(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # arrays and the like do not compare to a truth value
        return False
