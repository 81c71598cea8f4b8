"""Baselines as they are used: accepted, committed, checked out elsewhere, and compared with there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace import open_store
from agenttrace.baselines import accepted_run_ids
from agenttrace.export.baseline_file import read_baseline
from agenttrace.judging import load_evidence
from agenttrace.store.importing import import_records
from tests.builders import NOON, SECOND, a_model_call, a_run, a_span

SUITE = """
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from agenttrace import Case, Suite
from agenttrace.evaluation.evaluators import Exact

def task(given):
    model = FakeListChatModel(responses=["wrong" if given in {wrong} else str(given)])
    return model.invoke([("system", "Repeat it."), ("human", f"Say {{given}}")]).content

suite = Suite(name="say it/all", cases=[Case(id=f"c{{n}}", input=n, expected=str(n), cluster=f"s{{n % 12}}") for n in range(24)],
              task=task, evaluators=[Exact()], repetitions=2)
"""

FILE = "baselines/say-it-all.json"


def run(folder: Path, *command: str, store: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for name in ("GITHUB_HEAD_REF", "GITHUB_REF_NAME"):
        environment.pop(name, None)
    if store is not None:
        environment["AGENTTRACE_STORE"] = str(store)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def agenttrace(folder: Path, *arguments: str, store: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run(folder, sys.executable, "-m", "agenttrace", *arguments, store=store)


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    result = run(folder, "git", *identity, *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def evaluate(folder: Path, name: str, *arguments: str, store: Path | None = None) -> None:
    result = agenttrace(folder, "eval", "run", "suite.py", "--name", name, *arguments, store=store)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a repository on branch main with a suite, a store with one run of it, and that run accepted and committed."""
    root = tmp_path_factory.mktemp("accepted")
    folder = root / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    (folder / ".gitignore").write_text("__pycache__/\n")
    (folder / "suite.py").write_text(SUITE.format(wrong="()"))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "A suite")
    evaluate(folder, "first", store=root / "store")
    reason = "The first that is good enough."
    told = agenttrace(folder, "baseline", "accept", "first", "--reason", reason, store=root / "store")
    assert (told.returncode, told.stderr) == (0, "")
    assert f"Wrote {folder / FILE}: commit it." in told.stdout
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Accept a baseline")
    return root


@pytest.fixture
def project(accepted: Path, tmp_path: Path, store: Path) -> Path:
    """The repository of `accepted`, and its store."""
    shutil.copytree(accepted / "project", tmp_path / "project")
    shutil.copytree(accepted / "store", store)
    return tmp_path / "project"


def test_a_fresh_checkout_compares_with_what_was_accepted(project: Path, tmp_path: Path) -> None:
    """The file alone is enough: the store that the baseline was recorded in is gone, and the verdict is the same."""
    checkout, elsewhere = tmp_path / "checkout", tmp_path / "elsewhere"
    git(tmp_path, "clone", "-q", str(project), str(checkout))
    (checkout / "suite.py").write_text(SUITE.format(wrong="range(18)"))
    evaluate(checkout, "worse", store=elsewhere)
    compared = agenttrace(checkout, "compare", "accepted", "worse", "--json", store=elsewhere)
    assert compared.returncode == 1, compared.stderr
    told = json.loads(compared.stdout)
    [score] = [metric for metric in told["metrics"] if metric["name"] == "exact"]
    assert (score["baseline"], score["candidate"], score["n"], score["clusters"]) == (1.0, 0.25, 24, 12)
    assert told["baseline"]["run"] == "first"
    evaluate(checkout, "worse")  # in the store that has the baseline's run too
    at_home = json.loads(agenttrace(checkout, "compare", "first", "worse", "--json").stdout)
    assert [(one["name"], one["baseline"]) for one in at_home["metrics"]] == [
        (one["name"], one["baseline"]) for one in told["metrics"]
    ]
    run_id = told["baseline"]["run_id"]
    settings = agenttrace(checkout, "settings", run_id[:12], "worse", store=elsewhere)  # as a refusal advises
    assert (settings.returncode, settings.stderr) == (0, "")
    by_file = agenttrace(checkout, "settings", FILE, "worse", store=elsewhere)
    assert (by_file.returncode, by_file.stdout) == (0, settings.stdout)
    page = agenttrace(checkout, "compare", FILE, "worse", "--html", "page.html", store=elsewhere)
    assert page.returncode == 1, page.stderr
    assert (checkout / "page.html").read_text().startswith("<!doctype html>")


def test_the_file_holds_all_that_is_compared(project: Path) -> None:
    """What is read from it is what was read from the store: settings, results, clusters, the suite."""
    stored = load_evidence(open_store(), "first")
    file = project / FILE
    told = read_baseline(file.read_bytes(), file)
    assert told.evidence.repetitions == stored.repetitions
    assert told.evidence.contract == stored.contract
    assert told.evidence.suite == stored.suite
    assert told.evidence.run.run_id == stored.run.run_id
    assert told.reason == "The first that is good enough."
    lines = file.read_text().splitlines()
    assert sum('"case":' in line for line in lines) == 48  # an attempt a line
    assert any('"prompt.content":' in line for line in lines)


