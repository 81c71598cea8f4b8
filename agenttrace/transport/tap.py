"""Watches the requests of model calls from inside the HTTP clients that model SDKs use.

Transport classes are wrapped once, for the whole process. A request made outside a model call passes straight through;
one made inside is timed, and keeps its meaning in every respect: same errors, same stream, no reading ahead, the user's
own trace extension called as before. A fault of ours is counted and never reaches the client (D13).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from agenttrace.transport.aiohttp_tap import tap_aiohttp, untap_aiohttp
from agenttrace.transport.httpx_tap import tap_httpx, untap_httpx
from agenttrace.transport.observing import count_fault
from agenttrace.transport.requests_tap import tap_requests, untap_requests

Wrapper = Callable[[Any], None]

CLIENTS: dict[str, tuple[Wrapper, Wrapper]] = {
    "httpx": (tap_httpx, untap_httpx),
    "httpx2": (tap_httpx, untap_httpx),
    "requests": (tap_requests, untap_requests),
    "aiohttp": (tap_aiohttp, untap_aiohttp),
}
"""Module to what wraps and unwraps its transports. `openai` 3 and `anthropic` 2 speak through httpx2, `ollama` and
`groq` through httpx."""

_lock = threading.Lock()
_settled: dict[str, bool] = {}
"""Module to whether it is tapped. False: its shape is not one we know, and is not tried again at every model call."""


def install_tap() -> None:
    """Wrap the transports of every HTTP client that is loaded by now. Nothing to do costs 0.3 µs: it is asked often.

    No client is imported for it; one that loads later is wrapped when the next model call starts.
    """
    if len(_settled) == len(CLIENTS):
        return
    for name in CLIENTS:
        if name not in _settled and name in sys.modules:
            _install(name)


def _install(name: str) -> None:
    with _lock:
        module = sys.modules.get(name)
        if name in _settled or module is None or _is_being_imported(module):
            return
        try:
            CLIENTS[name][0](module)
            _settled[name] = True
        except Exception as error:
            count_fault(error)
            _settled[name] = False


def _is_being_imported(module: Any) -> bool:
    """Whether another thread imports it just now: then it is not whole. The flag is the import system's own."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def remove_tap() -> None:
    """Put the transports back as they were."""
    with _lock:
        for name, is_tapped in _settled.items():
            if is_tapped:
                CLIENTS[name][1](sys.modules[name])
        _settled.clear()
