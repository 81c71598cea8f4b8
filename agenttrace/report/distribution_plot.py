"""Places the bars of two runs' time distributions: one plot a measure, the baseline above and the candidate below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agenttrace.phases.distributions import BINS_A_DECADE, RATES, GroupTimings, place
from agenttrace.report.escaping import visible
from agenttrace.report.numbers import count, duration

WIDTH = 300
HALF = 40
GAP = 4

SIDES = ("baseline", "candidate")

MAX_PLOTS = 40


def phase_plots(baseline: Sequence[GroupTimings], candidate: Sequence[GroupTimings]) -> list[dict[str, Any]]:
    """Times only; all model calls of a run together, since the models of two runs may differ."""
    both = (_added(baseline), _added(candidate))
    names = sorted({name for side in both for name in side}, key=place)
    return [_plot(name, [side.get(name, Counter()) for side in both]) for name in names[:MAX_PLOTS]]


def _added(groups: Sequence[GroupTimings]) -> Mapping[str, Counter[int]]:
    added: dict[str, Counter[int]] = {}
    for group in groups:
        for item in group.distributions:
            if item.name not in RATES and item.bins:
                added.setdefault(item.name, Counter()).update(item.bins)
    return added


def _plot(name: str, both: Sequence[Counter[int]]) -> dict[str, Any]:
    held = [number for bins in both for number in bins]
    first, last = min(held), max(held)
    width = WIDTH / (last - first + 1)
    top = max(number / bins.total() for bins in both if bins for number in bins.values())
    bars = []
    for row, (side, bins) in enumerate(zip(SIDES, both, strict=True)):
        for number, calls in sorted(bins.items()):
            height = max(1.0, round(HALF * calls / bins.total() / top, 1))
            y = round(row * (HALF + GAP) + HALF - height, 1)
            x = round((number - first) * width, 1)
            bars.append({"side": side, "x": x, "y": y, "width": round(max(width - 0.5, 0.5), 1), "height": height})
    return {
        "name": visible(name, limit=60),
        "from": duration(10 ** (first / BINS_A_DECADE)),
        "to": duration(10 ** ((last + 1) / BINS_A_DECADE)),
        "counts": ", ".join(f"{side} {count(bins.total())}" for side, bins in zip(SIDES, both, strict=True)),
        "bars": bars,
    }
