"""Result files that Inspect AI, promptfoo, DeepEval and pytest-json-report wrote (fixtures/imports) become runs to compare."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenttrace import open_store
from agenttrace.errors import InvalidRecord
from agenttrace.export.json_fields import BadRecords
from agenttrace.export.scored_tools import ScoredRun, open_tool_file, read_tool
from agenttrace.judging import compare, load_evidence

FILES = Path(__file__).parents[2] / "fixtures" / "imports"


def read(name: str, change: Callable[[Any], None] = lambda value: None, *, skip: bool = False) -> tuple[ScoredRun, ...]:
    value = json.loads((FILES / name).read_text())
    change(value)
    opened = open_tool_file(json.dumps(value).encode())
    assert opened is not None
    return read_tool(*opened, BadRecords(name, are_skipped=skip))


def agenttrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "agenttrace", *arguments], capture_output=True, text=True, check=False)


def test_inspect() -> None:
    """Samples are cases, epochs repetitions, marks numbers; time, tokens and what was asked of the model come along."""
    [run] = read("inspect.json")
    results = {(result.case, result.repetition): result for result in run.results}
    assert set(results) == {(case, epoch) for case in ("france", "italy", "3") for epoch in (1, 2)}
    first = results["3", 1]
    assert (first.outcome, first.scores) == ("scored", {"match": 1.0, "includes": 1.0})
    assert first.metrics == {"latency_s": 0.357, "input_tokens": 12.0, "output_tokens": 3.0}
    assert first.detail["reasons"] == {"match": "Lima", "includes": "Lima"}
    assert {name: setting.value for name, setting in first.settings.items()} == {
        "model.requested": "mockllm/model",
        "model.served": "mockllm/model",
        "sampling.temperature": 0.0,
    }
    assert results["italy", 2].scores["match"] == 0.0


def test_how_samples_of_inspect_end() -> None:
    """An error is the agent's, a limit is one of ours by its kind, scores that are no numbers are labels."""

    def change(log: Any) -> None:
        samples = log["samples"]
        samples[0]["error"] = {"message": "boom"}
        samples[1]["limit"] = {"type": "time", "limit": 9}
        samples[2]["limit"] = {"type": "token", "limit": 9}
        samples[3]["scores"] = {"judge": {"value": {"tone": "P", "length": 12, "class": "polite"}}}
        samples[4]["scores"] = {"judge": {"value": float("nan")}}

    [run] = read("inspect.json", change)
    assert [result.outcome for result in run.results] == [
        "agent_error", "timeout", "limit", "scored", "grader_error", "scored"
    ]  # fmt: skip
    assert run.results[0].detail["errors"] == {"tool": "boom"}
    assert run.results[3].scores == {"judge.tone": 0.5, "judge.length": 12.0}
    assert run.results[3].detail["labels"] == {"judge.class": "polite"}


def test_promptfoo_has_a_run_for_each_prompt_and_provider() -> None:
    """Tests are cases, `--repeat` makes repetitions, a provider that failed is no wrong answer, zero tokens are not told."""
    runs = {run.name: run.results for run in read("promptfoo.json")}
    assert set(runs) == {f"{provider}-prompt-{number}" for provider in ("parrot", "mini") for number in (1, 2)}
    [first, again, other, _] = sorted(
        runs["parrot-prompt-1"], key=lambda result: (result.case[0] != "f", result.repetition)
    )
    assert [(one.case, one.repetition) for one in (first, again, other)] == [
        ("france", 1), ("france", 2), ("country=Peru", 1)
    ]  # fmt: skip
    assert first.scores == {"right": 0.0, "score": 0.18, "pass": 0.0}
    assert set(first.metrics) == {"latency_s"}
    assert first.settings["prompt.content"].value == "Capital of {{country}}?"
    failed = runs["mini-prompt-1"][0]
    assert (failed.outcome, failed.scores, failed.metrics) == ("infra_error", {}, {})
    assert "fetch failed" in str(failed.detail["errors"])
    assert {name: failed.settings[name].value for name in ("sampling.temperature", "limits.max_output_tokens")} == {
        "sampling.temperature": 0.3,
        "limits.max_output_tokens": 40,
    }


def test_promptfoo_json_lines_say_the_same_but_for_what_they_lack() -> None:
    """The same attempts with the same scores; templates and the providers' settings are not in that file."""
    opened = open_tool_file((FILES / "promptfoo.jsonl").read_bytes())
    assert opened is not None
    lines = {run.name: run.results for run in read_tool(*opened, BadRecords("promptfoo.jsonl"))}
    whole = {run.name: run.results for run in read("promptfoo.json")}
    assert {
        name: sorted((r.case, r.repetition, r.outcome, *r.scores.items()) for r in run) for name, run in lines.items()
    } == {
        name: sorted((r.case, r.repetition, r.outcome, *r.scores.items()) for r in run) for name, run in whole.items()
    }


