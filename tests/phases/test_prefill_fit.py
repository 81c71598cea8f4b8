"""What can be inferred of servers that tell neither queue nor prefill, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from agenttrace.phases.prefill_fit import ENOUGH_CALLS, FirstTokens, calibrate, fit_json, fit_prefill, infer

MS = 1e6
SLOPE = 0.25 * MS
FIXED = 180 * MS


def calls(
    seed: int,
    n: int = 100,
    *,
    shortest: float = 300,
    longest: float = 16_000,
    waiting: float = 0.3,
    hidden_hits: float = 0.0,
    is_growing: bool = False,
    exponent: float = 1.0,
    is_told: bool = True,
) -> FirstTokens:
    """Prompts of log-uniform length, a share of which waits for 1.2 s on average (the reference's scenarios)."""
    source = np.random.default_rng(seed)
    uncached = np.exp(source.uniform(np.log(shortest), np.log(longest), n)).round()
    queue = np.where(source.random(n) < waiting, source.exponential(1_200 * MS, n), 0.0)
    queue *= uncached / uncached.mean() if is_growing else 1.0
    computed = np.where(source.random(n) < hidden_hits, uncached / 10, uncached)
    prefill = SLOPE * computed.mean() * (computed / computed.mean()) ** exponent
    told = np.full(n, np.nan)
    return FirstTokens(
        name="server",
        uncached=uncached,
        first_token_ns=FIXED + prefill + queue + source.exponential(15 * MS, n),
        prefill_ns=prefill if is_told else told,
        queue_ns=queue if is_told else told,
    )


def test_the_slope_is_found_and_its_bounds_hold_it() -> None:
    """Over twenty samples the slope is off by a tenth at most, and lies within the bounds as often as 90 % allow."""
    fits = [fit_prefill(calls(seed)) for seed in range(20)]
    assert all(fit.refused is None for fit in fits)
    slopes = [fit.slope_ns for fit in fits if fit.slope_ns is not None]
    assert slopes == pytest.approx([SLOPE] * 20, rel=0.1)
    within = sum((fit.slope_low_ns or 0) <= SLOPE <= (fit.slope_high_ns or 0) for fit in fits)
    assert within >= 15  # with 90 % coverage fewer happen once in four hundred times
    assert fit_prefill(calls(3)) == fit_prefill(calls(3))


def test_queue_is_an_excess_over_the_floor() -> None:
    """Without any wait the excess is next to nothing; a wait that all calls have is in the floor, not in the excess."""
    still = calls(1, waiting=0.0)
    moved = FirstTokens(**{**{name: getattr(still, name) for name in FirstTokens.__slots__},
                           "first_token_ns": still.first_token_ns + 500 * MS})  # fmt: skip
    for one, floor in ((fit_prefill(still), FIXED), (fit_prefill(moved), FIXED + 500 * MS)):
        assert one.fixed_ns == pytest.approx(floor, abs=30 * MS)
        assert np.median(one.queue_excess_ns) < 30 * MS


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({"n": ENOUGH_CALLS - 1}, "too few"),
        ({"shortest": 3_500, "longest": 4_500}, "differ 1.2 times"),
        ({"n": 200, "hidden_hits": 0.3}, "disagree"),
        ({"n": 200, "waiting": 0.0, "exponent": 2.0}, ""),
    ],
    ids=[
        "few-calls",
        "prompts-of-one-length",
        "cache-hits-unreported",
        "prefill-grows-faster",
    ],
)
def test_where_a_condition_does_not_hold_there_is_no_estimate(made: dict[str, float], reason: str) -> None:
    """Each trap of the model is refused, with the reason; nothing is estimated then."""
    for seed in range(5):
        fit = fit_prefill(calls(seed, **made))  # type: ignore[arg-type]  # options of `calls`
        assert fit.refused is not None
        assert reason in fit.refused
        assert fit.slope_ns is None
        assert fit_json(fit)["prefill_s"] is None


def test_a_queue_that_grows_with_the_prompt_is_refused_or_held_by_the_bounds() -> None:
    """Then the two estimators part: too far and there is no estimate, else the bounds reach from one to the other."""
    fits = [fit_prefill(calls(seed, n=200, waiting=0.8, is_growing=True)) for seed in range(10)]
    assert any(fit.refused and "disagree" in fit.refused for fit in fits)
    for fit in fits:
        assert fit.refused or (fit.slope_low_ns or 0) <= 1.02 * SLOPE <= 1.02 * (fit.slope_high_ns or 0)


def test_a_fit_is_calibrated_where_the_server_tells() -> None:
    """The server's numbers are hidden from the fit and then held against it; servers that tell are not estimated."""
    told = calibrate(calls(2))
    assert told is not None
    assert abs(told.slope_error) < 0.1
    assert told.queue_error_ns is not None
    assert told.queue_error_ns < 40 * MS
    assert calibrate(calls(2, is_told=False)) is None
    found = infer([calls(1), calls(2, is_told=False), calls(3, n=10, is_told=False)])
    assert (len(found.fits), len(found.calibrations)) == (1, 1)
    assert fit_json(found.fits[0])["source"] == "inferred"
    assert infer([calls(1)]).fits == ()
    assert infer([]).calibrations == ()


def test_the_parts_of_each_call_add_up() -> None:
    """Prefill, queue excess and a fixed part between nothing and the floor are the time to first token, in every call."""
    made = calls(5)
    fit = fit_prefill(made)
    assert fit.fixed_ns is not None
    rest = made.first_token_ns - np.array(fit.prefill_ns) - np.array(fit.queue_excess_ns)
    assert rest.min() >= 0
    assert rest.max() <= fit.fixed_ns + 1e-3
    assert min(fit.queue_excess_ns) >= 0
