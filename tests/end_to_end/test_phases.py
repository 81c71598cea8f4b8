"""`agenttrace phases` as a user types it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace.store.importing import import_records
from tests.builders import NOON, SECOND, a_run, a_span
from tests.end_to_end.test_list_show import agenttrace
from tests.store.test_timings import MS, a_call, phase


@pytest.fixture
def two_runs(store: Path) -> Path:
    runs = [a_run(end_ns=NOON + 900 * SECOND), a_run(run_id="run2", name="later", start_ns=NOON + SECOND)]
    slow = (phase("queue", 700 * MS), phase("decode", None))
    calls = [a_call(n) for n in range(1, 41)] + [a_call(n, run_id="run2", phases=slow) for n in range(41, 81)]
    import_records(store, runs, calls)
    return store


def test_quantiles_have_intervals_and_what_is_unknown_is_said(two_runs: Path) -> None:
    """People get quantiles, the load and what is unknown; p99 of 40 calls is not estimable."""
    result = agenttrace("phases", "--run", "nightly")
    assert result.returncode == 0, result.stderr
    assert re.search(r"queue +20 ms +36 ms +— +40 ms", result.stdout)
    assert re.search(r"unknown +decode", result.stdout)
    assert "server-reported" in result.stdout
    assert "in flight" in result.stdout
    assert "held 50 % of the prompts, something in 40 of 40 calls" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_json_tells_numbers_in_seconds(two_runs: Path) -> None:
    """Machines get seconds, null where nothing can be estimated, and the definition of each number."""
    answer = json.loads(agenttrace("phases", "--run", "run1", "--json").stdout)
    assert answer["run"] == {"run_id": "run1", "name": "nightly"}
    [group] = answer["groups"]
    queue = next(item for item in group["measures"] if item["name"] == "queue")
    assert queue["quantiles"]["p50"]["value"] == 0.02
    assert queue["quantiles"]["p99"] is None
    assert queue["definition"]
    assert sum(item["count"] for item in queue["histogram"]) == 40
    assert group["load"]["in_flight"]["max"] == 1


def test_two_runs_are_drawn_over_each_other(two_runs: Path) -> None:
    """Both runs' quantiles stand under each other, and nothing is judged."""
    result = agenttrace("phases", "--compare", "nightly", "later")
    assert result.returncode == 0, result.stderr
    assert re.search(r"queue.*A +20 ms", result.stdout)
    assert re.search(r"B +0\.7 s", result.stdout)
    assert "not judged here" in result.stdout
    compared = json.loads(agenttrace("phases", "--compare", "nightly", "later", "--json").stdout)["compared"]
    assert [side["run"]["name"] for side in compared] == ["nightly", "later"]


def test_advice_comes_with_its_numbers(two_runs: Path) -> None:
    """A queue that takes most of each call is said to need capacity, with the counts that say so; a short one is not."""
    assert "queue took 20 % of the call or more in 40 of 40 calls" in " ".join(
        agenttrace("phases", "--run", "later").stdout.split()
    )
    assert "capacity" not in agenttrace("phases", "--run", "nightly").stdout


def test_nothing_selected_is_no_error(store: Path) -> None:
    """A store without model calls has nothing to distribute, and says so."""
    import_records(store, [a_run()], [a_span()])
    result = agenttrace("phases")
    assert (result.returncode, result.stdout) == (0, "")
    assert "No model call that ended well" in result.stderr
    assert json.loads(agenttrace("phases", "--json").stdout)["groups"] == []
    assert agenttrace("phases", "--run", "nightly", "--compare", "nightly", "nightly").returncode == 2


def test_one_call_has_no_quantiles(store: Path) -> None:
    """One call shows its times, and no quantile of them."""
    import_records(store, [a_run()], [a_call(1)])
    assert re.search(r"whole call +— +— +— +1\.0 s", agenttrace("phases").stdout)


def without(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command where a library is not installed."""
    program = "import sys; sys.modules[sys.argv[1]] = None; from agenttrace.cli.main import main; main(sys.argv[2:])"
    return subprocess.run(
        [sys.executable, "-c", program, module, *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("module", ["scipy", "numpy"])
def test_without_the_extra_the_command_to_install_it_is_named(two_runs: Path, module: str) -> None:
    """Quantiles and comparisons need statistics; the closing screen does without, and leaves out its advice."""
    for command in (["phases"], ["show", "last", "--why"]):
        result = without(module, *command)
        assert (result.returncode, result.stdout) == (3, "")
        assert "[eval]" in result.stderr
        assert "Traceback" not in result.stderr
    closing = without(module, "summary", "later")
    assert closing.returncode == 0, closing.stderr
    assert "queue" in closing.stdout
    assert "advice" in agenttrace("summary", "later").stdout
