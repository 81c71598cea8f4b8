"""The gate lets two runs pass when nothing differs but what was declared, and otherwise says everything that does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agenttrace.comparison.gate import GateResult, gate
from agenttrace.comparison.recorded_suite import RecordedSuite
from agenttrace.errors import NoModelCalls, UndeclarableDimension, UnknownCallSite, UnknownDimension
from agenttrace.records import CaptureCounters
from agenttrace.settings.contract import Contract
from tests.comparison.builders import UNTOLD, a_contract, changed_to, evidence, repetitions, sites

CASES = tuple(f"q{number}" for number in range(6))


def passed(baseline: Contract, candidate: Contract, *changed: str, strict: bool = False) -> GateResult:
    return gate(evidence(baseline, name="before"), evidence(candidate, name="after"), changed, strict=strict)


def differing(result: GateResult) -> list[tuple[str, str | None, Any, Any]]:
    return [(d.dimension, d.call_site, d.baseline.value, d.candidate.value) for d in result.differences]


def test_equal_settings_pass() -> None:
    """Two runs of one agent are comparable, and everything is verified."""
    result = passed(a_contract(), a_contract())
    assert (result.verdict, result.differences, result.unverified, result.confounded) == ("comparable", (), (), False)


def test_an_undeclared_difference_is_refused() -> None:
    """The refusal has the dimension, the call site, both values, and the flag that declares it."""
    result = passed(a_contract(), changed_to(sampling__temperature=0.7))
    assert result.verdict == "not_comparable"
    [difference] = result.blocking
    assert (difference.dimension, difference.call_site) == ("sampling.temperature", "planner")
    assert (difference.baseline.value, difference.candidate.value) == (0.0, 0.7)
    assert (difference.quality, difference.flag) == ("blocks", "--changed sampling.temperature")


def test_all_differences_are_listed() -> None:
    """Not the first one: all, at every call site, the gravest first."""
    change = {"sampling.temperature": 0.7, "prompt.content": "Other.", "delivery.streamed": True}
    result = passed(
        sites(a_contract(), a_contract(site="writer")),
        sites(a_contract(change), a_contract({"tools.choice": "any"}, site="writer")),
    )
    assert {(d.dimension, d.call_site, d.quality) for d in result.differences} == {
        ("sampling.temperature", "planner", "blocks"),
        ("prompt.content", "planner", "blocks"),
        ("delivery.streamed", "planner", "warns"),
        ("tools.choice", "writer", "warns"),
    }
    assert [d.quality for d in result.differences] == ["blocks", "blocks", "warns", "warns"]


def test_a_declared_difference_passes() -> None:
    """What was declared is the treatment; it stays in the list, marked."""
    result = passed(a_contract(), changed_to(sampling__temperature=0.7), "sampling.temperature")
    assert (result.verdict, result.confounded, result.changed) == ("comparable", False, ("sampling.temperature",))
    assert [difference.dimension for difference in result.treatments] == ["sampling.temperature"]


@pytest.mark.parametrize("declared", ["sampling", "sampling.temperature:planner", "sampling:planner"])
def test_a_group_or_a_call_site_declares_too(declared: str) -> None:
    """A dimension is declared by its name, by its group, and for one call site alone."""
    assert passed(a_contract(), changed_to(sampling__temperature=0.7), declared).verdict == "comparable"


def test_a_declaration_for_one_call_site_leaves_the_others() -> None:
    """A change that was declared for the planner is refused where it is found in the writer."""
    hot = {"sampling.temperature": 0.7}
    both = sites(a_contract(hot), a_contract(hot, site="writer"))
    result = passed(sites(a_contract(), a_contract(site="writer")), both, "sampling:planner")
    assert [(item.dimension, item.call_site) for item in result.blocking] == [("sampling.temperature", "writer")]


def test_declared_and_absent_is_refused() -> None:
    """An experiment whose change never took effect tested nothing."""
    result = passed(a_contract(), a_contract(), "prompt")
    assert result.verdict == "not_comparable"
    assert result.reasons == ("The declared change did not take effect: prompt does not differ between the runs.",)


def test_one_of_two_declarations_absent_is_refused() -> None:
    """Each declaration has to take effect."""
    result = passed(a_contract(), changed_to(sampling__temperature=0.7), "sampling", "tools")
    assert result.verdict == "not_comparable"
    assert "tools does not differ" in result.reasons[0]


def test_two_declared_changes_are_confounded() -> None:
    """Two changes at once pass, and neither can be called the cause."""
    hot = changed_to(sampling__temperature=0.7, prompt__content="Other.")
    result = passed(a_contract(), hot, "sampling.temperature", "prompt.content")
    assert (result.verdict, result.confounded) == ("comparable", True)


@pytest.mark.parametrize(
    "declared",
    [
        ("prompt.content", "prompt.label"),
        ("prompt",),
        ("prompt", "prompt"),
    ],
)
def test_a_prompt_and_its_label_are_one_change(declared: tuple[str, ...]) -> None:
    """A new prompt has a new label: that is one treatment."""
    before = changed_to(prompt__content="Old.", prompt__label="v1")
    result = passed(before, changed_to(prompt__content="New.", prompt__label="v2"), *declared)
    assert (result.verdict, result.confounded) == ("comparable", False)


def test_a_label_that_names_two_prompts_is_refused() -> None:
    """The same label with another content is a difference of its own, even where the content was declared."""
    before = changed_to(prompt__content="Old.", prompt__label="v1")
    after = changed_to(prompt__content="New.", prompt__label="v1")
    result = passed(before, after, "prompt.content")
    [difference] = result.blocking
    assert difference.dimension == "prompt.label"
    assert "a label of its own" in str(difference.note)
    assert passed(before, after, "prompt").verdict == "comparable"


def test_unset_is_not_a_default() -> None:
    """An explicit value and none differ, whatever the provider's default is today."""
    result = passed(a_contract(), changed_to(sampling__top_p=1.0))
    assert differing(result) == [("sampling.top_p", "planner", None, 1.0)]
    assert result.differences[0].baseline.state == "unset"


