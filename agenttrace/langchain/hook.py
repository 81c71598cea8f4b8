"""Puts a handler into every LangChain run of the process, without touching the code that starts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.callbacks.base import BaseCallbackHandler

Choose = Callable[[], BaseCallbackHandler | None]

_registered: list[Choose] = []


class _Variable:
    """What LangChain asks for a handler. It only calls `.get()`; a real context variable would be unset in new threads."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose

    def get(self) -> BaseCallbackHandler | None:
        return self._choose()


def register_hook(choose: Choose) -> None:
    """Have LangChain ask `choose` for a handler whenever a run starts. Once a function: LangChain cannot forget one."""
    if choose in _registered:
        return
    from langchain_core.tracers.context import register_configure_hook  # takes about 0.5 s to import

    _registered.append(choose)
    variable: Any = _Variable(choose)
    register_configure_hook(variable, inheritable=True)
