"""What held for the runs as a whole goes through the gate too: cases, evaluators, code, load; and a project's own severities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agenttrace.comparison.evidence import RunEvidence
from agenttrace.comparison.gate import gate
from agenttrace.comparison.recorded_suite import RecordedSuite
from agenttrace.settings.contract import fold_calls
from tests.comparison.builders import a_call, a_contract, changed_to, evidence


def of_run(**values: Any) -> RunEvidence:
    """A run with values for the run as a whole; dots in dimensions are written as two underscores."""
    named = {name.replace("__", "."): value for name, value in values.items()}
    return evidence(fold_calls([a_call(1)], named))


def test_an_evaluator_whose_code_changed_forbids_comparing() -> None:
    """Another judge measures itself; it cannot be declared, and what to do instead is told."""
    result = gate(
        of_run(evaluator__code={"exact": "1", "old": "1"}), of_run(evaluator__code={"exact": "2", "new": "1"})
    )
    [difference] = result.blocking
    assert (difference.dimension, difference.call_site, difference.flag) == ("evaluator.code", None, None)
    assert (difference.baseline.value, difference.candidate.value) == ({"exact": "1"}, {"exact": "2"})


def test_evaluators_that_one_run_has_forbid_nothing() -> None:
    """Their scores have no counterpart, so nothing is compared that they measure."""
    result = gate(of_run(evaluator__code={"exact": "1"}), of_run(evaluator__code={"exact": "1", "new": "1"}))
    assert result.verdict == "comparable"


def test_an_expectation_that_changed_forbids_comparing() -> None:
    """The same answer would be right in one run and wrong in the other."""
    result = gate(of_run(data__expected={"q1": "a", "q2": "b"}), of_run(data__expected={"q1": "a", "q2": "c"}))
    assert [item.dimension for item in result.blocking] == ["data.expected"]


def test_an_input_that_changed_under_its_name_forbids_comparing() -> None:
    """The case's name is the same and the case is another one; it is named."""
    suites = [
        RecordedSuite(name="qa", cases=("q1", "q2"), repetitions=1, settings={"data.cases": {"q1": "1", "q2": two}})
        for two in ("2", "3")
    ]
    before, after = (replace(evidence(), suite=suite) for suite in suites)
    result = gate(before, after)
    [difference] = result.blocking
    assert (difference.dimension, difference.note) == ("data.cases", "another input under the same name: q2")


def test_code_that_changed_is_told_and_forbids_nothing() -> None:
    """What is under test may change: commit and packages inform, and may be declared."""
    before, after = of_run(code__packages={"openai": "1"}), of_run(code__packages={"openai": "2"})
    assert [(item.quality, item.is_declared) for item in gate(before, after).differences] == [("informs", False)]
    assert gate(before, after, ["code.packages"]).treatments
    assert gate(before, before, ["code.packages"]).reasons == (
        "The declared change did not take effect: code.packages does not differ between the runs.",
    )


def test_concurrency_forbids_comparing_times() -> None:
    """Under another load the same server takes another time; answers are the same."""
    result = gate(of_run(load={"concurrency": 1}), of_run(load={"concurrency": 8}))
    assert [item.dimension for item in result.blocking_cost] == ["load"]
    assert result.verdict == "comparable"


def test_a_project_weighs_differences_its_own_way() -> None:
    """`[tool.agenttrace.severity]` may forbid what only informs, and allow what blocks."""
    before, after = of_run(code__packages={"openai": "1"}), of_run(code__packages={"openai": "2"})
    assert gate(before, after, severity={"code.packages": "blocks"}).verdict == "not_comparable"
    warm = evidence(changed_to(sampling__temperature=1.0))
    assert gate(evidence(), warm).verdict == "not_comparable"
    result = gate(evidence(), warm, severity={"sampling.temperature": "warns"})
    assert (result.verdict, [item.quality for item in result.differences]) == ("comparable", ["warns"])


def test_weighing_leaves_what_informs_for_a_reason_of_its_own() -> None:
    """Other seeds under the same policy inform, whatever a project says of the policy."""
    before, after = (evidence(a_contract({"sampling.seed": seed})) for seed in (1, 2))
    assert [item.quality for item in gate(before, after, severity={"sampling.seed": "blocks"}).differences] == [
        "informs"
    ]
