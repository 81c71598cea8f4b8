"""Evaluators of openevals and agentevals, called as ours are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentevals.trajectory.match import create_trajectory_match_evaluator
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from openevals.exact import exact_match
from openevals.llm import create_llm_as_judge

from agenttrace import Case, open_store
from agenttrace.evaluation.adapters import from_agentevals, from_openevals, from_phoenix
from agenttrace.evaluation.trace import Trace
from agenttrace.store.results import read_results
from tests.evaluation.builders import a_suite, some_cases, weather_agent


async def test_a_function_of_openevals_is_given_what_it_takes(store: Path) -> None:
    """Its score is the case's, under the name it has here."""
    run = a_suite(
        lambda given: given if given == "in 1" else "x", evaluators=[from_openevals(exact_match, name="same")]
    ).run()
    assert [result.scores for result in read_results(store, run.run_id)] == [
        {"same": 1.0},
        {"same": 0.0},
        {"same": 0.0},
    ]


async def test_a_judge_of_openevals_is_a_traced_call_site(store: Path) -> None:
    """Its model call is in the store at the evaluator's call site, and its reason is kept."""

    class Judge(FakeListChatModel):
        def with_structured_output(self, *_: Any, **__: Any) -> Any:
            return self | (lambda _message: {"reasoning": "it is short", "score": True})

    judge = create_llm_as_judge(prompt="Is {outputs} short?", judge=Judge(responses=["yes"]))
    suite = a_suite(evaluators=[from_openevals(judge, name="short", judge={"model": "fake"})], cases=some_cases(1))
    run = suite.run()
    [result] = read_results(store, run.run_id)
    assert (result.scores, result.detail["reasons"]) == ({"short": 1.0}, {"short": "it is short"})
    sites = {span.call_site or "" for span in open_store().run_spans(run.run_id) if span.kind == "model"}
    assert all(site.startswith("evaluator:short") for site in sites)
    kept: Any = open_store().run(run.run_id).metadata["evaluation"]
    assert kept["settings"]["evaluator.judge"] == {"short": {"model": "fake"}}


async def test_a_trajectory_of_agentevals_sees_the_agents_messages(store: Path) -> None:
    """The output's messages against those that are expected."""
    expected = [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "weather", "arguments": '{"city": "Rome"}'}}],
        },
        {"role": "tool", "content": "sunny in Rome"},
        {"role": "assistant", "content": "It is sunny."},
    ]
    evaluator = from_agentevals(create_trajectory_match_evaluator(trajectory_match_mode="strict"), name="way")
    cases = [Case(id="q", input={"messages": [("human", "hi")]}, expected=expected)]
    scores = []
    for city in ("Rome", "Oslo"):
        run = a_suite(weather_agent(city), cases=cases, evaluators=[evaluator]).run(city)
        scores += [result.scores for result in read_results(store, run.run_id)]
    assert scores == [{"way": 1.0}, {"way": 0.0}]


async def test_a_judge_of_phoenix_tells_its_settings() -> None:
    """Objects with `evaluate`: texts go in, a list of scores with label and explanation comes out."""

    class Found:
        name, score, label, explanation = "polite", 1.0, "polite", "it says please"

    class Metric:
        name = "polite"

        def evaluate(self, given: Any) -> list[Found]:
            assert given == {"input": "in", "output": "please", "lang": "en"}
            return [Found()]

    adapted = from_phoenix(Metric())
    [score] = await adapted(Case(id="a", input="in", metadata={"lang": "en"}), AIMessage("please"), Trace())
    assert (adapted.name, score.value, score.label, score.reason) == ("polite", 1.0, "polite", "it says please")
