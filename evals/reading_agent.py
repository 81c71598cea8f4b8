"""The demo agent: it answers a question from a shelf of notes, with three model calls and two tools.

plan (model) → search_notes (tool, with a retriever) → read (model) → convert_units (tool) → answer (model)

The graph decides which tool comes next, since a model of 135 million parameters cannot; what the tools get and what is
answered is the model's. So a worse model or prompt finds other notes, reads other numbers and answers otherwise.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient
from pydantic import SecretStr

from agenttrace import Case, Suite

FIXTURES = Path(__file__).parent.parent / "fixtures"

PER_UNIT = {
    ("metres", "feet"): 1 / 0.3048,
    ("kilometres", "miles"): 1 / 1.609344,
    ("kilograms", "pounds"): 1 / 0.45359237,
}

SEARCH_WORDS_TOKENS = 16
"""Enough for a handful of words. A small model asked for words does not stop by itself."""

# Each prompt shows the model one or two finished examples: without them a model this small goes on talking.
PLAN = ChatPromptTemplate(
    [
        ("system", "You turn a question into a few search words."),
        ("human", "How fast is a cheetah?"),
        ("ai", "cheetah, speed, fast, run"),
        ("human", "How old is the city of Rome?"),
        ("ai", "Rome, city, age, founded"),
        ("human", "{subject}?"),
    ]
)
READ = ChatPromptTemplate(
    [
        ("system", "You answer a question with one short sentence from the notes."),
        (
            "human",
            "Notes: Mount Etna is a volcano in Sicily. A cheetah is a wild cat and runs 110 kilometres in an hour.\n"
            "Question: How fast is a cheetah?",
        ),
        ("ai", "A cheetah runs 110 kilometres in an hour."),
        ("human", "Notes: {notes}\nQuestion: {subject}?"),
    ]
)
ANSWER = ChatPromptTemplate(
    [
        ("system", "You answer a question in one short sentence. You use the converted number."),
        (
            "human",
            "Fact: A cheetah runs 110 kilometres in an hour.\n"
            "Converted: 110 kilometres is 68 miles\n"
            "Question: How fast is a cheetah in miles?",
        ),
        ("ai", "A cheetah runs 68 miles in an hour."),
        ("human", "Fact: {fact}\nConverted: {converted}\nQuestion: {question}"),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Question:
    """One case for the agent."""

    id: str
    """Also the id of the note that answers it."""

    question: str
    """Ends in the unit that is asked for: "… in feet?"."""

    expected: str
    """What a right answer contains: a number, without separators."""


class ReadingState(TypedDict, total=False):
    """What the nodes hand on; `question` goes in, `answer` is what came out."""

    question: str
    words: str
    notes: str
    fact: str
    converted: str
    answer: str


class NotesRetriever(BaseRetriever):
    """The notes that share the rarest words with a query, the best one last: a small model minds what it read last."""

    notes: tuple[Document, ...]
    count: int = 2

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        in_notes = Counter(word for note in self.notes for word in _words(note.page_content))

        def relevance(note: Document) -> float:
            return sum(1 / in_notes[word] for word in _words(query) & _words(note.page_content))

        return sorted(filter(relevance, self.notes), key=relevance)[-self.count :]


def load_questions() -> tuple[Question, ...]:
    """The cases, in the file's order."""
    return tuple(Question(**record) for record in _records("questions.jsonl"))


def demo_suite(agent: CompiledStateGraph[ReadingState, None, ReadingState, ReadingState], limit: int | None) -> Suite:
    """The agent on its questions, or the first `limit` of them, each judged by whether the number is right."""

    def correct(output: ReadingState, expected: str) -> bool:
        return expected in re.findall(r"\d+", output["answer"].replace(",", ""))

    cases = [Case(id=one.id, input={"question": one.question}, expected=one.expected) for one in load_questions()]
    return Suite(name="demo", cases=cases[:limit], task=agent, evaluators=[correct], concurrency=1)


def load_notes() -> tuple[Document, ...]:
    """The shelf of notes, in the file's order."""
    return tuple(Document(id=record["id"], page_content=record["text"]) for record in _records("notes.jsonl"))


@tool
def search_notes(query: str) -> str:
    """Find the notes that fit a query best, two at most."""
    return " ".join(note.page_content for note in NotesRetriever(notes=load_notes()).invoke(query))


@tool
def convert_units(sentence: str, unit: str) -> str:
    """Convert the quantity in a sentence to feet, miles or pounds, whole ones."""
    for number, name in re.findall(r"(\d[\d,]*(?:\.\d+)?) (\w+)", sentence):
        if factor := PER_UNIT.get((name, unit)):
            return f"{number} {name} is {float(number.replace(',', '')) * factor:.0f} {unit}"
    return f"nothing to convert to {unit}"


def build_agent(
    base_url: str, model: str, *, temperature: float = 0.0, max_tokens: int = 48
) -> CompiledStateGraph[ReadingState, None, ReadingState, ReadingState]:
    """The agent on an OpenAI-compatible server of this machine; `max_tokens` bounds each of its three model calls.

    Invoke it with `{"question": …}`; the state that comes back has `answer`. Every model call is streamed.
    """
    chat = ChatOpenAI(
        base_url=base_url,
        model=model,
        api_key=SecretStr("not-needed"),
        temperature=temperature,
        max_completion_tokens=max_tokens,
        stop_sequences=["\n"],  # one line is an answer; the rest would be the model talking to itself
        streaming=True,
        stream_usage=True,
        # No proxy of the environment reaches this machine's loopback.
        http_client=DefaultHttpxClient(trust_env=False),
        http_async_client=DefaultAsyncHttpxClient(trust_env=False),
    )
    planner = PLAN | chat.bind(max_tokens=min(max_tokens, SEARCH_WORDS_TOKENS)) | StrOutputParser()
    reader = READ | chat | StrOutputParser()
    answerer = ANSWER | chat | StrOutputParser()

    def plan(state: ReadingState) -> ReadingState:
        return {"words": planner.invoke({"subject": _subject_and_unit(state["question"])[0]})}

    def search(state: ReadingState) -> ReadingState:
        return {"notes": search_notes.invoke({"query": f"{state['question']} {state['words']}"})}

    def read(state: ReadingState) -> ReadingState:
        subject, _ = _subject_and_unit(state["question"])
        return {"fact": reader.invoke({"notes": state["notes"], "subject": subject})}

    def convert(state: ReadingState) -> ReadingState:
        _, unit = _subject_and_unit(state["question"])
        return {"converted": convert_units.invoke({"sentence": state["fact"], "unit": unit})}

    def answer(state: ReadingState) -> ReadingState:
        known = {"fact": state["fact"], "converted": state["converted"], "question": state["question"]}
        return {"answer": answerer.invoke(known)}

    graph = StateGraph(ReadingState)
    graph.add_sequence([plan, search, read, convert, answer])
    graph.add_edge(START, "plan")
    graph.add_edge("answer", END)
    return graph.compile(name="reading_agent")


def _subject_and_unit(question: str) -> tuple[str, str]:
    """Split `How long is the Danube in miles?` into `How long is the Danube` and `miles`."""
    subject, _, unit = question.rstrip("?").rpartition(" in ")
    return subject, unit


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{4,}", text.lower()))  # shorter ones are "the", "is", "how"


def _records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURES / name).read_text(encoding="utf-8").splitlines()]
