"""Which code stands behind the tools of this process, by their names, where `watch` was told."""

from __future__ import annotations

from collections.abc import Iterable

_known: dict[str, str] = {}


def remember_implementation(tool: str, version: str) -> None:
    """From now on a model that is offered this tool is offered this implementation of it."""
    _known[tool] = version


def implementations(tools: Iterable[str]) -> dict[str, str]:
    """By tool, those that are known."""
    return {tool: _known[tool] for tool in tools if tool in _known}
