"""What the arrivals of a stream's chunks say of its tokens."""

from __future__ import annotations

import pytest

from agenttrace.phases.chunks import (
    arrival_batches_ns,
    burst_index,
    chunk_gaps_ns,
    longest_gap_bounds_ns,
    mean_gap_bounds_ns,
    pack_arrivals,
    unpack_arrivals,
)

MS = 1_000_000


def test_arrivals_of_one_read_are_one() -> None:
    """Chunks that were read together are one arrival: their gaps are artefacts of the loop that hands them out."""
    assert arrival_batches_ns([0, 1000, 2000, 5 * MS, 5 * MS + 1, 9 * MS]) == (0, 5 * MS, 9 * MS)


def test_gaps_need_two_chunks() -> None:
    """One chunk has no gap."""
    assert chunk_gaps_ns([7]) == ()
    assert chunk_gaps_ns([100 * MS, 150 * MS, 210 * MS]) == (50 * MS, 60 * MS)


def test_mean_gap_bounds() -> None:
    """Forty tokens in five arrivals over a second: at least a thirty-ninth of it, at most a quarter."""
    assert mean_gap_bounds_ns(1000 * MS, batches=5, tokens=40) == (1000 * MS // 39, 250 * MS)
    assert mean_gap_bounds_ns(1000 * MS, batches=1, tokens=40) is None


def test_longest_gap_bounds() -> None:
    """A silence before k tokens is at most one token's time and at least a k-th; without k nothing bounds it below."""
    assert longest_gap_bounds_ns([(100 * MS, 10), (30 * MS, 1)]) == (30 * MS, 100 * MS)
    assert longest_gap_bounds_ns([(100 * MS, None)]) == (0, 100 * MS)
    assert longest_gap_bounds_ns([]) is None


def test_burst_index() -> None:
    """One token an arrival is no burst; half of it and more is a buffered stream."""
    assert burst_index(100, 100) == 0
    assert burst_index(10, 100) == 0.9
    assert burst_index(3, 0) is None


def test_arrivals_are_kept_small_and_to_the_microsecond() -> None:
    """What was packed is unpacked, in three characters an arrival or fewer."""
    arrivals = tuple(500 * MS + number * 20 * MS + number % 7 * 1000 for number in range(1000))
    packed = pack_arrivals(arrivals)
    assert packed is not None
    assert unpack_arrivals(packed) == arrivals
    assert len(packed) < 3 * len(arrivals)


@pytest.mark.parametrize("arrivals", [[5 * MS, 2 * MS], [0, 10**18], [1, 2, 3]])
def test_no_arrivals_are_too_strange_to_keep(arrivals: list[int]) -> None:
    """Backwards, hours apart, closer than a microsecond: as many as there were, none before the one it follows."""
    kept = unpack_arrivals(pack_arrivals(arrivals))
    assert len(kept) == len(arrivals)
    assert list(kept) == sorted(kept)


@pytest.mark.parametrize("packed", [None, "", "no", "AAAA", "eJwDAAAAAAE="])
def test_damaged_arrivals_are_none(packed: str | None) -> None:
    """What cannot be unpacked was not seen."""
    assert unpack_arrivals(packed) == ()
    assert pack_arrivals([]) is None
