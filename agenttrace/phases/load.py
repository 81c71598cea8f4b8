"""How many requests, and how many output tokens, were under way when each call began; and for how long any was.

As these clients saw it: what other clients asked of the same server is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Model calls to one server, whoever of these clients made them. Times in nanoseconds since 1970 UTC."""

    start_ns: Integers
    end_ns: Integers
    output_tokens: Floats
    """Not a number where a call tells none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """What was under way at some moments."""

    requests: Integers
    output_tokens: Floats
    """Of these requests, once they were done; not a number where one of them tells none."""


def under_way(requests: Requests, at_ns: Integers) -> UnderWay:
    """At each moment: a request that begins there counts, one that ends there does not."""
    is_told = ~np.isnan(requests.output_tokens)
    tokens = np.where(is_told, requests.output_tokens, 0.0)
    counts, told, untold = (np.zeros(len(at_ns)) for _ in range(3))
    for moments, sign in ((requests.start_ns, 1), (requests.end_ns, -1)):
        order = np.argsort(moments, kind="stable")  # fast where they are nearly in order, as recorded ones are
        reached = np.searchsorted(moments[order], at_ns, side="right")
        counts += sign * reached
        told += sign * _sum_until(tokens[order], reached)
        untold += sign * _sum_until(~is_told[order], reached)
    return UnderWay(requests=counts.astype(np.int64), output_tokens=np.where(untold > 0.5, np.nan, told))


def _sum_until(values: npt.NDArray[Any], reached: Integers) -> Floats:
    return np.concatenate(([0.0], np.cumsum(values)))[reached]


def busy_ns(start_ns: Integers, end_ns: Integers) -> int:
    """The time in which at least one was under way."""
    if not len(start_ns):
        return 0
    order = np.argsort(start_ns)
    starts, ends = start_ns[order], np.maximum.accumulate(end_ns[order])
    reached = np.concatenate((starts[:1], ends[:-1]))
    return int(np.maximum(ends - np.maximum(starts, reached), 0).sum())


SHOWN = {"p50": 50, "p90": 90, "p99": 99, "max": 100}


def loads(
    chosen: Mapping[str, npt.NDArray[Any]], others: Mapping[str, npt.NDArray[Any]], *, is_whole: bool
) -> dict[str, dict[str, Any]]:
    """Fields of `distributions.Load`, by group.

    `chosen` holds the columns name (of the group), server, start_ns and end_ns; `others` server, start_ns, end_ns and
    output_tokens of all requests, the chosen ones among them. `is_whole`: whether every call of a group was chosen.
    """
    requests_at = np.zeros(len(chosen["server"]), dtype=np.int64)
    tokens_at = np.zeros(len(chosen["server"]))
    for server in np.unique(chosen["server"]):
        here, among = chosen["server"] == server, others["server"] == server
        requests = Requests(
            start_ns=others["start_ns"][among],
            end_ns=others["end_ns"][among],
            output_tokens=others["output_tokens"][among],
        )
        at_start = under_way(requests, chosen["start_ns"][here])
        requests_at[here], tokens_at[here] = at_start.requests, at_start.output_tokens
    names, groups = np.unique(chosen["name"].astype(str), return_inverse=True)
    found = {}
    for number, name in enumerate(names):
        mine = groups == number
        found[str(name)] = {
            "in_flight": _summary(requests_at[mine].astype(float)),
            "output_tokens_in_flight": _summary(tokens_at[mine]),
            "busy_ns": busy_ns(chosen["start_ns"][mine], chosen["end_ns"][mine]) if is_whole else None,
        }
    return found


def _summary(values: Floats) -> dict[str, float | None]:
    """Over all calls; nothing where one of them is unknown: the rest would be another distribution."""
    if np.isnan(values).any():
        return dict.fromkeys(SHOWN)
    told = np.percentile(values, list(SHOWN.values()), method="inverted_cdf")
    return dict(zip(SHOWN, map(float, told), strict=True))
