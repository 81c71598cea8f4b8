"""Watches the requests of model calls from inside the HTTP clients that model SDKs use.

Transport classes are wrapped once, for the whole process. A request made outside a model call passes straight through; one
made inside is timed, and keeps its meaning in every respect: same errors, same stream, no reading ahead, the user's own
trace extension called as before. A fault of ours is counted and never reaches the client (D13).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from agenttrace.transport.httpx_tap import tap_httpx, untap_httpx

CLIENTS: dict[str, Callable[[Any], None]] = {"httpx": tap_httpx, "httpx2": tap_httpx}
"""Module to what wraps its transports. `openai` 3 and `anthropic` 2 speak through httpx2, `ollama` and `groq` through httpx."""

_lock = threading.Lock()
_tapped: set[str] = set()


def install_tap() -> None:
    """Wrap the transports of every HTTP client that is loaded by now. Costs nothing once all are: it is asked often."""
    if len(_tapped) == len(CLIENTS):
        return
    for name, tap in CLIENTS.items():
        if name not in _tapped and name in sys.modules:
            with _lock:
                if name not in _tapped:
                    tap(sys.modules[name])
                    _tapped.add(name)


def remove_tap() -> None:
    """Put the transports back as they were."""
    with _lock:
        for name in _tapped:
            untap_httpx(sys.modules[name])
        _tapped.clear()
