"""What a journal holds reaches the database exactly once, whatever happens in between."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import orjson
import pytest

from agenttrace.errors import NewerSchema, NotAStore, RunNotFound, StoreLocked, StoreNotFound, TraceNotFound
from agenttrace.records import CaptureCounters, SpanRecord, Usage
from agenttrace.store import database
from agenttrace.store.content import ContentWriter
from agenttrace.store.importing import import_records
from agenttrace.store.journal import Journal, is_complete
from agenttrace.store.layout import Layout
from agenttrace.store.reading import open_store
from agenttrace.store.rows import Row, counters_row, run_row, span_row, start_row
from tests.builders import NOON, SECOND, a_model_call, a_run, a_span


def lines(*rows: Row) -> list[bytes]:
    return [orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows]


@pytest.fixture
def layout(store: Path) -> Layout:
    layout = Layout(store)
    layout.create()
    return layout


@pytest.fixture
def journal(layout: Layout) -> Iterator[Journal]:
    journal = Journal(layout.journal, "host:1:abc")
    yield journal
    journal.seal()


def plain_rows(*spans: SpanRecord) -> list[Row]:
    rows: list[Row] = []
    content = ContentWriter(rows.append)
    for span in spans:
        rows.append(span_row(span, content))
    return rows


def test_a_running_process_is_seen(layout: Layout, journal: Journal) -> None:
    """What was written is visible while its segment is still open, and is merged once."""
    journal.append(lines(run_row(a_run()), *plain_rows(a_span(1))))
    assert [trace.spans for trace in open_store(layout.folder).traces()] == [1]
    journal.append(lines(*plain_rows(a_model_call(2))))
    assert [trace.spans for trace in open_store(layout.folder).traces()] == [2]
    assert len(list(layout.journal.glob("*.ndjson"))) == 1
    journal.seal()
    assert [trace.spans for trace in open_store(layout.folder).traces()] == [2]
    assert not list(layout.journal.glob("*.ndjson"))


def test_a_half_written_line_waits_for_its_end(layout: Layout, journal: Journal) -> None:
    """A reader takes whole lines only; the rest is taken when it is whole."""
    [line] = lines(*plain_rows(a_span(1)))
    journal.append([line[:40]])
    assert open_store(layout.folder).traces() == ()
    journal.append([line[40:]])
    assert len(open_store(layout.folder).traces()) == 1
    assert open_store(layout.folder).damaged_lines() == 0


def test_a_torn_line_of_a_killed_process_is_counted(layout: Layout, journal: Journal) -> None:
    """A kill loses at most the line it tore, and that is said."""
    journal.append([*lines(*plain_rows(a_span(1))), b'{"r":"spans","trace'])
    journal.seal()
    assert len(open_store(layout.folder).traces()) == 1
    assert open_store(layout.folder).damaged_lines() == 1


def test_a_damaged_line_costs_only_itself(layout: Layout, journal: Journal) -> None:
    """Lines before and after a damaged one are merged."""
    rows = plain_rows(a_span(1), a_span(2, trace_id="b" * 32))
    first, second = lines(*rows)
    journal.append([first, b"\x00garbage\xff\n", b'{"r":"nonsense"}\n', b"[1]\n", second])
    assert len(open_store(layout.folder).traces()) == 2
    assert open_store(layout.folder).damaged_lines() == 3


def test_an_unfinished_step_is_seen_and_later_corrected(layout: Layout, journal: Journal) -> None:
    """A step that started is there as unfinished until its end arrives."""
    span = a_span(1)
    journal.append(lines(start_row(span, ContentWriter(lambda _: None))))
    [trace] = open_store(layout.folder).traces()
    assert (trace.state, trace.end_ns) == ("unfinished", None)
    assert open_store(layout.folder).trace("a")[0].state == "unfinished"
    journal.append(lines(*plain_rows(span)))
    [trace] = open_store(layout.folder).traces()
    assert (trace.state, trace.end_ns) == ("ok", span.end_ns)


def test_a_run_that_ends_replaces_its_beginning(layout: Layout, journal: Journal) -> None:
    """A run's row is written again when it ends; the last one counts, in one merge or in two."""
    journal.append(lines(run_row(a_run()), run_row(a_run(end_ns=NOON + SECOND))))
    assert [run.end_ns for run in open_store(layout.folder).runs()] == [NOON + SECOND]
    journal.append(lines(run_row(a_run(end_ns=NOON + 2 * SECOND))))
    assert [run.end_ns for run in open_store(layout.folder).runs()] == [NOON + 2 * SECOND]


