"""Two traces side by side: every step is paired once, and the first thing that differs is the one that explains the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.comparison.trace_diff import aligned, trace_diff
from agenttrace.records import ErrorRecord, SettingValue, SpanRecord
from tests.builders import NOON, SECOND, a_model_call, a_span

QUESTION = {"role": "user", "content": "Who wrote it?"}


def agent(
    *,
    found: str = "Ada wrote it.",
    prompt: str = "Answer from {found}",
    answer: str = "Ada",
    tools: Sequence[tuple[str, Any, Any]] = (("lookup", {"id": 3}, "1843"),),
    **call: Any,
) -> list[SpanRecord]:
    """Retrieves, asks a model, calls tools, and answers."""
    below = {"parent_id": f"{1:016x}"}
    document = {"page_content": found, "id": "7d9f3f44-6f2a-4bb0-a65a-0f6a9f9a3b1c" if found else "doc-1"}
    text = prompt.replace("{found}", found)
    spans = [
        a_span(1, input={"messages": [QUESTION]}, output=answer, end_ns=NOON + 9 * SECOND),
        a_span(2, kind="retriever", name="docs", input="Who", output=[document], **below),
        a_model_call(
            3,
            input=[{"role": "system", "content": text}, QUESTION],
            output={"role": "assistant", "content": answer},
            **call,
        ),
        *(
            a_span(4 + n, kind="tool", name=name, input=given_, output={"role": "tool", "content": gave}, **below)
            for n, (name, given_, gave) in enumerate(tools)
        ),
    ]
    return [
        replace(span, start_ns=NOON + n * SECOND, end_ns=span.end_ns if n == 0 else NOON + (n + 1) * SECOND)
        for n, span in enumerate(spans)
    ]


def test_a_trace_does_not_differ_from_itself() -> None:
    """Nor from one with other ids of messages, calls and documents that a store made up."""
    other = agent()
    other[1] = replace(
        other[1], output=[{"page_content": "Ada wrote it.", "id": "aaaaaaaa-6f2a-4bb0-a65a-0f6a9f9a3b1c"}]
    )
    other[2] = replace(other[2], output={"role": "assistant", "content": "Ada", "id": "run-2"})
    diff = trace_diff(agent(), other)
    assert diff.differences == ()
    assert diff.settings == ()
    assert all(pair.before and pair.after for pair in diff.pairs)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"found": "Bob wrote it."}, ("retrieval", "prompt")),
        ({"prompt": "Reply from {found}"}, ("prompt",)),
        ({"answer": "Bob"}, ("model output",)),
        ({"tools": (("lookup", {"id": 3}, "1844"),)}, ("tool output",)),
        ({"tools": (("lookup", {"id": 4}, "1843"),)}, ("tool arguments",)),
        ({"tools": ()}, ("steps",)),
        ({"tools": (("search", {"id": 3}, "1843"),)}, ("steps",)),
        (
            {"settings": {"sampling.temperature": SettingValue(value=0.7, voice="sent", source="wire")}},
            ("settings",),
        ),
        ({"state": "error", "error": ErrorRecord(type="Timeout", message="no answer")}, ("model output",)),
    ],
)
def test_what_differs_is_named(change: dict[str, Any], parts: tuple[str, ...]) -> None:
    """Retrieval, prompt, model, tool: each by itself, and what follows from it after it."""
    diff = trace_diff(agent(), agent(**change))
    assert diff.parts == parts
    assert trace_diff(agent(**change), agent()).parts == parts


def test_an_earlier_answer_within_a_prompt_is_no_second_difference() -> None:
    """What a model or tool said differently stands in every later prompt; it is told once."""

    def two_calls(answer: str) -> list[SpanRecord]:
        said = {
            "role": "assistant",
            "content": answer,
            "tool_calls": [{"id": f"call {answer}", "name": "t", "args": {}}],
        }
        first = a_model_call(2, input=[QUESTION], output=said)
        second = a_model_call(
            3, input=[QUESTION, said], output={"role": "assistant", "content": "end"}, start_ns=NOON + SECOND
        )
        return [a_span(), first, replace(second, end_ns=NOON + 2 * SECOND)]

    diff = trace_diff(two_calls("yes"), two_calls("no"))
    assert [(item.part, item.pair.depth) for item in diff.differences] == [("model output", 1)]


def test_the_task_itself_differs() -> None:
    """Where no call explains another answer, it is the agent's own code; where the question differs, that is first."""
    before, after = agent(), agent()
    after[0] = replace(after[0], output="Bob")
    assert trace_diff(before, after).parts == ("output",)
    after[0] = replace(after[0], input={"messages": [{"role": "user", "content": "What?"}]})
    assert trace_diff(before, after).parts == ("input", "output")


def test_parallel_steps_that_began_in_another_order_are_paired() -> None:
    """By kind and name, although their order differs."""
    tools = (("a", 1, "x"), ("b", 2, "y"), ("c", 3, "z"))
    diff = trace_diff(agent(tools=tools), agent(tools=(tools[2], tools[0], tools[1])))
    assert diff.differences == ()


def test_a_setting_that_differs_at_every_call_is_told_once() -> None:
    """And by what a comparison of runs would say of it."""
    warm = {"sampling.temperature": SettingValue(value=0.7, voice="sent", source="wire")}
    cold = {"sampling.temperature": SettingValue(value=0.0, voice="sent", source="wire")}
    calls = [[a_span(), *(a_model_call(n, settings=settings) for n in (2, 3, 4))] for settings in (cold, warm)]
    diff = trace_diff(calls[0], calls[1])
    assert [(item.dimension, item.before, item.after) for item in diff.differences] == [
        ("sampling.temperature", 0.0, 0.7)
    ]
    assert [item.dimension for item in diff.settings] == ["sampling.temperature"]


def test_phases_are_laid_side_by_side() -> None:
    """A phase that one side does not know stays unknown there."""
    before, after = agent(), agent(phases=())
    [phase] = trace_diff(before, after).phases
    assert phase.name == "decode"
    assert phase.before is not None
    assert phase.before.ns == SECOND // 2
    assert phase.after is None


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 11)), max_size=11),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 11)), max_size=11),
)
def test_every_step_is_paired_exactly_once(old: list[tuple[str, int]], new: list[tuple[str, int]]) -> None:
    """Whatever the tree: missing parents, steps that contain themselves, and circles too."""
    before, after = (
        [
            a_span(n, name=name, parent_id=f"{parent:016x}" if parent else None)
            for n, (name, parent) in enumerate(named, start=1)
        ]
        for named in (old, new)
    )
    pairs = list(aligned(before, after))
    assert sorted(pair.before.span_id for pair in pairs if pair.before) == [span.span_id for span in before]
    assert sorted(pair.after.span_id for pair in pairs if pair.after) == [span.span_id for span in after]
    assert all(pair.before.name == pair.after.name for pair in pairs if pair.before and pair.after)


def test_ten_thousand_steps_without_a_common_order() -> None:
    """Long runs of siblings are matched without a search that grows with their square."""
    before = [a_span(1), *(a_span(n, name=f"s{n % 7}", parent_id=f"{1:016x}") for n in range(2, 10_002))]
    after = [a_span(1), *(a_span(n, name=f"s{n % 5}", parent_id=f"{1:016x}") for n in range(2, 10_002))]
    pairs = list(aligned(before, after))
    assert sum(pair.before is not None for pair in pairs) == sum(pair.after is not None for pair in pairs) == 10_001
