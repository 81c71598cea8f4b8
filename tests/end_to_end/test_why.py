"""`agenttrace show --why` as a user types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agenttrace.store.importing import import_records
from tests.builders import NOON, SECOND, a_run, a_span
from tests.end_to_end.test_list_show import agenttrace
from tests.store.test_timings import MS, a_call, phase

SLOW = f"{99:032x}"


@pytest.fixture
def a_slow_trace(store: Path) -> Path:
    """A trace with a call that queued for 3 s, after twenty with 20 ms."""
    usual = [a_call(n, 1_000, phases=(phase("queue", 20 * MS),)) for n in range(1, 21)]
    start = NOON + 990 * SECOND
    root = a_span(1000, trace_id=SLOW, start_ns=start, end_ns=start + 9 * SECOND, name="agent", kind="agent")
    slow = a_call(99, 4_000, parent_id=root.span_id, phases=(phase("queue", 3_000 * MS),))
    tool = a_span(1001, trace_id=SLOW, parent_id=root.span_id, kind="tool", name="search",
                  start_ns=start + 4 * SECOND, end_ns=start + 8 * SECOND)  # fmt: skip
    import_records(store, [a_run()], [*usual, root, slow, tool])
    return store


def test_a_trace_says_what_it_hangs_on(a_slow_trace: Path) -> None:
    """Path by cause with what half of each would save; then the call beside its usual one, queue first."""
    result = agenttrace("show", SLOW, "--why")
    assert result.returncode == 0, result.stderr
    assert re.search(r"tool: search +4\.0 s +44 %.* 2\.0 s", result.stdout)
    assert re.search(r"model: queue +3\.0 s +33 %.* 1\.5 s", result.stdout)
    assert re.search(r"own code, framework +1\.0 s +11 %.* 0\.5 s", result.stdout)
    assert "+3.0 s beside the median of its 20 latest calls before, 1.0 s" in result.stdout
    assert re.search(r"queue +\+2\.98 s", result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_json_adds_up(a_slow_trace: Path) -> None:
    """For machines: stretches add up to the trace, parts too, and causes to the difference."""
    told = json.loads(agenttrace("show", SLOW, "--why", "--json").stdout)
    path = told["critical_path"]
    assert told["trace_id"] == SLOW
    assert path["seconds"] == sum(stretch["seconds"] for stretch in path["stretches"]) == 9
    assert sum(part["seconds"] for part in path["parts"]) == pytest.approx(9)
    [call] = told["calls"]
    assert call["usual_s"] == 1
    assert sum(cause["seconds"] for cause in call["causes"]) == pytest.approx(3)


def test_a_call_without_earlier_ones_is_not_compared(store: Path) -> None:
    """The first call of a call site has no usual one; the path is shown all the same."""
    import_records(store, [a_run()], [a_call(1)])
    result = agenttrace("show", "last", "--why")
    assert "0 earlier calls of this call site" in result.stdout
    assert "critical path  1.0 s" in result.stdout
    assert json.loads(agenttrace("show", "last", "--why", "--json").stdout)["calls"][0]["usual_s"] is None