def test_deepeval() -> None:
    """Metrics are scores with their reasons; hyperparameters are settings, numbers again; an error is the grader's."""

    def change(value: Any) -> None:
        value["testCases"][1]["metricsData"][0] |= {"score": None, "error": "judge is down"}
        value["testCases"][0]["completionTime"] = 1.5

    [run] = read("deepeval.json", change)
    first, second = run.results
    assert (first.case, first.scores, first.metrics) == ("france", {"Exactly": 1.0}, {"latency_s": 1.5})
    assert first.detail["reasons"] == {"Exactly": "because"}
    assert first.settings["model.requested"].value == "gpt-5-mini"
    assert first.settings["sampling.temperature"].value == 0
    assert (second.outcome, second.detail["errors"]) == ("grader_error", {"tool": "Exactly: judge is down"})


def test_pytest_json() -> None:
    """A test is a case; skipped ones and expected failures say nothing; one whose setup failed is no failure of the agent."""
    [run] = read("pytest.json")
    told = {result.case.partition("::")[2]: result for result in run.results}
    assert set(told) == {"test_answer[france]", "test_answer[peru]", "test_broken"}
    assert told["test_answer[france]"].scores == {"score": 0.7, "passed": 1.0}
    assert told["test_answer[peru]"].scores["passed"] == 0.0
    assert "assert 'peru' == 'france'" in str(told["test_answer[peru]"].detail["reasons"])
    assert told["test_broken"].outcome == "infra_error"


@pytest.mark.parametrize("name", ["inspect.json", "promptfoo.json", "promptfoo.jsonl", "deepeval.json", "pytest.json"])
def test_the_command_takes_the_file_once(name: str, store: Path) -> None:
    """By itself, without being told whose file it is; a second time changes nothing; each run can be compared."""
    first, again = (json.loads(agenttrace("import", str(FILES / name), "--json").stdout) for _ in range(2))
    assert [run["run_id"] for run in first["runs"]] == [run["run_id"] for run in again["runs"]]
    assert not any(run["already_there"] for run in first["runs"])
    assert all(run["already_there"] for run in again["runs"])
    with open_store() as opened:
        for run in first["runs"]:
            evidence = load_evidence(opened, run["run"])
            assert len(evidence.repetitions) == run["repetitions"]
            assert compare(opened, run["run_id"], run["run_id"]).verdict != "regressed"


def test_what_cannot_be_read_is_told_with_its_place(store: Path, tmp_path: Path) -> None:
    """Nothing is imported of such a file, unless it is said that bad attempts are to be left out: then they are told."""
    value = json.loads((FILES / "inspect.json").read_text())
    del value["samples"][1]["id"]
    value["samples"][3] = "nonsense"
    file = tmp_path / "log.json"
    file.write_text(json.dumps(value))
    refused = agenttrace("import", str(file))
    assert refused.returncode == 3
    assert "2 places of log.json hold no results:\n  samples[1]: KeyError: 'id'\n  samples[3]:" in refused.stderr
    assert "--skip-bad" in refused.stderr
    taken = agenttrace("import", str(file), "--skip-bad")
    assert taken.returncode == 0
    assert "3 cases, 4 attempts" in taken.stdout
    assert "Left out 2 bad records:" in taken.stderr
    assert json.loads(agenttrace("import", str(file), "--skip-bad", "--json").stdout)["skipped"][0].startswith(
        "samples[1]"
    )


def test_bad_lines_of_our_own_formats_can_be_left_out(store: Path, tmp_path: Path) -> None:
    """Scored attempts and records alike."""
    scored = tmp_path / "scores.jsonl"
    scored.write_text('{"case": "a", "scores": {"x": 1}}\n{"case": "b"}\n')
    assert agenttrace("import", str(scored)).returncode == 3
    assert "1 case, 1 attempt" in agenttrace("import", str(scored), "--skip-bad").stdout
    records = tmp_path / "records.jsonl"
    records.write_text('{"record": "run", "run_id": "r", "name": "n", "start_ns": 1}\n{"record": "span"}\n')
    assert "line 2" in agenttrace("import", str(records)).stderr
    assert "line 2" in agenttrace("import", str(records), "--skip-bad").stderr


def test_a_file_that_only_looks_like_a_tools() -> None:
    """What all attempts need is missing: a sentence, and what to do."""
    with pytest.raises(InvalidRecord, match=r"looks like one of inspect, and lacks .*Write it anew"):
        read("inspect.json", lambda log: log["eval"].pop("model"))
    with pytest.raises(InvalidRecord, match="holds no result"):
        read("pytest.json", lambda report: report.update(tests=[]))
    with pytest.raises(InvalidRecord, match=r"inspect log convert"):
        open_tool_file(b"PK\x03\x04")
    assert open_tool_file(b'{"some": "thing"}') is None
    assert open_tool_file(b"no JSON") is None
