"""Notices steps that LangChain never ends: cancelled calls, streams nobody reads on, batches that died in the middle.

LangChain sends no callback for them. Two things still happen, and the first one wins: the frames of the call go away, and
with them the `run_id` object that only they own; or the asyncio task that made the call ends.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any
from uuid import UUID

OnGone = Callable[[int], None]
"""Takes the key of a step whose call is gone. Runs inside garbage collection, in any thread: it may take no lock."""


class VanishedCalls:
    """Watches the calls of open steps. Nothing here keeps a `run_id` alive."""

    def __init__(self, on_gone: OnGone) -> None:
        self._on_gone = on_gone
        self._by_task: weakref.WeakKeyDictionary[asyncio.Task[Any], list[int]] = weakref.WeakKeyDictionary()

    def watch(self, run_id: UUID) -> weakref.ref[UUID]:
        """A reference to hold for as long as the step is open; dropping it ends the watch."""
        key, on_gone = run_id.int, self._on_gone
        return weakref.ref(run_id, lambda _: on_gone(key))

    def watch_task(self, key: int) -> None:
        """End the step with the current task at the latest. One callback a task, however many calls it makes."""
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no event loop runs here
            return
        if task is None:
            return
        keys = self._by_task.get(task)
        if keys is None:
            keys = self._by_task[task] = []
            task.add_done_callback(self._task_done)
        elif len(keys) > 64:
            keys[:] = keys[-32:]  # a long-lived task makes many calls; the old ones have ended
        keys.append(key)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        for key in self._by_task.pop(task, ()):
            self._on_gone(key)
