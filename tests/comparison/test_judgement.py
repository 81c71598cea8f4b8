"""From values to a verdict: what passes, what regressed, and when the evidence decides nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.comparison.compare import NO_SCORES, NOT_INTERLEAVED, compare
from agenttrace.comparison.evidence import Outcome, Repetition, RunEvidence
from agenttrace.comparison.outcome import Comparison, MetricComparison
from agenttrace.comparison.policy import Policy
from agenttrace.comparison.verdicts import decide, overall, upheld
from agenttrace.errors import InvalidPolicy, UnknownMetric
from tests.builders import NOON, SECOND, a_run
from tests.comparison.builders import changed_to, evidence, repetitions


def scored(rows: Sequence[Iterable[float]], **fields: Any) -> tuple[Repetition, ...]:
    """A row of repetitions a case."""
    return repetitions({f"q{number}": row for number, row in enumerate(rows)}, **fields)


def judged(
    before: tuple[Repetition, ...], after: tuple[Repetition, ...], policy: Policy | None = None, **fields: Any
) -> Comparison:
    return compare(
        evidence(name="before", repetitions=before, **fields),
        evidence(name="after", repetitions=after, **fields),
        policy=policy,
    )


def metric(result: Comparison, name: str = "correct") -> MetricComparison:
    [found] = [one for one in result.metrics if one.name == name]
    return found


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.01, 0.2, ("pass", "improved")),
        (-0.02, 0.03, ("pass", "equivalent")),
        (-0.02, 0.2, ("pass", None)),
        (-0.04, -0.01, ("pass", "measurably lower")),
        (-0.2, -0.1, ("regressed", "material")),
        (-0.2, -0.01, ("regressed", None)),
        (-0.2, 0.01, ("inconclusive", None)),
        (-0.05, 0.0, ("inconclusive", None)),
    ],
)
def test_the_decision_rule(low: float, high: float, expected: tuple[str, str | None]) -> None:
    """Non-inferiority with a margin of 0.05: each end of the interval answers one question."""
    assert decide(low, high, 0.05) == expected


def test_without_a_margin_only_an_improvement_passes() -> None:
    """Any loss counts where nobody said how much may be lost."""
    assert decide(-0.001, 0.1, None)[0] == "inconclusive"
    assert decide(0.001, 0.1, None)[0] == "pass"
    assert decide(-0.2, -0.1, None)[0] == "regressed"


def test_one_regression_of_several_is_one_too_many() -> None:
    """Pass needs all; regressed one; and no metric at all is no pass."""
    assert overall(["pass", "regressed"]) == "regressed"
    assert overall(["pass", "inconclusive"]) == "inconclusive"
    assert overall(["pass", "pass"]) == "pass"
    assert overall([]) == "inconclusive"


def test_holms_correction() -> None:
    """Of two p-values of 0.04 none stands at 0.05; of one it does. The other tool is statsmodels."""
    assert upheld([0.04], 0.05) == (True,)
    assert upheld([0.04, 0.04], 0.05) == (False, False)
    assert upheld([0.01, 0.04], 0.05) == (True, True)


def test_an_unchanged_suite_passes() -> None:
    """A hundred cases that always pass cannot have become worse by five points."""
    result = judged(scored([[1, 1]] * 100), scored([[1, 1]] * 100))
    found = metric(result)
    assert (result.verdict, result.exit_code, found.verdict, found.label) == ("pass", 0, "pass", "equivalent")
    assert found.low is not None
    assert found.high is not None
    assert -0.05 < found.low < 0 < found.high


def test_a_few_equal_cases_are_inconclusive() -> None:
    """All equal in five cases proves nothing, and what would prove something is told."""
    result = judged(scored([[1]] * 8), scored([[1]] * 8))
    found = metric(result)
    assert (result.verdict, result.exit_code) == ("inconclusive", 10)
    assert found.needed is not None
    assert found.needed.cases is not None
    enough = judged(scored([[1]] * (found.needed.cases + 5)), scored([[1]] * (found.needed.cases + 5)))
    assert enough.verdict == "pass"


def test_a_broken_candidate_regressed() -> None:
    """Everything fails: material, and exit code 1."""
    result = judged(scored([[1, 1, 1]] * 12), scored([[0, 0, 0]] * 12))
    assert (result.verdict, result.exit_code, metric(result).label) == ("regressed", 1, "material")
    assert metric(result).worse_cases == 12


@pytest.mark.parametrize("count", [1, 2, 4])
def test_too_few_cases_decide_nothing(count: int) -> None:
    """Whatever they show: one case has no variance, and four are below the minimum."""
    result = judged(scored([[1]] * count), scored([[0]] * count))
    assert result.verdict == "inconclusive"
    assert "at least 5 are asked for" in result.reasons[0]


def test_inconclusive_may_only_warn() -> None:
    """The verdict stays what it is; the exit code is the user's choice."""
    result = judged(scored([[1]] * 8), scored([[1]] * 8), Policy(on_inconclusive="warn"))
    assert (result.verdict, result.exit_code) == ("inconclusive", 0)


