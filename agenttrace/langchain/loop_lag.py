"""How late an event loop was while model calls ran in it: what arrived meanwhile was noted late by as much.

A timer ticks in the loop for as long as a model call of ours is open there, and notes by how much it was late. It keeps no
loop alive and ends with the last call. A delay shorter than a tick may fall between two of them and not be seen.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from weakref import WeakKeyDictionary

from agenttrace import clock
from agenttrace.steps import OpenStep

TICK_S = 0.01
"""100 ticks a second cost the loop about a thousandth of its time."""

_clocks: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClock] = WeakKeyDictionary()


def watch_loop(step: OpenStep) -> None:
    """Let a model call that starts in an event loop know how late that loop gets. Outside of a loop this does nothing."""
    loop = asyncio.events._get_running_loop()
    if loop is None:
        return
    known = _clocks.get(loop)
    if known is None:
        known = _clocks[loop] = _LoopClock()
    with suppress(RuntimeError):  # the loop is being closed
        known.add(step, loop)


class _LoopClock:
    """The timer of one loop, and the model calls that are open there. Runs in that loop's thread only."""

    def __init__(self) -> None:
        self._open: list[OpenStep] = []
        self._due = 0

    def add(self, step: OpenStep, loop: asyncio.AbstractEventLoop) -> None:
        # A loop that stopped and runs again has lost no timer; one whose calls have all ended has none.
        is_ticking = bool(self._open)
        self._open.append(step)
        if not is_ticking:
            self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = clock.monotonic_ns() + int(TICK_S * 1e9)
        loop.call_later(TICK_S, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        late_ns = clock.monotonic_ns() - self._due
        for step in self._open:
            step.loop_lag = max(step.loop_lag, late_ns)
        self._open = [step for step in self._open if step.is_open]
        if self._open:
            self._schedule(loop)
