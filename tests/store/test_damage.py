"""What a damaged disk, a loss of power and a clock that is set do to a store."""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace import AgentTraceHandler, recording
from agenttrace.errors import NotAStore
from agenttrace.store.database import locked_database
from agenttrace.store.health import examine
from agenttrace.store.importing import import_records
from agenttrace.store.layout import Layout
from agenttrace.store.reading import open_store
from tests.builders import a_run, a_span
from tests.langchain.models import FakeModel
from tests.store.test_killed_merger import AT_STEP, SPANS, filled, require_all_once

__all__ = ["filled"]  # a fixture

ROOT = Path(__file__).parents[2]

MANY = int(os.environ.get("AGENTTRACE_LONG_TESTS", "0")) and 100
"""How many damages more are tried where time is no matter."""


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


@pytest.mark.parametrize("damage", ["header", "torn", "zeros", *range(2 + MANY)])
def test_a_damaged_log_loses_nothing(filled: Path, damage: str | int) -> None:
    """Killed between commit and checkpoint, and then its log is damaged: the journals that are still there restore it."""
    killed = subprocess.run([sys.executable, "-c", AT_STEP, "after COMMIT"], check=False)
    assert killed.returncode == -9
    log = Layout(filled).log
    data = log.read_bytes()
    place = random.Random(damage).randrange(100, len(data))
    log.write_bytes(
        {"header": flipped(data, 3), "torn": data[: len(data) // 2], "zeros": data + bytes(4096)}.get(
            str(damage), flipped(data, place)
        )
    )
    require_all_once(filled)
    health = examine(filled)
    assert (health.spans, health.doubled, health.is_whole) == (SPANS, 0, True)


def test_a_log_that_was_set_aside_is_said(filled: Path) -> None:
    """It is kept, and doctor ends with 3 until it is removed."""
    subprocess.run([sys.executable, "-c", AT_STEP, "after COMMIT"], check=False)
    log = Layout(filled).log
    log.write_bytes(log.read_bytes().replace(b"spans", b"spbns"))
    require_all_once(filled)
    checked = subprocess.run(
        [sys.executable, "-m", "agenttrace", "doctor"], capture_output=True, text=True, check=False
    )
    [kept] = Layout(filled).damaged_logs()
    assert checked.returncode == 3, checked.stderr
    assert kept.name in checked.stdout
    assert "Everything that was observed is here." in checked.stdout


def test_a_damaged_block_is_found(filled: Path) -> None:
    """Doctor reads every value, so a block whose checksum is wrong is said; the file stays as it is."""
    open_store(filled).runs()
    database = Layout(filled).database
    data = database.read_bytes()
    for place in range(20_000, len(data), 4_000):
        data = flipped(data, place)
    database.write_bytes(data)
    with pytest.raises(NotAStore, match=r"(is damaged|cannot be read)"):
        examine(filled)
    assert database.read_bytes() == data


def test_doubled_spans_are_counted(store: Path) -> None:
    """What only another program could have done is seen."""
    import_records(store, [a_run()], [a_span(1)])
    with locked_database(Layout(store)) as connection:
        connection.execute("INSERT INTO spans FROM spans")
    health = examine(store)
    assert (health.doubled, health.is_whole) == (1, False)


def test_no_code_of_ours_opens_the_database_file() -> None:
    """Whoever opens the file beside DuckDB takes its lock away when closing it: only DuckDB is given the path."""
    users = {}
    for path in sorted((ROOT / "agenttrace").rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        given = [
            ast.unparse(call.func) for call in calls for given in call.args if ast.unparse(given).endswith(".database")
        ]
        users[path.name] = {name for name in given if name.split(".")[-1] in
                            {"open", "copy", "copyfile", "copy2", "read_bytes", "sha256", "digest"}}  # fmt: skip
    assert "database.py" in users
    assert not {name: calls for name, calls in users.items() if calls}


def test_a_second_merger_is_kept_out_by_our_own_lock(store: Path) -> None:
    """Even when DuckDB's own lock is gone, because its holder opened and closed the file."""
    import_records(store, [a_run()], [a_span(1)])
    other = (
        "from agenttrace.store.database import locked_database; from agenttrace.store.layout import Layout, store_path\n"
        "with locked_database(Layout(store_path(None)), wait_s=0.3): print('in')"
    )
    with locked_database(Layout(store)):
        open(Layout(store).database, "rb").close()
        refused = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=False)
    assert "in" not in refused.stdout
    assert "StoreLocked" in refused.stderr


class _Disk:
    """Keeps what was confirmed: the contents of files and of folders, as they were when they were synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.contents: dict[int, bytes] = {}
        self.names: dict[int, set[str]] = {}
        self._datasync, self._sync = os.fdatasync, os.fsync
        monkeypatch.setattr(os, "fdatasync", self.sync_file)
        monkeypatch.setattr(os, "fsync", self.sync_folder)

    def sync_file(self, descriptor: int) -> None:
        self._datasync(descriptor)
        status = os.fstat(descriptor)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        self.contents[status.st_ino] = Path(path).read_bytes()

    def sync_folder(self, descriptor: int) -> None:
        self._sync(descriptor)
        self.names[os.fstat(descriptor).st_ino] = set(os.listdir(descriptor))

    def lose_power(self, folder: Path) -> None:
        """Leave of a folder what was confirmed."""
        names = self.names.get(folder.stat().st_ino, set())
        for path in folder.iterdir():
            kept = self.contents.get(path.stat().st_ino, b"") if path.name in names else None
            path.unlink()
            if kept is not None:
                path.write_bytes(kept)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the name of an open file")
@pytest.mark.parametrize(("durability", "kept"), [("power", 5), ("process", 0)])
def test_what_was_confirmed_survives_a_loss_of_power(
    store: Path, monkeypatch: pytest.MonkeyPatch, durability: str, kept: int
) -> None:
    """With `durability="power"` every step that was flushed was on the disk; without, nothing is promised."""
    disk = _Disk(monkeypatch)
    handler = AgentTraceHandler(store=store, durability=durability)  # type: ignore[arg-type]
    for number in range(5):
        FakeModel(replies=[f"answer {number}"]).invoke("x", config={"callbacks": [handler]})
        recording.flush()
    recording._writers.pop(store.absolute()).close()
    disk.lose_power(Layout(store).journal)
    assert len(open_store(store).traces()) == kept


def test_another_word_for_durability_is_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A promise that was misspelt is not kept silently."""
    monkeypatch.setenv("AGENTTRACE_DURABILITY", "high")
    with pytest.raises(Exception, match="durability is 'high'"):
        AgentTraceHandler(store=store)


def test_a_clock_that_is_set_back_changes_no_duration(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour back and a day forward in the middle of calls: durations are measured, and children do not precede parents."""
    from agenttrace import clock

    real = clock.wall_ns
    handler = AgentTraceHandler(store=store)
    for number, hours in enumerate((0, -1, 24)):
        monkeypatch.setattr(clock, "wall_ns", lambda hours=hours: real() + hours * 3_600_000_000_000)
        FakeModel(replies=[f"answer {number}"]).invoke("x", config={"callbacks": [handler]})
    recording.flush()
    spans = [span for trace in open_store(store).traces() for span in open_store(store).trace(trace.trace_id)]
    assert len(spans) == 3
    assert all(0 <= (span.end_ns or 0) - span.start_ns < 60_000_000_000 for span in spans)
