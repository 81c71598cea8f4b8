"""Secrets in every place an agent may put them are in no file of the store; and whose trace it is, is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.callbacks.manager import dispatch_custom_event
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool

from agenttrace import AgentTraceHandler, open_store, record
from agenttrace.recording import flush
from tests.langchain.models import FakeModel

SECRET = "Zq7-plain-hush-{}"
"""No known key format: only where it stands says that it is one."""


def secrets() -> dict[str, str]:
    return {name: SECRET.format(name) for name in PLACES}


PLACES = (
    "header bound url urluser query env argument nested metadata configurable tag jsontext cookie event pair".split()
)


def run_agent(hush: dict[str, str]) -> None:
    """A real agent that puts secrets into everything, fails once, and goes on."""
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        notes: list[str]

    @tool
    def fetch(url: str, api_key: str, options: dict[str, Any]) -> str:
        """Fetch something."""
        dispatch_custom_event("fetched", {"password": hush["event"], "to": f"https://me:{hush['url']}@host/x"})
        raise ConnectionError(
            f"GET https://{hush['urluser']}@host/x?token={hush['query']} failed: OPENAI_API_KEY={hush['env']}"
        )

    call = AIMessage("", tool_calls=[{"id": "c", "name": "fetch", "args": {
        "url": f"https://me:{hush['url']}@host/", "api_key": hush["argument"],
        "options": {"headers": {"Authorization": hush["header"]}, "auth": {"client_secret": [hush["nested"]]}},
    }}])  # fmt: skip

    def node(state: State, config: RunnableConfig) -> State:
        model = FakeModel(replies=[call]).bind(
            extra_headers={"X-Api-Key": hush["bound"], "Cookie": f"sid={hush['cookie']}"}, api_key=hush["bound"]
        )
        answer: Any = model.invoke(f'my settings are {{"api_key": "{hush["jsontext"]}"}}', config)
        try:
            fetch.invoke(answer.tool_calls[0], config)
        except ConnectionError as error:
            return {"notes": [str(error)]}
        return {"notes": []}

    graph = StateGraph(State)
    graph.add_node("work", node)
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    config: Any = {
        "callbacks": [AgentTraceHandler()],
        "metadata": {"db_password": hush["metadata"], "headers": [["x-api-key", hush["pair"]]]},
        "configurable": {"thread_id": "t1", "session_id": "s1", "user_id": "u1", "api_key": hush["configurable"]},
        "tags": [f"token={hush['tag']}"],
    }
    graph.compile().invoke({"notes": []}, config=config)


@pytest.mark.parametrize("policy", [{}, {"payload_limit": 40}, {"content": "hashes"}])
def test_no_secret_reaches_the_disk(store: Path, policy: dict[str, Any]) -> None:
    """In headers, bound arguments, URLs, errors, tool arguments, metadata, tags, events and environments: none is stored."""
    hush = secrets()
    with record("hushed", metadata={"api_key": hush["metadata"]}, **policy):
        run_agent(hush)
    flush()
    text = b"".join(file.read_bytes() for file in store.rglob("*") if file.is_file())
    found = [name for name, secret in hush.items() if secret.encode() in text or secret[:14].encode() in text]
    spans = json.dumps([str(span) for trace in open_store().traces() for span in open_store().trace(trace.trace_id)])
    assert [name for name in hush if SECRET.format(name) in spans] == []
    assert found == []
    assert "fetch" in spans


def test_a_graphs_config_says_whose_trace_it_is(store: Path) -> None:
    """Session and user of `configurable` are the trace's, as LangGraph tells only of the thread."""
    run_agent(secrets())
    flush()
    [trace] = open_store().traces()
    assert (trace.session, trace.user) == ("s1", "u1")


def test_what_record_was_told_is_kept_with_each_trace(store: Path) -> None:
    """Session, user, tags and metadata of `record()` are each trace's; the call's own config wins."""
    with record("told", session="s", user="u", tags={"branch": "main"}, metadata={"case": "q1", "lane": 1}):
        FakeModel(replies=["ok"]).invoke("x", config={"tags": ["mine"], "metadata": {"user_id": "own", "lane": 2}})
    [trace] = open_store().traces()
    assert (trace.session, trace.user, trace.tags) == ("s", "own", ("mine", "branch=main"))
    assert (trace.metadata["case"], trace.metadata["lane"]) == ("q1", 2)
