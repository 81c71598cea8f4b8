"""Queue and prefill of servers that tell neither, as far as many calls together betray them. In: times to first token. Out: a fit.

    time to first token = fixed + slope x uncached prompt tokens + queue excess

The slope can be found where prompt lengths differ; a constant wait and the fixed costs look the same from outside, so what is
called queue here is only the excess over the best-observed floor. Two estimators that fail in different ways are asked: the
10 % quantile line fails on cache hits that nobody reported, Theil and Sen's on queues that grow with the prompt. Where they
disagree there is no answer. An estimate is printed and never stored: it is no measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ENOUGH_CALLS = 50
ENOUGH_SPREAD = 8.0
"""Of the uncached prompt tokens: p90 / p10."""
MOST_DISAGREEMENT = 0.25
"""Of the two estimators' slopes."""
MOST_CURVATURE = 0.25
"""By how much prompts of middle length may lie off the line between short and long ones, in their own prefill."""
FLOOR = 0.1
"""The quantile that stands for calls that did not wait."""
MOST_CALLS = 500
"""The latest so many: every pair of them is looked at."""
RESAMPLES = 100
CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokens:
    """Streamed calls to one server under the same conditions: one model, endpoint, service tier, kind of connection, one day.

    Each was answered at its first attempt, tells what of its prompt was cached, and hides no reasoning.
    """

    name: str
    uncached: Floats
    """Prompt tokens that no cache had."""
    first_token_ns: Floats
    """From the request's leaving to the first token."""
    prefill_ns: Floats
    """What the server says; not a number where it says nothing."""
    queue_ns: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillFit:
    """What the calls together say; durations in nanoseconds. Inferred, not measured."""

    name: str
    calls: int
    refused: str | None = None
    """Why there is no estimate; all that follows is None or empty then."""
    slope_ns: float | None = None
    """Prefill of one uncached prompt token: the middle of the two estimators."""
    slope_low_ns: float | None = None
    slope_high_ns: float | None = None
    """Both estimators with their 90 % bootstrap intervals."""
    disagreement: float | None = None
    """Of the two slopes, as a share."""
    fixed_ns: float | None = None
    """Network, routing, tokenisation, the first decoding step, and any wait that is the same for every call."""
    prefill_ns: tuple[float, ...] = ()
    """Of each call: slope x uncached tokens, at most its time to first token."""
    queue_excess_ns: tuple[float, ...] = ()
    """Of each call: its time above the floor. What is left of a call, its fixed part, is at most `fixed_ns`."""

    @property
    def uncertainty(self) -> float | None:
        """Half the width of the slope's bounds, as a share of the slope."""
        if not self.slope_ns or self.slope_low_ns is None or self.slope_high_ns is None:
            return None
        return (self.slope_high_ns - self.slope_low_ns) / 2 / self.slope_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How far off the fit is where the server's own numbers were hidden from it."""

    name: str
    calls: int
    slope_error: float
    """Of the sum of prefills, as a share: above zero the fit said more than the server."""
    is_within: bool
    """Whether the server's prefill a token lies within the fit's bounds."""
    queue_error_ns: float | None
    """Median absolute error of the queue excess, beside the server's queue less the least one; None where it tells none."""


def fit_prefill(calls: FirstTokens, *, seed: int = 1) -> PrefillFit:
    """Fit one server's calls, the latest last; refused where a condition does not hold. Deterministic for a seed."""
    u, y = calls.uncached[-MOST_CALLS:], calls.first_token_ns[-MOST_CALLS:]
    refused = _unfit(u)
    if refused is None:
        floor, middle = _quantile_slope(u, y), _theil_sen_slope(u, y)
        refused = _doubtful(u, y, floor, middle)
    if refused is not None:
        return PrefillFit(name=calls.name, calls=len(u), refused=refused)
    low, high = _bounds(u, y, (floor, middle), seed)
    slope = (floor + middle) / 2
    prefill = np.minimum(slope * u, y)
    fixed = float(np.quantile(y - prefill, FLOOR))
    return PrefillFit(
        name=calls.name,
        calls=len(u),
        slope_ns=slope,
        slope_low_ns=low,
        slope_high_ns=high,
        disagreement=abs(floor / middle - 1),
        fixed_ns=fixed,
        prefill_ns=tuple(map(float, prefill)),
        queue_excess_ns=tuple(map(float, np.maximum(y - prefill - fixed, 0.0))),
    )


