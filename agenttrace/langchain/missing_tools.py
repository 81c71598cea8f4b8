"""Tools that a model asked for and that do not exist: LangGraph answers the model itself, and sends no callback for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agenttrace.steps import OpenStep, new_span_id


def root_of(step: OpenStep) -> OpenStep:
    """The step that the whole trace stands under."""
    while step.parent is not None:
        step = step.parent
    return step


def note_asked(step: OpenStep, at: int, response: Any) -> None:
    """Remember at the root which tools a model call asked for, and when: a tool's wait counts from there."""
    root = root_of(step)
    for choices in response.generations[:1]:
        for choice in choices:
            for call in getattr(getattr(choice, "message", None), "tool_calls", None) or ():
                if call.get("id"):
                    root.tool_asks = root.tool_asks or {}
                    root.tool_asks[call["id"]] = at


def note_started(step: OpenStep, tool_call_id: Any) -> int | None:
    """A tool starts: when it was asked for, in monotonic nanoseconds; None where that was not seen."""
    root = root_of(step)
    if root.tool_asks is None or tool_call_id is None:
        return None
    root.tools_started = root.tools_started or set()
    root.tools_started.add(tool_call_id)
    return root.tool_asks.get(tool_call_id)


def never_started(node: OpenStep, outputs: Any, at: int) -> Iterator[tuple[OpenStep, str, str]]:
    """A node ends: a step, call id and message for each tool it refused to run because there is none of that name."""
    messages = outputs.get("messages") if isinstance(outputs, dict) else None
    if not isinstance(messages, list) or not messages or getattr(messages[-1], "type", None) != "tool":
        return
    root = root_of(node)
    for message in messages:
        call_id = getattr(message, "tool_call_id", None)
        if getattr(message, "status", None) != "error" or call_id not in (root.tool_asks or {}):
            continue
        if call_id not in (root.tools_started or ()):
            step = OpenStep(
                trace_id=node.trace_id,
                span_id=new_span_id(),
                parent=node,
                outer_span_id=None,
                kind="tool",
                name=str(message.name or "unknown tool"),
                start=at,
                anchor=node.anchor,
                run_id=node.run_id,
                call_site=node.call_site,
                owner=None,
                asked_at=(root.tool_asks or {}).get(str(call_id)),
                is_open=False,
            )
            yield step, str(call_id), str(message.content)
