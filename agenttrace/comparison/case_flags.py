"""Which single cases changed: by a test where there are repetitions enough to know, else only "flipped"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Literal, TypeAlias

from agenttrace.comparison.pairing import PairedMetric

Flag: TypeAlias = Literal["regressed", "improved", "flipped"]

MIN_REPETITIONS = 4
"""With three repetitions a side the smallest p-value there is is 0.05: no single case can be told from chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFlag:
    """What one case shows in one score of 0 or 1."""

    metric: str
    flag: Flag | None
    p: float
    """One-sided, of Fisher's exact test, towards what was seen."""
    smallest_p: float
    """The smallest that so many repetitions can give."""
    adjusted_p: float
    """After Benjamini and Hochberg's correction for all cases of the metric."""


def case_flags(metric: PairedMetric, alpha: float) -> Mapping[str, CaseFlag]:
    """By case, of a score whose values are all 0 or 1; empty for another one. Unchanged cases are not told."""
    counts: dict[str, tuple[int, int, int, int]] = {}
    for case in metric.cases:
        before, after = metric.before[case], metric.after[case]
        if any(value not in (0.0, 1.0) for side in (before, after) for value in side):
            return {}
        counts[case] = (int(sum(before)), len(before), int(sum(after)), len(after))
    tested = {case: _one_sided(*count) for case, count in counts.items()}
    adjusted = dict(zip(tested, _adjusted(list(tested.values())), strict=True))
    return {
        case: CaseFlag(
            metric=metric.key.name,
            flag=_flag(*counts[case], adjusted[case], alpha),
            p=tested[case],
            smallest_p=_smallest(counts[case][1], counts[case][3]),
            adjusted_p=adjusted[case],
        )
        for case in tested
        if counts[case][0] * counts[case][3] != counts[case][2] * counts[case][1]
    }


def _flag(passed: int, of: int, passed_after: int, of_after: int, adjusted: float, alpha: float) -> Flag | None:
    if min(of, of_after) >= MIN_REPETITIONS and adjusted <= alpha:
        return "regressed" if passed_after / of_after < passed / of else "improved"
    return "flipped" if (passed * 2 >= of) != (passed_after * 2 >= of_after) else None


@cache
def _one_sided(passed: int, of: int, passed_after: int, of_after: int) -> float:
    """Fisher's exact test, towards what was seen: chance of so few passes of the worse side, given all passes."""
    if passed * of_after == passed_after * of:
        return 1.0
    worse, tries = (passed_after, of_after) if passed_after * of < passed * of_after else (passed, of)
    others, passes = of + of_after - tries, passed + passed_after
    ways = sum(comb(tries, few) * comb(others, passes - few) for few in range(max(0, passes - others), worse + 1))
    return ways / comb(of + of_after, passes)


@cache
def _smallest(of: int, of_after: int) -> float:
    return _one_sided(of, of, 0, of_after)


def _adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg 1995, as `scipy.stats.false_discovery_control`, whose import takes longer than all of this."""
    count = len(p_values)
    adjusted = [0.0] * count
    least = 1.0
    for rank, place in sorted(enumerate(sorted(range(count), key=p_values.__getitem__), 1), reverse=True):
        least = min(least, p_values[place] * count / rank)
        adjusted[place] = least
    return adjusted
