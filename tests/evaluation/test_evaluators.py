"""What each built-in evaluator calls right and wrong, and that what it cannot judge is an error and no zero."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agenttrace import Case, Score
from agenttrace.errors import InvalidSuite
from agenttrace.evaluation.budgets import Budget
from agenttrace.evaluation.evaluators import (
    Contains,
    Exact,
    JsonFields,
    JsonSchema,
    NumberWithin,
    Regex,
    json_of,
    text_of,
)
from agenttrace.evaluation.trace import Trace
from agenttrace.evaluation.trajectory import DocumentsRetrieved, ToolCalled, ToolTrajectory
from agenttrace.records import PhaseTiming, SettingValue, Usage
from tests.builders import SECOND, a_model_call, a_span
from tests.evaluation.builders import a_tool_call

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("evaluator", "expected", "output", "value"),
    [
        (Exact(), "Paris", " Paris\n", True),
        (Exact(), "Paris", "paris", False),
        (Exact(ignore_case=True), "Paris", "paris", True),
        (Exact(), {"a": [1]}, {"a": [1.0]}, True),
        (Exact(), None, "", False),
        (Contains(), "paris", AIMessage("It is Paris."), True),
        (Contains(), ["Paris", "France"], {"messages": [AIMessage("Paris in France")]}, True),
        (Contains(), ["Paris", "France"], "Paris", False),
        (Contains(key="answer"), "7", {"answer": "pier 7", "notes": "x"}, True),
        (Contains(key="answer"), "7", {"answer": "pier", "notes": "7"}, False),
        (Regex(r"\b\d{4}\b"), None, "in 1889.", True),
        (Regex(r"^\d{4}$"), None, "in 1889.", False),
        (NumberWithin(), 1083, "It is 330 m or 1,083 feet", True),
        (NumberWithin(relative=0.01), 1000, "990", True),
        (NumberWithin(relative=0.01), 1000, "989", False),
        (NumberWithin(absolute=1), "-2.5e3", "-2501", True),
        (NumberWithin(), 1, "none", False),
        (JsonSchema(SCHEMA), None, '{"n": 1}', True),
        (JsonSchema(SCHEMA), None, AIMessage('{"n": 1.5}'), False),
        (JsonSchema(SCHEMA), None, "{", False),
        (JsonFields(), {"a": "X", "b": {"c": 2}}, '{"a": "x ", "b": {"c": 2}}', 1.0),
        (JsonFields(fields=["a", "b.c"]), {"a": "x", "b": {"c": 2}}, {"a": "x", "b": {"c": 3}}, 0.5),
        (JsonFields(), {"a": 1}, "[]", 0.0),
    ],
)
def test_an_answer_is_judged(evaluator: Any, expected: Any, output: Any, value: float) -> None:
    """The score, and a reason wherever it is not full."""
    score = evaluator(Case(id="a", input=1, expected=expected), output, Trace())
    assert score.value == pytest.approx(value)
    assert (score.reason is None) == (value == 1)


@pytest.mark.parametrize(
    ("evaluator", "expected"),
    [
        (Contains(), None),
        (NumberWithin(), "none"),
        (JsonFields(), "x"),
        (ToolTrajectory(), "x"),
        (DocumentsRetrieved(), None),
    ],
)
def test_a_case_that_expects_nothing_cannot_be_judged(evaluator: Any, expected: Any) -> None:
    """A case without what the evaluator needs is the grader's fault, and no zero of the agent."""
    with pytest.raises(ValueError, match="case 'a'"):
        evaluator(Case(id="a", input=1, expected=expected), "x", Trace())


def test_a_wrong_pattern_or_schema_is_told_when_the_suite_is_made() -> None:
    """Before anything is run."""
    with pytest.raises(InvalidSuite, match="no regular expression"):
        Regex("(")
    with pytest.raises(InvalidSuite, match="no JSON Schema"):
        JsonSchema({"type": 3})
    with pytest.raises(InvalidSuite, match="no order"):
        ToolTrajectory(order="sorted")  # type: ignore[arg-type]  # what a user may type


