"""Makes recorded text safe to put on a terminal (D12): what a terminal would obey becomes visible instead.

Rich's markup is no danger where `rich.text.Text` is used, and the console report uses nothing else for recorded text.
"""

from __future__ import annotations

import unicodedata

HOSTILE_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Control, invisible formatting (right-to-left overrides, tags), lone surrogates, line and paragraph separators."""

JOINERS = frozenset("\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}")
"""Invisible, and harmless: emoji and several scripts need them."""


def visible(text: str, *, limit: int | None = None) -> str:
    r"""The text on one line of at most `limit` characters, white space collapsed, an escape written as `\x1b`."""
    if limit is not None:
        text = text[: limit * 4 + 1]  # a megabyte of error message is not looked through
    shown = _visible_line(" ".join(text.split()))
    return shown if limit is None or len(shown) <= limit else f"{shown[: limit - 1]}…"


def visible_lines(text: str) -> str:
    """Like `visible`, line by line: for messages of several lines that quote what was recorded."""
    return "\n".join(_visible_line(line.removesuffix("\r")) for line in text.split("\n"))


def _visible_line(line: str) -> str:
    # Most lines hold nothing to look at, and Python knows that a hundred times faster.
    return line if line.isprintable() else "".join(map(_visible, line))


def _visible(character: str) -> str:
    if character.isascii():
        return character if character.isprintable() else f"\\x{ord(character):02x}"
    if unicodedata.category(character) not in HOSTILE_CATEGORIES or character in JOINERS:
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
