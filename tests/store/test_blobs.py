"""Large texts lie outside the journal and the database, and nobody notices but the disk."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace.store.filters import TraceFilter
from agenttrace.store.health import examine
from agenttrace.store.importing import import_records
from agenttrace.store.layout import Layout
from agenttrace.store.pruning import prune
from agenttrace.store.reading import open_store
from tests.builders import NOON, SECOND, a_model_call, a_run

LARGE = "An Ölfass, \ud7ff and 'quotes' \\ \n" * 60_000
CALL = a_model_call(2, parent_id=None, input=[{"role": "user", "content": LARGE}], output=LARGE[1:], attempts=())
HOUR = 3_600 * SECOND


@pytest.fixture
def filled(store: Path) -> Path:
    import_records(store, [a_run()], [CALL])
    return store


def files(store: Path) -> list[Path]:
    return sorted(Layout(store).blobs.glob("*/*"))


def test_a_large_text_is_a_file_and_comes_back(filled: Path) -> None:
    """Compressed, private, named by its hash, not in the database; `text` finds the trace by it."""
    opened = open_store(filled)
    assert opened.trace(CALL.trace_id) == (CALL,)
    assert len(files(filled)) == 2
    assert {path.stat().st_mode & 0o777 for path in files(filled)} == {0o600}
    with opened.connection() as connection:
        rows = connection.execute("SELECT hash, body, blob_bytes FROM contents WHERE blob_bytes > 0").fetchall()
    assert {(f"{digest}.json.gz", body) for digest, body, _ in rows} == {(path.name, None) for path in files(filled)}
    assert sorted(size for *_, size in rows) == sorted(
        len(gzip.decompress(path.read_bytes())) for path in files(filled)
    )
    assert len(opened.traces(where=TraceFilter(text="ölfass"))) == 1
    assert opened.traces(where=TraceFilter(text="olfass")) == ()


def test_it_goes_with_its_trace(filled: Path) -> None:
    """Pruning takes the files that no row names, but none that a process may just have written."""
    later = a_model_call(
        3, trace_id="b" * 32, parent_id=None, start_ns=NOON + HOUR, end_ns=NOON + HOUR, output=LARGE[1:]
    )
    import_records(filled, [], [later])
    for path in files(filled):
        os.utime(path, (0, 0))
    prune(filled, before_ns=NOON + HOUR)
    assert len(files(filled)) == 1
    assert open_store(filled).trace("b" * 32) == (later,)
    import_records(filled, [], [CALL])
    prune(filled, before_ns=NOON + HOUR)
    assert len(files(filled)) == 2  # young


def test_a_file_that_is_gone_is_counted(filled: Path) -> None:
    """What cannot be read is said to be missing, in its place and by `doctor`; the rest of the trace is there."""
    assert examine(filled).missing_texts == 0
    first, second = files(filled)
    first.unlink()
    second.write_bytes(second.read_bytes()[:1000])
    health = examine(filled)
    assert (health.missing_texts, health.is_whole) == (2, False)
    [span] = open_store(filled).trace(CALL.trace_id)
    assert span.output == {"missing": "content not found in the store"}
    assert span.usage == CALL.usage


KILLED = """
import os, signal
from agenttrace import AgentTraceHandler, recording
from tests.langchain.models import FakeModel
FakeModel(replies=["y" * 3_000_000]).invoke("x" * 3_000_000, config={"callbacks": [AgentTraceHandler(payload_limit=10_000_000)]})
recording.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_survives_a_kill(store: Path) -> None:
    """The file is there before the line that names it: what was flushed is whole."""
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", KILLED], check=False, cwd=root)
    assert killed.returncode == -signal.SIGKILL
    assert sum(path.stat().st_size for path in Layout(store).journal.iterdir()) < 20_000
    [trace] = open_store(store).traces()
    [span] = open_store(store).trace(trace.trace_id)
    assert span.output == {"role": "assistant", "content": "y" * 3_000_000}
    assert examine(store).is_whole
