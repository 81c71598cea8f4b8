"""How evaluators of every shape are called, and by what they are told apart."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from agenttrace import Case, Score
from agenttrace.digest import code_digest
from agenttrace.errors import InvalidSuite
from agenttrace.evaluation.evaluator import named_evaluators
from agenttrace.evaluation.evaluators import Contains, Regex
from agenttrace.evaluation.score import Judgement
from agenttrace.evaluation.trace import Trace

CASE = Case(id="a", input="in", expected="out")


async def judged(evaluator: Any) -> Judgement:
    [named] = named_evaluators({"it": evaluator})
    judgement = Judgement()
    await named.judge_attempt(CASE, 1, "out", Trace(), judgement)
    return judgement


async def slowly(case: Case, output: Any) -> bool:
    return bool(output == case.expected)


class Judge:
    def __call__(self, case: Case, output: Any, trace: Trace) -> Score:
        return Score(value=0.5, reason="so so")


@pytest.mark.parametrize(
    ("evaluator", "scores"),
    [
        (lambda case, output, trace: output == case.expected, {"it": 1.0}),
        (lambda output, expected: output == expected, {"it": 1.0}),
        (lambda trace, input: len(trace.spans), {"it": 0.0}),  # noqa: A006  # the name is what is tested
        (lambda a, b: b == a.expected, {"it": 1.0}),
        (lambda *args: len(args), {"it": 3.0}),
        (slowly, {"it": 1.0}),
        (Judge(), {"it": 0.5}),
        (functools.partial(lambda case, output, least: len(output) >= least, least=2), {"it": 1.0}),
        (lambda output, threshold=2: threshold, {"it": 2.0}),
        (lambda output: {"a": True, "b": 2}, {"it.a": 1.0, "it.b": 2.0}),
        (lambda output: [Score(name="x", value=1), Score(name="y", value=False)], {"it.x": 1.0, "it.y": 0.0}),
    ],
)
async def test_an_evaluator_gets_what_it_takes(evaluator: Any, scores: dict[str, float]) -> None:
    """By name where its parameters have the known names, else in the order case, output, trace."""
    assert (await judged(evaluator)).scores == scores


async def test_texts_are_labels() -> None:
    """A text is what the attempt is called; it is no number."""
    judgement = await judged(lambda output: "polite")
    assert (judgement.labels, judgement.scores) == ({"it": "polite"}, {})


@pytest.mark.parametrize("returned", [None, object(), float("nan"), Score(), [1, 2]])
async def test_what_is_no_score_is_refused(returned: Any) -> None:
    """Nothing, an object, no number, an empty score, two of one name: a grader error."""
    with pytest.raises((TypeError, ValueError)):
        await judged(lambda output: returned)


@pytest.mark.parametrize(
    ("evaluators", "told"),
    [
        ([3], "cannot be called"),
        ([Judge], "is a class"),
        ([lambda a, b, c, d: 1], "takes (a, b, c, d)"),
        ([lambda: 1], "takes ()"),
        ([lambda *, model: 1], "takes (*, model)"),
        ([Contains(), Contains()], "two evaluators are named 'contains'"),
    ],
)
def test_an_evaluator_of_the_wrong_shape_is_told(evaluators: Any, told: str) -> None:
    """Before anything is run, with what it takes and what there is."""
    with pytest.raises(InvalidSuite) as caught:
        named_evaluators(evaluators)
    assert told in str(caught.value)


def test_another_source_or_value_is_another_evaluator() -> None:
    """The digest tells apart what was written and what it was made with, and nothing else."""

    def at_least(number: int) -> Any:
        return lambda output: len(output) >= number

    assert code_digest(at_least(1)) == code_digest(at_least(1))
    assert code_digest(at_least(1)) != code_digest(at_least(2))
    assert code_digest(Regex("a")) == code_digest(Regex("a"))
    assert code_digest(Regex("a")) != code_digest(Regex("b"))
    assert code_digest(Judge()) == code_digest(Judge())
    assert code_digest(functools.partial(slowly, output=1)) != code_digest(functools.partial(slowly, output=2))


def test_code_without_a_source_has_a_digest() -> None:
    """What was typed at a prompt is told by what it compiled to."""
    texts = ("f = lambda output: output > 1", "f = lambda output: output > 2", "f = lambda output: output > 1")
    digests = []
    for text in texts:
        names: dict[str, Any] = {}
        exec(text, names)
        digests.append(code_digest(names["f"]))
    assert digests[0] == digests[2] != digests[1]
