"""What a server says of one request, in our words: phases, parts, total, tokens and rates, each with the raw value behind it.

Readers make it, `attribution` joins it with what the client saw. Durations are integer nanoseconds; None is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from agenttrace.phases.names import HOSTED
from agenttrace.records import PhaseTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class RawValue:
    """A number as the server wrote it, so that it can be read again when its meaning is corrected."""

    path: str
    """Dotted path in the body, or `header:NAME`."""
    value: float
    unit: str
    """`s`, `ms`, `us` or `ns` for durations and moments, `tok/s` for rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """Tokens as the server counted them; None where it does not say. `cached` and `cache_written` are parts of `prompt`."""

    prompt: int | None = None
    cached: int | None = None
    uncached: int | None = None
    """Prompt tokens that were computed: what a prefill rate is over."""
    cache_written: int | None = None
    output: int | None = None
    """Generated tokens, reasoning included."""
    reasoning: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Speculative decoding: several tokens a step, so that gaps between tokens are no step times."""

    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    mean_tokens_per_step: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """One server's report on one request."""

    server: str
    """Which reader understood it, e.g. `llama.cpp`."""
    phases: tuple[PhaseTiming, ...] = ()
    """Phases and sums of them; one without a number may still carry bounds."""
    members: tuple[str, ...] = HOSTED
    """The phases that can take place in this server. What has no entry above is somewhere in the rest."""
    parts_ns: Mapping[str, int] = field(default_factory=dict)
    """What the server reports and we have no word for."""
    total_ns: int | None = None
    """Everything that the server counts, from its first to its last mark."""
    total_is_independent: bool = False
    """The server measured the total itself, so that it says something about what the parts leave out."""
    from_total: frozenset[str] = frozenset()
    """Phases that were had by subtracting from the total; they fall with it."""
    ttft_ns: int | None = None
    """From the server's first mark to the first token; the wait is inside."""
    resolution_ns: int = 0
    """What one step of the server's numbers is worth."""
    tokens: TokenCounts = field(default_factory=TokenCounts)
    rates: Mapping[str, float] = field(default_factory=dict)
    """Rates the server states itself: never recomputed, never used to correct another field."""
    speculation: Speculation | None = None
    raw: Mapping[str, RawValue] = field(default_factory=dict)
    """By phase, part or `total`, `ttft`: the number that it was read from."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """Field to the reason why its value cannot be true."""
    notes: tuple[str, ...] = ()

    @property
    def says_time(self) -> bool:
        """Whether anything in it bears on where the time went."""
        timed = any(phase.ns is not None or phase.high_ns is not None for phase in self.phases)
        return timed or bool(self.parts_ns) or self.total_ns is not None or self.ttft_ns is not None


Reader: TypeAlias = Callable[[Mapping[str, object], Mapping[str, str], bool | None], ServerReport | None]
"""(response body or its allow-listed keys, headers in lower case, whether the response streamed) to a report; None where
the shape is not this server's. Never raises on foreign data."""
