"""Keeps model calls of a provider to so many a minute: each waits for its turn before it starts.

The wait is inside the call's step, in its `client_prep`, as LangChain's own rate limiters are.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks.base import AsyncCallbackHandler

from agenttrace import clock

MINUTE_NS = 60_000_000_000


class Pacing(AsyncCallbackHandler):
    """Spreads model calls evenly. A call of a provider without a limit waits for nobody."""

    def __init__(self, calls_per_minute: Mapping[str, float]) -> None:
        self._gap_ns = {provider: int(MINUTE_NS / number) for provider, number in calls_per_minute.items()}
        self._next_ns: dict[str, int] = {}
        self._lock = threading.Lock()

    async def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        await self._take_turn(kwargs)

    async def on_llm_start(self, serialized: Any, prompts: Any, **kwargs: Any) -> None:
        await self._take_turn(kwargs)

    async def _take_turn(self, kwargs: Mapping[str, Any]) -> None:
        provider = (kwargs.get("metadata") or {}).get("ls_provider")
        if provider in self._gap_ns:
            await asyncio.sleep(self._wait_ns(provider) / 1e9)

    def _wait_ns(self, provider: str) -> int:
        now = clock.monotonic_ns()
        with self._lock:  # sync tasks run in threads
            turn = max(now, self._next_ns.get(provider, 0))
            self._next_ns[provider] = turn + self._gap_ns[provider]
        return turn - now
