"""Places the bars of two runs' time distributions: one plot a measure, the baseline above and the candidate below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agenttrace.phases.distributions import BINS_A_DECADE, RATES, GroupTimings, place
from agenttrace.report.escaping import visible
from agenttrace.report.numbers import count, duration

PHASE_WIDTH = 300
HALF = 40
GAP = 4
PHASE_HEIGHT = 2 * HALF + GAP

SIDES = ("baseline", "candidate")

MAX_PLOTS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Calls of one run that took about as long; places in the plot's units."""

    side: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePlot:
    """How one time is distributed in both runs."""

    name: str
    low: str
    """Where the plot begins, for people."""
    high: str
    counts: str
    bars: tuple[Bar, ...]


def phase_plots(baseline: Sequence[GroupTimings], candidate: Sequence[GroupTimings]) -> list[PhasePlot]:
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


def _plot(name: str, both: Sequence[Counter[int]]) -> PhasePlot:
    held = [number for bins in both for number in bins]
    first, last = min(held), max(held)
    width = PHASE_WIDTH / (last - first + 1)
    top = max(number / bins.total() for bins in both if bins for number in bins.values())
    bars = []
    for row, (side, bins) in enumerate(zip(SIDES, both, strict=True)):
        for number, calls in sorted(bins.items()):
            height = max(1.0, round(HALF * calls / bins.total() / top, 1))
            y = round(row * (HALF + GAP) + HALF - height, 1)
            x = round((number - first) * width, 1)
            bars.append(Bar(side=side, x=x, y=y, width=round(max(width - 0.5, 0.5), 1), height=height))
    return PhasePlot(
        name=visible(name, limit=60),
        low=duration(10 ** (first / BINS_A_DECADE)),
        high=duration(10 ** ((last + 1) / BINS_A_DECADE)),
        counts=", ".join(f"{side} {count(bins.total())}" for side, bins in zip(SIDES, both, strict=True)),
        bars=tuple(bars),
    )
