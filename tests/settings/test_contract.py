"""A contract says of each dimension at each call site what was seen, and never more than that."""

from __future__ import annotations

from typing import Any

import pytest

from agenttrace.records import SettingValue, SpanRecord
from agenttrace.settings.canonical import canonical
from agenttrace.settings.contract import Contract, SiteSetting, contract_json, fold
from tests.builders import NOON, SECOND, a_model_call, a_span


def setting(value: Any, voice: Any = "requested", source: str = "invocation_params") -> SettingValue:
    return SettingValue(value=value, voice=voice, source=source)


def a_trace(number: int, *calls: dict[str, Any], case: str | None = None, site: str = "planner") -> list[SpanRecord]:
    """A root, and a model call for each of `calls`, which are its settings by dimension."""
    trace_id, start = f"{number:032x}", NOON + number * 100 * SECOND
    root = a_span(
        number * 100, trace_id=trace_id, start_ns=start, end_ns=start, metadata={} if case is None else {"case": case}
    )
    return [
        root,
        *(
            a_model_call(
                number * 100 + place,
                trace_id=trace_id,
                parent_id=root.span_id,
                start_ns=start + place * SECOND,
                end_ns=start + (place + 1) * SECOND,
                call_site=site,
                settings={name: setting(value) for name, value in settings.items()},
            )
            for place, settings in enumerate(calls, 1)
        ),
    ]


def folded(*traces: list[SpanRecord]) -> Contract:
    return fold([span for trace in traces for span in trace])


def of(contract: Contract, dimension: str, site: str = "planner") -> SiteSetting:
    return contract.sites[site].get(dimension)


def values(found: SiteSetting) -> list[tuple[Any, int]]:
    return [(seen.value, seen.count) for seen in found.observed]


def test_values_are_counted_by_call_site() -> None:
    """The same dimension at two call sites is two settings."""
    contract = folded(
        a_trace(1, {"sampling.temperature": 0.0}, {"sampling.temperature": 0.0}),
        a_trace(2, {"sampling.temperature": 0.7}, site="writer"),
    )
    assert values(of(contract, "sampling.temperature")) == [(0.0, 2)]
    assert values(of(contract, "sampling.temperature", "writer")) == [(0.7, 1)]
    assert (contract.calls, contract.sites["planner"].calls) == (3, 2)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (0.1, 0.1, True),
        (1e16, 10**16, True),
        (True, 1, False),
        (False, 0, False),
        (None, False, False),
        ("1", 1, False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ({"a": [1.0, True]}, {"a": [1, 1]}, False),
        (["a", "b"], ["b", "a"], False),
        ("a\r\nb", "a\nb", False),
        ("é", "e\u0301", False),
    ],
)
def test_values_are_equal_as_json(one: Any, other: Any, is_same: bool) -> None:
    """Numbers are equal by value and never to true; objects by their keys, lists in their order, texts exactly."""
    assert (canonical(one) == canonical(other)) is is_same
    contract = folded(a_trace(1, {"x": one}), a_trace(2, {"x": other}))
    assert (len(of(contract, "x").observed) == 1) is is_same


def test_long_values_are_equal_as_json_too() -> None:
    """A long structure is told from another one by every part of it."""
    long = {f"tool{number}": {"type": "object", "minimum": 1} for number in range(50)}
    same = {name: {"minimum": 1.0, "type": "object"} for name in reversed(long)}
    other = {**long, "tool49": {"type": "object", "minimum": True}}
    contract = folded(a_trace(1, {"x": long}), a_trace(2, {"x": same}), a_trace(3, {"x": other}))
    assert [seen.count for seen in of(contract, "x").observed] == [2, 1]


def test_unset_is_a_value_and_unknown_is_none() -> None:
    """None is known to be unset; a dimension that no call tells is unknown."""
    contract = folded(a_trace(1, {"sampling.top_p": None}))
    assert values(of(contract, "sampling.top_p")) == [(None, 1)]
    assert of(contract, "sampling.seed").is_unknown


def test_calls_that_do_not_tell_are_counted() -> None:
    """A dimension that some calls tell and others do not is known with a gap."""
    contract = folded(a_trace(1, {"x": 1}), a_trace(2, {}), a_trace(3, {"x": 1}))
    assert (values(of(contract, "x")), of(contract, "x").unknown_calls) == ([(1, 2)], 1)


def test_a_failed_call_leaves_no_gap() -> None:
    """What would have answered cannot be told by a call that was not answered."""
    told, failed = a_trace(1, {"model.served": "m"}), a_trace(2, {})
    failed[1] = a_model_call(201, trace_id=failed[0].trace_id, state="error", call_site="planner", start_ns=NOON)
    assert of(folded(told, failed), "model.served").unknown_calls == 0


