"""What all tests of the tap share: it is off again afterwards, and no model call is left in the context."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agenttrace.steps import current_model_call
from agenttrace.transport import observing
from agenttrace.transport.tap import remove_tap


@pytest.fixture(autouse=True)
def _nothing_left_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Faults are counted from zero, so that a test can ask for none."""
    monkeypatch.setattr(observing, "_faults", 0)
    monkeypatch.setattr(observing, "_last_fault", None)
    token = current_model_call.set(None)
    yield
    remove_tap()
    current_model_call.reset(token)
