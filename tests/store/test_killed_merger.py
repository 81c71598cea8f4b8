"""A merger is killed for real, at each of its steps and at any moment; what was recorded is there once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agenttrace.store.content import ContentWriter
from agenttrace.store.importing import write_segment
from agenttrace.store.layout import Layout
from agenttrace.store.reading import open_store
from agenttrace.store.rows import Row, span_row
from tests.builders import a_model_call

SPANS = 400

AT_STEP = """
import os, signal, sys
from agenttrace.store import merge
from agenttrace.store.reading import open_store

class Killing:
    def __init__(self, connection): self.connection = connection
    def __getattr__(self, name): return getattr(self.connection, name)
    def execute(self, query, *parameters):
        when, step = sys.argv[1].split(" ")
        if when == "before" and query == step: os.kill(os.getpid(), signal.SIGKILL)
        result = self.connection.execute(query, *parameters)
        if when == "after" and query == step: os.kill(os.getpid(), signal.SIGKILL)
        return result

merged = merge._merge_batch
merge._merge_batch = lambda layout, connection, slices: merged(layout, Killing(connection), slices)
open_store().runs()
"""

MERGE = "from agenttrace.store.reading import open_store; open_store().runs()"


@pytest.fixture
def filled(store: Path) -> Path:
    layout = Layout(store)
    layout.create()
    for part in range(4):
        rows: list[Row] = []
        content = ContentWriter(rows.append)
        rows.extend(
            span_row(a_model_call(n, input=[{"role": "user", "content": f"{n}"}]), content)
            for n in range(1 + part * SPANS // 4, 1 + (part + 1) * SPANS // 4)
        )
        write_segment(layout, rows)
    return store


def require_all_once(store: Path) -> None:
    with open_store(store).connection() as connection:
        [counts] = connection.execute(
            "SELECT count(*), count(DISTINCT span_id), (SELECT count(*) FROM phases), (SELECT count(*) FROM contents) FROM spans"
        ).fetchall()
    assert counts == (SPANS, SPANS, SPANS, SPANS)
    assert open_store(store).damaged_lines() == 0
    assert not list(Layout(store).journal.iterdir())


@pytest.mark.parametrize("step", ["after BEGIN", "before COMMIT", "after COMMIT", "after CHECKPOINT"])
def test_a_kill_at_a_step(filled: Path, step: str) -> None:
    """Killed before or after its commit, its checkpoint or its removals, the next merger makes it whole."""
    killed = subprocess.run([sys.executable, "-c", AT_STEP, step], check=False)
    assert killed.returncode == -9
    assert list(Layout(filled).journal.iterdir())
    require_all_once(filled)


def test_kills_at_any_moment(filled: Path) -> None:
    """Killed again and again, wherever it is."""
    source = random.Random(3)
    for _ in range(8):
        merger = subprocess.Popen([sys.executable, "-c", MERGE])
        time.sleep(source.uniform(0.05, 0.6))  # the moment of the kill is what varies
        merger.kill()
        merger.wait()
    require_all_once(filled)
