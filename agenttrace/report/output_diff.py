"""What an agent answered as text, and how two answers differ, word by word; both of a bounded size once they are escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from html import escape
from typing import Literal, TypeAlias

from agenttrace.report.escaping import visible_lines
from agenttrace.steps import JSON

Piece: TypeAlias = tuple[Literal["same", "del", "ins"], str]

MAX_BYTES = 1500
"""Of one output in a page, escaped: two hundred cases then stay below 2 MB."""

MAX_PIECES = 60
"""Texts with more differences have little in common, and a diff would say nothing."""

CUT = "… (cut here)"


def output_text(output: JSON) -> str | None:
    """The text itself, else JSON; None where nothing is stored."""
    if output is None:
        return None
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, indent=1)
    shown = visible_lines(text[: MAX_BYTES + 1])
    kept = _fitting(shown)
    return kept if kept == shown and len(text) <= MAX_BYTES else f"{kept}{CUT}"


def _fitting(text: str) -> str:
    size = 0
    for place, character in enumerate(text):
        size += len(escape(character).encode("utf-8", "replace"))
        if size > MAX_BYTES:
            return text[:place]
    return text


def output_diff(before: str | None, after: str | None) -> list[Piece]:
    """What stayed, went and came, in order; empty where there is nothing to tell."""
    if before is None or after is None or before == after:
        return []
    pieces = list(_pieces(re.findall(r"\s+|\S+", before), re.findall(r"\s+|\S+", after)))
    return pieces if len(pieces) <= MAX_PIECES else []


def _pieces(old: list[str], new: list[str]) -> Iterator[Piece]:
    for kind, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield "same", "".join(old[start:end])
            continue
        if end > start:
            yield "del", "".join(old[start:end])
        if new_end > new_start:
            yield "ins", "".join(new[new_start:new_end])