def test_a_merger_killed_after_commit_merges_nothing_twice(
    layout: Layout, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is written with the rows, so a segment that was not removed is known."""
    journal.append(lines(*plain_rows(a_span(1))))
    journal.seal()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        assert len(open_store(layout.folder).traces()) == 1
    assert list(layout.journal.glob("*.ndjson"))
    assert [trace.spans for trace in open_store(layout.folder).traces()] == [1]
    assert not list(layout.journal.glob("*.ndjson"))


def test_a_full_disk_leaves_whole_lines(layout: Layout, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short write is cut back to the last good line, and what comes later goes into a new segment."""
    journal.append(lines(*plain_rows(a_span(1))))
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:-40])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            journal.append(lines(*plain_rows(a_span(2, trace_id="b" * 32))))
    journal.append(lines(*plain_rows(a_span(3, trace_id="c" * 32))))
    assert {trace.trace_id[0] for trace in open_store(layout.folder).traces()} == {"a", "c"}
    assert open_store(layout.folder).damaged_lines() == 0


def test_a_segment_is_complete_when_its_process_is_gone(layout: Layout, journal: Journal) -> None:
    """A lock says who lives, not a process id."""
    journal.append(lines(*plain_rows(a_span(1))))
    [segment] = layout.journal.glob("*.ndjson")
    assert not is_complete(segment)
    journal.seal()
    assert is_complete(segment)


def test_counters_keep_the_latest_row_of_a_process(layout: Layout, journal: Journal) -> None:
    """Counts only grow, so the last row of a process holds them all."""
    journal.append(lines(counters_row(CaptureCounters(process="p", dropped=1), NOON)))
    journal.append(lines(counters_row(CaptureCounters(process="p", dropped=7), NOON + 1)))
    assert open_store(layout.folder).counters() == (CaptureCounters(process="p", dropped=7),)


def test_importing_twice_changes_nothing(store: Path) -> None:
    """An import adds what is not there yet, and says what was."""
    first = import_records(store, [a_run()], [a_span(1), a_model_call(2)])
    again = import_records(store, [a_run()], [a_span(1), a_model_call(2)])
    assert (first.spans, first.already_there) == (2, 0)
    assert (again.spans, again.already_there) == (0, 2)
    assert [trace.spans for trace in open_store(store).traces()] == [2]


def test_a_record_comes_back_as_it_went_in(store: Path) -> None:
    """What the store returns is what was recorded."""
    long = "word " * 400
    span = a_model_call(
        input=[{"role": "user", "content": long}],
        output={"role": "assistant", "content": "yes"},
        metadata={"thread_id": "t1", "nested": {"@content": 1}},
        tags=("x", "y"),
        notes=("a note",),
        server_report={"usage": {"prompt_tokens": 40}},
    )
    import_records(store, [a_run(tags={"branch": "main"})], [a_span(1), span])
    assert open_store(store).trace("a" * 32) == (a_span(1), span)
    assert open_store(store).run("nightly") == a_run(tags={"branch": "main"})


def test_a_missing_store_is_not_created_by_reading(store: Path) -> None:
    """A command that reads leaves no trace of itself."""
    with pytest.raises(StoreNotFound, match="There is no store at"):
        open_store(store)
    assert not store.exists()


