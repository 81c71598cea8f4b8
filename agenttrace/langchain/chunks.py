"""What a streamed chunk holds: content, reasoning, a part of a tool call, or nothing but a sign of life.

These run once a token on the agent's thread, so they look at as little as decides.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from agenttrace.steps import OpenStep

KEPT_USAGES = 64
"""Token counts of single chunks that are kept; a stream that reports more of them repeats a running total."""

KEPT_MODELS = 8

TIMED_CHUNKS = 65_536

REASONING_TYPES = ("thinking", "reasoning", "redacted_thinking")


def mark_chunk(step: OpenStep, now: int, token: Any, chunk: Any) -> None:
    """Note a chunk of `on_llm_new_token`. Empty ones (a role, the synthetic last) are no tokens."""
    step.by_tokens = True
    if step.first_byte is None:
        step.first_byte = now
    held = getattr(chunk, "message", None)
    if held is None:
        if not token:
            return
        if step.first_content is None:
            step.first_content = now
        _count(step, now)
        return
    if getattr(held, "usage_metadata", None):
        _keep_usage(step, held.usage_metadata)
    if held.response_metadata:
        _keep_model(step, held.response_metadata)
    if getattr(held, "tool_call_chunks", None):
        if step.first_tool is None:
            step.first_tool = now
    elif token and (isinstance(token, str) or held.text):
        if step.first_content is None:
            step.first_content = now
    elif held.additional_kwargs.get("reasoning_content") or _holds_reasoning(held.content):
        if step.first_reasoning is None:
            step.first_reasoning = now
    else:
        return
    _count(step, now)


def _count(step: OpenStep, now: int) -> None:
    step.last_content = now
    step.chunks += 1
    if step.arrivals is None:
        step.arrivals = array("q")
    if step.chunks <= TIMED_CHUNKS:
        step.arrivals.append(now)


def mark_event(step: OpenStep, now: int, event: Mapping[str, Any]) -> None:
    """Note an event of the v3 protocol, unless the same stream also comes as tokens: one reply counts once."""
    if step.by_tokens:
        return
    if step.first_byte is None:
        step.first_byte = now
    if event.get("event") != "content-block-delta":
        return
    delta = event.get("delta") or {}
    kind = str(delta.get("type", ""))
    if kind.startswith("text"):
        if not delta.get("text"):
            return
        if step.first_content is None:
            step.first_content = now
    elif kind.startswith("reasoning"):
        if step.first_reasoning is None:
            step.first_reasoning = now
    elif step.first_tool is None:
        step.first_tool = now
    _count(step, now)


def _keep_usage(step: OpenStep, usage: Mapping[str, Any]) -> None:
    if step.usages is None:
        step.usages = []
    if len(step.usages) < KEPT_USAGES:
        step.usages.append(usage)
    else:
        step.usages[-1] = usage


def _keep_model(step: OpenStep, metadata: Mapping[str, Any]) -> None:
    """Merging joins the names that chunks repeat into one text: which they were is only seen here."""
    name = metadata.get("model_name") or metadata.get("model")
    if not isinstance(name, str):
        return
    if step.served_models is None:
        step.served_models = []
    if name not in step.served_models and len(step.served_models) < KEPT_MODELS:
        step.served_models.append(name)


def _holds_reasoning(content: Any) -> bool:
    if not isinstance(content, list):
        return False
    return any(isinstance(block, dict) and block.get("type") in REASONING_TYPES for block in content)


def stream_usage(usages: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The usage of a whole stream from that of its chunks.

    LangChain adds up the counts of all chunks. That is right where each chunk reports its own share, and wrong where each
    repeats a running total; a total names the prompt's tokens again and again, a share names them once.
    """
    with_input = [usage for usage in usages if usage.get("input_tokens")]
    if len(usages) >= KEPT_USAGES or len(with_input) > 1:
        return with_input[-1] if with_input else usages[-1]
    total: dict[str, Any] = {}
    for usage in usages:
        for key, value in usage.items():
            if isinstance(value, Mapping):
                total[key] = {
                    **total.get(key, {}),
                    **{name: count for name, count in value.items() if count is not None},
                }
            elif isinstance(value, int):
                total[key] = total.get(key, 0) + value
    return total