def _unfit(u: Floats) -> str | None:
    if len(u) < ENOUGH_CALLS:
        return f"{len(u)} calls are too few, it takes {ENOUGH_CALLS}"
    short, long = np.quantile(u, [0.1, 0.9])
    if long < ENOUGH_SPREAD * max(short, 1.0):
        return (
            f"uncached prompts differ {long / max(short, 1.0):.1f} times in length, it takes {ENOUGH_SPREAD:.0f} times"
        )
    return None


def _doubtful(u: Floats, y: Floats, floor: float, middle: float) -> str | None:
    if floor <= 0 or middle <= 0:
        return "longer prompts do not take longer"
    if abs(floor / middle - 1) > MOST_DISAGREEMENT:
        return (
            f"the two estimators disagree by {abs(floor / middle - 1):.0%}, at most {MOST_DISAGREEMENT:.0%} is allowed"
        )
    short, between, long = np.array_split(np.argsort(u), 3)
    residual = y - floor * u
    ends = [float(np.quantile(residual[part], FLOOR)) for part in (short, between, long)]
    places = [float(np.mean(u[part])) for part in (short, between, long)]
    expected = np.interp(places[1], [places[0], places[2]], [ends[0], ends[2]])
    if abs(ends[1] - expected) > MOST_CURVATURE * floor * places[1]:
        return "the time does not grow in proportion to the prompt"
    return None


def _quantile_slope(u: Floats, y: Floats) -> float:
    """Of the line that a tenth of the values lie below (Koenker and Bassett 1978), by its one free parameter: for a slope the
    best intercept is a quantile, and what is left to minimise is convex.
    """
    from scipy.optimize import minimize_scalar

    def loss(slope: float) -> float:
        residual = y - slope * u
        residual = residual - np.quantile(residual, FLOOR)
        return float(np.mean(residual * (FLOOR - (residual < 0))))

    reach = float(np.ptp(y) / max(np.quantile(u, 0.9) - np.quantile(u, 0.1), 1.0)) * 2
    return float(minimize_scalar(loss, bounds=(-reach, reach), method="bounded", options={"xatol": reach * 1e-6}).x)


def _theil_sen_slope(u: Floats, y: Floats) -> float:
    """The median slope of all pairs. As `scipy.stats.theilslopes`, whose module takes a second to import."""
    first, second = np.triu_indices(len(u), 1)
    run = u[second] - u[first]
    is_apart = run != 0
    if not is_apart.any():
        return 0.0
    return float(np.median((y[second] - y[first])[is_apart] / run[is_apart]))


def _bounds(u: Floats, y: Floats, slopes: Sequence[float], seed: int) -> tuple[float, float]:
    """From the lowest to the highest of both estimators and of their bootstrap intervals."""
    source = np.random.default_rng(seed)
    tails = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    drawn: list[tuple[float, float]] = []
    for _ in range(RESAMPLES):
        chosen = source.integers(0, len(u), len(u))
        drawn.append((_quantile_slope(u[chosen], y[chosen]), _theil_sen_slope(u[chosen], y[chosen])))
    ends = np.quantile(np.array(drawn), tails, axis=0)
    return float(min(*slopes, ends[0].min())), float(max(*slopes, ends[1].max()))


