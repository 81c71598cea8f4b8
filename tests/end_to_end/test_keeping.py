"""What a project's configuration says of age and size happens by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace import clock
from agenttrace.configuration import read_configuration
from agenttrace.records import SpanRecord
from agenttrace.store.importing import import_records
from agenttrace.store.layout import Layout
from agenttrace.store.pruning import compact
from agenttrace.store.reading import open_store
from tests.builders import SECOND, a_model_call, a_run

BASELINE = b'{"format": "agenttrace.baseline/1", "run_id": "run1"}'

DAY = 86_400 * SECOND


def call(number: int, *, days_ago: int, output: str = "42") -> SpanRecord:
    began = clock.wall_ns() - days_ago * DAY - 10 * SECOND
    return a_model_call(
        number, trace_id=f"{number:032x}", parent_id=None, run_id=f"run{number}", start_ns=began,
        end_ns=began + SECOND, output=output, attempts=(),
    )  # fmt: skip


def fill(store: Path, *calls: SpanRecord) -> None:
    import_records(store, [a_run(run_id=span.run_id, name=span.run_id) for span in calls], calls)


def agenttrace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agenttrace", *arguments], capture_output=True, text=True, check=False, cwd=folder
    )


def left(store: Path) -> list[int]:
    return sorted(int(trace.trace_id, 16) for trace in open_store(store).traces())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("AGENTTRACE_CONFIG", raising=False)
    return tmp_path


def configure(project: Path, line: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.agenttrace]\n{line}\n")


def test_old_traces_go_at_the_end_of_a_run(store: Path, project: Path) -> None:
    """What is older than `keep` is taken out once a day, and that is said."""
    configure(project, 'keep = "30d"')
    fill(store, call(1, days_ago=40), call(2, days_ago=20), call(3, days_ago=0))
    ended = agenttrace(project, "summary", "run3", "--store", str(store))
    assert ended.returncode == 0, ended.stderr
    assert "Took out 1 trace" in ended.stderr
    assert left(store) == [2, 3]
    fill(store, call(4, days_ago=40))
    agenttrace(project, "summary", "run3", "--store", str(store))
    assert left(store) == [2, 3, 4]  # not again within a day
    os.utime(Layout(store).pruned, ns=(0, clock.wall_ns() - 2 * DAY))
    agenttrace(project, "summary", "run3", "--store", str(store))
    assert left(store) == [2, 3]


def test_a_store_that_is_too_large_shrinks(store: Path, project: Path) -> None:
    """Above `max_bytes` the oldest go; below it nothing does."""
    fill(store, *(call(n, days_ago=20 - n, output=os.urandom(200_000).hex()) for n in range(1, 11)))
    compact(store)
    size = Layout(store).database_bytes()
    configure(project, f"max_bytes = {size * 2}")
    agenttrace(project, "summary", "run10", "--store", str(store))
    assert left(store) == list(range(1, 11))
    configure(project, f"max_bytes = {size // 2}")
    ended = agenttrace(project, "summary", "run10", "--store", str(store))
    assert "max_bytes" in ended.stderr
    assert left(store) == list(range(11 - len(left(store)), 11))
    assert 0 < len(left(store)) < 10


def test_prune_takes_the_configuration(store: Path, project: Path) -> None:
    """Without options it does what the project says; without either it asks."""
    fill(store, call(1, days_ago=40), call(2, days_ago=0))
    asked = agenttrace(project, "prune", "--store", str(store))
    assert asked.returncode == 2
    assert "keep or max_bytes" in asked.stderr
    configure(project, 'keep = "30d"')
    assert "1 trace" in agenttrace(project, "prune", "--store", str(store)).stdout
    assert left(store) == [2]


def test_a_wrong_configuration_costs_no_closing_screen(store: Path, project: Path) -> None:
    """It is said, and nothing is taken out."""
    configure(project, 'keep = "for ever"')
    fill(store, call(1, days_ago=40))
    ended = agenttrace(project, "summary", "run1", "--store", str(store))
    assert ended.returncode == 0
    assert "was not pruned" in ended.stderr
    assert left(store) == [1]


def test_accepted_baselines_stay(store: Path, project: Path) -> None:
    """However old, the run that candidates are compared with is kept."""
    configure(project, 'keep = "30d"')
    fill(store, call(1, days_ago=40), call(2, days_ago=41), call(3, days_ago=0))
    folder = read_configuration(project).baselines
    folder.mkdir(parents=True)
    (folder / "suite.json").write_bytes(BASELINE)
    agenttrace(project, "summary", "run3", "--store", str(store))
    assert left(store) == [1, 3]


def test_a_suite_prunes_too(store: Path, project: Path) -> None:
    """The end of `agenttrace eval run` is the end of a run."""
    configure(project, 'keep = "30d"')
    fill(store, call(1, days_ago=40))
    assert agenttrace(project, "eval", "init").returncode == 0
    ended = agenttrace(project, "eval", "run", "suite.py", "--store", str(store))
    assert "Took out 1 trace" in ended.stderr
    assert 1 not in left(store)