def test_voices_sources_and_cases_are_kept() -> None:
    """A value says who told it, where it was read, and in which cases it was seen first and last."""
    spans = [*a_trace(1, {}, case="q1"), *a_trace(2, {}, case="q2")]
    told = [setting("m", "sent", "wire"), setting("m", "requested", "metadata")]
    for place, value in zip((1, 3), told, strict=True):
        spans[place] = a_model_call(
            place, trace_id=spans[place].trace_id, start_ns=spans[place].start_ns, call_site="planner",
            settings={"model.requested": value},
        )  # fmt: skip
    [seen] = of(fold(spans), "model.requested").observed
    assert (seen.voices, seen.sources) == (("sent", "requested"), ("wire", "metadata"))
    assert (seen.first_case, seen.last_case) == ("q1", "q2")


def test_the_case_is_the_roots() -> None:
    """A trace answers the case that its root names, wherever the model call stands in it."""
    trace = a_trace(1, {"x": 1}, case="q7")
    inner = a_span(150, trace_id=trace[0].trace_id, parent_id=trace[0].span_id, metadata={"case": "other"})
    [seen] = of(fold([trace[1], inner, trace[0]]), "x").observed
    assert seen.first_case == "q7"


def test_a_setting_that_changes_once_is_a_change() -> None:
    """Values that follow one another in time were changed while the run went on; the affected cases are known."""
    traces = [a_trace(n, {"model.served": "old" if n < 4 else "new"}, case=f"q{n}") for n in range(1, 7)]
    found = of(folded(*traces), "model.served")
    assert found.is_change
    assert [seen.cases for seen in found.observed] == [("q1", "q2", "q3"), ("q4", "q5", "q6")]
    assert found.observed[1].first_case == "q4"


def test_values_that_take_turns_are_no_change() -> None:
    """A fallback, or a loop with two temperatures, varies without having been changed."""
    traces = [a_trace(n, {"sampling.temperature": n % 2}) for n in range(1, 7)]
    assert not of(folded(*traces), "sampling.temperature").is_change


def test_order_is_that_of_time_not_of_the_list() -> None:
    """Spans may come in any order."""
    traces = [a_trace(n, {"x": "old" if n < 4 else "new"}) for n in range(1, 7)]
    found = of(folded(*reversed(traces)), "x")
    assert found.is_change
    assert [seen.value for seen in found.observed] == ["old", "new"]


@pytest.mark.parametrize("repeat", [1, 3])
def test_a_prompt_that_varies_with_the_input_is_unknown(repeat: int) -> None:
    """A prompt with the input in it is another text for each case, and that says nothing about the prompt."""
    order = [case for case in range(1, 5) for _ in range(repeat)]
    traces = [a_trace(n, {"prompt.content": f"Answer: {case}"}, case=f"q{case}") for n, case in enumerate(order, 1)]
    found = of(folded(*traces), "prompt.content")
    assert found.is_unknown
    assert found.rendered == 4
    assert found.note
    assert "rendered with the input: 4 texts" in found.note


def test_two_cases_with_a_prompt_each_are_rendered() -> None:
    """Where each case has its own prompt, the case explains it, even if the cases ran one after the other."""
    traces = [a_trace(n, {"prompt.content": f"Answer: {n > 3}"}, case=f"q{n > 3}") for n in range(1, 7)]
    assert of(folded(*traces), "prompt.content").rendered == 2


def test_a_prompt_that_changes_once_is_a_change() -> None:
    """One text for the first cases and another one for the rest is a prompt that somebody edited meanwhile."""
    traces = [a_trace(n, {"prompt.content": "old" if n < 4 else "new"}, case=f"q{n}") for n in range(1, 7)]
    found = of(folded(*traces), "prompt.content")
    assert found.is_change
    assert [seen.value for seen in found.observed] == ["old", "new"]


def test_a_prompt_edited_between_repetitions_is_a_change() -> None:
    """The same two cases with the old text first and the new one afterwards are not explained by the case."""
    order = [("q1", "old"), ("q2", "old"), ("q1", "new"), ("q2", "new")]
    traces = [a_trace(n, {"prompt.content": text}, case=case) for n, (case, text) in enumerate(order, 1)]
    assert of(folded(*traces), "prompt.content").is_change


def test_json_tells_all_of_it() -> None:
    """`settings --json` has each value with its count, who told it, and what is known of its cases."""
    [site] = contract_json(folded(a_trace(1, {"x": 1, "y": None}, case="q1")))
    assert (site["call_site"], site["calls"]) == ("planner", 1)
    assert site["settings"]["x"]["values"] == [
        {
            "value": 1,
            "count": 1,
            "voices": ["requested"],
            "sources": ["invocation_params"],
            "first_case": "q1",
            "last_case": "q1",
        }
    ]
    assert site["settings"]["y"]["values"][0]["value"] is None


def test_a_run_without_model_calls_has_an_empty_contract() -> None:
    """Chains and unfinished calls tell no settings."""
    assert folded(a_trace(1)).sites == {}
    assert fold([a_model_call(state="unfinished", end_ns=None)]).sites == {}
