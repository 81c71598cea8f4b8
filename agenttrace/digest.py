"""Digests that stand for content in what runs keep. Each names the scheme by which it was made: only those of one scheme can
be compared, and whether two of different schemes mean the same content cannot be told.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from hashlib import blake2b
from types import CodeType, FunctionType
from typing import Any

SCHEME = "at1"
"""BLAKE2b with 16 bytes. Another number wherever what is hashed, or how, becomes another."""

DIGEST = re.compile(r"(at[0-9]+):[0-9a-f]{32}")


def digest(body: bytes) -> str:
    """Equal for equal content: `at1:` and 32 hexadecimal digits."""
    return f"{SCHEME}:{blake2b(body, digest_size=16).hexdigest()}"


def schemes(value: object) -> frozenset[str]:
    """The schemes of all digests within a value."""
    if isinstance(value, str):
        match = DIGEST.fullmatch(value)
        return frozenset((match[1],)) if match else frozenset()
    if isinstance(value, Mapping):
        value = list(value.values())
    return frozenset().union(*map(schemes, value)) if isinstance(value, (list, tuple)) else frozenset()


def other_schemes(before: object, after: object) -> str | None:
    """Why it cannot be told whether two values are the same; None where it can."""
    ours, theirs = schemes(before), schemes(after)
    if not ours or not theirs or ours == theirs:
        return None
    return f"hashed in another way ({', '.join(sorted(ours))} and {', '.join(sorted(theirs))}), so whether it is the same cannot be told"


def code_digest(code: Any) -> str:
    """Equal for the same source made with the same values. What it calls is not read: that is the package versions' part."""
    return digest("\n".join(_told(code, 0)).encode("utf-8", "replace"))


MAX_DEPTH = 3
"""How far wrapped functions and closures are followed."""


def _told(value: Any, depth: int) -> list[str]:
    """What tells a callable from another one: source, defaults, and the plain values that it closes over."""
    if isinstance(value, functools.partial):
        return [*_told(value.func, depth), repr((value.args, sorted(value.keywords.items())))]
    if isinstance(value, FunctionType):
        closed = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        inner = [text for item in closed if depth < MAX_DEPTH for text in _told(item, depth + 1)]
        return [_source(value), repr(value.__defaults__), repr(value.__kwdefaults__), *inner]
    if isinstance(value, (str, int, float, bool, bytes, type(None), tuple, list, dict, set, frozenset)):
        return [repr(value) if " object at 0x" not in repr(value) else type(value).__name__]
    if inspect.isclass(value) or inspect.ismodule(value) or inspect.isbuiltin(value):
        return [getattr(value, "__qualname__", value.__name__)]
    own = repr(value) if is_dataclass(value) else ""
    function = getattr(value, "__func__", None)
    return [_source(function or type(value)), own if " object at 0x" not in own else ""]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # an empty cell raises
    except ValueError:
        return False
    return True


def _source(item: Any) -> str:
    function = inspect.unwrap(item) if isinstance(item, FunctionType) else item
    return _source_of_code(function.__code__) if isinstance(function, FunctionType) else _read_source(function)


@lru_cache(maxsize=1_024)
def _source_of_code(code: CodeType) -> str:
    """Remembered: an agent may make its tools anew for each request, and reading their source takes a millisecond."""
    try:
        return textwrap.dedent(inspect.getsource(code))
    except (OSError, TypeError):  # typed at a prompt, or compiled
        return _compiled(code)


def _read_source(item: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(item))
    except (OSError, TypeError):  # typed at a prompt, or compiled
        return str(getattr(item, "__qualname__", repr(item)))


def _compiled(code: CodeType) -> str:
    constants = [_compiled(item) if isinstance(item, CodeType) else repr(item) for item in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names}"
