"""Interrupts code that never gives the event loop back: an async task that blocks would hold up every other attempt."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

BEAT_S = 0.5
"""How often the event loop says that it is alive."""


class BlockedLoop(TimeoutError):
    """An async task or evaluator did not give the event loop back in time."""


_interrupted = [0]


def interruptions() -> int:
    """How often blocking code was interrupted so far: whoever ran out of time meanwhile was held up by it."""
    return _interrupted[0]


@contextmanager
def interrupt_blocking(limit_s: float | None) -> Iterator[None]:
    """Raise `BlockedLoop` inside whatever keeps the running loop from going on for longer than `limit_s`.

    Works in the main thread, where signals arrive, and where nobody else uses the process's alarm; elsewhere it does
    nothing.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if limit_s is None or not is_main or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return
    allowed = limit_s + 2 * BEAT_S

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        _interrupted[0] += 1
        raise BlockedLoop(
            f"it did not give the event loop back for {allowed:g} s. Await what takes time, or make it a plain function: "
            "those run in threads."
        )

    loop = asyncio.get_running_loop()
    beat: list[asyncio.TimerHandle] = []

    def alive() -> None:
        signal.setitimer(signal.ITIMER_REAL, allowed, BEAT_S)  # again and again, as long as it blocks
        beat[:] = [loop.call_later(BEAT_S, alive)]

    signal.signal(signal.SIGALRM, interrupt)
    alive()
    try:
        yield
    finally:
        beat[0].cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
