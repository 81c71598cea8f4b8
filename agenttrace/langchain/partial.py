"""What a stream has brought so far: all there is of a reply that breaks off without LangChain saying what it held."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

from agenttrace.steps import JSON

KEPT_CALLS = 64
"""Tool calls of one reply whose arguments are kept."""


class Partial:
    """Texts under way: one buffer each for content, reasoning and every tool call's arguments. `text` is written to directly."""

    __slots__ = ("calls", "reasoning", "text")

    def __init__(self) -> None:
        self.text = StringIO()
        self.reasoning: StringIO | None = None
        self.calls: dict[object, tuple[Mapping[str, Any], StringIO]] | None = None

    def add_message(self, held: Any) -> None:
        """A chunk's message whose content is no plain text."""
        if type(held.content) is list:
            for block in held.content:
                self._add_block(block)
        reasoning = held.additional_kwargs.get("reasoning_content")
        if type(reasoning) is str:
            self._reason(reasoning)
        for call in getattr(held, "tool_call_chunks", None) or ():
            self._call(call.get("index"), call)

    def add_event(self, event: Mapping[str, Any]) -> None:
        """An event of the v3 protocol."""
        block = event.get("delta") or event.get("content") or {}
        if str(block.get("type", "")).startswith("tool"):
            self._call(event.get("index"), block)
        else:
            self._add_block(block)

    def message(self) -> JSON:
        """The reply as far as it came; None if nothing did."""
        text = self.text.getvalue()
        reply: dict[str, JSON] = {"role": "assistant", "content": text}
        if self.reasoning is not None:
            reply["reasoning"] = self.reasoning.getvalue()
        if self.calls:
            reply["invalid_tool_calls"] = [
                {"id": call.get("id"), "name": call.get("name"), "args": arguments.getvalue()}
                for call, arguments in self.calls.values()
            ]
        return reply if text or len(reply) > 2 else None

    def _add_block(self, block: Any) -> None:
        if isinstance(block, str):
            self.text.write(block)
            return
        if type(block.get("text")) is str:
            self.text.write(block["text"])
        for key in ("thinking", "reasoning"):
            if type(block.get(key)) is str:
                self._reason(block[key])

    def _reason(self, text: str) -> None:
        if self.reasoning is None:
            self.reasoning = StringIO()
        self.reasoning.write(text)

    def _call(self, index: object, call: Mapping[str, Any]) -> None:
        if self.calls is None:
            self.calls = {}
        if index not in self.calls:
            if len(self.calls) >= KEPT_CALLS:
                return
            self.calls[index] = call, StringIO()
        self.calls[index][1].write(call.get("args") or "")