def test_the_served_model_decides() -> None:
    """Where both responses say who answered, an alias that was asked for by another name only informs."""
    alias = changed_to(model__requested="gpt-5-mini-latest")
    result = passed(a_contract(), alias)
    assert result.verdict == "comparable"
    assert [(item.dimension, item.quality) for item in result.differences] == [("model.requested", "informs")]
    assert result.unverified == ()


def test_the_same_alias_served_by_another_model_is_refused() -> None:
    """A model that drifted behind its alias is another model."""
    result = passed(a_contract(), changed_to(model__served="gpt-5-mini-2026-11-01"))
    assert [item.dimension for item in result.blocking] == ["model.served"]


@pytest.mark.parametrize("unknown_in", ["both", "candidate"])
def test_without_a_served_model_the_requested_one_decides(unknown_in: str) -> None:
    """Then the verdict is unverified, since an alias may be served by anything."""
    before = changed_to(model__served=UNTOLD) if unknown_in == "both" else a_contract()
    result = passed(before, changed_to(model__served=UNTOLD))
    assert (result.verdict, [item.dimension for item in result.unverified]) == ("comparable", ["model.served"])
    other = passed(before, changed_to(model__served=UNTOLD, model__requested="gpt-5"))
    assert [item.dimension for item in other.blocking] == ["model.requested"]


@pytest.mark.parametrize("declared", ["model", "model.requested", "model.served"])
def test_an_upgrade_is_declared_once(declared: str) -> None:
    """Asking for another model and being served one is a single change, whichever of its names is declared."""
    newer = changed_to(model__requested="gpt-5", model__served="gpt-5-2026-08-07")
    result = passed(a_contract(), newer, declared)
    assert (result.verdict, result.confounded) == ("comparable", False)
    blind = changed_to(model__requested="gpt-5", model__served=UNTOLD)
    assert passed(changed_to(model__served=UNTOLD), blind, declared).verdict == "comparable"


def test_an_upgrade_that_never_arrived_is_refused() -> None:
    """Another model was asked for and the old one answered: what was declared served is the same."""
    result = passed(a_contract(), changed_to(model__requested="gpt-5"), "model.served")
    assert "did not take effect" in result.reasons[0]


def test_unknown_in_both_is_unverified() -> None:
    """What decides about quality and is told by neither run cannot be called equal."""
    result = passed(changed_to(sampling__top_p=UNTOLD), changed_to(sampling__top_p=UNTOLD))
    assert result.verdict == "comparable"
    assert [(item.dimension, item.call_site) for item in result.unverified] == [("sampling.top_p", "planner")]


def test_strict_refuses_what_is_unverified() -> None:
    """With --strict an unconfirmed match is no match."""
    unknown = changed_to(sampling__top_p=UNTOLD)
    assert passed(unknown, unknown, strict=True).verdict == "not_comparable"
    assert passed(a_contract(), a_contract(), strict=True).verdict == "comparable"


