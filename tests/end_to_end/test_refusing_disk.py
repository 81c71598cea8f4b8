"""A disk that takes nothing: the agent's result is the same, and what was lost is counted and shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

AGENT = """
import resource, shutil, sys
sys.path.insert(0, {root!r})
from agenttrace import AgentTraceHandler, recording
from tests.langchain.models import FakeModel

def ask(number):
    return FakeModel(replies=[f"answer {{number}}"]).invoke("x" * 3000, config={{"callbacks": [handler]}}).content

handler = AgentTraceHandler()
ask(0)
recording.flush()
{fault}
answers = []
for number in range(200):
    answers.append(ask(number))
    if number % 20 == 0:
        recording.flush()
recording.flush()
{repair}
assert answers == [f"answer {{number}}" for number in range(200)], answers
print("lost", recording.lost())
"""

LIMIT = "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))"
UNLIMIT = "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)"


def run(store: Path, fault: str, repair: str = "") -> subprocess.CompletedProcess[str]:
    code = AGENT.format(root=str(ROOT), fault=fault, repair=repair)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=store.parent)


def agenttrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agenttrace", *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )


def test_a_full_disk_is_counted_and_shown(store: Path) -> None:
    """With no room for records the agent answers as ever; `list` and `doctor` say how many are missing, once there is room."""
    ended = run(store, LIMIT, UNLIMIT)
    assert ended.returncode == 0, ended.stderr
    lost = int(ended.stdout.split()[-1])
    assert lost > 0
    assert ended.stderr.count("cannot write") == 1
    listed = agenttrace("list", "--store", str(store))
    assert "records could not be kept" in listed.stderr
    checked = agenttrace("doctor", "--store", str(store))
    assert checked.returncode == 3
    assert "File too large" in checked.stdout


def test_a_refusing_disk_leaves_no_heap_of_empty_segments(store: Path) -> None:
    """Each try that failed takes its file with it."""
    run(store, LIMIT)
    assert len([file for file in (store / "journal").iterdir() if file.stat().st_size == 0]) <= 1


def test_a_folder_that_is_removed_comes_back(store: Path) -> None:
    """Whoever deletes the store while an agent runs loses what was in it, and nothing that comes after."""
    ended = run(store, f"shutil.rmtree({str(store)!r})")
    assert ended.returncode == 0, ended.stderr
    listed = agenttrace("list", "--json", "--store", str(store))
    assert listed.stdout.count('"trace_id"') == 200


def test_a_file_in_the_way_costs_the_records_only(store: Path) -> None:
    """A store that cannot be made is one warning and a count, and no exception."""
    ended = run(store, f"shutil.rmtree({str(store)!r}); open({str(store)!r}, 'w').close()")
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout.split()[-1]) >= 200
    assert ended.stderr.count("cannot write") == 1
    assert "Traceback" not in ended.stderr
