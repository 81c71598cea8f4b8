"""`agenttrace sql` as a user types it: it reads the store, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace.store.importing import import_records
from agenttrace.store.reading import open_store
from tests.builders import a_model_call, a_run, a_span


def sql(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agenttrace", "sql", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture(autouse=True)
def filled(store: Path) -> Path:
    import_records(store, [a_run()], [a_span(1, name="a\x1b[31m,b"), a_model_call(2)])
    return store


def test_it_prints_for_people_csv_and_json() -> None:
    """A table shows no control character; CSV quotes; JSON keeps structure, and says null for what is unknown."""
    query = "SELECT name, tags, sum(start_ns) OVER () AS total, attempt AS name FROM spans ORDER BY span_id LIMIT 1"
    assert "\x1b" not in sql(query).stdout
    assert sql("--csv", "SELECT name, NULL AS nothing FROM spans WHERE kind = 'chain'").stdout == (
        'name,nothing\n"a\x1b[31m,b",\n'
    )
    [row] = json.loads(sql("--json", query).stdout)
    assert row == {"name": "a\x1b[31m,b", "tags": [], "total": 3529180800000000000, "name_4": 1}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM read_text('/etc/passwd')", "disabled by configuration"),
        ("COPY runs TO 'runs.csv'", "disabled by configuration"),
        ("ATTACH 'other.db'", "disabled by configuration"),
        ("FROM 'https://localhost/x.parquet'", "disabled by configuration"),
        ("SET enable_external_access = true", "has been locked"),
        ("DELETE FROM runs", "read-only"),
        ("FROM query", "does not exist"),  # a variable of ours is no table
        ("SELECT 1; DROP TABLE runs", "holds 2 statements"),
        ("selec", "syntax error"),
        ("", "holds 0 statements"),
    ],
)
def test_it_reads_the_store_and_nothing_else(filled: Path, query: str, said: str) -> None:
    """What changes something, reaches a file or the network, or is no query, is refused in one sentence."""
    before = sorted(Path.cwd().iterdir())
    result = sql(query)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(Path.cwd().iterdir()) == before
    assert len(open_store(filled).runs()) == 1


def test_it_ends_when_its_time_or_memory_is_used_up() -> None:
    """A question that would never end, or would fill the machine, is stopped."""
    endless = sql("--timeout", "200ms", "SELECT count(*) FROM range(100000000000) a, range(1000) b")
    assert (endless.returncode, "stopped after 0.2 s" in endless.stderr) == (3, True)
    large = sql("--memory", "50MB", "SELECT list(range) FROM range(100000000)")
    assert (large.returncode, "more than 0.05 GB" in large.stderr) == (3, True)


def test_a_missing_store_is_not_created(tmp_path: Path) -> None:
    """A question leaves no trace of itself."""
    result = sql("--store", str(tmp_path / "none"), "SELECT 1")
    assert (result.returncode, "There is no store" in result.stderr) == (3, True)
    assert not (tmp_path / "none").exists()
