"""What the arrivals of a stream's chunks say of its tokens. A chunk is no token: several may share one, and buffers may hold many.

Inter-chunk latency is exact and needs no token count. The mean time of a token has bounds; the longest single one, hardly.
"""

from __future__ import annotations

import zlib
from array import array
from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import accumulate, pairwise

BUFFERED = 0.5
"""A burst index above this is a buffered stream: a content filter, tool arguments held back, speculation, a proxy."""

BATCH_NS = 1_000_000
"""Arrivals closer than this were read together: one arrival."""


US = 1_000
LONGEST_GAP_US = (1 << 32) - 1
"""71 minutes: a longer silence is kept as that."""


def pack_arrivals(arrivals_ns: Sequence[int]) -> str | None:
    """Arrivals as a short text: microseconds from one to the next, the first as it is, packed. None without any.

    About three characters an arrival, where a list of numbers takes ten.
    """
    if not arrivals_ns:
        return None
    gaps = array(
        "I", [min(max(later - earlier, 0) // US, LONGEST_GAP_US) for earlier, later in pairwise((0, *arrivals_ns))]
    )
    return b64encode(zlib.compress(gaps.tobytes(), 1)).decode()


def unpack_arrivals(packed: str | None) -> tuple[int, ...]:
    """Nanoseconds, to the microsecond; empty where there is none, or where what was kept is damaged."""
    if not packed:
        return ()
    gaps = array("I")
    try:
        gaps.frombytes(zlib.decompress(b64decode(packed, validate=True)))
    except (ValueError, zlib.error):
        return ()
    return tuple(us * US for us in accumulate(gaps))


def chunk_gaps_ns(arrivals_ns: Sequence[int]) -> tuple[int, ...]:
    """The gaps between successive arrivals. Source: AIPerf 0.13.0, inter_chunk_latency_metric.py."""
    return tuple(later - earlier for earlier, later in pairwise(arrivals_ns))


def arrival_batches_ns(arrivals_ns: Sequence[int]) -> tuple[int, ...]:
    """The first arrival of each batch: what came within a millisecond of its predecessor came with it."""
    return tuple(at for index, at in enumerate(arrivals_ns) if index == 0 or at - arrivals_ns[index - 1] >= BATCH_NS)


def mean_gap_bounds_ns(span_ns: int, batches: int, tokens: int) -> tuple[int, int] | None:
    """Bounds of the mean inter-token time of `tokens` that came in `batches` over `span_ns`, first to last.

    Low: every token took the same, N - 1 gaps. High: only the batches' gaps are seen. None with fewer than two of either.
    """
    if tokens < 2 or batches < 2 or span_ns < 0:
        return None
    fewer, more = sorted((batches, tokens))
    return span_ns // (more - 1), -(-span_ns // (fewer - 1))


def longest_gap_bounds_ns(silences: Sequence[tuple[int, int | None]]) -> tuple[int, int] | None:
    """Bounds of the longest single token's time, from (silence before a chunk, tokens in that chunk or None).

    A silence before k tokens is no token's time: one of them took at least a k-th of it and at most all of it. Where the
    count is unknown there is no lower bound. A tool call's arguments may come in one piece after minutes of silence.
    """
    if not silences:
        return None
    lows = [ns // tokens if tokens else 0 for ns, tokens in silences]
    return max(lows), max(ns for ns, _ in silences)


def burst_index(batches: int, tokens: int) -> float | None:
    """How far a stream is from one token an arrival: 1 - batches / tokens. Above `BUFFERED` it is buffered."""
    return None if tokens < 1 else max(1 - batches / tokens, 0.0)
