"""Where nothing changed the gate says so, and what did change is not taken for nothing."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from agenttrace.comparison.aa import divide
from agenttrace.comparison.evidence import Repetition, RunEvidence
from agenttrace.comparison.policy import Policy
from agenttrace.errors import NoModelCalls, NotComparable, UnfitBaseline, UnknownMetric, UsageError
from tests.comparison.builders import changed_to, evidence, repetitions

RULES = Policy(margins={"correct": 0.2})


def a_run(seed: int = 0, *, cases: int = 30, count: int = 6, name: str = "nightly", lower: float = 0.0) -> RunEvidence:
    rng = np.random.default_rng(seed)
    attempts = tuple(
        Repetition(case=f"q{case}", number=number + 1, scores={"correct": float(rng.random() < 0.9 - lower)})
        for case in range(cases)
        for number in range(count)
    )
    return evidence(name=name, repetitions=attempts)


def test_halves_of_one_run_are_rarely_called_regressed() -> None:
    """At most as often as promised; with so many attempts most halves pass."""
    rates = divide((a_run(),), RULES)
    assert rates.divisions == sum(rate.count for rate in rates.verdicts.values()) == 200
    assert rates.verdicts["regressed"].rate <= 0.05
    assert rates.verdicts["pass"].rate > 0.5
    assert (rates.cases, rates.repetitions) == (30, (3, 3))
    assert rates.metrics["correct"] == rates.verdicts
    passed = rates.verdicts["pass"]
    assert passed.low < passed.rate < passed.high


def test_the_same_seed_divides_alike_and_another_does_not() -> None:
    """So that a rate can be looked at again."""
    run = a_run(count=4)
    rules = Policy(margins={"correct": 0.1})
    first = divide((run,), rules, divisions=60)
    assert divide((run,), rules, divisions=60) == first
    assert divide((run,), rules, divisions=60, seed=1).verdicts != first.verdicts


def test_an_odd_repetition_goes_to_either_half() -> None:
    """Five are divided into two and three, never always the same way; nothing is left out."""
    rates = divide((a_run(count=5),), RULES, divisions=5)
    assert rates.repetitions == (2, 2)


def test_two_runs_are_divided_in_their_own_numbers() -> None:
    """One attempt each is enough for two runs; each side has what its run had."""
    rates = divide((a_run(count=1), a_run(1, count=3, name="again")), RULES, divisions=20)
    assert rates.repetitions == (1, 3)
    assert any("thrown together" in note for note in rates.notes)


def test_two_runs_with_other_settings_are_no_aa() -> None:
    """What differs is named."""
    other = evidence(changed_to(sampling__temperature=0.7), name="other", repetitions=a_run().repetitions)
    with pytest.raises(NotComparable, match=r"sampling\.temperature"):
        divide((a_run(), other), RULES)


@pytest.mark.parametrize(
    ("runs", "rules", "error", "message"),
    [
        ([a_run(count=3)], RULES, UsageError, "has 4 repetitions .the most is 3"),
        ([a_run(), a_run()], RULES, UsageError, "one and the same"),
        ([evidence(repetitions=repetitions({}))], RULES, NoModelCalls, "no score"),
        ([evidence(is_unfinished=True)], RULES, UnfitBaseline, "unfinished"),
        ([a_run()], Policy(primary=("correkt",)), UnknownMetric, "Did you mean 'correct'"),
    ],
)
def test_what_cannot_be_divided_is_said(
    runs: Iterable[RunEvidence], rules: Policy, error: type[Exception], message: str
) -> None:
    """One sentence each, and no rate."""
    with pytest.raises(error, match=message):
        divide(tuple(runs), rules)


def test_cases_with_few_repetitions_are_left_out_and_counted() -> None:
    """They cannot be divided, and do not spoil the others."""
    run = a_run()
    few = tuple(Repetition(case="rare", number=number, scores={"correct": 1.0}) for number in (1, 2))
    rates = divide((evidence(repetitions=(*run.repetitions, *few)),), RULES, divisions=5)
    assert rates.cases == 30
    assert rates.notes[0].startswith("1 cases have fewer than 4 repetitions")