def test_a_run_compared_with_itself() -> None:
    """It differs by nothing, and says that it is the same run; few cases still prove nothing."""
    same = evidence(repetitions=scored([[1], [0], [1], [0], [1], [1]]))
    result = compare(same, same)
    assert result.verdict == "inconclusive"
    assert metric(result).delta == 0
    assert "Baseline and candidate are one and the same run." in result.notes


def test_a_score_without_ends_has_no_margin_of_its_own() -> None:
    """On a scale of 1 to 5 nobody but the user knows what a small loss is."""
    rng = Random(1)
    before = [[rng.choice([3, 4, 5]) for _ in range(3)] for _ in range(40)]
    after = [[rng.choice([3, 4, 5]) for _ in range(3)] for _ in range(40)]
    undeclared = metric(judged(scored(before), scored(after)))
    assert (undeclared.margin, undeclared.verdict) == (None, "inconclusive")
    declared = metric(judged(scored(before), scored(after), Policy(margins={"correct": 1})))
    assert (declared.margin, declared.verdict) == (1, "pass")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_no_evidence(value: float) -> None:
    """NaN and infinity make a run invalid, and the metric is named."""
    result = judged(scored([[1]] * 8), scored([[value]] * 8))
    assert (result.verdict, result.exit_code) == ("invalid", 12)
    assert "correct" in result.reasons[0]


def test_scores_of_mixed_type() -> None:
    """True, 1 and 0.5 are numbers of one score."""
    found = metric(judged(scored([[True, 0.5, 1]] * 60), scored([[1, 1, 0.5]] * 60)))
    assert (found.delta, found.verdict) == (0, "pass")


def test_unequal_repetitions() -> None:
    """A case weighs the same, however often it was tried; the fewest repetitions are told."""
    found = metric(judged(scored([[1, 0, 1, 1]] * 30), scored([[1], [0], [1, 1]] * 10)))
    assert (found.n, found.k_baseline, found.k_candidate) == (30, 4, 1)
    assert found.delta == pytest.approx(2 / 3 - 0.75)


def test_a_metric_that_no_run_has_is_a_mistake() -> None:
    """The nearest one is named."""
    with pytest.raises(UnknownMetric, match="Did you mean 'correct'"):
        judged(scored([[1]] * 8), scored([[1]] * 8), Policy(primary=("corect",)))


