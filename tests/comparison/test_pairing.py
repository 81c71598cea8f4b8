"""Runs are paired by case, after the repetitions of a case were averaged; nothing is dropped without a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.comparison.evidence import Outcome, Repetition
from agenttrace.comparison.metrics import MetricKey
from agenttrace.comparison.pairing import PairedMetric, Pairing, pair
from tests.comparison.builders import evidence, repetitions

CORRECT = MetricKey(True, "correct")
LATENCY = MetricKey(False, "latency_s")


def paired(before: tuple[Repetition, ...], after: tuple[Repetition, ...]) -> Pairing:
    return pair(evidence(repetitions=before), evidence(repetitions=after))


def of_scores(result: Pairing) -> list[PairedMetric]:
    return [metric for metric in result.metrics if metric.key.is_score]


def test_repetitions_are_averaged_first() -> None:
    """A case with many repetitions weighs as much as a case with one."""
    result = paired(repetitions({"q1": [0, 0, 0, 1], "q2": [1]}), repetitions({"q1": [1], "q2": [1, 1]}))
    [metric] = of_scores(result)
    assert (metric.key, metric.n, metric.k_baseline, metric.k_candidate) == (CORRECT, 2, 1, 1)
    assert (metric.baseline, metric.candidate, metric.delta) == (0.625, 1.0, 0.375)


def test_cases_that_differ_most_come_first() -> None:
    """Both means of each case are there, the largest difference of a score on top."""
    result = paired(repetitions({"q1": [1], "q2": [1], "q3": [1]}), repetitions({"q1": [1], "q2": [0], "q3": [0.5]}))
    assert [case.case for case in result.cases] == ["q2", "q3", "q1"]
    value = result.cases[0].values[CORRECT]
    assert (value.baseline, value.candidate, value.delta) == (1, 0, -1)


def test_only_common_cases_count() -> None:
    """A case of one run alone is in no mean."""
    [metric] = paired(repetitions({"q1": [1], "q2": [0]}), repetitions({"q1": [0]})).metrics
    assert (metric.n, metric.baseline, metric.candidate) == (1, 1, 0)


def test_a_metric_is_compared_where_both_know_it() -> None:
    """A phase that only some cases know is averaged over those, and says how many they are."""
    before = (
        Repetition(case="q1", number=1, metrics={"latency_s": 1.0, "prefill_s": 0.2}),
        Repetition(case="q2", number=1, metrics={"latency_s": 2.0}),
    )
    after = (
        Repetition(case="q1", number=1, metrics={"latency_s": 1.5, "prefill_s": 0.1, "queue_s": 0.1}),
        Repetition(case="q2", number=1, metrics={"latency_s": 2.5, "prefill_s": 0.3}),
    )
    assert [(metric.key.name, metric.n) for metric in paired(before, after).metrics] == [
        ("latency_s", 2),
        ("prefill_s", 1),
    ]


def test_scores_come_before_times() -> None:
    """Scores first, then latency, model time and tokens, then everything else by name."""
    names = {
        "zeta_s": 1.0,
        "output_tokens": 1.0,
        "latency_s": 1.0,
        "input_tokens": 1.0,
        "model_s": 1.0,
        "decode_s": 1.0,
    }
    run = (Repetition(case="q1", number=1, scores={"z": 1.0, "a": 1.0}, metrics=names),)
    assert [metric.key.name for metric in paired(run, run).metrics] == [
        "a", "z", "latency_s", "model_s", "input_tokens", "output_tokens", "decode_s", "zeta_s",
    ]  # fmt: skip


def test_a_score_and_a_measurement_may_share_a_name() -> None:
    """They are two metrics of two kinds."""
    run = (Repetition(case="q1", number=1, scores={"latency_s": 1.0}, metrics={"latency_s": 3.0}),)
    assert [(m.key.kind, m.baseline) for m in paired(run, run).metrics] == [("score", 1.0), ("time", 3.0)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("latency_s", "time"), ("input_tokens", "cost"), ("cost_usd", "cost"), ("tool_calls", "other")],
)
def test_kinds_of_measurements(name: str, kind: str) -> None:
    """What forbids comparing times and cost is asked of the ending of a name."""
    assert MetricKey(False, name).kind == kind


@pytest.mark.parametrize("outcome", ["agent_error", "timeout", "limit", "refusal"])
def test_what_the_agent_failed_scores_nothing(outcome: Outcome) -> None:
    """A failure is the agent's result: it scores the floor, and its time says nothing."""
    failed = Repetition(case="q1", number=2, outcome=outcome, metrics={"latency_s": 0.1})
    good = Repetition(case="q1", number=1, scores={"correct": 1.0}, metrics={"latency_s": 2.0})
    result = paired((good,), (good, failed))
    by_key = {metric.key: metric for metric in result.metrics}
    assert by_key[CORRECT].candidate == 0.5
    assert by_key[LATENCY].candidate == 2.0
    assert result.notes == (
        f"candidate: 1 × {outcome} by the agent's own doing. They score 0. Their times and tokens are not compared.",
    )


