"""What a plan promises is what comparisons come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from agenttrace.comparison.evidence import Repetition, RunEvidence
from agenttrace.comparison.judgement import judge_metric
from agenttrace.comparison.pairing import pair
from agenttrace.comparison.planning import MetricPlan, plan
from agenttrace.comparison.policy import Policy
from agenttrace.errors import InvalidPolicy, NoModelCalls, UnknownMetric
from tests.comparison.builders import evidence, repetitions


def a_run(seed: int, cases: int, count: int, rates: Sequence[float]) -> RunEvidence:
    """Cases with these chances to pass, over and over; each attempt costs and takes the same."""
    rng = np.random.default_rng(seed)
    attempts = tuple(
        Repetition(
            case=f"q{case}",
            number=number + 1,
            scores={"correct": float(rng.random() < rates[case % len(rates)])},
            metrics={"cost_usd": 0.01, "latency_s": 2.0},
        )
        for case in range(cases)
        for number in range(count)
    )
    return evidence(name=f"run{seed}-{cases}", repetitions=attempts)


def planned(
    run: RunEvidence, other: RunEvidence | None = None, *, counts: Sequence[int] = (3,), **rules: object
) -> MetricPlan:
    policy = Policy(**{"primary": ("correct",), "margins": {"correct": 0.1}, **rules})  # type: ignore[arg-type]  # tests say it by name
    [one] = plan(run, other, policy, repetitions=counts)
    return one


RATES = (0.9, 0.9, 0.6, 0.8, 0.3)


def test_an_unchanged_agent_passes_as_often_as_planned() -> None:
    """The plan is kept: with the cases it asks for, pairs of unchanged runs pass with the power asked for."""
    [row] = planned(a_run(0, 60, 4, RATES)).rows
    policy = Policy(margins={"correct": 0.1})
    verdicts = []
    for seed in range(1, 201):
        before, after = (a_run(seed + side, row.cases, 3, RATES) for side in (0, 5000))
        [metric] = [one for one in pair(before, after).metrics if one.key.is_score]
        verdicts.append(judge_metric(metric, {}, policy, is_quick=True).verdict)
    assert verdicts.count("pass") / 200 == pytest.approx(0.8, abs=0.1)  # three standard errors of both simulations
    assert verdicts.count("regressed") / 200 <= 0.1


def test_more_repetitions_take_fewer_cases_and_the_price_follows() -> None:
    """Attempts are those of both runs; each costs what a recorded one did."""
    rows = planned(a_run(0, 40, 5, RATES), counts=(1, 3, 10)).rows
    assert rows[0].cases > rows[1].cases > rows[2].cases
    assert rows[0].passes < rows[1].passes < rows[2].passes
    for row in rows:
        assert row.needed.attempts == 2 * row.cases * row.repetitions
        assert row.needed.cost_usd == pytest.approx(0.01 * row.needed.attempts)
        assert row.needed.seconds == pytest.approx(2.0 * row.needed.attempts)


def test_a_smaller_margin_and_more_power_take_more() -> None:
    """In both directions, and by about the square of the margin."""
    run = a_run(0, 40, 5, RATES)
    usual = planned(run).rows[0].cases
    assert planned(run, margins={"correct": 0.05}).rows[0].cases > 3 * usual
    [one] = plan(run, None, Policy(margins={"correct": 0.1}), repetitions=(3,), power=0.95)
    assert one.rows[0].cases > usual


def test_cases_that_change_differently_take_more() -> None:
    """Known from a second run; repetitions do not help against it."""
    before = a_run(0, 60, 5, (0.5,))
    after = replace(a_run(1, 60, 5, (0.1, 0.9)), run=replace(before.run, run_id="other"))
    alone, together = planned(before, counts=(3, 10)), planned(before, after, counts=(3, 10))
    assert alone.between is None
    assert together.between is not None
    assert 0.2 < together.between < 0.5
    assert together.rows[0].cases > alone.rows[0].cases
    assert together.rows[1].cases > 2 * alone.rows[1].cases
    assert any("Give a second run" in note for note in alone.notes)


def test_without_repetitions_all_is_taken_for_noise() -> None:
    """The most it can be, and it is said."""
    once = planned(a_run(0, 200, 1, RATES))
    often = planned(a_run(0, 200, 5, RATES))
    assert once.noise is None
    assert once.rows[0].cases > often.rows[0].cases
    assert any("No case was repeated" in note for note in once.notes)


def test_where_all_passed_it_still_takes_cases() -> None:
    """That nothing varied in few cases is no proof that nothing does: the guards of the verdict are in the plan."""
    [row] = planned(a_run(0, 8, 2, (1.0,))).rows
    assert row.passes == 0.0
    assert row.cases >= 20


@pytest.mark.parametrize(
    ("run", "rules", "error", "message"),
    [
        ({"q1": [1.0], "q2": [2.0]}, {}, InvalidPolicy, "correct has no margin"),
        ({"q1": [1.0], "q2": [0.0]}, {"primary": ("correkt",)}, UnknownMetric, "Did you mean 'correct'"),
        ({}, {}, NoModelCalls, "no score at a case"),
    ],
)
def test_what_cannot_be_planned_is_said(
    run: Mapping[str, Sequence[float]], rules: Mapping[str, object], error: type[Exception], message: str
) -> None:
    """One sentence each."""
    with pytest.raises(error, match=message):
        plan(evidence(repetitions=repetitions(run)), None, Policy(**rules))  # type: ignore[arg-type]  # as above


def test_a_power_that_is_no_chance() -> None:
    """Neither 1 nor less than a coin's."""
    for power in (1.0, 0.4):
        with pytest.raises(InvalidPolicy, match="power"):
            plan(a_run(0, 10, 2, RATES), None, Policy(), power=power)
