"""Single cases: Fisher's exact test and Benjamini and Hochberg's correction, as scipy has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from agenttrace.comparison.case_flags import _adjusted, _one_sided, _smallest


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_fishers_exact_test(of: int, of_after: int, data: st.DataObject) -> None:
    """One-sided, towards what was seen."""
    passed, after = data.draw(st.integers(0, of)), data.draw(st.integers(0, of_after))
    side = "greater" if passed * of_after > after * of else "less"
    expected = stats.fisher_exact([[passed, of - passed], [after, of_after - after]], alternative=side).pvalue
    if passed * of_after != after * of:
        assert _one_sided(passed, of, after, of_after) == pytest.approx(expected)


@pytest.mark.parametrize(("k", "two_sided"), [(3, 0.10), (4, 0.0286), (5, 0.0079)])
def test_the_smallest_p(k: int, two_sided: float) -> None:
    """Twice the one-sided one is the smallest that Fisher's test can give with so many repetitions."""
    assert 2 * _smallest(k, k) == pytest.approx(two_sided, abs=5e-5)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_correction_for_many_cases(p_values: list[float]) -> None:
    """As scipy.stats.false_discovery_control."""
    assert _adjusted(p_values) == pytest.approx(list(stats.false_discovery_control(p_values)))