def test_outputs_of_every_shape_have_text_and_json() -> None:
    """Messages, states with messages, content in parts, plain values."""
    parts = AIMessage([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    assert [text_of(value) for value in ("x", parts, {"messages": [parts]}, {"a": 1}, 3)] == [
        "x",
        "ab",
        "ab",
        '{"a": 1}',
        "3",
    ]
    assert [json_of(value) for value in ("[1]", {"a": 1}, AIMessage('{"a": 2}'), None)] == [
        [1],
        {"a": 1},
        {"a": 2},
        None,
    ]


WENT = Trace(
    spans=(
        a_span(1),
        a_tool_call(2, "search", {"q": "x", "k": 3}),
        a_tool_call(3, "read", {"id": 1}),
        a_tool_call(4, "search", {"q": "y"}),
    )
)


@pytest.mark.parametrize(
    ("options", "tools", "value"),
    [
        ({}, ["search", "read", "search"], True),
        ({}, ["read", "search", "search"], False),
        ({}, ["search", "read"], False),
        ({"order": "unordered"}, ["read", "search", "search"], True),
        ({"order": "unordered"}, ["read", "search"], False),
        ({"order": "subset"}, ["read", "search"], True),
        ({"order": "subset"}, ["read", "read"], False),
        ({}, [{"name": "search", "arguments": {"q": "x"}}, "read", {"name": "search", "arguments": {"q": "y"}}], True),
        ({"exact_arguments": True}, [{"name": "search", "arguments": {"q": "x"}}, "read", "search"], False),
        ({"order": "subset"}, [{"name": "search", "arguments": {"q": "z"}}], False),
    ],
)
def test_a_trajectory_is_compared(options: Any, tools: Any, value: bool) -> None:
    """Ordered, unordered or as a subset; expected arguments must be there with equal values."""
    assert ToolTrajectory(**options)(Case(id="a", input=1, metadata={"tools": tools}), "", WENT).value is value


def test_what_is_not_known_of_a_trace_is_no_score() -> None:
    """A trace that was not recorded in time lacks steps: judging it would be guessing."""
    for evaluator in (ToolTrajectory(), ToolCalled("search"), DocumentsRetrieved()):
        with pytest.raises(RuntimeError, match="not known"):
            evaluator(Case(id="a", input=1, expected=["search"]), "", Trace(is_whole=False))


def test_a_tool_is_offered_and_called() -> None:
    """Two scores: the model was told of it, and used it."""
    offered = {"tools.names": SettingValue(value=["search", "send"], voice="requested", source="test")}
    trace = Trace(spans=(a_span(1), a_model_call(2, settings=offered), a_tool_call(3, "search")))
    assert [score.value for score in ToolCalled("search")(Case(id="a", input=1), "", trace)] == [True, True]
    assert [score.value for score in ToolCalled("send")(Case(id="a", input=1), "", trace)] == [True, False]
    assert [score.value for score in ToolCalled("fly")(Case(id="a", input=1), "", trace)] == [False, False]


def test_documents_are_told_by_id_or_by_a_key() -> None:
    """The share of the expected ones that were brought."""
    documents = [
        {"id": "d1", "content": "x", "metadata": {"source": "s1"}},
        {"content": "y", "metadata": {"source": "s2"}},
    ]
    trace = Trace(spans=(a_span(1), a_span(2, kind="retriever", output=documents)))
    by_id = DocumentsRetrieved()(Case(id="a", input=1, expected={"documents": ["d1", "d9"]}), "", trace)
    by_key = DocumentsRetrieved(id_key="source")(Case(id="a", input=1, metadata={"documents": ["s1", "s2"]}), "", trace)
    assert (by_id.value, by_key.value) == (0.5, 1.0)
    assert "d9" in (by_id.reason or "")


def test_a_budget_counts_over_all_calls() -> None:
    """Tokens and phases of all model calls together, one score a limit, with what was used."""
    phases = (PhaseTiming(name="decode", ns=SECOND // 2, source="server-reported", method="test"),)
    calls = [a_model_call(number, usage=Usage(input=40, output=10), phases=phases) for number in (2, 3)]
    trace = Trace(spans=(a_span(1, end_ns=a_span(1).start_ns + 3 * SECOND), *calls))
    scores = Budget(latency_s=2, tokens=100, phases_s={"decode": 0.9})(Case(id="a", input=1), "", trace)
    assert [(score.name, score.value) for score in scores] == [("latency", False), ("tokens", True), ("decode", False)]
    assert scores[2].reason == "1 of 0.9 s"


def test_a_budget_of_what_is_not_known_is_no_pass() -> None:
    """Unknown tokens or phases are not zero."""
    trace = Trace(spans=(a_span(1), a_model_call(2, usage=Usage(input=40), phases=())))
    for budget in (Budget(tokens=10**9), Budget(phases_s={"queue": 9}), Budget(cost_usd=9)):
        with pytest.raises(ValueError, match="not known"):
            budget(Case(id="a", input=1), "", trace)


def test_a_score_may_be_a_label_alone() -> None:
    """Text without a number is kept and not calculated with."""
    assert Score(label="polite").value is None
