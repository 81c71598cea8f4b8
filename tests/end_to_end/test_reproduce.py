"""`agenttrace reproduce`: a recorded call or task is made again, and compared with what it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from agenttrace import record
from agenttrace.cli.main import main
from agenttrace.evaluation.suite_files import load_suite
from tests.model_server import CHAT_USAGE, Exchange, ModelServer, serve

HEAD = {"id": "c1", "object": "chat.completion", "created": 1, "model": "served-model"}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def wavering(exchange: Exchange) -> None:
    """Asks for the tool, then answers; every third answer in other words."""
    if exchange.body.get("tools") and not any(message["role"] == "tool" for message in exchange.body["messages"]):
        call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
    else:
        exchange.server.answers = getattr(exchange.server, "answers", 0) + 1  # type: ignore[attr-defined]  # a counter
        words = "the sum is four" if exchange.server.answers % 3 == 0 else "the sum is three"  # type: ignore[attr-defined]  # a counter
        message = {"role": "assistant", "content": words}
    exchange.send({**HEAD, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": CHAT_USAGE})


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serve(wavering) as found:
        yield found


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    main(["reproduce", *arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_the_calls_of_an_agent_are_repeated(
    store: Path, server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its messages, tools and settings; how often it agrees, and where it first differs."""
    model = ChatOpenAI(model="m", base_url=f"{server.url}/v1", temperature=0.2, seed=3, max_completion_tokens=20)
    with record("agent"):
        question: Any = {"messages": [("user", "1 + 2?")]}
        create_agent(model, [add], system_prompt="be kind").invoke(question)
    before = server.asked[0].body
    found = asked(capsys, "last", "--n", "4", "--base-url", f"{server.url}/v1")
    wants_tool, answers = found["reproductions"]
    assert (wants_tool["agreed"], wants_tool["answered"], wants_tool["distinct"]) == (4, 4, 1)
    assert (answers["agreed"], answers["answered"], answers["distinct"]) == (3, 4, 2)
    first = answers["first_difference"]
    assert (first["repetition"], first["at"]) == (2, len("the sum is "))
    assert (first["recorded"], first["repeated"]) == ("'the sum is three'", "'the sum is four'")
    assert wants_tool["not_reproduced"] == answers["not_reproduced"] == []
    assert {name: before[name] for name in ("temperature", "seed", "model")} == {"temperature": 0.2, "seed": 3, "model": "m"}  # fmt: skip


def test_a_setting_that_cannot_be_had_again_is_told(
    store: Path, server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the repetitions were set to is measured: here a parameter that the model's class has no field for."""
    model = ChatOpenAI(model="m", base_url=f"{server.url}/v1", extra_body={"top_k": 5})
    with record("call"):
        model.invoke("1 + 2?")
    [one] = asked(capsys, "last", "--n", "1", "--base-url", f"{server.url}/v1")["reproductions"]
    [missing] = one["not_reproduced"]
    assert (missing["dimension"], missing["recorded"], missing["repeated_state"]) == ("sampling.top_k", 5, "unset")
    main(["reproduce", "last~1", "--n", "1", "--base-url", f"{server.url}/v1"])
    assert "sampling.top_k: recorded 5, repeated unset" in capsys.readouterr().out


def test_a_stream_is_repeated_as_a_stream(store: Path, server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    """So that delivery is one thing less that differs."""
    from tests.model_server import chat_completion

    server.replies[:] = [chat_completion]
    with record("call"):
        list(ChatOpenAI(model="m", base_url=f"{server.url}/v1").stream("hello"))
    [one] = asked(capsys, "last", "--n", "2", "--base-url", f"{server.url}/v1")["reproductions"]
    assert (one["agreed"], one["not_reproduced"]) == (2, [])
    assert server.asked[-1].body["stream"] is True


SUITE = """
from langchain_openai import ChatOpenAI
from agenttrace import Case, Suite
from agenttrace.evaluation.evaluators import Contains

model = ChatOpenAI(model="m", base_url="{url}/v1", api_key="k")
suite = Suite(
    name="sums",
    cases=[Case(id="one", input="1 + 2?", expected="three"), Case(id="two", input="2 + 1?", expected="three")],
    task=lambda question: model.invoke(question).text,
    evaluators=[Contains()],
)
"""


def test_a_task_is_repeated(
    store: Path, server: ModelServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The case of the trace, with the suite's task: only that one, as often as was asked."""
    suite = tmp_path / "suite.py"
    suite.write_text(SUITE.format(url=server.url))
    load_suite(str(suite)).run()
    [one] = asked(capsys, "last", "--n", "3", "--suite", str(suite))["reproductions"]
    assert (one["what"], one["asked"], one["answered"], one["agreed"]) == ("task", 3, 3, 2)
    assert one["not_reproduced"] == []
    assert {exchange.body["messages"][0]["content"] for exchange in server.asked[2:]} == {"2 + 1?"}


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *arguments])
    return int(str(end.value.code)), capsys.readouterr().err


def test_what_cannot_be_made_again_is_said(
    store: Path, server: ModelServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence each: content that was withheld, a model of no known provider, a trace without a call, nobody there."""
    from tests.langchain.models import FakeModel

    model = ChatOpenAI(model="m", base_url=f"{server.url}/v1")
    with record("withheld", content="hashes"):
        model.invoke("1 + 2?")
    code, text = told(capsys, "last")
    assert (code, "were not kept in full" in text, "Traceback" in text) == (3, True, False)
    with record("unknown model"):
        FakeModel(replies=["x"]).invoke("a")
    assert "does not say which model was asked for" in told(capsys, "last")[1]
    with record("call"):
        model.invoke("1 + 2?")
    assert "has no call abcdef" in told(capsys, "last", "--span", "abcdef")[1]
    assert "No repetition of ChatOpenAI was answered" in told(capsys, "last", "--n", "1", "--base-url", "http://127.0.0.1:9/v1")[1]  # fmt: skip
    suite = tmp_path / "suite.py"
    suite.write_text(SUITE.format(url=server.url))
    assert "answers no case" in told(capsys, "last~1", "--suite", str(suite))[1]
