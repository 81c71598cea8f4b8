"""Why a call took longer than usual."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.phases.quantiles import smallest_sample
from agenttrace.phases.why import ENOUGH, CallTimes, Cause, Why, call_times, why
from agenttrace.records import Marks, PhaseTiming, SpanRecord, Usage
from tests.builders import NOON, a_model_call

MS = 10**6


def a_call(whole_ms: int, usage: Usage, **phases: int) -> SpanRecord:
    timings = tuple(PhaseTiming(name=name, ns=ms * MS, source="server-reported") for name, ms in phases.items())
    return a_model_call(end_ns=NOON + whole_ms * MS, usage=usage, phases=timings, marks=Marks())


def usual(count: int = 20, **phases: int) -> list[CallTimes]:
    """Calls of 1,000 uncached tokens at 0.1 ms and 101 output tokens at 5 ms, 20 ms of queue, 100 ms that nobody knows."""
    held = {"queue": 20, "prefill": 100, "decode": 500, **phases}
    usage = Usage(input=1_200, cached=200, output=101)
    return [call_times(720 * MS, {name: ms * MS for name, ms in held.items()}, usage, Marks())] * count


def causes(told: Why) -> dict[str, Cause]:
    return {cause.name: cause for cause in told.causes}


def test_the_difference_is_divided_by_tokens_and_rates() -> None:
    """4,000 tokens more at 0.1 ms, 100 more at 5 ms, 480 ms of queue; what is beyond the usual rates stands by itself."""
    call = a_call(2_650, Usage(input=5_000, cached=0, output=201), queue=500, prefill=600, decode=1_200)
    told = why(call, usual())
    found = {name: cause.ns for name, cause in causes(told).items()}
    assert told.usual_ns == 720 * MS
    assert found == {
        "queue": 480 * MS,
        "longer prompt": 400 * MS,
        "slower prefill": 100 * MS,
        "longer answer": 500 * MS,
        "slower tokens": pytest.approx(201 * MS, abs=MS),
        "rest": pytest.approx(249 * MS, abs=MS),
    }
    assert all(cause.low_ns == cause.ns == cause.high_ns for cause in told.causes)


def test_a_phase_with_bounds_gives_the_cause_bounds_and_no_number() -> None:
    """A queue between 0 and 500 ms is 20 ms less to 480 ms more than usual, and the rest has bounds too."""
    queue = PhaseTiming(name="queue", ns=None, low_ns=0, high_ns=500 * MS)
    call = a_model_call(end_ns=NOON + 1_000 * MS, usage=Usage(), phases=(queue,), marks=Marks())
    found = causes(why(call, usual()))
    assert (found["queue"].ns, found["queue"].low_ns, found["queue"].high_ns) == (None, -20 * MS, 480 * MS)
    assert (found["rest"].ns, found["rest"].low_ns, found["rest"].high_ns) == (None, -200 * MS, 300 * MS)


def test_nothing_is_usual_of_a_few_calls() -> None:
    """Below six earlier calls there is no usual, and nothing is said; a phase known in fewer has no line."""
    assert smallest_sample(0.5) == ENOUGH
    call = a_call(1_000, Usage(input=1_000, cached=0, output=100), queue=900)
    assert why(call, usual(5)).usual_ns is None
    assert why(call, usual(5)).causes == ()
    assert why(call, usual(6)).usual_ns == 720 * MS
    few = [*usual(5), *[call_times(720 * MS, {}, Usage(), Marks())] * 20]
    assert set(causes(why(call, few))) == {"rest"}


def test_a_call_that_has_not_ended_is_not_explained() -> None:
    """An unfinished call has no time to explain."""
    assert why(a_model_call(end_ns=None, state="unfinished"), usual()).usual_ns is None


def test_unknown_tokens_are_no_cause() -> None:
    """Where cached tokens are unknown, so are the uncached ones: nothing is said of the prompt. A client's view of a
    token's time stands in where no decode phase is known, unless reasoning was hidden."""
    times = call_times(1_000 * MS, {}, Usage(input=900, output=11, reasoning=5), Marks(first_content_ns=500 * MS))
    assert (times.uncached, times.token_ns) == (None, None)
    visible = call_times(1_000 * MS, {}, Usage(input=900, output=11), Marks(first_content_ns=500 * MS))
    assert visible.token_ns == 50 * MS
    assert "longer prompt" not in causes(why(a_call(1_000, Usage(input=5_000, output=101), prefill=100), usual()))


TOKENS = st.integers(64, 20_000)
TIMES = st.integers(0, 5_000)


@given(
    TOKENS, st.integers(2, 500), TIMES, TIMES, TIMES, st.lists(st.tuples(TIMES, TIMES, TOKENS), min_size=6, max_size=30)
)
def test_causes_add_up_and_lie_within_their_bounds(
    uncached: int, output: int, queue: int, prefill: int, decode: int, recent: list[tuple[int, int, int]]
) -> None:
    """Whatever the calls, the causes add up to the difference to the usual call, and each is within its bounds."""
    call = a_call(
        queue + prefill + decode,
        Usage(input=uncached, cached=0, output=output),
        queue=queue,
        prefill=prefill,
        decode=decode,
    )
    calls = [
        call_times(2 * (one + other) * MS, {"queue": one * MS, "prefill": other * MS, "decode": other * MS},
                   Usage(input=tokens, cached=0, output=tokens // 10 + 2), Marks())
        for one, other, tokens in recent
    ]  # fmt: skip
    told = why(call, calls)
    assert told.usual_ns is not None
    assert sum(cause.ns or 0 for cause in told.causes) == (call.duration_ns or 0) - told.usual_ns
    for cause in told.causes:
        assert cause.ns is not None
        assert cause.low_ns is not None
        assert cause.high_ns is not None
        assert cause.low_ns - 2 <= cause.ns <= cause.high_ns + 2  # each is rounded to a nanosecond
