"""Records leave as Parquet and come back; tables are given to notebooks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from agenttrace.errors import InvalidRecord, MissingExtra, QueryFailed
from agenttrace.export.json_fields import BadRecords
from agenttrace.export.jsonl import read_records, write_lines
from agenttrace.records import SpanRecord
from agenttrace.store.importing import import_records
from agenttrace.store.parquet import is_parquet, parquet_lines, write_parquet
from agenttrace.store.reading import open_store
from tests.builders import a_model_call, a_run, a_span

SPANS = (
    a_span(1),
    a_model_call(2, input=[{"role": "user", "content": "héllo\n\"quoted\" \x00 '"}], metadata={"deep": {"list": [1, None, 2.5]}}),
    a_span(3, state="unfinished", end_ns=None),
)  # fmt: skip


def agenttrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "agenttrace", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def filled(store: Path) -> Path:
    import_records(store, [a_run(tags={"branch": "main"})], SPANS)
    return store


def test_records_come_back_as_they_went(tmp_path: Path) -> None:
    """Nothing is lost on the way, in a folder whose name is a pattern and has a quote."""
    folder = tmp_path / "it's [a] *"
    folder.mkdir()
    file = folder / "records.parquet"
    write_parquet(write_lines([a_run()], SPANS), file)
    assert is_parquet(file)
    assert read_records(parquet_lines(file), BadRecords(file.name)) == ([a_run()], list(SPANS))
    assert [path.name for path in folder.iterdir()] == [file.name]


def test_a_store_goes_to_another_by_parquet(filled: Path, tmp_path: Path) -> None:
    """`export --to parquet` and `import` carry everything over; a second import changes nothing."""
    file = tmp_path / "all.parquet"
    exported = agenttrace("export", "--to", "parquet", "-o", str(file))
    assert exported.returncode == 0, exported.stderr
    other = tmp_path / "other"
    for new in (2, 0):
        imported = agenttrace("import", str(file), "--store", str(other), "--json")
        assert imported.returncode == 0, imported.stderr
        assert json.loads(imported.stdout)["spans"] in (new, new + 1)  # a step that has not ended may come again
    assert open_store(other).trace("a") == open_store(filled).trace("a")
    assert open_store(other).runs() == open_store(filled).runs()


def test_other_tools_see_columns(filled: Path, tmp_path: Path) -> None:
    """Moments are numbers, and values JSON: a query needs nothing of ours."""
    file = tmp_path / "all.parquet"
    agenttrace("export", "--to", "parquet", "-o", str(file))
    query = "SELECT span_id, end_ns - start_ns, usage->>'input' FROM read_parquet(?) WHERE kind = 'model'"
    [row] = duckdb.execute(query, [str(file)]).fetchall()
    call: SpanRecord = SPANS[1]
    assert call.usage is not None
    assert call.end_ns is not None
    assert row == (call.span_id, call.end_ns - call.start_ns, str(call.usage.input))


@pytest.mark.parametrize("query", ["SELECT 1 AS number", "SELECT 'span' AS record, '../../etc' AS trace_id"])
def test_a_table_of_something_else_is_refused(query: str, tmp_path: Path) -> None:
    """A file that holds other columns, or values that are no records, is named, and nothing of it is taken."""
    file = tmp_path / "other.parquet"
    duckdb.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
    with pytest.raises(InvalidRecord, match=r"nothing was imported"):
        read_records(parquet_lines(file), BadRecords(file.name))


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """A file that was cut off is an error in one sentence."""
    file = tmp_path / "cut.parquet"
    write_parquet(write_lines([a_run()], SPANS), file)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(InvalidRecord, match=r"cannot be read as Parquet"):
        list(parquet_lines(file))


def test_parquet_is_not_printed(filled: Path) -> None:
    """Without a file there is nowhere to write it, and that is said."""
    refused = agenttrace("export", "--to", "parquet")
    assert refused.returncode == 2
    assert "--output" in refused.stderr


def test_views_are_frames_and_arrow_tables(filled: Path) -> None:
    """Any table or view, as pandas and as Arrow; an unknown one is named with those that are there."""
    opened = open_store(filled)
    assert opened.arrow("spans").num_rows == len(opened.dataframe("spans")) == 2
    assert opened.dataframe("model_calls")["span_id"].tolist() == [SPANS[1].span_id]
    with pytest.raises(QueryFailed, match=r"no table or view 'span\"s'.*model_calls"):
        opened.arrow('span"s')


def test_what_is_not_installed_is_named(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the libraries the error says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    for read in (open_store(filled).arrow, open_store(filled).dataframe):
        with pytest.raises(MissingExtra, match=r"pip install 'agenttrace-lab\[frames\]'"):
            read("spans")
