"""Whatever the marks and the server say: sums are exact, bounds hold, nothing raises, unknown is never zero."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.phases.names import ORDER, members
from agenttrace.phases.split import PhaseSplit, split_phases
from agenttrace.records import PhaseSource
from agenttrace.steps import Attempt, ModelCall, State
from tests.phases.builders import NOON, a_call

RANGE = st.integers(-3 * 10**9, 10**10)
MARK = st.none() | RANGE.map(lambda ns: NOON + ns)
MILLISECONDS = st.none() | st.floats(0, 8000) | st.floats() | st.just("12") | st.just([1])
NANOSECONDS = st.none() | st.integers(-(10**9), 10**10)
COUNT = st.none() | st.integers(0, 5000)


@st.composite
def reports(draw: st.DrawFn) -> dict[str, Any]:
    """A llama.cpp or Ollama report, each field absent, plausible or nonsense; or none."""
    kind = draw(st.sampled_from(["none", "llama.cpp", "ollama"]))
    if kind == "llama.cpp":
        times = {name: draw(MILLISECONDS) for name in ("prompt_ms", "predicted_ms")}
        counts = {name: draw(COUNT) for name in ("prompt_n", "cache_n", "predicted_n", "draft_n")}
        return {"timings": times | counts}
    if kind == "ollama":
        return {
            name: draw(NANOSECONDS)
            for name in ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
            if draw(st.booleans())
        }
    return {}


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    return Attempt(
        start_ns=NOON + draw(RANGE),
        end_ns=draw(MARK),
        host="server",
        path=draw(st.sampled_from(["/v1", "/token"])),
        status=draw(st.sampled_from([None, 200, 429, 500])),
        connect_start_ns=draw(MARK),
        connect_end_ns=draw(MARK),
        sent_ns=draw(MARK),
        headers_ns=draw(MARK),
        error=draw(st.sampled_from([None, "ReadError"])),
        report=draw(reports()),
    )


@st.composite
def calls(draw: st.DrawFn) -> ModelCall:
    end = draw(st.none() | st.integers(-5, 10**10))
    return a_call(
        None,
        end_ns=None if end is None else NOON + end,
        state=draw(st.sampled_from(get_args(State))),
        is_streamed=draw(st.booleans()),
        is_local=draw(st.integers(0, 4)) == 0,
        first_reasoning_ns=draw(MARK),
        first_content_ns=draw(MARK),
        first_tool_ns=draw(MARK),
        last_content_ns=draw(MARK),
        chunks=draw(COUNT),
        tokens={"reasoning": draw(COUNT), "output": draw(COUNT)},
        response=draw(reports()),
        attempts=tuple(draw(st.lists(attempts(), max_size=3))),
    )


def check_split(split: PhaseSplit, duration_ns: int | None) -> None:
    """The promises of D6 about any division of a call that took `duration_ns`."""
    names = [phase.name for phase in split.phases]
    assert len(names) == len(set(names))
    total = 0
    for phase in split.phases:
        assert set(members(phase.name)) <= set(ORDER), phase
        assert phase.source in get_args(PhaseSource)
        if phase.ns is None:
            assert phase.source in ("unknown", "not-applicable"), phase
            assert phase.method is None
        else:
            assert phase.source not in ("unknown", "not-applicable"), phase
            assert phase.method
            assert phase.ns >= 0 or phase.name == "residual"
            assert phase.low_ns is not None
            assert phase.high_ns is not None
            assert phase.low_ns <= phase.ns <= phase.high_ns, phase
            total += 0 if phase.included_in else phase.ns
        if phase.low_ns is not None and phase.high_ns is not None:
            assert phase.low_ns <= phase.high_ns, phase
        if phase.included_in is not None:
            assert phase.included_in in names
    if duration_ns is not None and duration_ns >= 0:
        assert total == duration_ns
    else:
        assert total == 0


@given(calls())
@settings(max_examples=1500, deadline=None)
def test_any_call_divides_exactly(call: ModelCall) -> None:
    """Everything with a number, members of sums counted once, adds up to the call; each number is within its bounds."""
    duration = None if call.end_ns is None else call.end_ns - call.start_ns
    check_split(split_phases(call), duration)