def calibrate(calls: FirstTokens) -> Calibration | None:
    """Fit calls whose server tells its prefill as if it had not; None where it tells it not of all, or no fit holds."""
    u, prefill = calls.uncached[-MOST_CALLS:], calls.prefill_ns[-MOST_CALLS:]
    queue = calls.queue_ns[-MOST_CALLS:]
    if not len(u) or np.isnan(prefill).any() or not prefill.sum():
        return None
    fit = fit_prefill(calls)
    if fit.slope_ns is None or fit.slope_low_ns is None or fit.slope_high_ns is None or fit.fixed_ns is None:
        return None
    truth = prefill.sum() / u.sum()
    missed = np.median(np.abs(np.array(fit.queue_excess_ns) - (queue - queue.min())))
    return Calibration(
        name=calls.name,
        calls=len(u),
        slope_error=float(fit.slope_ns / truth - 1),
        is_within=bool(fit.slope_low_ns <= truth <= fit.slope_high_ns),
        queue_error_ns=None if np.isnan(missed) else float(missed),
    )


MOST_SERVERS = 8
"""Those with most calls: a fit takes half a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """Fits of servers that do not tell their prefill, and how the same fit does where one is told."""

    fits: tuple[PrefillFit, ...]
    calibrations: tuple[Calibration, ...]


def infer(servers: Sequence[FirstTokens]) -> Inferred:
    """Of the servers with enough calls. A server that tells its prefill is never fitted but to calibrate."""
    asked = [calls for calls in servers if len(calls.uncached) >= ENOUGH_CALLS][:MOST_SERVERS]
    fits = tuple(fit_prefill(calls) for calls in asked if np.isnan(calls.prefill_ns).all())
    calibrations = (calibrate(calls) for calls in asked) if any(fit.slope_ns for fit in fits) else ()
    return Inferred(fits=fits, calibrations=tuple(told for told in calibrations if told is not None))


def first_tokens_by_name(columns: Mapping[str, npt.NDArray[Any]]) -> list[FirstTokens]:
    """Rows in the order of time, by name; those with most calls first. Columns are the fields of `FirstTokens`."""
    names, groups, sizes = np.unique(columns["name"].astype(str), return_inverse=True, return_counts=True)
    fields = ("uncached", "first_token_ns", "prefill_ns", "queue_ns")
    return [
        FirstTokens(name=str(names[group]), **{field: columns[field][groups == group] for field in fields})
        for group in np.argsort(-sizes, kind="stable")
    ]


def fit_json(fit: PrefillFit) -> dict[str, Any]:
    """As `phases --json` prints it. `source` says that nothing here was measured."""
    from agenttrace.phases.quantiles import QUANTILES

    def seconds(ns: float | None) -> float | None:
        return None if ns is None else ns / 1e9

    return {
        "name": fit.name,
        "source": "inferred",
        "calls": fit.calls,
        "refused": fit.refused,
        "prefill_s_per_token": seconds(fit.slope_ns),
        "low": seconds(fit.slope_low_ns),
        "high": seconds(fit.slope_high_ns),
        "disagreement": fit.disagreement,
        "fixed_s": seconds(fit.fixed_ns),
        "prefill_s": _quantiles(fit.prefill_ns, QUANTILES),
        "queue_excess_over_floor_s": _quantiles(fit.queue_excess_ns, QUANTILES),
    }


def inferred_json(inferred: Inferred) -> dict[str, Any]:
    """Fits and calibrations, as `phases --json` prints them."""
    return {
        "fits": [fit_json(fit) for fit in inferred.fits],
        "calibrations": [
            {
                "name": told.name,
                "calls": told.calls,
                "slope_error": told.slope_error,
                "is_within": told.is_within,
                "queue_error_s": None if told.queue_error_ns is None else told.queue_error_ns / 1e9,
            }
            for told in inferred.calibrations
        ],
    }


def _quantiles(values: Sequence[float], shares: Any) -> dict[str, float] | None:
    if not values:
        return None
    return {name: float(np.quantile(values, share)) / 1e9 for name, share in shares.items()}
