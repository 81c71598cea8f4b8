"""Methods of HTTP clients that we wrapped: remembered, so that none is wrapped twice and each can be put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Method: TypeAlias = Callable[..., Any]

_wrappers: list[tuple[Method, Method]] = []
"""What we made of a method, and what it was."""


def wrap(owner: Any, method: str, make: Callable[[Method], Method]) -> None:
    """Put what `make` makes of a method in its place, unless ours is in there already: twice would count twice."""
    original = getattr(owner, method)
    if not _is_wrapped(original):
        ours = make(original)
        _wrappers.append((ours, original))
        setattr(owner, method, ours)


def unwrap(owner: Any, method: str) -> None:
    """Take the wrapping off again. Where somebody wrapped the method after us, ours stays inside theirs."""
    for ours, original in _wrappers:
        if getattr(owner, method) is ours:
            setattr(owner, method, original)


def _is_wrapped(method: Any) -> bool:
    """Whether ours is in there, under whatever others wrapped around it."""
    while method is not None:
        if any(method is ours for ours, _ in _wrappers):
            return True
        method = getattr(method, "__wrapped__", None)
    return False