def test_what_is_no_store_is_named(store: Path) -> None:
    """A file, a foreign folder, a damaged database and a foreign database are told apart from a missing store."""
    store.write_text("hello")
    with pytest.raises(NotAStore, match="is a file"):
        open_store(store)
    store.unlink()
    store.mkdir()
    with pytest.raises(NotAStore, match="neither a database nor a journal"):
        open_store(store)
    (store / "traces.duckdb").write_text("not a database at all" * 100)
    with pytest.raises(NotAStore, match="cannot be read as a database"):
        open_store(store).traces()
    (store / "traces.duckdb").unlink()
    with duckdb.connect(str(store / "traces.duckdb")) as foreign:
        foreign.execute("CREATE TABLE songs (name VARCHAR)")
    with pytest.raises(NotAStore, match="something else"):
        open_store(store).traces()


def test_a_newer_schema_is_refused_and_left_alone(store: Path) -> None:
    """An older program does not touch what a newer one wrote."""
    import_records(store, [a_run()], [a_span(1)])
    with duckdb.connect(str(store / "traces.duckdb")) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    with pytest.raises(NewerSchema, match="schema 99"):
        open_store(store).traces()


def test_an_unknown_id_says_where_to_look(store: Path) -> None:
    """Ids may be shortened as long as they are unambiguous."""
    import_records(store, [a_run()], [a_span(1), a_span(2, trace_id="ab" * 16)])
    reader = open_store(store)
    assert reader.trace("aa")[0].trace_id == "a" * 32
    with pytest.raises(TraceNotFound, match="More than one"):
        reader.trace("a")
    with pytest.raises(TraceNotFound, match="agenttrace list"):
        reader.trace("f" * 32)
    with pytest.raises(RunNotFound, match="There are: nightly"):
        reader.run("weekly")


def test_a_database_held_by_another_program_names_it(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook that holds the file is named by its process; nothing is lost meanwhile."""
    import_records(store, [a_run()], [a_span(1)])
    holder = subprocess.Popen(
        [sys.executable, "-c", "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); input()",
         str(store / "traces.duckdb")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout
    holder.stdout.readline()
    monkeypatch.setattr(database, "WAIT_S", 0.2)
    try:
        with (
            pytest.raises(StoreLocked, match=f"process {holder.pid}"),
            database.locked_database(Layout(store), wait_s=0.2),
        ):
            pass
    finally:
        holder.communicate(b"\n")
    assert len(open_store(store).traces()) == 1


def test_a_row_that_no_column_takes_costs_only_itself(layout: Layout, journal: Journal) -> None:
    """A line of valid JSON with a value of the wrong kind is counted, and everything around it is merged."""
    rows = [dict(row) for row in plain_rows(*(a_span(n, trace_id=f"{n:032x}") for n in range(1, 40)))]
    rows[7]["start_ns"] = "noon"
    rows[20]["end_ns"] = 1 << 63
    journal.append(lines(*rows))
    assert len(open_store(layout.folder).traces()) == 37
    assert open_store(layout.folder).damaged_lines() == 2
    journal.append(lines(*plain_rows(a_span(50, trace_id="f" * 32))))
    assert len(open_store(layout.folder).traces()) == 38


def test_a_count_beyond_all_reason_is_unknown(layout: Layout, journal: Journal) -> None:
    """A server may say anything; no number of it makes a store unreadable."""
    journal.append(lines(*plain_rows(a_model_call(2, usage=Usage(input=1 << 63, output=5)))))
    [span] = open_store(layout.folder).trace("a")
    assert span.usage == Usage(output=5)


def test_what_a_killed_merger_left_is_removed(layout: Layout, journal: Journal) -> None:
    """Rows wait for loading inside the store, as private as it is, and not for ever."""
    leftover = layout.folder / ".merging-old"
    leftover.mkdir()
    journal.append(lines(*plain_rows(a_span(1))))
    open_store(layout.folder).traces()
    assert not list(layout.folder.glob(".merging-*"))
