"""What the documentation shows, runs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from agenttrace.comparison.evidence import Outcome
from agenttrace.comparison.verdicts import Verdict
from agenttrace.phases.names import ORDER
from agenttrace.steps import State

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def examples() -> Iterator[object]:
    for page in PAGES:
        for number, code in enumerate(
            re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL), 1
        ):
            yield pytest.param(code, id=f"{page.name}-{number}")


@pytest.mark.parametrize("code", examples())
def test_an_example_runs(code: str, store: Path, tmp_path: Path) -> None:
    """Each Python example runs as it stands, in a folder of its own."""
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def links() -> Iterator[object]:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://)([^)]+)\)", page.read_text()):
            yield pytest.param(page, target, id=f"{page.name}->{target}")


@pytest.mark.parametrize(("page", "target"), links())
def test_a_link_leads_somewhere(page: Path, target: str) -> None:
    """Links between pages name files, and sections of them, that exist."""
    path, _, anchor = target.partition("#")
    linked = (page.parent / path) if path else page
    assert linked.exists()
    if anchor:
        titles = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


def test_every_test_that_a_page_names_is_there() -> None:
    """A page that names the test behind a promise names one that exists."""
    known = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text())}
    assert named
    assert not {name for name in named if f"def {name}(" not in known}


def test_every_promise_is_proved() -> None:
    """Each row of the page of promises names at least one test."""
    rows = re.findall(r"^\| (.+) \| (.+) \|$", (ROOT / "docs" / "promises.md").read_text(), re.MULTILINE)
    promises = [row for row in rows if row != ("promise", "proved by")]
    assert promises
    assert not [promise for promise, proof in promises if not re.fullmatch(r"`test_\w+`(, `test_\w+`)*", proof)]


def test_every_page_is_found_from_the_first() -> None:
    """The README names each page."""
    text = (ROOT / "README.md").read_text()
    assert not [page.name for page in PAGES[1:] if f"](docs/{page.name})" not in text]


def test_the_glossary_has_the_codes_words() -> None:
    """Every phase in its order, every state, outcome and verdict, and none that the code does not know."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    assert tuple(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == ORDER
    states = text.partition("## States")[2]
    assert set(re.findall(r"^\| (\w+) \|", states, re.MULTILINE)) - {"state"} == set(get_args(State))
    assert f"| verdict | {', '.join(get_args(Verdict))} |" in text
    assert f"ended: {', '.join(get_args(Outcome))} |" in text
