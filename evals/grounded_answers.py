"""A suite: questions that are answered from a shelf of notes, which a tool looks up. Run it:

agenttrace eval run evals/grounded_answers.py
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TypedDict

from langchain_core.documents import Document
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph

from agenttrace import Suite
from agenttrace.evaluation.evaluators import Contains
from agenttrace.evaluation.trajectory import DocumentsRetrieved, ToolTrajectory
from evals.local_chat import SLOTS, ask, local_model
from evals.reading_agent import NotesRetriever

HERE = Path(__file__).parent

SEARCH_WORDS_TOKENS = 16
ANSWER_TOKENS = 40


class AnswerState(TypedDict, total=False):
    """What the nodes hand on; `question` goes in, `answer` is what came out."""

    question: str
    words: str
    notes: str
    answer: str


@cache
def shelf() -> NotesRetriever:
    """The notes, looked up by the words that a query shares with them."""
    lines = (HERE / "cases" / "notes.jsonl").read_text(encoding="utf-8").splitlines()
    return NotesRetriever(
        notes=tuple(Document(id=(note := json.loads(line))["id"], page_content=note["text"]) for line in lines)
    )


@tool
def look_up(query: str) -> str:
    """Find the notes that fit a query best, two at most."""
    return " ".join(note.page_content for note in shelf().invoke(query))


def search_words(state: AnswerState) -> AnswerState:
    return {"words": ask("search_words.v1", max_tokens=SEARCH_WORDS_TOKENS).invoke({"question": state["question"]})}


def look(state: AnswerState) -> AnswerState:
    return {"notes": look_up.invoke({"query": f"{state['question']} {state['words']}"})}


def answer(state: AnswerState) -> AnswerState:
    known = {"notes": state["notes"], "question": state["question"]}
    return {"answer": ask("grounded_answer.v1", max_tokens=ANSWER_TOKENS).invoke(known)}


def _agent() -> object:
    graph = StateGraph(AnswerState)
    graph.add_sequence([search_words, look, answer])
    graph.add_edge(START, "search_words")
    graph.add_edge("answer", END)
    return graph.compile(name="grounded_answers")


suite = Suite(
    name="grounded-answers",
    cases=HERE / "cases" / "grounded_answers.jsonl",
    task=_agent(),
    evaluators={"correct": Contains(key="answer"), "retrieved": DocumentsRetrieved(), "trajectory": ToolTrajectory()},
    concurrency=SLOTS,
    timeout_s=60,
    around=local_model,
)
