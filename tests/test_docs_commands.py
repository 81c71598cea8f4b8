"""What the documentation tells a person to type, works as typed: each page's commands, in order, in a folder of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_docs import PAGES, ROOT

AGENT = """
import sys
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate

class Model(FakeListChatModel):
    temperature: float = 0.0

def answer(question, temperature=0.0):
    prompt = ChatPromptTemplate.from_messages([("system", "Answer in a word."), ("human", "{question}")])
    return (prompt | Model(responses=[question.upper()], temperature=temperature)).invoke({"question": question}).content

if __name__ == "__main__":
    print(answer("owl"))
"""

SUITE = """
from agent import answer
from agenttrace import Case, Suite

def correct(output, expected):
    return output == expected

def suite_at(temperature):
    return Suite(
        name="animals",
        cases=[Case(id=f"c{n}", input=f"owl {n}", expected=f"OWL {n}") for n in range(8)],
        task=lambda question: answer(question, temperature),
        evaluators=[correct],
        repetitions=4,
    )

suite = suite_at(0.0)

if __name__ == "__main__":
    for name in ("nightly", "nightly-2", "later", "main", "branch"):
        suite.run(name)
    suite_at(0.7).run("candidate")
"""

TESTS = """
import pytest
from agent import answer
from agenttrace import Case

@pytest.mark.agent_eval([Case(id=f"c{n}", input=f"owl {n}", expected=f"OWL {n}") for n in range(60)], name="capitals")
def test_capitals(agenttrace_case):
    assert answer(agenttrace_case.input) == agenttrace_case.expected
"""

FILES = {
    "app.py": AGENT,
    "agent.py": AGENT,
    "suite.py": SUITE,
    "test_capitals.py": TESTS,
    "pyproject.toml": "[tool.agenttrace]\n",
    "scores.jsonl": '{"case": "q17", "repetition": 1, "outcome": "scored", "scores": {"correct": 1.0}}\n',
    "response.json": '{"provider": "groq", "payload": {"usage": {"queue_time": 0.01, "prompt_time": 0.02}}}',
}

PLACEHOLDERS = {
    "RUN": "nightly",
    "AGENT": "nightly",
    "A": "nightly",
    "BASELINE": "nightly",
    "B": "candidate",
    "CANDIDATE": "candidate",
    "FILE": "scores.jsonl",
}
"""What a page writes in capitals, and what stands for it here."""

BEFORE = {
    "baselines.md": ["git init -q"],
    "evaluating.md": ["rm suite.py"],
}
"""What a page takes for granted, done first."""

RUN_ELSEWHERE = {
    "make ": "CI runs make's targets",
    "pip install": "make installs the package, and tests/end_to_end/test_run.py starts it",
    "export OTEL_": "settings of a model server",
    "vllm serve": "a model server: tests/end_to_end/test_server_spans.py",
    "python -m sglang": "a model server: tests/end_to_end/test_server_spans.py",
    "agenttrace view": "runs until it is stopped: tests/end_to_end/test_view.py",
    "PHOENIX_COLLECTOR_ENDPOINT=": "needs a Phoenix: tests/end_to_end/test_view.py",
    "agenttrace reproduce": "needs a provider's model: tests/end_to_end/test_reproduce.py",
    "agenttrace export --to otlp": "needs an endpoint: tests/end_to_end/test_export.py",
}
"""How a command begins that is not run here, and who runs it, or why nobody does."""

VERDICTS = {0, 1, 10, 11}
"""Exit codes of a comparison that took place."""


def commands_of(page: Path) -> list[str]:
    blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip() and not line.startswith("#")]


def is_run_here(command: str) -> bool:
    return not command.startswith(tuple(RUN_ELSEWHERE))


def pages() -> Iterator[object]:
    for page in PAGES:
        if any(is_run_here(command) for command in commands_of(page)):
            yield pytest.param(page, id=page.name)


def environment(folder: Path) -> dict[str, str]:
    """That of a person who has installed the package, in an empty folder."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("AGENTTRACE_", "PYTEST_", "GIT_"))
    }
    who = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    editor = {"GIT_EDITOR": "sh -c 'echo Accept > \"$1\"' --"}
    return {**kept, **who, **editor, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def type_in(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an agent, its tests, and runs of it."""
    folder = tmp_path_factory.mktemp("docs")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "bin").mkdir()
    for name in ("agenttrace", "pytest"):
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m {name} "$@"\n')
        script.chmod(0o755)
    made = type_in(f"{sys.executable} suite.py", folder)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.parametrize("page", pages())
def test_the_commands_of_a_page_work(page: Path, recorded: Path, tmp_path: Path) -> None:
    """One after the other, none is misspelled, refused or out of date; a comparison comes to a verdict."""
    folder = tmp_path / "typed"
    shutil.copytree(recorded, folder)
    for name, code in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        (folder / name).write_text(code)
    shown = [re.sub(rf"\b({'|'.join(PLACEHOLDERS)})\b", lambda match: PLACEHOLDERS[match[0]], command)
             for command in commands_of(page) if is_run_here(command)]  # fmt: skip
    for command in [*BEFORE.get(page.name, []), *shown]:
        result = type_in(command, folder)
        allowed = VERDICTS if "agenttrace compare" in command else {0}
        assert result.returncode in allowed, f"{command}\n{result.stdout}{result.stderr}"


def test_every_exception_is_still_needed() -> None:
    """A command that no page shows any more has no excuse in the table."""
    shown = [command for page in PAGES for command in commands_of(page)]
    assert not [start for start in RUN_ELSEWHERE if not any(command.startswith(start) for command in shown)]
    assert not [name for name in BEFORE if not (ROOT / "docs" / name).exists()]
