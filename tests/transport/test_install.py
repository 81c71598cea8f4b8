"""Putting the tap in and taking it out."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import httpx2
import pytest

from agenttrace.transport.observing import tap_faults
from agenttrace.transport.tap import install_tap, remove_tap
from tests.model_server import chat_completion, serve
from tests.transport.test_tap import model_call, post


def test_it_goes_in_once_and_comes_out() -> None:
    """However often and from however many threads it is asked for, a transport is wrapped once."""
    original = httpx2.HTTPTransport.handle_request
    threads = [threading.Thread(target=install_tap) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert httpx2.HTTPTransport.handle_request.__wrapped__ is original  # type: ignore[attr-defined]
    remove_tap()
    assert httpx2.HTTPTransport.handle_request is original


def test_no_client_is_imported_for_it() -> None:
    """Importing costs; a client that nobody uses is not loaded."""
    program = (
        "import sys; from agenttrace.transport.tap import install_tap; install_tap();"
        "print([name for name in ('httpx', 'httpx2', 'requests', 'aiohttp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_client_that_loads_later_is_wrapped_at_the_next_model_call() -> None:
    """The handler asks at each model call, so a client that was not there at the first is there at the second."""
    program = (
        "from agenttrace.transport.tap import install_tap; install_tap(); import httpx2; install_tap();"
        "print(hasattr(httpx2.HTTPTransport.handle_request, '__wrapped__'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_a_module_that_is_being_imported_is_left_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may be half way through the import: no error, and the next call finds it whole."""
    half = ModuleType("httpx2")
    half.__spec__ = ModuleSpec("httpx2", None)
    half.__spec__._initializing = True  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "httpx2", half)
        install_tap()
    install_tap()
    assert hasattr(httpx2.HTTPTransport.handle_request, "__wrapped__")
    assert tap_faults() == (0, None)


def test_a_module_of_another_shape_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that moved things is one fault in the counters, not one a model call, and no error for the agent."""
    monkeypatch.setitem(sys.modules, "httpx2", ModuleType("httpx2"))
    install_tap()
    install_tap()
    assert tap_faults()[0] == 1


def test_who_wraps_after_us_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another instrumentation on top of ours is not thrown out when ours is taken off, and attempts are not doubled."""
    install_tap()
    inner = httpx2.HTTPTransport.handle_request

    @wraps(inner)
    def theirs(self: Any, request: Any) -> Any:
        return inner(self, request)

    # Last of all the class is as it was before any of this.
    monkeypatch.setattr(httpx2.HTTPTransport, "handle_request", inner.__wrapped__)  # type: ignore[attr-defined]
    httpx2.HTTPTransport.handle_request = theirs  # type: ignore[method-assign]
    remove_tap()
    assert httpx2.HTTPTransport.handle_request is theirs
    install_tap()
    step = model_call()
    with serve(chat_completion) as server:
        post(httpx2, server, False, {})
    assert len(step.attempts or ()) == 1
