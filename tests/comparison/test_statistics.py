"""Power, tests and derived metrics agree with what papers print."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agenttrace.comparison.derived import pass_every_time, pass_once
from agenttrace.comparison.estimates import sample
from agenttrace.comparison.metrics import MetricKey
from agenttrace.comparison.p_values import mcnemar, p_values
from agenttrace.comparison.pairing import PairedMetric
from agenttrace.comparison.power import (
    Variances,
    cases_needed,
    design_effect,
    repetitions_needed,
    smallest_detectable,
)

MAIZE = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
"""Darwin's maize, Fisher 1935: crossed minus self-fertilised, in eighths of an inch."""

CLINIC = {
    "var1": ([2.60, 2.82, 2.18, 3.46, 4.01, 3.04, 3.47, 4.06, 2.91, 3.59, 4.51, 3.16, 3.86, 3.31, 3.02],
             [2.84, 2.51, 2.41, 2.95, 3.14, 3.79, 4.14, 3.85, 3.02, 3.45, 5.37, 3.81, 4.19, 3.16, 3.84]),
    "var2": ([3.76, 3.66, 3.65, 3.60, 3.48, 2.87, 3.24, 3.92, 3.99, 4.21, 4.21, 3.31, 3.61, 2.97, 2.73],
             [4.00, 3.26, 4.14, 3.42, 3.25, 4.34, 4.97, 4.31, 3.11, 3.41, 5.02, 4.21, 4.59, 5.30, 4.32]),
}  # fmt: skip
"""The data of statsmodels' own test of TOST, whose answers come from R's package `equivalence`."""


def paired(before: list[float], after: list[float], *, is_bounded: bool = False) -> PairedMetric:
    """One repetition a case."""
    cases = tuple(f"q{n}" for n in range(len(before)))
    return PairedMetric(
        key=MetricKey(True, "score"),
        n=len(cases),
        k_baseline=1,
        k_candidate=1,
        baseline=float(np.mean(before)),
        candidate=float(np.mean(after)),
        cases=cases,
        before={case: [value] for case, value in zip(cases, before, strict=True)},
        after={case: [value] for case, value in zip(cases, after, strict=True)},
        is_bounded=is_bounded,
    )


def test_cases_for_a_difference() -> None:
    """Miller 2024, section 5: 969 questions for three points, with ω² = 1/9, two-sided 0.05 and 80 % power."""
    assert cases_needed(1 / 9, 0.03, 0.025) == 969


@pytest.mark.parametrize(("k", "expected"), [(1, 0.1327), (10, 0.0757)])
def test_the_smallest_detectable_difference(k: int, expected: float) -> None:
    """Miller 2024, section 5, of 198 questions: 13.2 % with one answer each, 7.5 % with ten (the paper cuts digits off)."""
    variance = Variances(between=1 / 9, noise_baseline=1 / 6, noise_candidate=1 / 6).of_difference(k, k)
    assert smallest_detectable(math.sqrt(variance), 198, 0.025) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(("k", "factor"), [(2, 2 / 3), (4, 1 / 2), (6, 4 / 9)])
def test_repetitions_cut_variance(k: int, factor: float) -> None:
    """Miller 2024, section 3.1: with difficulty uniform on 0 to 1 the variance falls to (1 + 2/K)/3 of that of one answer."""
    one_run = Variances(between=1 / 12, noise_baseline=1 / 6, noise_candidate=0)
    assert one_run.of_difference(k, 1) / one_run.of_difference(1, 1) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("delta", "error", "low", "high"), [(2.5, 0.7, 1.2, 3.8), (-3.1, 2.1, -7.2, 1.0), (-2.7, 1.7, -6.1, 0.7)]
)
def test_millers_table_5(delta: float, error: float, low: float, high: float) -> None:
    """MATH, HumanEval and MGSM of the paper, whose inputs are rounded."""
    from agenttrace.comparison.intervals import t_interval

    found = t_interval(delta, error, 10**7, 0.025)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.11)


def test_repetitions_stop_helping() -> None:
    """No number of repetitions gets below what cases differ by."""
    parts = Variances(between=0.1, noise_baseline=0.1, noise_candidate=0.1)
    needed = repetitions_needed(parts, 120, 0.1, 0.05)
    assert needed is not None
    spread = math.sqrt(parts.of_difference(needed, needed))
    assert smallest_detectable(spread, 120, 0.05) <= 0.1
    assert smallest_detectable(math.sqrt(parts.of_difference(needed - 1, needed - 1)), 120, 0.05) > 0.1
    assert repetitions_needed(parts, 20, 0.1, 0.05) is None


def test_a_plan_of_repetitions_reaches_its_power() -> None:
    """Alike cases of one source count for less."""
    assert design_effect(5, 0.5) == 3
    assert design_effect(1, 0.9) == 1


def test_darwins_maize() -> None:
    """Fisher's exact randomisation: 1726 of 32768; t = 2.148; Wilcoxon's 24. Also by R."""
    found = p_values(sample(paired([0.0] * 15, [float(d) for d in MAIZE])))
    assert found["sign_flip"] == pytest.approx(1726 / 32768, abs=1e-12)
    assert found["t"] == pytest.approx(0.049703, abs=1e-6)
    assert found["wilcoxon"] == pytest.approx(0.0412598, abs=1e-6)


def test_mcnemar_on_the_airway_data() -> None:
    """Fagerland et al. 2013: 1 up and 7 down."""
    found = mcnemar(1, 7)
    assert found["mcnemar"] == pytest.approx(0.0339, abs=5e-5)
    assert found["mcnemar_exact"] == pytest.approx(0.0703, abs=5e-5)
    assert found["mcnemar_mid_p"] == pytest.approx(0.0391, abs=5e-5)


def test_mcnemar_on_approval_ratings() -> None:
    """Agresti's 1600 voters, 150 and 86 of whom changed their minds: chi-square 17.3559 of one degree."""
    assert mcnemar(86, 150)["mcnemar"] == pytest.approx(3.099e-5, rel=1e-3)


@pytest.mark.parametrize(("name", "mean", "p"), [("var1", 0.1646667, 0.003166881), ("var2", 0.5626667, 0.4412035)])
def test_equivalence(name: str, mean: float, p: float) -> None:
    """Two one-sided tests against a margin of 0.6, by R's `equivalence`."""
    data = sample(paired(*CLINIC[name]))
    assert data.differences.mean() == pytest.approx(mean, abs=1e-6)
    assert p_values(data, 0.6)["tost"] == pytest.approx(p, abs=1e-7)


def test_passing_every_time_and_once() -> None:
    """pass^k of tau-bench and pass@k of Chen et al., by counting."""
    assert pass_every_time(6, 8, 4) == pytest.approx(15 / 70)
    assert pass_once(3, 10, 5) == pytest.approx(1 - 21 / 252)