@pytest.mark.parametrize(
    ("dimension", "severity"),
    [("sampling.top_p", "blocks"), ("prompt.content", "blocks"), ("provider", "warns"), ("delivery.streamed", "warns")],
)
def test_unknown_on_one_side(dimension: str, severity: str) -> None:
    """What one run tells and the other does not is a difference, as grave as the table says."""
    result = passed(a_contract(), a_contract({dimension: UNTOLD}))
    [difference] = result.differences
    assert (difference.dimension, difference.quality, difference.candidate.state) == (dimension, severity, "unknown")


def test_a_gap_is_unverified() -> None:
    """A setting that some calls do not tell is the same only as far as is known."""
    gappy = a_contract({}, {"sampling.top_p": UNTOLD}, {})
    result = passed(a_contract({}, {}, {}), gappy)
    assert result.verdict == "comparable"
    assert [item.why for item in result.unverified] == ["not told by 1 call of the candidate"]


def test_a_rendered_prompt_is_never_a_difference() -> None:
    """A prompt with the input in it is unverified on either side, and declaring it is believed."""
    rendered = a_contract(*({"prompt.content": f"Answer {case}"} for case in CASES), cases=CASES)
    for before, after in ((rendered, rendered), (a_contract(), rendered), (rendered, a_contract())):
        result = passed(before, after)
        assert result.verdict == "comparable"
        assert "rendered with the input" in result.unverified[0].why
    declared = passed(rendered, rendered, "prompt.content")
    assert declared.verdict == "comparable"
    assert any("took effect" in item.why for item in declared.unverified)


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [([1], [1], True), ([1], [2], True), ([None], [7], False), ([1], [1, 2, 3], False), ([1, 2, 3], [4, 5, 6], True)],
)
def test_seeds_are_compared_by_policy(before: list[int | None], after: list[int | None], is_same: bool) -> None:
    """Fixed, varied and none are three policies; which number it was decides nothing."""
    seeds = [a_contract(*({"sampling.seed": seed} for seed in given)) for given in (before, after)]
    assert (passed(seeds[0], seeds[1]).verdict == "comparable") is is_same


def test_a_setting_that_changes_within_a_run_is_refused_with_its_cases() -> None:
    """A drift in the middle of a run is named with the affected cases, and no flag declares it."""
    drifted = a_contract(*({"model.served": "old" if n < 4 else "new"} for n in range(6)), cases=CASES)
    steady = a_contract(*({"model.served": "old"} for _ in CASES), cases=CASES)
    result = passed(steady, drifted)
    [difference] = result.blocking
    assert (difference.candidate.state, difference.flag) == ("changes", None)
    assert difference.candidate.observed[1].cases == ("q4", "q5")
    assert difference.note == "changed while the candidate went on"
    assert passed(steady, drifted, "model.served").verdict == "not_comparable"


def test_a_setting_that_varies_alike_in_both_passes() -> None:
    """A loop with two temperatures is the agent's own code: the same values in both runs are the same."""
    varied = a_contract(*({"sampling.temperature": n % 2} for n in range(6)), cases=CASES)
    result = passed(varied, varied)
    assert (result.verdict, result.differences) == ("comparable", ())
    assert "has 2 values in each run" in result.notes[0]


def test_other_values_within_a_run_are_a_difference() -> None:
    """A fallback that only the candidate fell back to is refused with all values."""
    varied = a_contract(*({"model.served": f"m{n % 2}"} for n in range(6)))
    result = passed(a_contract({"model.served": "m0"}), varied)
    assert differing(result) == [("model.served", "planner", "m0", ["m0", "m1"])]
    assert passed(a_contract({"model.served": "m0"}), varied, "model.served").verdict == "comparable"


@pytest.mark.parametrize("dimension", ["delivery.streamed", "endpoint", "service_tier", "engine", "load"])
def test_what_only_changes_times_leaves_scores_comparable(dimension: str) -> None:
    """Such a difference warns for quality and forbids comparing times, unless it is declared."""
    result = passed(a_contract({dimension: "one"}), a_contract({dimension: "two"}))
    assert (result.verdict, [item.dimension for item in result.blocking_cost]) == ("comparable", [dimension])
    declared = passed(a_contract({dimension: "one"}), a_contract({dimension: "two"}), dimension)
    assert (declared.verdict, declared.blocking_cost) == ("comparable", ())


def test_a_fingerprint_only_informs() -> None:
    """It moves by itself."""
    result = passed(a_contract({"model.fingerprint": "a"}), a_contract({"model.fingerprint": "b"}))
    assert (result.verdict, [item.quality for item in result.differences]) == ("comparable", ["informs"])


