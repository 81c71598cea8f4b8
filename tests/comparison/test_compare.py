"""A comparison has numbers only where the gate let them pass, and says honestly what they are worth."""

from __future__ import annotations

from dataclasses import replace

import orjson

from agenttrace.comparison.as_json import comparison_json
from agenttrace.comparison.compare import NO_CASES, compare
from agenttrace.comparison.evidence import Repetition
from agenttrace.comparison.outcome import Comparison
from agenttrace.comparison.verdicts import EXIT_CODES
from agenttrace.settings.contract import Contract
from tests.comparison.builders import UNTOLD, a_contract, changed_to, evidence

MEASURED = (
    Repetition(case="q1", number=1, scores={"correct": 1.0}, metrics={"latency_s": 1.0, "output_tokens": 10.0}),
    Repetition(case="q2", number=1, scores={"correct": 0.0}, metrics={"latency_s": 3.0, "output_tokens": 30.0}),
)
TIMED = tuple(replace(repetition, scores={}) for repetition in MEASURED)


def compared(
    candidate: Contract, *changed: str, measured: tuple[Repetition, ...] = MEASURED, strict: bool = False
) -> Comparison:
    return compare(
        evidence(a_contract(), name="before", repetitions=measured),
        evidence(candidate, name="after", repetitions=measured),
        changed,
        strict=strict,
    )


def test_a_refused_comparison_has_no_numbers() -> None:
    """The gate comes before the numbers."""
    result = compared(changed_to(sampling__temperature=0.7))
    assert (result.verdict, result.metrics, result.cases) == ("not_comparable", (), ())
    assert result.reasons == ("1 setting differs: sampling.temperature.",)


def test_an_allowed_comparison_is_judged() -> None:
    """What was declared does not stand against it; two cases decide nothing, and the reason is said."""
    result = compared(changed_to(sampling__temperature=0.7), "sampling.temperature")
    assert result.verdict == "inconclusive"
    assert "2 paired cases" in result.reasons[0]
    assert {metric.verdict for metric in result.metrics} == {"inconclusive"}
    assert [(metric.name, metric.margin) for metric in result.metrics if metric.primary] == [("correct", 0.05)]


def test_times_are_not_comparable_where_delivery_differs() -> None:
    """A streamed run is as good as one that is not, and not as fast: scores stay, times and tokens do not."""
    result = compared(changed_to(delivery__streamed=True))
    assert {metric.name: (metric.verdict, metric.delta) for metric in result.metrics} == {
        "correct": ("inconclusive", 0.0),
        "latency_s": ("not_comparable", None),
        "output_tokens": ("not_comparable", None),
    }
    assert result.verdict == "inconclusive"
    assert result.reasons[0] == "Times and tokens are not comparable, since these differ: delivery.streamed."


def test_nothing_but_times_and_they_are_not_comparable() -> None:
    """Where nothing is left to compare the runs are not comparable, until the difference is declared."""
    result = compared(changed_to(delivery__streamed=True), measured=TIMED)
    assert result.verdict == "not_comparable"
    assert "and nothing else was measured" in result.reasons[0]
    declared = compared(changed_to(delivery__streamed=True), "delivery.streamed", measured=TIMED)
    assert (declared.verdict, [metric.delta for metric in declared.metrics]) == ("inconclusive", [0.0, 0.0])


def test_runs_without_cases_say_what_to_do() -> None:
    """Their settings are compared, and the reason says how to name cases."""
    result = compared(a_contract(), measured=())
    assert (result.verdict, result.reasons) == ("inconclusive", (NO_CASES,))


def test_a_run_compared_with_itself_says_so() -> None:
    """Two names of one run are easily meant to be two runs."""
    same = evidence(repetitions=MEASURED)
    assert "Baseline and candidate are one and the same run." in compare(same, same).notes


def test_strict_turns_unverified_into_a_refusal() -> None:
    """The reason says which option refused."""
    assert compared(changed_to(model__served=UNTOLD)).verdict == "inconclusive"
    result = compared(changed_to(model__served=UNTOLD), strict=True)
    assert result.verdict == "not_comparable"
    assert result.reasons[0].startswith("--strict")
    assert compared(a_contract(), strict=True).verdict == "inconclusive"


def test_every_verdict_has_its_exit_code() -> None:
    """The codes are those of the design."""
    assert EXIT_CODES == {"pass": 0, "regressed": 1, "inconclusive": 10, "not_comparable": 11, "invalid": 12}


def test_json_has_the_designs_shape() -> None:
    """The keys that the design promises are there, in a refusal and in a comparison."""
    refused = comparison_json(compared(changed_to(sampling__temperature=0.7)))
    allowed = comparison_json(compared(changed_to(sampling__temperature=0.7), "sampling"))
    promised = {"verdict", "unverified", "confounded", "changed", "differences", "metrics", "cases", "reasons"}
    assert promised <= refused.keys()
    assert refused.keys() == allowed.keys()
    assert {"dimension", "call_site", "baseline", "candidate", "severity", "flag"} <= refused["differences"][0].keys()
    assert {
        "name", "n", "k_baseline", "k_candidate", "baseline", "candidate", "delta", "low", "high", "margin", "verdict",
    } <= allowed["metrics"][0].keys()  # fmt: skip
    assert (refused["unverified"], refused["changed"], allowed["changed"]) == (False, [], ["sampling"])
    assert [difference["declared"] for difference in allowed["differences"]] == [True]
    assert orjson.loads(orjson.dumps(allowed)) == allowed


def test_json_tells_unknown_from_unset() -> None:
    """Both are null; the state beside it says which."""
    differences = comparison_json(compared(changed_to(sampling__top_p=0.5)))["differences"]
    assert [(d["baseline"], d["baseline_state"], d["candidate_state"]) for d in differences] == [(None, "unset", "set")]


def test_json_has_the_values_of_a_setting_that_varied() -> None:
    """Several values come with their counts and cases."""
    varied = a_contract({"model.served": "a"}, {"model.served": "b"}, {"model.served": "a"}, cases=("q1", "q2", "q3"))
    [difference] = comparison_json(compared(varied))["differences"]
    assert difference["candidate"] == ["a", "b"]
    assert difference["candidate_values"][1] == {
        "value": "b", "count": 1, "first_case": "q2", "last_case": "q2", "cases": ["q2"],
    }  # fmt: skip


def test_json_has_each_case() -> None:
    """Scores and measurements of each case, paired."""
    [first, _] = comparison_json(compared(a_contract()))["cases"]
    assert first["case"] == "q1"
    assert first["scores"] == {"correct": {"baseline": 1.0, "candidate": 1.0, "delta": 0.0}}
    assert first["metrics"]["latency_s"] == {"baseline": 1.0, "candidate": 1.0, "delta": 0.0}
