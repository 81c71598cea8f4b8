"""Cases keep their ids, and are hashed by content."""

from __future__ import annotations

import subprocess
import sys

import pytest
from langchain_core.messages import HumanMessage

from agenttrace import Case
from agenttrace.errors import InvalidCases
from agenttrace.evaluation.cases import checked, content_hash


def test_an_id_is_made_of_the_input() -> None:
    """A case without an id has the same one in every process, whatever is expected of it."""
    [case] = checked([Case(input={"b": 1, "a": 2.0}, expected="x")])
    [other] = checked([Case(input={"a": 2, "b": 1}, expected="y")])
    code = "from agenttrace.evaluation.cases import Case, checked; print(checked([Case(input={'a': 2, 'b': 1})])[0].id)"
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert case.id == other.id == elsewhere


def test_metadata_are_part_of_what_is_expected() -> None:
    """Evaluators may read them, so another text of theirs is another measurement; tags are not."""
    case = Case(id="a", input=1, expected=2, metadata={"tools": ["x"]})
    assert case.expected_hash != Case(id="a", input=1, expected=2).expected_hash
    assert (
        case.expected_hash == Case(id="a", input=1, expected=2, metadata={"tools": ["x"]}, tags=("new",)).expected_hash
    )


def test_messages_have_a_content() -> None:
    """Inputs may be LangChain messages: the same words have the same hash."""
    assert content_hash([HumanMessage("hi")]) == content_hash([HumanMessage("hi")])
    assert content_hash([HumanMessage("hi")]) != content_hash([HumanMessage("ho")])


def test_all_problems_are_told_at_once() -> None:
    """Duplicate ids and contents that only have an address, in one message; nothing is run."""
    with pytest.raises(InvalidCases) as caught:
        checked([Case(id="a", input=1), Case(id="a", input=2), Case(id="b", input=object())])
    assert "2 cases have the id 'a'" in str(caught.value)
    assert "case 3" in str(caught.value)
    assert "nothing was run" in str(caught.value)


def test_two_cases_with_one_input_need_ids() -> None:
    """Ids are made of inputs, so equal inputs without ids are duplicates."""
    with pytest.raises(InvalidCases, match="2 cases have the id"):
        checked([Case(input="same"), Case(input="same")])


def test_no_case_at_all_is_told() -> None:
    """An empty suite measures nothing."""
    with pytest.raises(InvalidCases, match="no case"):
        checked([])
