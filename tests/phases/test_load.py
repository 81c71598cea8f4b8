"""What was under way when a call began."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.phases.load import Requests, busy_ns, loads, under_way

CALLS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=30)


@given(CALLS)
def test_requests_and_tokens_under_way_are_counted(calls: list[tuple[int, int, int]]) -> None:
    """At each moment: all that had begun by then, less all that had ended by then."""
    starts = np.array([start for start, _, _ in calls])
    ends = starts + np.array([took for _, took, _ in calls])
    tokens = np.array([float(count) for _, _, count in calls])
    found = under_way(Requests(start_ns=starts, end_ns=ends, output_tokens=tokens), starts)
    for place, moment in enumerate(starts):
        is_open = (starts <= moment) & (ends > moment)
        assert found.requests[place] == is_open.sum()
        assert found.output_tokens[place] == tokens[is_open].sum()
    moments = {moment for start, end in zip(starts, ends, strict=True) for moment in range(start, end)}
    assert busy_ns(starts, ends) == len(moments)


def test_tokens_are_unknown_while_a_request_under_way_tells_none() -> None:
    """A request without a count makes the sum unknown as long as it lasts, and no longer."""
    requests = Requests(
        start_ns=np.array([0, 5, 20]), end_ns=np.array([10, 15, 30]), output_tokens=np.array([np.nan, 7.0, 8.0])
    )
    found = under_way(requests, requests.start_ns).output_tokens
    assert np.isnan(found[:2]).all()
    assert found[2] == 8


def test_calls_to_another_server_are_no_load() -> None:
    """Load is counted by server; groups may hold calls to several."""
    others = {
        "server": np.array([1, 1, 2]),
        "start_ns": np.array([0, 1, 2]),
        "end_ns": np.array([9, 9, 9]),
        "output_tokens": np.array([1.0, 2.0, np.nan]),
    }
    chosen = {**{name: others[name] for name in ("server", "start_ns", "end_ns")}, "name": np.array(["a", "a", "b"])}
    found = loads(chosen, others, is_whole=True)
    assert found["a"]["in_flight"] == {"p50": 1, "p90": 2, "p99": 2, "max": 2}
    assert found["b"]["in_flight"]["max"] == 1
    assert found["b"]["output_tokens_in_flight"]["p50"] is None
    assert found["a"]["busy_ns"] == 9
    assert loads(chosen, others, is_whole=False)["a"]["busy_ns"] is None