@pytest.mark.parametrize(
    ("old", "new"),
    [('"scores":{"exact":1.0}', '"scores":{"exact":0.0}'), ("Repeat it.", "Repeat."), ("agenttrace.baseline/1", "x")],
)
def test_a_file_that_was_edited_is_refused(project: Path, old: str, new: str) -> None:
    """A bar that somebody lowered by hand was not accepted; neither is a bad merge. One sentence, no verdict."""
    file = project / FILE
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))
    compared = agenttrace(project, "compare", "accepted", "first")
    assert (compared.returncode, compared.stdout) == (3, "")
    assert "is no baseline that was accepted" in compared.stderr
    assert "Traceback" not in compared.stderr


def test_no_baseline_is_never_a_pass(project: Path) -> None:
    """Exit code 13 and the command that helps, whatever form of reference found nothing."""
    shutil.move(project / FILE, project / "baselines/other.json")
    for ref in ("accepted", "accepted:nothing", "no/where.json", "branch:none", "tag:none", "gone"):
        compared = agenttrace(project, "compare", ref, "first")
        assert (compared.returncode, compared.stdout) == (13, ""), ref
    told = agenttrace(project, "compare", "accepted", "first").stderr
    assert "Accepted are: other" in told
    assert "agenttrace baseline accept RUN" in told
    assert agenttrace(project, "baseline", "show", "nothing").returncode == 13
    assert agenttrace(project, "compare", "accepted:other", "first").returncode == 10  # 24 cases are few
    (project / "baselines/other.json").unlink()
    assert agenttrace(project, "baseline", "show").returncode == 13


def test_the_latest_run_of_a_branch_or_tag(project: Path) -> None:
    """Its tag says which branch, else what git said; the candidate is never compared with itself."""
    evaluate(project, "second", "--tag", "release=1.2", "--tag", "branch=next")
    evaluate(project, "third")
    for ref, name in (
        ("branch:main", "first"),
        ("branch:next", "second"),
        ("tag:release=1.2", "second"),
        ("tag:release", "second"),
    ):
        told = json.loads(agenttrace(project, "compare", ref, "third", "--json").stdout)
        assert told["baseline"]["run"] == name
    assert json.loads(agenttrace(project, "settings", "branch:main", "--json").stdout)["run"] == "third"


def test_a_baseline_of_another_history_is_said(project: Path) -> None:
    """Its commit is not one that the candidate comes from; and one that git does not know is not taken for fine."""
    assert json.loads(agenttrace(project, "baseline", "show", "--json").stdout)[0]["warnings"] == []
    first = git(project, "rev-parse", "HEAD~1")
    git(project, "checkout", "-q", "--orphan", "other")
    git(project, "commit", "-qam", "Begun anew")
    evaluate(project, "second")
    notes = json.loads(agenttrace(project, "compare", "accepted", "second", "--json").stdout)["notes"]
    assert any(f"{first[:12]} is not in the history of" in note for note in notes)
    assert "is not in the history of HEAD" in agenttrace(project, "baseline", "show").stdout
    shutil.rmtree(project / ".git")
    git(project, "init", "-q")
    assert "this checkout does not have it" in agenttrace(project, "baseline", "show").stdout


def test_an_old_baseline_is_said(project: Path) -> None:
    """From the age on that the project names."""
    (project / "pyproject.toml").write_text('[tool.agenttrace]\nbaseline_max_age = "1ms"\n')
    assert "The baseline is 0 days old" in agenttrace(project, "baseline", "show").stdout
    assert "The baseline is 0 days old" in agenttrace(project, "compare", "accepted", "first").stdout


def test_accepting_again_replaces_and_names_are_no_paths(project: Path, store: Path) -> None:
    """What git shows is the change; --file and `baselines` say where else it goes; the store learns what to keep."""
    evaluate(project, "second")
    (project / "pyproject.toml").write_text('[tool.agenttrace]\nbaselines = "evals/accepted"\n')
    assert agenttrace(project, "baseline", "accept", "second").returncode == 0
    assert [file.name for file in (project / "evals/accepted").iterdir()] == ["say-it-all.json"]
    assert agenttrace(project, "baseline", "accept", "second", "--file", FILE, "--json").returncode == 0
    assert '"name": "second"' in git(project, "diff", FILE)
    ids = {open_store(store).run("second").run_id}
    assert accepted_run_ids(project) == ids
    (project / "evals/accepted/broken.json").write_bytes(b'{"format": "agenttrace.baseline/1", "run_id": "abc", \xff')
    assert accepted_run_ids(project) == {*ids, "abc"}


def test_what_cannot_be_judged_is_not_accepted(store: Path, tmp_path: Path) -> None:
    """An unfinished run, and one without cases: exit code 12, and no file."""
    import_records(store, [a_run(name="cut")], [a_span(1, metadata={"case": "q1"}), a_model_call(2)])
    cases = agenttrace(tmp_path, "baseline", "accept", "cut")
    assert cases.returncode == 12
    assert "is unfinished" in cases.stderr
    spans = [a_span(3, run_id="run2", trace_id="b" * 32), a_model_call(4, run_id="run2", trace_id="b" * 32)]
    import_records(store, [a_run(run_id="run2", name="bare", end_ns=NOON + SECOND)], spans)
    bare = agenttrace(tmp_path, "baseline", "accept", "bare")
    assert (bare.returncode, bare.stdout) == (12, "")
    assert "names no cases" in bare.stderr
    assert not (tmp_path / "baselines").exists()
