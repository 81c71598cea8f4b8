"""Two-sided p-values of "nothing changed", shown beside the interval by those names that papers use. They never decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from scipy import special

from agenttrace.comparison.estimates import Sample
from agenttrace.comparison.intervals import ALMOST, Floats

SEED: Final = 20_261_201

EXACT: Final = 15
"""Cases up to which all sign changes are gone through."""

RESAMPLES: Final = 9_999
"""Of signs, where there are more cases."""

MAX_PERMUTED: Final = 200
"""Cases up to which signs are flipped; with more of them Student's test gives the same."""


def p_values(data: Sample, margin: float | None = None) -> Mapping[str, float]:
    """By the name of the test. With a margin also that of "not equivalent" (`tost`, two one-sided t tests)."""
    differences = data.differences
    changed = int((np.abs(differences) > ALMOST).sum())
    if data.n < 2:
        return {}
    if data.is_binary:
        return mcnemar(int((differences > ALMOST).sum()), int((differences < -ALMOST).sum()))
    if not changed or differences.std() <= ALMOST:
        return {}
    error, df = float(differences.std(ddof=1)) / math.sqrt(data.n), data.n - 1
    mean = float(differences.mean())
    found = {"t": 2 * float(special.stdtr(df, -abs(mean) / error))}
    if margin is not None:
        found["tost"] = float(special.stdtr(df, (abs(mean) - margin) / error))
    if data.n <= MAX_PERMUTED:
        from scipy import stats

        found["sign_flip"] = _sign_flip(differences)
        found["wilcoxon"] = float(stats.wilcoxon(differences).pvalue)
    return found


def mcnemar(up: int, down: int) -> Mapping[str, float]:
    """Of a paired two-by-two table: mid-p (recommended by Fagerland et al. 2013), exact, and chi-square of one degree."""
    from scipy import stats

    changed = up + down
    if not changed:
        return {"mcnemar_mid_p": 1.0, "mcnemar_exact": 1.0, "mcnemar": 1.0}
    exact = float(stats.binomtest(up, changed).pvalue)
    mid = exact - float(stats.binom.pmf(up, changed, 0.5))
    return {
        "mcnemar_mid_p": mid,
        "mcnemar_exact": exact,
        "mcnemar": float(stats.chi2.sf((up - down) ** 2 / changed, 1)),
    }


def _sign_flip(differences: Floats) -> float:
    from scipy import stats

    tested = stats.permutation_test(
        (differences,),
        lambda values, axis: np.mean(values, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=2**EXACT if len(differences) <= EXACT else RESAMPLES,
        rng=np.random.default_rng(SEED),
    )
    return float(tested.pvalue)