def test_runs_of_different_agents() -> None:
    """Runs that call models at entirely different places are not two versions of one agent."""
    result = passed(a_contract(site="planner"), a_contract(site="router"))
    assert result.verdict == "not_comparable"
    assert "different agents" in result.reasons[0]
    assert "baseline: planner; candidate: router" in result.reasons[0]


def test_a_call_site_of_one_run_alone_is_unverified() -> None:
    """A new step has no counterpart: its settings cannot be called the same."""
    result = passed(a_contract(), sites(a_contract(), a_contract(site="critic")))
    assert result.verdict == "comparable"
    assert [(item.dimension, item.call_site) for item in result.unverified] == [(None, "critic")]


def test_an_unknown_call_site_names_the_nearest() -> None:
    """A misspelt call site is an error of the command line, not a change that did not take effect."""
    with pytest.raises(UnknownCallSite, match="Did you mean 'planner'") as caught:
        passed(a_contract(), a_contract(), "prompt:plannr")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("changed", "error"), [("sampling.temprature", UnknownDimension), ("data.cases", UndeclarableDimension)]
)
def test_a_wrong_declaration_is_an_error(changed: str, error: type[Exception]) -> None:
    """Also where the runs could not be compared anyway."""
    with pytest.raises(error):
        gate(evidence(is_unfinished=True), evidence(), [changed])


def test_no_common_case() -> None:
    """Runs over different cases have nothing to pair."""
    result = gate(evidence(), evidence(repetitions=repetitions({"r1": [1.0]})))
    assert result.verdict == "not_comparable"
    assert any("no case in common (baseline: q1, q2; candidate: r1)" in reason for reason in result.reasons)


def test_other_cases_are_another_measurement() -> None:
    """A case that only one run has is named, and cannot be declared."""
    result = gate(evidence(), evidence(repetitions=repetitions({"q1": [1.0], "q2": [1.0], "q3": [0.0]})))
    [difference] = result.blocking
    assert (difference.dimension, difference.flag) == ("data.cases", None)
    assert (difference.baseline.value, difference.candidate.value) == ([], ["q3"])


def test_no_cases_on_one_side() -> None:
    """Where only one run names its cases, nothing can be paired."""
    result = gate(evidence(), evidence(repetitions=()))
    assert [item.dimension for item in result.blocking] == ["data.cases"]
    assert gate(evidence(repetitions=()), evidence(repetitions=())).verdict == "comparable"


@pytest.mark.parametrize("counts", [{"capture_errors": 1}, {"dropped": 3}])
@pytest.mark.parametrize("side", [0, 1])
def test_capture_errors_make_a_run_invalid(counts: dict[str, int], side: int) -> None:
    """What was not recorded whole cannot be judged, whichever side it is."""
    runs = [evidence(), evidence()]
    runs[side] = replace(runs[side], counters=CaptureCounters(process="p", last_error="ValueError: x", **counts))
    result = gate(runs[0], runs[1])
    assert result.verdict == "invalid"
    assert "was not recorded whole" in result.reasons[0]
    assert "ValueError: x" in result.reasons[0]


def test_counted_and_nothing_lost_is_fine() -> None:
    """All zero is the good case."""
    counted = evidence(counters=CaptureCounters(process="p"))
    assert gate(counted, counted).verdict == "comparable"


def test_an_unfinished_run_is_invalid() -> None:
    """Every fault of both runs is told, before anything else."""
    result = gate(evidence(is_unfinished=True), evidence(changed_to(model__served="x"), is_unfinished=True))
    assert (result.verdict, len(result.reasons)) == ("invalid", 2)
    assert "is unfinished" in result.reasons[0]


def test_a_run_without_model_calls_is_an_error() -> None:
    """It is named, and the exit code is that of an invalid run."""
    with pytest.raises(
        NoModelCalls, match=r"the candidate nightly \(nightly1\) holds no finished model call"
    ) as caught:
        gate(evidence(), evidence(Contract(), repetitions=()))
    assert caught.value.exit_code == 12


def test_an_incomplete_evaluation_is_invalid() -> None:
    """A run of a suite that lacks results is no whole measurement, and says how many."""
    suite = RecordedSuite(name="qa", cases=("a", "b"), repetitions=1, settings={"data.cases": {"a": "1", "b": "2"}})
    half = replace(evidence(), suite=suite, repetitions=repetitions({"a": [1.0]}))
    result = gate(evidence(), half)
    assert result.verdict == "invalid"
    assert "1 of 2 attempts have no result" in result.reasons[0]
