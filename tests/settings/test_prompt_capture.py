"""Prompts as settings: their template, and the label that was given in one place or another."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda

from agenttrace import AgentTraceHandler, open_store, prompt
from agenttrace.recording import flush
from agenttrace.records import SpanRecord


def model_calls(chain: Runnable[Any, Any], inputs: Any) -> list[SpanRecord]:
    chain.invoke(inputs, config={"callbacks": [AgentTraceHandler()]})
    flush()
    with open_store() as reader:
        return [span for span in reader.trace("last") if span.kind == "model"]


def value(span: SpanRecord, dimension: str) -> Any:
    return span.settings[dimension].value if dimension in span.settings else None


def a_model() -> FakeListChatModel:
    return FakeListChatModel(responses=["x"])


PLAN = ChatPromptTemplate.from_messages([("system", "You are {role}"), MessagesPlaceholder("so_far"), ("user", "{q}")])


def test_the_template_is_the_prompt_whatever_the_input(store: Path) -> None:
    """What does not change with the input is compared; what was filled in beforehand belongs to it."""
    chain = PLAN.partial(role="brief") | a_model()
    contents = {value(model_calls(chain, {"q": q, "so_far": []})[0], "prompt.content") for q in ("a", "b")}
    assert contents == {"system: You are {role}\n\n(messages: so_far)\n\nuser: {q}\n\nrole = brief"}
    other = PLAN.partial(role="kind") | a_model()
    assert value(model_calls(other, {"q": "a", "so_far": []})[0], "prompt.content") not in contents


def test_another_format_is_another_template(store: Path) -> None:
    """The same braces mean another thing in another language."""
    plain = ChatPromptTemplate.from_messages([("user", "{{q}}")]) | a_model()
    mustache = ChatPromptTemplate.from_messages([("user", "{{q}}")], template_format="mustache") | a_model()
    told = [value(model_calls(chain, {"q": "a"})[0], "prompt.content") for chain in (plain, mustache)]
    assert told == ["user: {{q}}", "user: (mustache) {{q}}"]


def test_a_prompt_of_text_is_one_too(store: Path) -> None:
    """A template without messages is a template."""
    chain = PromptTemplate.from_template("Say {q}") | a_model()
    assert value(model_calls(chain, {"q": "a"})[0], "prompt.content") == "Say {q}"


def test_a_second_model_is_not_called_with_the_first_ones_prompt(store: Path) -> None:
    """In one chain a model that is given something else has no template."""
    chain = ChatPromptTemplate.from_template("Say {q}") | a_model() | RunnableLambda(lambda _: "else") | a_model()
    first, second = model_calls(chain, {"q": "a"})
    assert (value(first, "prompt.content"), value(second, "prompt.content")) == ("user: Say {q}", None)


class Failing(GenericFakeChatModel):
    def _generate(self, *_: Any, **__: Any) -> Any:
        raise ValueError("down")


def test_fallbacks_are_called_with_the_same_prompt(store: Path) -> None:
    """Between a sequence and its model there may be a fallback; the prompt is the sequence's."""
    down = Failing(messages=iter([AIMessage("")]))
    chain = ChatPromptTemplate.from_template("Say {q}") | down.with_fallbacks([a_model()])
    assert [value(call, "prompt.content") for call in model_calls(chain, {"q": "a"})] == ["user: Say {q}"] * 2


def labelled(**metadata: Any) -> Runnable[Any, Any]:
    template = ChatPromptTemplate.from_template("Say {q}")
    template.metadata = metadata
    return template | a_model()


@pytest.mark.parametrize(
    ("chain", "label"),
    [
        (labelled(**prompt("planner", version="12")), "planner@12"),
        (labelled(prompt_version="12"), "12"),
        (labelled(lc_hub_owner="me", lc_hub_repo="planner", lc_hub_commit_hash="abc123"), "me/planner@abc123"),
        (labelled(langfuse_prompt=SimpleNamespace(name="planner", version=3)), "planner@3"),
        (a_model().with_config(metadata=prompt("planner")), "planner"),
        (labelled(), None),
    ],
)
def test_a_label_is_found_where_it_was_given(store: Path, chain: Runnable[Any, Any], label: str | None) -> None:
    """On the template, by a registry, or with the model."""
    inputs: Any = {"q": "a"} if not hasattr(chain, "bound") else "a"
    assert value(model_calls(chain, inputs)[0], "prompt.label") == label


def test_a_label_holds_for_the_calls_inside_it(store: Path) -> None:
    """As a context it labels prompts that have no template, and nothing after it; inner ones win."""
    with prompt("outer"), prompt("planner", version=12):
        [inside] = model_calls(a_model(), "a")
    [after] = model_calls(a_model(), "a")
    assert (value(inside, "prompt.label"), value(after, "prompt.label")) == ("planner@12", None)


def test_line_ends_are_no_difference(store: Path) -> None:
    """An editor's line ends are folded; nothing else is."""
    told = [
        value(model_calls(ChatPromptTemplate.from_template(text) | a_model(), {})[0], "prompt.content")
        for text in ("a\r\nb", "a\nb", "a\n b")
    ]
    assert told[0] == told[1] != told[2]
