"""`--restrict`: what is left of two runs when only one value of a setting counts."""

from __future__ import annotations

import pytest

from agenttrace.comparison.evidence import RunEvidence
from agenttrace.comparison.gate import gate
from agenttrace.comparison.restricting import restrict
from agenttrace.errors import NothingToRestrict, UnknownDimension
from agenttrace.settings.contract import fold_calls
from tests.comparison.builders import a_call, evidence, repetitions

CASES = ("a", "b", "c", "d", "e", "f")


def drifted() -> RunEvidence:
    """A run whose model changed after the fourth of six cases."""
    models = ["m-1"] * 4 + ["m-2"] * 2
    calls = [
        a_call(number, case=case, settings={"model.served": model})
        for number, (case, model) in enumerate(zip(CASES, models, strict=True))
    ]
    return evidence(fold_calls(calls), repetitions=repetitions({case: [1.0] for case in CASES}))


def steady() -> RunEvidence:
    calls = [a_call(number, case=case, settings={"model.served": "m-1"}) for number, case in enumerate(CASES)]
    return evidence(fold_calls(calls), repetitions=repetitions({case: [1.0] for case in CASES}))


def test_a_drift_is_refused_and_its_unaffected_cases_are_not() -> None:
    """The cases before the change are as good as ever; what is left out is told."""
    before, after = steady(), drifted()
    assert gate(before, after).verdict == "not_comparable"
    (before, after), notes = restrict((before, after), ["model.served=m-1"])
    result = gate(before, after, restrict=notes)
    assert result.verdict == "comparable"
    assert [run.cases for run in (before, after)] == [("a", "b", "c", "d")] * 2
    assert result.notes[0] == "Restricted to model.served=m-1: 4 of 6 cases."


def test_a_value_that_no_call_has_is_an_error() -> None:
    """Nothing would be left, and it is said where the values stand."""
    with pytest.raises(NothingToRestrict, match=r"No call of the runs has model\.served = m-9"):
        restrict((steady(), drifted()), ["model.served=m-9"])


def test_what_cannot_be_read_is_an_error() -> None:
    """A value is needed, and a dimension that there is."""
    with pytest.raises(NothingToRestrict, match="names no value"):
        restrict((), ["model.served"])
    with pytest.raises(UnknownDimension, match=r"Did you mean 'model.served'"):
        restrict((), ["model.serve=x"])


def test_numbers_are_numbers() -> None:
    """0.0 and 0 are one temperature."""
    calls = [
        a_call(number, case=case, settings={"sampling.temperature": number % 2 * 0.5})
        for number, case in enumerate(CASES)
    ]
    run = evidence(fold_calls(calls), repetitions=repetitions({case: [1.0] for case in CASES}))
    kept, _ = restrict((run,), ["sampling.temperature=0"])
    assert kept[0].cases == ("a", "c", "e")