def test_a_metric_that_one_run_lacks_is_no_pass() -> None:
    """An evaluator that was lost cannot be shown to be no worse."""
    both = tuple(replace(one, scores={"correct": 1.0, "short": 1.0}) for one in scored([[1, 1]] * 100))
    result = judged(both, scored([[1, 1]] * 100))
    assert (result.verdict, metric(result).verdict) == ("inconclusive", "pass")
    assert "short was measured in one run only" in result.reasons[0]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Policy(alpha=0), "alpha is 0"),
        (Policy(margins={"correct": -1}), "the margin of correct is -1"),
        (Policy(min_cases=1), "min_cases is 1"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(policy: Policy, message: str) -> None:
    """Before anything is read."""
    with pytest.raises(InvalidPolicy, match=message):
        judged(scored([[1]] * 8), scored([[1]] * 8), policy)


def timed(seconds: float, **fields: Any) -> tuple[Repetition, ...]:
    """Forty cases, each a little slower than the one before."""
    return tuple(
        Repetition(
            case=f"q{n}", number=1, scores={"correct": 1.0}, metrics={"latency_s": seconds * (1 + n / 40)}, **fields
        )
        for n in range(40)
    )


def test_times_inform_and_are_told_as_shares() -> None:
    """A quarter slower in every case is measurable, and no verdict as long as nobody made it one."""
    result = judged(timed(1.0), timed(1.25))
    found = metric(result, "latency_s")
    assert (found.primary, found.effect, found.verdict) == (False, "relative", "regressed")
    assert found.margin == 0.2
    assert found.delta == pytest.approx(0.25)
    assert "latency_s" not in " ".join(result.reasons)


def test_times_gate_only_where_the_runs_took_turns() -> None:
    """What was measured on another day may be the day's doing."""
    policy = Policy(primary=("latency_s",))
    apart = judged(timed(1.0), timed(1.25), policy)
    assert (apart.verdict, metric(apart, "latency_s").reason) == ("inconclusive", NOT_INTERLEAVED)
    run = a_run(end_ns=NOON + 100 * SECOND, metadata={"evaluation": {"interleaved": True}})
    assert judged(timed(1.0), timed(1.25), policy, run=run).verdict == "regressed"
    assert judged(timed(1.0), timed(1.02), policy, run=run).verdict == "pass"


def test_counts_are_told_as_differences() -> None:
    """A count of zero has no logarithm."""
    before = tuple(
        Repetition(case=f"q{n}", number=1, scores={"correct": 1.0}, metrics={"tool_calls": float(n % 2)})
        for n in range(20)
    )
    found = metric(judged(before, before), "tool_calls")
    assert (found.effect, found.better, found.delta) == ("difference", "lower", 0)


def test_other_models_may_count_tokens_otherwise() -> None:
    """It is said where token counts of two models are compared."""
    run = tuple(
        Repetition(case=f"q{n}", number=1, scores={"correct": 1.0}, metrics={"output_tokens": 9.0}) for n in range(20)
    )
    result = compare(
        evidence(repetitions=run), evidence(changed_to(model__requested="m-2"), repetitions=run), ["model.requested"]
    )
    assert any("tokenizers" in note for note in result.notes)
    assert not any("tokenizers" in note for note in judged(run, run).notes)


def test_runs_without_scores_have_nothing_that_decides() -> None:
    """Means are shown, nothing is tested, and the reason says how to have it tested."""
    run = tuple(replace(one, scores={}) for one in timed(1.0))
    result = judged(run, run)
    assert (result.verdict, result.reasons) == ("inconclusive", (NO_SCORES,))
    assert metric(result, "latency_s").low is None


def with_outcomes(outcomes: Mapping[int, Outcome], rows: int = 60, value: float = 1.0) -> tuple[Repetition, ...]:
    return tuple(
        replace(one, outcome=outcomes[place], scores={}) if place in outcomes else one
        for place, one in enumerate(scored([[value, value]] * rows))
    )


def test_many_lost_attempts_make_a_run_invalid() -> None:
    """More than 2 % say nothing about the agent; fewer are allowed for."""
    lost: dict[int, Outcome] = dict.fromkeys(range(0, 8, 2), "infra_error")
    result = judged(with_outcomes({}), with_outcomes(lost))
    assert (result.verdict, result.exit_code) == ("invalid", 12)
    assert "4 × infra_error" in result.reasons[0]
    assert judged(with_outcomes({}, 200), with_outcomes({0: "infra_error"}, 200)).verdict == "pass"


def test_a_case_without_any_result_makes_a_run_invalid() -> None:
    """It is named; leaving it out would choose the cases."""
    result = judged(with_outcomes({}, rows=200), with_outcomes({0: "infra_error", 1: "infra_error"}, rows=200))
    assert result.verdict == "invalid"
    assert "q0" in result.reasons[0]


def test_what_is_missing_can_turn_a_verdict() -> None:
    """Allowed on request: then the worst and the best that could have been are looked at."""
    lost: dict[int, Outcome] = dict.fromkeys(range(0, 40, 2), "grader_error")
    result = judged(with_outcomes({}), with_outcomes(lost), Policy(allow_missing=True))
    assert result.verdict == "inconclusive"
    assert "Attempts without a result could turn it" in result.reasons[0]
    few = judged(with_outcomes({}, 200), with_outcomes({0: "grader_error"}, 200), Policy(allow_missing=True))
    assert few.verdict == "pass"


def test_failures_of_the_agent_score_zero_and_are_counted() -> None:
    """An attempt that raised is a failed attempt, not a missing one."""
    failed: dict[int, Outcome] = dict.fromkeys(range(60), "agent_error")
    result = judged(with_outcomes({}), with_outcomes(failed))
    assert result.verdict == "regressed"
    assert metric(result, "agent_failures").candidate == pytest.approx(0.5)


def test_alike_cases_count_once() -> None:
    """Cases of one source move together: fewer than ten sources are too few, and the interval is wider than without."""
    rng = Random(4)
    rows = [[float(rng.random() < 0.7)] for _ in range(60)]
    few = tuple(replace(one, cluster=f"doc-{int(one.case[1:]) % 6}") for one in scored(rows))
    result = judged(few, few)
    assert "The cases come from 6 sources" in result.reasons[0]
    changed = [[1 - row[0]] if number // 3 % 5 == 0 else row for number, row in enumerate(rows)]
    many = [
        tuple(replace(one, cluster=f"doc-{int(one.case[1:]) // 3}") for one in scored(side)) for side in (rows, changed)
    ]
    clustered, alone = metric(judged(many[0], many[1])), metric(judged(scored(rows), scored(changed)))
    assert clustered.clusters == 20
    assert width(clustered) > width(alone)


def width(found: MetricComparison) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low


def test_repetitions_that_are_copies_narrow_nothing() -> None:
    """Attempts are not pooled: the case is the unit."""
    rng = Random(2)
    before = [[float(rng.random() < 0.6) for _ in range(3)] for _ in range(30)]
    after = [[float(rng.random() < 0.6) for _ in range(3)] for _ in range(30)]
    once = metric(judged(scored(before), scored(after)))
    twice = metric(judged(scored([row * 2 for row in before]), scored([row * 2 for row in after])))
    assert width(twice) == pytest.approx(width(once))


a_case = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=3)

two_runs = st.integers(6, 12).flatmap(
    lambda n: st.tuples(*(st.lists(a_case, min_size=n, max_size=n) for _ in range(2)))
)


@settings(max_examples=12, deadline=None)
@given(two_runs, st.randoms(use_true_random=False))
def test_swapping_mirrors_and_order_is_irrelevant(
    rows: tuple[list[list[float]], list[list[float]]], rng: Random
) -> None:
    """The difference changes its sign, the interval its sides; and cases may come in any order."""
    before, after = scored(rows[0]), scored(rows[1])
    found, mirrored = metric(judged(before, after)), metric(judged(after, before))
    assert ends(found) == pytest.approx([-ends(mirrored)[0], -ends(mirrored)[2], -ends(mirrored)[1]])
    shuffled = list(after)
    rng.shuffle(shuffled)
    reordered = metric(judged(before, tuple(shuffled)))
    assert ends(reordered) == pytest.approx(ends(found))


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 1000))
def test_constants_cancel(constant: int) -> None:
    """Adding the same to every score of both runs changes nothing, on a scale without ends."""
    rng = Random(3)
    rows = [[[rng.choice([2.0, 3.0, 7.0]) for _ in range(2)] for _ in range(15)] for _ in range(2)]
    moved = [[[value + constant for value in row] for row in side] for side in rows]
    found = metric(judged(scored(rows[0]), scored(rows[1])))
    after = metric(judged(scored(moved[0]), scored(moved[1])))
    assert ends(after) == pytest.approx(ends(found))


