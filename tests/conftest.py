"""What every test may use: a clock that only moves when told to, ids that count, a store of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agenttrace import clock

os.environ.setdefault("LANGSMITH_TRACING", "false")


class FakeClock:
    """Both clocks, standing still until `advance`."""

    def __init__(self) -> None:
        self.now = 1_000_000_000
        self.wall_offset = 1_700_000_000_000_000_000

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)

    def monotonic_ns(self) -> int:
        return self.now

    def wall_ns(self) -> int:
        return self.now + self.wall_offset


@pytest.fixture
def fake_clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake = FakeClock()
    monkeypatch.setattr(clock, "monotonic_ns", fake.monotonic_ns)
    monkeypatch.setattr(clock, "wall_ns", fake.wall_ns)
    return fake


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for a store, which is also the default one."""
    path = tmp_path / "store"
    monkeypatch.setenv("AGENTTRACE_STORE", str(path))
    return path


def require(is_there: bool, what: str) -> None:
    """Leave a test out, by name, where its part is not installed; in CI nothing may be left out."""
    if not is_there:
        if os.environ.get("AGENTTRACE_TEST_ALL"):
            pytest.fail(f"{what} is missing, and CI leaves nothing out")
        pytest.skip(f"needs {what}")
