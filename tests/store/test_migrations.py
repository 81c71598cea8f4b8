"""A store that an older release wrote opens as it was, with a copy of it beside; nothing in between is ever left."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from agenttrace import open_store
from agenttrace.store import migrations
from agenttrace.store.layout import Layout
from agenttrace.store.schema import SCHEMA, SCHEMA_VERSION, VIEWS

FIXTURES = Path(__file__).parents[2] / "fixtures" / "stores"


KILLED = """
import os, signal, sys
from agenttrace.store import database, migrations
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

migrate = migrations.migrate
database.migrate = lambda connection, *rest: migrate(Killing(connection), *rest)
open_store().traces()
"""


def versions(file: Path) -> list[int]:
    with duckdb.connect(str(file), read_only=True) as connection:
        return [row[0] for row in connection.execute("SELECT version FROM schema_version ORDER BY version").fetchall()]


def old_store(store: Path, version: int) -> Path:
    layout = Layout(store)
    layout.create()
    layout.database.write_bytes(gzip.decompress((FIXTURES / f"schema-{version}.duckdb.gz").read_bytes()))
    return layout.database


def test_every_older_version_has_a_store_to_open() -> None:
    """One fixture for each version of the schema before this one, and a step that leads on from it."""
    older = range(1, SCHEMA_VERSION)
    assert sorted(path.name for path in FIXTURES.iterdir()) == [f"schema-{number}.duckdb.gz" for number in older]
    assert list(migrations.MIGRATIONS) == [number + 1 for number in older]


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_an_older_store_opens_with_all_it_has(store: Path, version: int) -> None:
    """Its traces, spans and runs are there; what was not recorded then is unknown; a copy of the old file is kept."""
    database = old_store(store, version)
    opened = open_store(store)
    [trace] = opened.traces()
    spans = opened.trace(trace.trace_id)
    assert (trace.run, trace.state, len(spans)) == ("old", "ok", 3)
    [model] = [span for span in spans if span.kind == "model"]
    assert model.output == {"role": "assistant", "content": "hello"}
    assert versions(database) == list(range(version, SCHEMA_VERSION + 1))
    assert versions(database.with_name(f"traces.before-schema-{version}.duckdb")) == [version]
    assert not list(store.glob("*.part"))


@pytest.mark.parametrize("moment", ["after BEGIN", "before COMMIT", "after COMMIT", "after CHECKPOINT"])
def test_a_migration_that_is_killed_leaves_a_step_done_or_not(store: Path, moment: str) -> None:
    """Killed for real, at each moment of its first step: the next opening goes on from there, and nothing is gone."""
    database = old_store(store, 1)
    killed = subprocess.run([sys.executable, "-c", KILLED, moment], check=False)
    assert killed.returncode == -9
    assert versions(database) in ([1], [1, 2])
    assert len(open_store(store).traces()) == 1
    assert versions(database) == list(range(1, SCHEMA_VERSION + 1))


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_the_views_are_this_versions(store: Path, version: int) -> None:
    """A view that an older release wrote is replaced: what it asks is what docs/schema.md shows."""
    old_store(store, version)
    with open_store(store).connection() as connection, duckdb.connect() as fresh:
        fresh.execute(SCHEMA)
        fresh.execute(VIEWS)
        views = "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal ORDER BY view_name"
        assert connection.execute(views).fetchall() == fresh.execute(views).fetchall()


def test_a_new_store_and_a_migrated_one_have_the_same_columns(store: Path, tmp_path: Path) -> None:
    """Whichever way it came about, a database of this version is the same."""
    database = old_store(store, 1)
    open_store(store).traces()
    with duckdb.connect(str(database), read_only=True) as migrated, duckdb.connect() as fresh:
        fresh.execute(SCHEMA)
        expected = migrations._columns(fresh)
        found = migrations._columns(migrated)
    assert {table: set(columns.items()) for table, columns in found.items()} == {
        table: set(columns.items()) for table, columns in expected.items()
    }


@pytest.mark.parametrize("moment", ["in the backup", "in the step"])
def test_a_migration_that_breaks_off_leaves_the_old(store: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Wherever it stops, the database is of the old version and whole, and the next opening migrates it."""
    database = old_store(store, 1)

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    def broken_step(connection: duckdb.DuckDBPyConnection) -> None:
        migrations._to_2(connection)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if moment == "in the step":
            patch.setattr(migrations, "MIGRATIONS", {2: broken_step})
        else:
            patch.setattr(Path, "rename", broken)
        with pytest.raises(KeyboardInterrupt):
            open_store(store).traces()
    assert versions(database) == [1]
    assert len(open_store(store).traces()) == 1
    assert versions(database) == list(range(1, SCHEMA_VERSION + 1))
