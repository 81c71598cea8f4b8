"""`agenttrace show A --diff B` on two recordings of a real agent: in the console, as JSON, and in a real browser."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from agenttrace import open_store, record
from agenttrace.recording import flush
from tests.browser import open_page

HOSTILE = "</pre><img src=x onerror=alert(1)>\x1b[31m"


class Scripted(GenericFakeChatModel):
    """Answers as told, and may be given tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def run_agent(name: str, population: str) -> str:
    """An agent looks a number up and says it; its trace."""

    @tool
    def population_of(city: str) -> str:
        """How many live there."""
        return population

    asks = AIMessage("", tool_calls=[{"name": "population_of", "args": {"city": "Bern"}, "id": f"call-{name}"}])
    model = Scripted(messages=iter([asks, AIMessage(f"It is {population}.")]))
    with record(name):
        create_agent(model, [population_of]).invoke({"messages": [HumanMessage("How many live in Bern?")]})
    flush()
    return open_store().traces()[0].trace_id


def agenttrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agenttrace", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def traces(store: Path) -> tuple[str, str]:
    return run_agent("before", "134000"), run_agent("after", f"1340 {HOSTILE}")


def test_the_tool_is_what_differs_first(traces: tuple[str, str]) -> None:
    """The model asked the same of it; what it answered stands first, and what the model made of that second."""
    result = agenttrace("show", traces[0], "--diff", traces[1])
    assert result.returncode == 0, result.stderr
    assert "They part first in the tool output of population_of at tools" in result.stdout
    assert result.stdout.index("-tool: 134000") < result.stdout.index("then in the model output of Scripted at model")
    assert "prompt" not in result.stdout
    assert "\x1b" not in result.stdout

    told = json.loads(agenttrace("show", traces[0], "--diff", traces[1], "--json").stdout)
    assert told["parts"] == ["tool output", "model output"]
    assert told["baseline"] == traces[0]
    assert {step["name"] for step in told["steps"]} >= {"LangGraph", "model", "tools", "population_of"}
    assert all(step["baseline_s"] > 0 < step["candidate_s"] for step in told["steps"])


def test_the_same_trace_twice(traces: tuple[str, str]) -> None:
    """Nothing parts, and that is said."""
    assert "Both were given the same and gave the same" in agenttrace("show", traces[0], "--diff", traces[0]).stdout


def test_the_last_two(traces: tuple[str, str]) -> None:
    """`last~1` is the trace before the last; there is none before the first."""
    told = json.loads(agenttrace("show", "last~1", "--diff", "last", "--json").stdout)
    assert (told["baseline"], told["candidate"]) == traces
    assert "There are not 3 traces" in agenttrace("show", "last~2").stderr


def test_bad_questions(traces: tuple[str, str]) -> None:
    """A trace that is not there, and two questions at once: a sentence each."""
    assert "no trace" in agenttrace("show", traces[0], "--diff", "nowhere").stderr.lower()
    both = agenttrace("show", traces[0], "--diff", traces[1], "--why")
    assert both.returncode == 2
    assert "give one of them" in both.stderr


def test_the_page_in_a_browser(traces: tuple[str, str], tmp_path: Path) -> None:
    """What was recorded stays text, and the first difference is open."""
    file = tmp_path / "diff.html"
    assert agenttrace("show", traces[0], "--diff", traces[1], "--html", str(file)).returncode == 0
    with open_page() as page:
        problems: list[str] = []
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("console", lambda message: problems.append(message.text))
        page.goto(file.as_uri())
        first = page.locator("details").first
        assert first.locator("summary").inner_text().startswith("tool output of population_of at tools")
        assert "<img src=x" in first.locator("pre").inner_text()
        assert page.locator("table").last.locator("tbody tr").count() == 7
        assert problems == []


SUITE = """
import os
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from agenttrace import Case, Suite
from agenttrace.evaluation.evaluators import Contains

WHAT = os.environ["WHAT"]

class Archive(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document("nothing" if WHAT == "retrieval" and query == "c1" else f"the answer to {query}")]

def task(given):
    found = Archive().invoke(given)[0].page_content
    said = "no idea" if WHAT == "model" and given == "c1" else found
    model = GenericFakeChatModel(messages=iter([AIMessage(said)]))
    return model.invoke(f"Tell: {found}").content

suite = Suite(name="parts", cases=[Case(id=f"c{n}", input=f"c{n}", expected=f"c{n}") for n in range(3)],
              task=RunnableLambda(task), evaluators=[Contains()], repetitions=2)
"""


@pytest.mark.parametrize(
    ("what", "parts"),
    [("retrieval", ["retrieval", "prompt", "model output"]), ("model", ["model output"])],
)
def test_each_failed_case_names_what_differs(
    what: str, parts: list[str], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two runs of a suite, only the case that changed, first difference first: in JSON, console, Markdown and HTML."""
    (tmp_path / "suite.py").write_text(SUITE)
    for name in ("none", what):
        monkeypatch.setenv("WHAT", name)
        assert agenttrace("eval", "run", str(tmp_path / "suite.py"), "--name", name).returncode == 0
    reports = ("--markdown", str(tmp_path / "a.md"), "--html", str(tmp_path / "a.html"))
    drawn = agenttrace("compare", "none", what, *reports).stdout
    told = json.loads(agenttrace("compare", "none", what, "--json").stdout)
    parted = {case["case"]: case["parted"] for case in told["cases"]}
    assert parted["c1"]["parts"] == parts
    assert parted["c0"] is None is parted["c2"]
    assert ", ".join(parts) in drawn
    assert f"agenttrace show {parted['c1']['baseline'][:12]} --diff {parted['c1']['candidate'][:12]}" in drawn
    assert ", ".join(parts) in (tmp_path / "a.md").read_text()
    assert f"Differs first in: <b>{', '.join(parts)}</b>" in (tmp_path / "a.html").read_text()
