"""Steps are sent on while the agent runs, and whatever the endpoint does, the agent and the store have theirs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.prompts import ChatPromptTemplate

from agenttrace import AgentTraceHandler, open_store
from agenttrace.errors import UsageError
from agenttrace.recording import flush
from agenttrace.store.exports import unconfirmed
from tests.end_to_end.test_export import accept, arrived, export, refuse
from tests.langchain.models import FakeModel
from tests.model_server import Exchange, ModelServer, serve

AGENT = """
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from agenttrace import AgentTraceHandler
handler = AgentTraceHandler(export={export!r})
for number in range(3):
    assert FakeListChatModel(responses=["ok"]).invoke("hi", config={{"callbacks": [handler]}}).content == "ok"
print("done")
"""


def run_agent(endpoint: str) -> subprocess.CompletedProcess[str]:
    """An agent in a process of its own that calls its model three times and ends."""
    return subprocess.run(
        [sys.executable, "-c", AGENT.format(export=endpoint)], capture_output=True, text=True, check=False, timeout=60
    )


def busy(exchange: Exchange) -> None:
    exchange.send({}, status=500)


def stored() -> set[str]:
    opened = open_store()
    return {span.span_id for summary in opened.traces() for span in opened.trace(summary.trace_id)}


def test_steps_arrive_and_are_confirmed(store: Path) -> None:
    """What the endpoint acknowledged needs no sending later."""
    with serve(accept) as server:
        result = run_agent(server.url)
        assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
        rest = export("--to", "otlp", "--endpoint", server.url, "--resume")
    assert set(arrived(server)) >= stored()
    assert len(arrived(server)) == len(set(arrived(server)))
    assert "Nothing to send" in rest.stdout


def test_the_environment_names_an_endpoint_too(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AGENTTRACE_OTLP_ENDPOINT alone sends every step on."""
    with serve(accept) as server:
        monkeypatch.setenv("AGENTTRACE_OTLP_ENDPOINT", server.url)
        (ChatPromptTemplate.from_template("{x}") | FakeModel(replies=["ok"])).invoke(
            {"x": "hi"}, config={"callbacks": [AgentTraceHandler()]}
        )
        flush()
        assert wait_for(lambda: set(arrived(server)) >= stored())


def wait_for(condition: object, seconds: float = 30) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)  # what is waited for happens in another thread, and says nothing
    return True


def test_a_busy_endpoint_gets_them_later(store: Path) -> None:
    """500 is tried again; nothing is sent twice that was acknowledged, and nothing is missing."""
    with serve(busy, accept) as server:
        AgentTraceHandler(export=server.url)  # of this process, which lives on
        (FakeModel(replies=["ok"])).invoke("hi", config={"callbacks": [AgentTraceHandler()]})
        flush()
        assert wait_for(lambda: set(arrived(server)) >= stored() and len(server.asked) == 2)
    assert arrived_by(server, 0) == arrived_by(server, 1)


def arrived_by(server: ModelServer, number: int) -> list[str]:
    one = ModelServer(accept)
    one.server_close()
    one.asked = [server.asked[number]]
    return arrived(one)


@pytest.fixture
def silent() -> Iterator[str]:
    """An endpoint that takes a request and never answers."""
    let_go = threading.Event()

    def wait(exchange: Exchange) -> None:
        let_go.wait(60)

    with serve(wait) as server:
        yield server.url
        let_go.set()


@pytest.mark.parametrize("what", ["nobody", "refuses", "silent", "busy"])
def test_an_endpoint_in_trouble_costs_nothing(store: Path, silent: str, what: str) -> None:
    """The agent answers and ends as ever, one line says what was not sent, and --resume sends all of it."""
    with serve(busy if what == "busy" else refuse) as server:
        endpoint = {"nobody": "http://127.0.0.1:1", "silent": silent}.get(what, server.url)
        result = run_agent(endpoint)
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert result.stderr.count("Not sent to") == 1
    assert "--resume" in result.stderr
    assert "Traceback" not in result.stderr
    with serve(accept) as server:
        assert export("--to", "otlp", "--endpoint", server.url, "--resume").returncode == 0
    assert set(arrived(server)) >= stored()
    assert len(stored()) == 3


def test_what_phoenix_acknowledged_is_not_confirmed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Phoenix may lose what it acknowledged: only its own answer counts, and that is asked for later."""
    with serve(accept) as server:
        monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", server.url)
        assert run_agent("phoenix").returncode == 0
        assert len(arrived(server)) >= 3
        assert sum(map(len, unconfirmed(None, f"phoenix {server.url}").values())) == 3


def test_a_forked_child_sends_only_its_own(store: Path) -> None:
    """What waits in the parent is the parent's."""
    with serve(accept) as server:
        handler = AgentTraceHandler(export=server.url)
        FakeModel(replies=["ok"]).invoke("hi", config={"callbacks": [handler]})
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        flush()
        assert wait_for(lambda: set(arrived(server)) >= stored())
    assert len(arrived(server)) == len(set(arrived(server)))


def test_a_wrong_destination_is_said_at_once(store: Path) -> None:
    """A name that is none, before anything runs."""
    with pytest.raises(UsageError, match="no destination"):
        AgentTraceHandler(export="pheonix")


def test_a_wrong_variable_keeps_no_agent_from_running(
    store: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The environment is not the agent's: a line is logged, and the steps are recorded."""
    monkeypatch.setenv("AGENTTRACE_OTLP_ENDPOINT", "nonsense")
    with caplog.at_level(logging.WARNING):
        FakeModel(replies=["ok"]).invoke("hi", config={"callbacks": [AgentTraceHandler()]})
        flush()
    assert "sends nothing on" in caplog.text
    assert len(stored()) == 1
