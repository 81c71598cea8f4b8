"""`agenttrace doctor` says whether anything was lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from agenttrace.records import CaptureCounters
from agenttrace.store.importing import import_records
from agenttrace.store.journal import Journal
from agenttrace.store.layout import Layout
from agenttrace.store.rows import counters_row
from tests.builders import NOON, a_model_call, a_run, a_span
from tests.store.test_merge import lines


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agenttrace", "doctor", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def filled(store: Path) -> Path:
    import_records(store, [a_run()], [a_span(1), a_model_call(2)])
    return store


def test_rows_that_vanish_are_noticed(store: Path) -> None:
    """What something else takes out of the database is told at each opening, and counted by `doctor`."""
    import_records(store, [a_run()], [a_span(1), a_model_call(2)])
    assert "miscounted" not in doctor().stdout
    with duckdb.connect(str(store / "traces.duckdb")) as connection:
        connection.execute("DELETE FROM phases")
    listed = subprocess.run([sys.executable, "-m", "agenttrace", "list"], capture_output=True, text=True, check=False)
    assert listed.returncode == 0
    assert "does not hold what was merged into it (phases -1)" in listed.stderr
    checked = doctor()
    assert checked.returncode == 3
    assert "miscounted  phases: 1 fewer than were merged" in checked.stdout
    assert json.loads(doctor("--json").stdout)["miscounted"] == {"phases": -1}


def test_a_whole_store_is_fine(filled: Path) -> None:
    """Nothing lost: exit code 0, and it says what is there."""
    result = doctor()
    assert result.returncode == 0, result.stderr
    assert "1 run, 1 trace, 2 spans" in result.stdout
    assert "Everything that was observed is here." in result.stdout


def test_losses_are_shown_and_end_with_3(filled: Path) -> None:
    """Capture errors and torn lines are named, and the exit code says so."""
    journal = Journal(Layout(filled).journal, "host:7:x")
    fault = CaptureCounters(process="host:7:x", capture_errors=2, dropped=1, last_error="ValueError: \x1b[31mno")
    journal.append([*lines(counters_row(fault, NOON)), b'{"torn'])
    journal.seal()
    result = doctor()
    assert result.returncode == 3
    assert "host:7:x: 2 errors, 1 dropped" in result.stdout
    assert "1 journal line" in result.stdout
    assert "\x1b" not in result.stdout
    report = json.loads(doctor("--json").stdout)
    assert (report["is_whole"], report["damaged_lines"]) == (False, 1)


def test_no_store_is_an_error_and_creates_none(store: Path) -> None:
    """A command that reads creates nothing."""
    result = doctor()
    assert result.returncode == 3
    assert "There is no store at" in result.stderr
    assert not store.exists()