def test_a_failure_keeps_the_score_it_was_given() -> None:
    """The floor is only for what was not judged."""
    judged = Repetition(case="q1", number=1, outcome="limit", scores={"correct": 0.25})
    [metric] = of_scores(paired((judged,), (judged,)))
    assert metric.baseline == 0.25


def test_the_floor_is_not_guessed() -> None:
    """Where scores leave the range from 0 to 1, what a failure scores is not known, and it is left out."""
    good = Repetition(case="q1", number=1, scores={"stars": 4.0})
    failed = Repetition(case="q1", number=2, outcome="agent_error")
    result = paired((good,), (good, failed))
    [metric] = of_scores(result)
    assert (metric.candidate, metric.k_candidate) == (4.0, 1)
    assert "They score" not in result.notes[0]


@pytest.mark.parametrize("outcome", ["infra_error", "grader_error", "cancelled"])
def test_what_the_agent_did_not_do_is_left_out(outcome: Outcome) -> None:
    """A broken network or evaluator says nothing about the agent; it is counted and told."""
    good, broken = Repetition(case="q1", number=1, scores={"a": 1.0}), Repetition(case="q1", number=2, outcome=outcome)
    result = paired((good, broken), (good,))
    assert (result.metrics[0].baseline, result.cases[0].k_baseline) == (1.0, 1)
    assert result.notes == (f"baseline: 1 × {outcome}, which say nothing about the agent and are left out.",)


def test_a_score_of_one_run_alone_is_named() -> None:
    """It cannot be compared, and is not dropped without a word."""
    both = Repetition(case="q1", number=1, scores={"correct": 1.0})
    more = Repetition(case="q1", number=1, scores={"correct": 1.0, "polite": 1.0})
    assert paired((both,), (more,)).notes == ("Only the candidate has: polite.",)


scores = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]), st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=1
)


@given(scores, scores)
def test_swapping_the_runs_negates_the_difference(
    before: dict[str, list[float]], after: dict[str, list[float]]
) -> None:
    """The difference is candidate − baseline, and nothing else depends on the order."""
    one, other = paired(repetitions(before), repetitions(after)), paired(repetitions(after), repetitions(before))
    assert [m.delta for m in one.metrics] == [-m.delta for m in other.metrics]
    assert {case.case for case in one.cases} == {case.case for case in other.cases}


@given(scores)
def test_duplicating_every_attempt_changes_nothing(before: dict[str, list[float]]) -> None:
    """The case is the unit: more of the same attempts is not more evidence."""
    after = {case: [value / 2 for value in values] for case, values in before.items()}
    twice = [repetitions({case: values * 2 for case, values in run.items()}) for run in (before, after)]
    once = paired(repetitions(before), repetitions(after)).metrics[0]
    again = paired(*twice).metrics[0]
    assert again.n == once.n
    assert again.delta == pytest.approx(once.delta)
