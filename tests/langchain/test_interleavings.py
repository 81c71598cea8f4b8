"""Whatever order callbacks come in, every step ends exactly once, a trace has one root, and nothing is left open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult

from agenttrace.langchain.handler import CallbackHandler
from agenttrace.langchain.open_steps import OpenSteps
from agenttrace.steps import Step

RESULT = LLMResult(generations=[[ChatGeneration(message=AIMessage("ok"))]])
CHUNK = ChatGenerationChunk(message=AIMessageChunk(content="w"))
ERRORS: dict[str, BaseException] = {"error": ValueError("x"), "cancel": GeneratorExit()}


@dataclass
class Sink:
    """Takes facts and builds them, as the writer does."""

    facts: list[Any] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)

    def put(self, fact: Any) -> None:
        self.facts.append(fact)

    put_unnoticed = put

    def count_error(self, error: BaseException) -> None:
        self.faults.append(error)

    def built(self) -> list[Step]:
        return [step for fact in self.facts if (step := fact()) is not None]


class Handler(CallbackHandler):
    def __init__(self) -> None:
        self._sink = Sink()
        super().__init__(OpenSteps(), transport=False)

    @property
    def sink(self) -> Any:
        return self._sink

    def current_run(self) -> str:
        return "run"


KINDS = ("chain", "model", "tool", "retriever")


def start(handler: Handler, kind: str, run_id: UUID, parent: UUID | None) -> None:
    known: dict[str, Any] = {"run_id": run_id, "parent_run_id": parent, "name": kind}
    if kind == "chain":
        handler.on_chain_start({}, {"x": 1}, **known)
    elif kind == "model":
        handler.on_chat_model_start({}, [[AIMessage("hi")]], **known)
    elif kind == "tool":
        handler.on_tool_start({}, "{}", inputs={}, **known)
    else:
        handler.on_retriever_start({}, "query", **known)


def end(handler: Handler, kind: str, run_id: UUID, how: str) -> None:
    if how != "end":
        name = {"chain": "chain", "model": "llm", "tool": "tool", "retriever": "retriever"}[kind]
        getattr(handler, f"on_{name}_error")(ERRORS[how], run_id=run_id)
    elif kind == "chain":
        handler.on_chain_end({"y": 2}, run_id=run_id)
    elif kind == "model":
        handler.on_llm_end(RESULT, run_id=run_id)
    elif kind == "tool":
        handler.on_tool_end("done", run_id=run_id)
    else:
        handler.on_retriever_end([], run_id=run_id)


class Play:
    """Drives a handler by drawn moves: a root first, then anything in any order, and at last every end that is missing."""

    def __init__(self, moves: list[tuple[int, int, int]]) -> None:
        self.handler = Handler()
        self.open: dict[UUID, str] = {}
        self.started: dict[UUID, UUID | None] = {}
        # Run ids that are still held: a call whose id is gone is ended by that alone, which is tested elsewhere.
        self.root = uuid4()
        self._start("chain", self.root, None)
        for what, which, kind in moves:
            self._move(what, which, KINDS[kind])
        for run_id in list(self.open):
            self._end(run_id, "end")

    def _start(self, kind: str, run_id: UUID, parent: UUID | None) -> None:
        start(self.handler, kind, run_id, parent)
        self.open[run_id], self.started[run_id] = kind, parent

    def _end(self, run_id: UUID, how: str) -> None:
        end(self.handler, self.open.pop(run_id), run_id, how)

    def _move(self, what: int, which: int, kind: str) -> None:
        known = list(self.started)
        chosen = known[which % len(known)]
        if what == 0:
            self._start(kind, uuid4(), chosen)  # its parent may have ended
        elif what == 1:
            self.handler.on_llm_new_token("w", chunk=CHUNK, run_id=chosen)  # it may be no model, or have ended
        elif what == 2:
            self.handler.on_custom_event("e", {"a": 1}, run_id=chosen)
        elif what == 3:
            end(self.handler, kind, chosen, "end")  # perhaps for the second time, perhaps as another kind
            self.open.pop(chosen, None)
        elif what in (4, 5) and chosen in self.open:
            self._end(chosen, ("error", "cancel")[what - 4])
        elif what == 6 and chosen in self.open:
            start(self.handler, kind, chosen, None)  # a start that comes twice; after its end it would be a new step


MOVES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30), st.integers(0, 3)), max_size=40)


def ended(steps: list[Step]) -> Iterator[Step]:
    return (step for step in steps if step.end_ns is not None)


@settings(max_examples=150, deadline=None)
@given(MOVES)
def test_every_step_ends_once_in_one_tree(moves: list[tuple[int, int, int]]) -> None:
    """Ends before their parents', after them, twice, as another kind; tokens for the dead; starts that repeat."""
    play = Play(moves)
    steps = play.handler._sink.built()
    ids = [step.span_id for step in ended(steps)]
    assert len(ids) == len(set(ids)) == len(play.started)
    assert len({step.trace_id for step in steps}) == 1
    assert len([step for step in ended(steps) if step.parent_id is None]) == 1
    known = set(ids)
    assert all(step.parent_id in known for step in ended(steps) if step.parent_id is not None)
    assert all((step.end_ns or 0) >= step.start_ns for step in ended(steps))
    assert len(play.handler._steps) == 0
    assert all(isinstance(fault, AttributeError) for fault in play.handler._sink.faults), "of a result of another kind"
