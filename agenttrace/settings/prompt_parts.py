"""What prompts are made of, and how much of each a prefix cache could have reused.

In: prompts as lists of messages, the same message as the same id. Shares are of characters, scaled to the tokens that the
server reported; a prompt of which no tokens were reported counts in shares only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PARTS: Final = ("system", "tools", "history", "tool_results", "documents", "user")
"""What a prompt is made of: system text, tool definitions, earlier turns, results of tools, retrieved documents, and what
the user said last."""

ROLES: Final = {
    "system": "system",
    "developer": "system",
    "tool": "tool_results",
    "function": "tool_results",
    "user": "user",
    "human": "user",
}
"""What a message of a role is part of; of what the user said, all but the last is history, as is every other role's."""

DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\b|\d{1,2} [A-Z][a-z]+ \d{4}")
IDENTIFIER = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-|\b[0-9a-f]{12,}\b", re.IGNORECASE)
NUMBER = re.compile(r"\d")

AROUND = 12
"""Characters around a difference in which it is looked at what differs."""


class Message(NamedTuple):
    """One message of a prompt."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPrompt:
    """The prompt of one model call."""

    call_site: str
    trace_id: str
    model: str
    messages: tuple[str, ...]
    """Ids."""
    tools: str = ""
    """The tool definitions as text: they stand before the messages."""
    tokens: int | None = None
    cached: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixBreak:
    """Where prompts stop being like earlier ones."""

    message: int
    """From 1; 0 for the tool definitions."""
    role: str
    what: str
    """What differs: `a date`, `an identifier`, `a number`, `text`."""
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePrompts:
    """The prompts of one call site."""

    calls: int
    tokens: int | None
    """Of all prompts; None where none was reported."""
    shares: Mapping[str, float]
    """By part, together 1; empty where no text was kept."""
    tokens_per_turn: float | None
    """By how much a prompt is longer than the one before it in its trace, on average; None where no trace has two."""
    reusable: int | None = None
    """Tokens of prompts that an earlier prompt began with too: what a prefix cache could have had. None where unknown."""
    cached: int | None = None
    """Tokens that the server says a cache had; None where it says nothing."""
    breaks: tuple[PrefixBreak, ...] = ()
    """The most frequent first."""


@dataclass(slots=True)
class _Site:
    calls: int = 0
    tokens: list[int] = field(default_factory=list)
    chars: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    by_trace: dict[str, list[int]] = field(default_factory=dict)
    reusable: list[int] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)
    breaks: Counter[tuple[int, str, str]] = field(default_factory=Counter)


def describe_prompts(
    prompts: Iterable[SentPrompt],
    messages: Mapping[str, Message],
    documents: Mapping[str, Sequence[str]],
) -> dict[str, SitePrompts]:
    """By call site, what its prompts are made of. `prompts` in the order of time; `documents`: what was retrieved, by trace."""
    sites: dict[str, _Site] = {}
    seen = _Prefixes(messages)
    for prompt in prompts:
        site = sites.setdefault(prompt.call_site, _Site())
        site.calls += 1
        parts = _parts(prompt, messages, documents.get(prompt.trace_id, ()))
        for part, chars in parts.items():  # a Counter's update takes four times as long
            site.chars[part] += chars
        reused = seen.reused_chars(prompt, site.breaks)
        length = sum(parts.values())
        if prompt.cached is not None:
            site.cached.append(prompt.cached)
        if prompt.tokens is not None:
            site.tokens.append(prompt.tokens)
            site.by_trace.setdefault(prompt.trace_id, []).append(prompt.tokens)
            site.reusable.append(round(prompt.tokens * reused / length) if length else 0)
    return {name: _described(site) for name, site in sites.items()}


def _described(site: _Site) -> SitePrompts:
    length = sum(site.chars.values())
    turns = [tokens for tokens in site.by_trace.values() if len(tokens) > 1]
    grown, steps = sum(tokens[-1] - tokens[0] for tokens in turns), sum(len(tokens) - 1 for tokens in turns)
    breaks = (
        PrefixBreak(message=at, role=role, what=what, calls=calls)
        for (at, role, what), calls in site.breaks.most_common()
    )
    return SitePrompts(
        calls=site.calls,
        tokens=sum(site.tokens) if site.tokens else None,
        shares={part: site.chars[part] / length for part in PARTS} if length else {},
        tokens_per_turn=grown / steps if steps else None,
        reusable=sum(site.reusable) if site.reusable and length else None,
        cached=sum(site.cached) if site.cached else None,
        breaks=tuple(breaks),
    )


def _parts(prompt: SentPrompt, messages: Mapping[str, Message], documents: Sequence[str]) -> dict[str, int]:
    """Characters by part."""
    parts = dict.fromkeys(PARTS, 0)
    parts["tools"] = len(prompt.tools)
    last_user = True
    for item in reversed(prompt.messages):
        message = messages.get(item)
        if message is None:
            continue
        role, text = message
        part = ROLES.get(role, "history")
        if part == "user":
            part, last_user = "user" if last_user else "history", False
        length = len(text)
        if documents:
            retrieved = min(length, sum(len(document) for document in documents if document and document in text))
            parts["documents"] += retrieved
            length -= retrieved
        parts[part] += length
    return parts


class _Prefixes:
    """The beginnings of all prompts so far. A cache of a server is for one model, and starts with the tools."""

    def __init__(self, messages: Mapping[str, Message]) -> None:
        self._messages = messages
        self._next: dict[int, str | None] = {}  # the message that last came behind a beginning; None at a prompt's end
        self._tools: dict[str, str] = {}  # by model, the tools of its last call

    def reused_chars(self, prompt: SentPrompt, breaks: Counter[tuple[int, str, str]]) -> int:
        """Characters of the prompt that an earlier one began with; counts where it breaks off."""
        key = hash((prompt.model, prompt.tools))
        reused, broken = 0, False
        if key in self._next:
            reused = len(prompt.tools)
        elif self._tools.get(prompt.model, prompt.tools) != prompt.tools:
            breaks[0, "tools", "text"] += 1
            broken = True
        self._tools[prompt.model] = prompt.tools
        for at, item in enumerate(prompt.messages, 1):
            earlier = self._next.get(key)
            known_key, key = key, hash((key, item))
            if known_key not in self._next:
                broken = True
            elif not broken and key not in self._next:
                broken = True
                if earlier is not None:
                    reused += self._common(earlier, item, at, breaks)
            elif not broken:
                reused += len(self._text(item))
            self._next[known_key] = item
        self._next.setdefault(key, None)
        return reused

    def _text(self, item: str) -> str:
        return self._messages[item].text if item in self._messages else ""

    def _common(self, earlier: str, item: str, at: int, breaks: Counter[tuple[int, str, str]]) -> int:
        before, after = self._text(earlier), self._text(item)
        place = _common_length(before, after)
        role = self._messages[item].role if item in self._messages else "message"
        breaks[at, role, _what_differs(before, after, place)] += 1
        return place


def _common_length(before: str, after: str) -> int:
    """Characters that both begin with; found by halving, since messages may be long."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if before[:middle] == after[:middle] else (low, middle - 1)
    return low


def _what_differs(before: str, after: str, place: int) -> str:
    around = [text[max(0, place - AROUND) : place + AROUND] for text in (before, after)]
    for pattern, what in ((DATE, "a date"), (IDENTIFIER, "an identifier"), (NUMBER, "a number")):
        if all(pattern.search(text) for text in around):
            return what
    return "text"
