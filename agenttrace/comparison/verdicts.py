"""From an interval and a margin to a verdict: non-inferiority, with "inconclusive" where the evidence decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["pass", "regressed", "inconclusive", "not_comparable", "invalid"]

Label: TypeAlias = Literal["improved", "equivalent", "measurably lower", "material"]

EXIT_CODES: Mapping[Verdict, int] = {"pass": 0, "regressed": 1, "inconclusive": 10, "not_comparable": 11, "invalid": 12}


def decide(low: float, high: float, margin: float | None) -> tuple[Verdict, Label | None]:
    """What an interval shows of a difference that is turned so that more is better.

    Without a margin any loss counts: only an improvement passes.
    """
    allowed = margin or 0.0
    if low > -allowed:
        if low > 0:
            return "pass", "improved"
        if high < 0:
            return "pass", "measurably lower"
        return "pass", "equivalent" if high < allowed else None
    if high < 0:
        return "regressed", "material" if high < -allowed else None
    return "inconclusive", None


def upheld(p_values: Sequence[float], alpha: float) -> tuple[bool, ...]:
    """Which of several claims "it is lower" stand after Holm's correction for having looked at all of them."""
    if len(p_values) < 2 or not any(p < alpha for p in p_values):
        return tuple(p < alpha for p in p_values)
    from statsmodels.stats.multitest import multipletests

    return tuple(bool(one) for one in multipletests(p_values, alpha=alpha, method="holm")[0])


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """Of all metrics that decide: pass needs every one of them, regressed one."""
    if "regressed" in verdicts:
        return "regressed"
    if verdicts and all(verdict == "pass" for verdict in verdicts):
        return "pass"
    return "not_comparable" if verdicts and all(one == "not_comparable" for one in verdicts) else "inconclusive"
