"""What the arrivals of a stream's chunks say of its tokens."""

from __future__ import annotations

from agenttrace.phases.chunks import (
    arrival_batches_ns,
    burst_index,
    chunk_gaps_ns,
    longest_gap_bounds_ns,
    mean_gap_bounds_ns,
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
