"""Durations and sizes as people write them: `30d`, `250ms`, `5GB`."""

from __future__ import annotations

import re
from collections.abc import Mapping

DURATIONS_NS: Mapping[str, float] = {
    "ms": 1e6, "s": 1e9, "m": 60e9, "min": 60e9, "h": 3600e9, "d": 86_400e9, "w": 7 * 86_400e9
}  # fmt: skip
SIZES: Mapping[str, float] = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def duration_ns(text: str) -> int | None:
    """`250ms`, `1.5s`, `10m`, `2h`, `30d`, `1w` in nanoseconds; None for what is no duration."""
    return _with_unit(text, DURATIONS_NS)


def size_bytes(text: str) -> int | None:
    """`500MB`, `5GB` in bytes, a thousand to the next unit; None for what is no size."""
    return _with_unit(text.upper(), SIZES)


def _with_unit(text: str, units: Mapping[str, float]) -> int | None:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)", text.strip())
    return round(float(match[1]) * units[match[2]]) if match and match[2] in units else None
