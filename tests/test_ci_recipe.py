"""docs/ci.md: its workflows are valid, and every shell step in them does what the page says, on a project of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "ci.md"
GITHUB, GITLAB, MAIN = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)

SUITE = """
from langchain_core.language_models import FakeListChatModel
from agenttrace import Case, Suite
from agenttrace.evaluation.evaluators import Exact

WORDS = {words}

def task(given):
    return FakeListChatModel(responses=[WORDS.get(given, given)]).invoke(given).content

suite = Suite(name="words", cases=[Case(id=f"c{{n}}", input=f"c{{n}}", expected=f"c{{n}}") for n in range(30)], task=task,
              evaluators=[Exact()])
"""


@pytest.mark.parametrize(
    ("workflow", "schema"), [(GITHUB, "github-workflows"), (MAIN, "github-workflows"), (GITLAB, "gitlab-ci")]
)
def test_a_workflow_is_valid(workflow: str, schema: str, tmp_path: Path) -> None:
    """By the schema that its service publishes."""
    file = tmp_path / "workflow.yml"
    file.write_text(workflow)
    command = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", f"vendor.{schema}", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def project(made_project: Path, tmp_path: Path) -> Path:
    """A checkout of it."""
    return Path(shutil.copytree(made_project, tmp_path / "checkout"))


@pytest.fixture(scope="module")
def made_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a suite and an accepted baseline; a `gh` that keeps what it is asked to post."""
    tmp_path = tmp_path_factory.mktemp("project")
    write_suite(tmp_path, {})
    (tmp_path / "pyproject.toml").write_text("[tool.agenttrace.margins]\nexact = 0.2\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    gh = tools / "gh"
    gh.write_text('#!/bin/sh\necho "$@" > gh-arguments\n')
    gh.chmod(0o755)
    for line in ("git init -q", "git add -A", "git -c user.name=a -c user.email=a@b commit -qm first"):
        assert shell(line, tmp_path).returncode == 0
    assert shell("agenttrace eval run suite.py --name accepted-run", tmp_path).returncode == 0
    assert shell("agenttrace baseline accept accepted-run", tmp_path).returncode == 0
    return tmp_path


def write_suite(folder: Path, words: Mapping[str, str]) -> None:
    (folder / "suite.py").write_text(SUITE.format(words=dict(words)))


def shell(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A step as a runner executes it: bash that stops at the first failure. What is installed already needs no index."""
    path = os.pathsep.join([str(folder / "tools"), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
    environment.pop("AGENTTRACE_STORE", None)
    return subprocess.run(
        ["bash", "-e", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def github_steps(workflow: str) -> Iterator[dict[str, Any]]:
    for job in yaml.safe_load(workflow)["jobs"].values():
        yield from (step for step in job["steps"] if "run" in step)


def run_github(project: Path, workflow: str) -> dict[str, subprocess.CompletedProcess[str]]:
    """Every shell step; after one that failed only those that say `always()`."""
    results: dict[str, subprocess.CompletedProcess[str]] = {}
    summary = project / "summary.md"
    for step in github_steps(workflow):
        has_failed = any(result.returncode for result in results.values())
        if not has_failed or "always()" in step.get("if", ""):
            variables = {"NUMBER": "7", "GITHUB_HEAD_REF": "topic", "GITHUB_STEP_SUMMARY": str(summary)}
            results[step.get("name", step["run"])] = shell(step["run"], project, **variables)
    return results


def test_github_passes_an_unchanged_agent(project: Path) -> None:
    """The comment is there to be posted, the page to be uploaded, and each step succeeded."""
    results = run_github(project, GITHUB)
    assert {name: result.returncode for name, result in results.items()} == dict.fromkeys(results, 0), results
    assert len(results) == 4
    assert "pr comment 7 --edit-last --create-if-none --body-file comment.md" in (project / "gh-arguments").read_text()
    assert "agenttrace: pass" in (project / "comment.md").read_text()
    assert all((project / file).exists() for file in ("report.html", "verdict.xml", ".agenttrace", "summary.md"))


def test_github_fails_a_worse_agent_and_says_so(project: Path) -> None:
    """The verdict's exit code is the step's; the comment is posted all the same."""
    write_suite(project, {f"c{n}": "wrong" for n in range(30)})
    results = run_github(project, GITHUB)
    assert results["Compare with the accepted run"].returncode == 1
    assert "::error" in results["Compare with the accepted run"].stdout
    assert results["Say it on the pull request"].returncode == 0
    assert "agenttrace: regressed" in (project / "comment.md").read_text()


def test_without_a_baseline_it_is_13(project: Path) -> None:
    """Never a quiet pass."""
    for file in (project / "baselines").iterdir():
        file.unlink()
    assert run_github(project, GITHUB)["Compare with the accepted run"].returncode == 13


def test_main_records_what_pull_requests_compare_with(project: Path) -> None:
    """With the store that the cache brings, `branch:main` is main's last run."""
    assert all(result.returncode == 0 for result in run_github(project, MAIN).values())
    results = run_github(project, GITHUB.replace("compare accepted", "compare branch:main"))
    assert results["Compare with the accepted run"].returncode == 0, results["Compare with the accepted run"]
    assert "main" in (project / "comment.md").read_text()


@pytest.fixture
def gitlab() -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """What GitLab's API is sent: path, token, and the note's text."""
    notes: list[tuple[str, str, str]] = []

    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            notes.append((self.path, self.headers["PRIVATE-TOKEN"], parse_qs(body)["body"][0]))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", notes
        server.shutdown()


def test_gitlab(project: Path, gitlab: tuple[str, list[tuple[str, str, str]]]) -> None:
    """Its scripts fail with the verdict, and the note is posted after them."""
    address, notes = gitlab
    write_suite(project, {f"c{n}": "wrong" for n in range(30)})
    job = yaml.safe_load(GITLAB)["agent"]
    variables = {
        "CI_API_V4_URL": address, "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "5", "AGENT_TOKEN": "t",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "topic", "no_proxy": "127.0.0.1",
    }  # fmt: skip
    codes = [shell(line, project, **variables).returncode for line in (*job["before_script"], *job["script"])]
    assert codes == [0, 0, 1]
    for line in job["after_script"]:
        posted = shell(line, project, **variables)
        assert posted.returncode == 0, posted.stderr
    [(path, token, body)] = notes
    assert (path, token) == ("/projects/3/merge_requests/5/notes", "t")
    assert "agenttrace: regressed" in body
    assert all((project / file).exists() for file in ("report.html", "verdict.xml"))
