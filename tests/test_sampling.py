"""A share of the traces is kept, and every one that somebody would ask for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from agenttrace import AgentTraceHandler, open_store, record
from agenttrace.recording import flush
from agenttrace.sampling import MAX_WAITING, TraceSampler, is_in_share
from agenttrace.steps import ChainStep, State, Step, new_trace_id
from tests.langchain.models import FakeModel

SECOND = 1_000_000_000


def step(trace: int, span: int, *, root: bool = False, ends: int | None = None, state: State = "ok") -> Step:
    """A step of a trace that began at second 0; `ends` in seconds."""
    return ChainStep(
        trace_id=trace, span_id=span, parent_id=None if root else 1, run_id="r", kind="chain", name="x", start_ns=0,
        end_ns=None if ends is None else ends * SECOND, state="unfinished" if ends is None else state, is_root=root,
    )  # fmt: skip


def admit(sampler: TraceSampler, *steps: Step) -> list[int]:
    """The ids of the spans that come back."""
    kept: list[Step] = []
    for one in steps:
        kept += sampler.admit(one, share=0.0, slow_ns=10 * SECOND, now=0)
    return [one.span_id for one in kept]


def test_the_share_is_a_share() -> None:
    """Of many random traces a quarter is in the share of a quarter; all are in 1, none in 0."""
    ids = [new_trace_id() for _ in range(20_000)]
    assert 0.23 < sum(is_in_share(one, 0.25) for one in ids) / len(ids) < 0.27
    assert all(is_in_share(one, 1.0) for one in ids)
    assert not any(is_in_share(one, 0.0) for one in ids)


def test_a_trace_that_went_well_is_left_out_and_counted() -> None:
    """Nothing of it comes back, nothing of it is held, and it is counted once."""
    sampler = TraceSampler()
    assert admit(sampler, step(7, 1, root=True), step(7, 2, ends=1), step(7, 1, root=True, ends=1)) == []
    assert len(sampler) == 0
    assert sampler.left_out == {"r": 1}


def test_an_error_keeps_the_whole_trace() -> None:
    """What came before the error, and what comes after it."""
    sampler = TraceSampler()
    early = admit(sampler, step(7, 1, root=True), step(7, 2, ends=1), step(7, 3, ends=1, state="error"))
    assert early == [1, 2, 3]
    assert admit(sampler, step(7, 4, ends=2), step(7, 1, root=True, ends=2)) == [4, 1]
    assert sampler.left_out == {}


def test_a_slow_trace_is_kept_as_soon_as_it_is_slow() -> None:
    """By a step that ends late, or by time alone while it still runs."""
    sampler = TraceSampler()
    assert admit(sampler, step(7, 1, root=True), step(7, 2, ends=10)) == [1, 2]
    assert admit(sampler, step(8, 1, root=True)) == []
    assert sampler.look(wall=9 * SECOND, now=0, quiet_ns=SECOND) == []
    assert [one.span_id for one in sampler.look(wall=10 * SECOND, now=0, quiet_ns=SECOND)] == [1]


def test_a_child_that_outlives_its_root_is_waited_for() -> None:
    """A child may end in error after its root has ended well."""
    sampler = TraceSampler()
    assert admit(sampler, step(7, 1, root=True), step(7, 2), step(7, 1, root=True, ends=1)) == []
    assert admit(sampler, step(7, 2, ends=2, state="error")) == [1, 2]


def test_a_trace_that_is_quiet_is_decided() -> None:
    """One whose root never ended is kept; one whose root ended is left out."""
    sampler = TraceSampler()
    admit(sampler, step(7, 1, root=True), step(8, 2), step(8, 1, root=True, ends=1))
    kept = sampler.look(wall=SECOND, now=5 * SECOND, quiet_ns=5 * SECOND)
    assert [one.trace_id for one in kept] == [7]
    assert sampler.left_out == {"r": 1}
    assert len(sampler) == 0


def test_what_waits_is_bounded() -> None:
    """Beyond the bound the oldest trace is kept rather than forgotten."""
    sampler = TraceSampler()
    kept = admit(sampler, *(step(number, 1, root=True) for number in range(1, MAX_WAITING + 101)))
    assert len(sampler) == MAX_WAITING
    assert len(kept) == 100


def invoke(reply: Any, handler: AgentTraceHandler | None = None) -> None:
    FakeModel(replies=[reply]).invoke("x", config={"callbacks": [handler] if handler else []})


def test_a_sampled_run_keeps_errors_and_says_how_much_is_missing(store: Path) -> None:
    """With a share of none only what failed is stored, and the run has the share and the count."""
    with record("sampled", sample=0.0) as run:
        for _ in range(20):
            invoke("ok")
        with pytest.raises(ValueError, match="boom"):
            invoke(ValueError("boom"))
    assert [span.state for span in open_store().run_spans(run.run_id)] == ["error"]
    stored = open_store().run("sampled")
    assert stored.sampled_out == 20
    assert stored.policy["sample"] == 0.0


def test_a_slow_trace_of_a_real_call_is_kept(store: Path) -> None:
    """What slow means can be set: at 0 seconds every trace is."""
    handler = AgentTraceHandler(sample=0.0, slow_s=0)
    invoke("ok", handler)
    flush()
    assert len(open_store().traces()) == 1


def test_the_count_of_a_run_that_goes_on_reaches_the_store(store: Path) -> None:
    """Nobody ends the unnamed run while its process lives; what was left out is written all the same."""
    handler = AgentTraceHandler(sample=0.0)
    with pytest.raises(ValueError, match="boom"):
        invoke(ValueError("boom"), handler)
    for _ in range(3):
        invoke("ok", handler)
    flush()
    deadline = time.monotonic() + 20
    while open_store().runs()[0].sampled_out != 3 and time.monotonic() < deadline:
        time.sleep(0.05)  # the writer looks twice a second
    assert open_store().runs()[0].sampled_out == 3