def ends(found: MetricComparison) -> list[float]:
    """The difference, and both ends of its interval."""
    return [_number(found.delta), _number(found.low), _number(found.high)]


def _number(value: float | None) -> float:
    assert value is not None
    return value


def test_cases_flip_until_there_are_repetitions_enough() -> None:
    """With three repetitions no p-value is small enough; with five a case can be said to have regressed."""
    three = judged(scored([[1, 1, 1]] * 10), scored([[0, 0, 0]] + [[1, 1, 1]] * 9))
    [flag] = three.flags["q0"]
    assert flag.flag == "flipped"
    assert flag.smallest_p == pytest.approx(0.05)
    eight = judged(scored([[1] * 8] * 10), scored([[0] * 8] + [[1] * 8] * 9))
    [flag] = eight.flags["q0"]
    assert flag.flag == "regressed"
    assert flag.smallest_p == pytest.approx(1 / 12870)
    assert set(eight.flags) == {"q0"}


def test_passing_every_time_informs() -> None:
    """Shown beside the score with as many attempts as every case has, and part of no verdict."""
    result = judged(scored([[1, 1, 0]] * 30), scored([[1, 1, 1]] * 30))
    found = metric(result, "correct pass^3")
    assert (found.baseline, found.candidate, found.primary) == (0, 1, False)
    assert metric(result, "correct pass@3").delta == 0


