"""Taking traces out leaves the others whole."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

from agenttrace.records import SpanRecord
from agenttrace.store import pruning
from agenttrace.store.content import ContentWriter
from agenttrace.store.importing import import_records
from agenttrace.store.journal import Journal
from agenttrace.store.layout import Layout
from agenttrace.store.pruning import compact, prune
from agenttrace.store.reading import open_store
from agenttrace.store.rows import row_line, span_row
from tests.builders import NOON, SECOND, a_model_call, a_run

LONG = "filler " * 200


def call(number: int, **fields: object) -> SpanRecord:
    """A trace of one call, a minute after the one before, that goes on with its conversation."""
    began = NOON + number * 60 * SECOND
    chat = [{"role": "user", "content": f"message {n} {LONG}"} for n in range(number + 4)]
    return a_model_call(
        number, **{"trace_id": f"{number:032x}", "parent_id": None, "start_ns": began, "end_ns": began + SECOND,
                   "run_id": f"run{number}", "input": chat, "output": f"answer {number} {LONG}", **fields}
    )  # fmt: skip


CALLS = [call(number, tags=("odd",) if number % 2 else ()) for number in range(1, 7)]


@pytest.fixture
def filled(store: Path) -> Path:
    import_records(store, [a_run(run_id=span.run_id, name=span.run_id) for span in CALLS], CALLS)
    return store


def texts(store: Path) -> int:
    with open_store(store).connection() as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM contents").fetchall()
    return int(count)


def kept(store: Path) -> list[int]:
    opened = open_store(store)
    numbers = sorted(int(trace.trace_id, 16) for trace in opened.traces())
    for number in numbers:  # whole, with every message of a conversation whose beginnings were shared
        assert opened.trace(f"{number:032x}") == (CALLS[number - 1],)
    assert {run.name for run in opened.runs()} == {f"run{number}" for number in numbers}
    return numbers


@pytest.mark.parametrize(
    ("before", "tag", "left"),
    [(4, None, [4, 5, 6]), (None, "odd", [2, 4, 6]), (4, "odd", [2, 4, 5, 6]), (0, None, [1, 2, 3, 4, 5, 6])],
)
def test_age_and_tag_choose(filled: Path, before: int | None, tag: str | None, left: list[int]) -> None:
    """What is left is whole; texts and runs that nothing refers to are gone with their traces."""
    before_ns = None if before is None else NOON + before * 60 * SECOND
    trial = prune(filled, before_ns=before_ns, tag=tag, is_trial=True)
    assert kept(filled) == [1, 2, 3, 4, 5, 6]
    pruned = prune(filled, before_ns=before_ns, tag=tag)
    assert (pruned.traces, pruned.runs) == (trial.traces, trial.runs) == (6 - len(left), 6 - len(left))
    assert kept(filled) == left
    messages, answers, settings = max(left) + 4, len(left), 0
    assert texts(filled) == messages + answers + settings


def test_a_size_takes_the_oldest(filled: Path) -> None:
    """The newest traces stay, and the file is smaller than before."""
    big = [call(n, output=os.urandom(200_000).hex()) for n in range(10, 20)]
    import_records(filled, [a_run(run_id=span.run_id) for span in big], big)
    compact(filled)
    before = Layout(filled).database_bytes()
    pruned = prune(filled, max_bytes=before // 2)
    assert pruned.bytes_after < before
    numbers = sorted(int(trace.trace_id, 16) for trace in open_store(filled).traces())
    assert numbers
    assert numbers == list(range(20 - len(numbers), 20))


def test_a_process_that_records_keeps_its_texts(filled: Path) -> None:
    """While a segment is open its process may refer to any text, so none is taken out; and it is told to write anew."""
    journal = Journal(Layout(filled).journal, "host:1:abc")
    rows: list[bytes] = []
    content = ContentWriter(lambda row: rows.append(row_line(row)))
    span = call(30)
    rows.append(row_line(span_row(span, content)))
    journal.append(rows)
    before = texts(filled)
    assert not journal.is_gone()
    assert prune(filled, before_ns=NOON + 4 * 60 * SECOND).texts_kept
    assert texts(filled) == before
    assert journal.is_gone()
    journal.seal()
    assert open_store(filled).trace(span.trace_id) == (span,)
    assert not prune(filled, before_ns=NOON + 5 * 60 * SECOND).texts_kept
    assert texts(filled) < before


@pytest.mark.parametrize("step", ["copy_database", "fsync", "replace"])
def test_a_compaction_that_is_broken_off_leaves_the_old(
    filled: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it ends there is one whole database, and the next compaction works."""

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pruning if step == "copy_database" else os, step, fail)
        with pytest.raises(KeyboardInterrupt):
            compact(filled)
    assert kept(filled) == [1, 2, 3, 4, 5, 6]
    before, after = compact(filled)
    assert after <= before
    assert kept(filled) == [1, 2, 3, 4, 5, 6]
    with duckdb.connect(str(Layout(filled).database), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM model_calls").fetchall() == [(6,)]
