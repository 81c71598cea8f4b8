"""The only reader of clocks: wall time says when, monotonic time says how long.

Tests replace the two functions of this module, so callers reach them through the module: `clock.monotonic_ns()`.
"""

from __future__ import annotations

import time
from typing import NamedTuple

monotonic_ns = time.perf_counter_ns
"""Nanoseconds of a clock that never steps; only differences mean anything. One C call: it stands on the agent's path."""

wall_ns = time.time_ns
"""Nanoseconds since 1970-01-01 UTC; may step when the machine's clock is set."""


class Anchor(NamedTuple):
    """One moment read on both clocks. A trace takes one at its root, so that no step of the wall clock bends its spans."""

    wall_ns: int
    monotonic_ns: int

    def at(self, monotonic: int) -> int:
        """The wall time, in nanoseconds since 1970, of a monotonic reading."""
        return self.wall_ns + monotonic - self.monotonic_ns


def anchor() -> Anchor:
    """Read both clocks now."""
    return Anchor(wall_ns(), monotonic_ns())