def test_the_price_of_certainty() -> None:
    """From what recorded attempts cost: cases and repetitions, tokens, money and time."""
    rng = Random(5)

    def run(seed: int) -> tuple[Repetition, ...]:
        return tuple(
            replace(one, metrics={"cost_usd": 0.01, "input_tokens": 900.0, "output_tokens": 100.0, "latency_s": 2.0})
            for one in scored([[float(rng.random() < 0.7) for _ in range(3)] for _ in range(20)])
        )

    found = metric(judged(run(1), run(2)))
    assert found.verdict == "inconclusive"
    needed = found.needed
    assert needed is not None
    assert needed.cases is not None
    assert needed.cases > 20
    assert needed.cost_usd == pytest.approx(0.01 * needed.attempts)
    assert needed.tokens == 1000 * needed.attempts
    assert needed.seconds == pytest.approx(2 * needed.attempts)


def test_tails_and_totals() -> None:
    """Quantiles only where attempts lie beyond them; the total is a ratio of sums."""
    rng = Random(6)

    def run(factor: float) -> tuple[Repetition, ...]:
        return tuple(
            Repetition(
                case=f"q{case}", number=number, scores={"correct": 1.0},
                metrics={"latency_s": factor * rng.lognormvariate(0, 0.5), "output_tokens": factor * 100},
            )
            for case in range(60) for number in range(3)
        )  # fmt: skip

    result = judged(run(1.0), run(1.5))
    names = [one.name for one in result.metrics]
    assert "latency_s p90" in names
    assert "latency_s p99" not in names
    slower = metric(result, "latency_s p50")
    assert (slower.verdict, slower.primary) == ("regressed", False)
    assert _number(slower.low) < 0.5 < _number(slower.high)
    assert metric(result, "output_tokens total").delta == pytest.approx(0.5)


def test_evidence_without_a_case() -> None:
    """Nothing paired is no pass."""
    empty: RunEvidence = evidence(repetitions=())
    assert compare(empty, empty).verdict == "inconclusive"
