"""How a reader takes numbers out of foreign data: every value is checked, kept raw, and rejected with a reason if it cannot be.

In: a mapping that somebody else wrote. Out: integer nanoseconds or None, and a `ServerReport` that remembers where from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from agenttrace.phases.names import MEANING, members
from agenttrace.phases.server_report import RawValue, ServerReport, TokenCounts
from agenttrace.records import PhaseSource, PhaseTiming

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]

NS: Mapping[str, int] = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds in one of each unit."""

LONGEST_NS = 24 * 3600 * NS["s"]
"""No phase of a request lasts a day; what says so mixed two clocks (a real vLLM once reported a queue of 54 years)."""

_DECIMAL = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?")


def to_ns(value: float, unit: Unit) -> int:
    """Nanoseconds of a finite number; integers convert exactly."""
    return value * NS[unit] if isinstance(value, int) else round(value * NS[unit])


def mapping(value: object) -> Mapping[str, object]:
    """The value if it is an object, else an empty one: foreign data may hold anything anywhere."""
    if type(value) is dict or value is None:  # the usual cases, much cheaper than asking an abstract class
        return value or {}
    return value if isinstance(value, Mapping) else {}


def count(value: object) -> int | None:
    """A token count: a whole number that is not negative. Booleans, text and fractions are none."""
    return value if type(value) is int and 0 <= value < 10**12 else None


def number(value: object, *, text: bool = False) -> float | None:
    """A finite number; None for anything else. `text` allows decimal text, as headers have it."""
    if text and isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
        stripped = value.strip()
        return int(stripped) if stripped.isdecimal() else float(stripped)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and abs(value) >= 10**24:
        return None  # too long even to become a float
    # The limit keeps conversions finite; no duration or time stamp in any unit comes near it.
    return value if math.isfinite(value) and abs(value) < 1e24 else None


class ReportDraft:
    """A server report under construction. One instance reads one object of the response, or its headers."""

    def __init__(self, server: str, fields: Mapping[str, object], *, at: str = "", method: str = "") -> None:
        """`at` is the path of `fields` in the body (`header:` for headers); `method` names the source of the numbers."""
        self.server = server
        self.fields = fields
        self.at = at
        self.method = method or f"{server}.{at.strip('.')}"
        self.phases: dict[str, PhaseTiming] = {}
        self.parts: dict[str, int] = {}
        self.raw: dict[str, RawValue] = {}
        self.rates: dict[str, float] = {}
        self.rejected: dict[str, str] = {}
        self.notes: list[str] = []
        self.total_ns: int | None = None
        self.total_is_independent = False
        self.ttft_ns: int | None = None
        self.from_total: set[str] = set()
        self.tokens = TokenCounts()

    def has_number(self, *names: str) -> bool:
        """Whether one of these fields holds a usable duration; for readers that choose by what is there."""
        is_text = self.at == "header:"
        return any(number(self.fields.get(name), text=is_text) is not None for name in names)

    def duration(self, name: str, unit: Unit, *, text: bool = False) -> int | None:
        """Nanoseconds in a field; None, and a reason in `rejected`, if it holds what no duration can be."""
        value = self._value(name, text)
        if value is None:
            return None
        ns = to_ns(value, unit)
        if value < 0:
            self.rejected[name] = f"negative: {value:g} {unit}"
        elif ns > LONGEST_NS:
            self.rejected[name] = f"longer than a day: {value:g} {unit}"
        else:
            self.raw[name] = RawValue(path=self.at + name, value=value, unit=unit)
            return ns
        return None

    def moment(self, name: str, unit: Unit = "s") -> int | None:
        """A time stamp of some clock of the server's; only differences within one clock mean anything."""
        value = self._value(name, False)
        if value is None:
            return None
        if value < 0:
            self.rejected[name] = f"negative: {value:g} {unit}"
            return None
        self.raw[name] = RawValue(path=self.at + name, value=value, unit=unit)
        return to_ns(value, unit)

    def _value(self, name: str, text: bool) -> float | None:
        held = self.fields.get(name)
        if held is None:  # absent and null both mean that the server does not know
            return None
        value = number(held, text=text or self.at == "header:")
        if value is None:
            self.rejected[name] = (
                f"not a number: {held[:40]!r}" if isinstance(held, str) else f"no usable number: {type(held).__name__}"
            )
        return value

    def reported(
        self,
        phase: str,
        name: str,
        unit: Unit,
        definition: str,
        *,
        resolution_ns: int = 0,
        text: bool = False,
        included_in: str | None = None,
    ) -> int | None:
        """Take a phase that the server states. `resolution_ns`: the server cuts off below this, so the truth may be longer."""
        ns = self.duration(name, unit, text=text)
        if ns is None:
            if len(members(phase)) == 1:  # an unknown sum is nothing, its members are unknown by themselves
                self.unknown(phase, definition=definition)
            return None
        self.raw[phase] = self.raw[name]
        high = ns + max(resolution_ns - 1, 0)
        self._put(phase, ns, ns, high, "server-reported", definition, included_in)
        return ns

    def derived(
        self,
        phase: str,
        ns: int | None,
        definition: str,
        *,
        low_ns: int | None = None,
        high_ns: int | None = None,
        from_total: bool = False,
    ) -> None:
        """Take a phase that follows from other fields by arithmetic; None or a negative one is unknown."""
        if ns is None or ns < 0:
            if len(members(phase)) == 1:
                self.unknown(phase, definition=definition)
            return
        low, high = ns if low_ns is None else min(low_ns, ns), ns if high_ns is None else max(high_ns, ns)
        self._put(phase, ns, max(low, 0), high, "derived", definition, None)
        if from_total:
            self.from_total.add(phase)

    def _put(
        self, phase: str, ns: int, low: int, high: int, source: PhaseSource, definition: str, included_in: str | None
    ) -> None:
        self.phases[phase] = PhaseTiming(
            name=phase,
            ns=ns,
            low_ns=low,
            high_ns=high,
            source=source,
            method=self.method,
            definition=definition,
            included_in=included_in,
        )

    def unknown(
        self,
        phase: str,
        *,
        low_ns: int | None = 0,
        high_ns: int | None = None,
        included_in: str | None = None,
        definition: str = "",
    ) -> None:
        """Say that a phase has no number, and what bounds it."""
        self.phases[phase] = PhaseTiming(
            name=phase,
            ns=None,
            low_ns=low_ns,
            high_ns=high_ns,
            included_in=included_in,
            definition=definition or MEANING.get(phase, ""),
        )

    def part(self, part: str, name: str, unit: Unit, *, text: bool = False) -> int | None:
        """Take something the server reports that is no phase of ours."""
        ns = self.duration(name, unit, text=text)
        if ns is not None:
            self.parts[part] = ns
            self.raw[part] = self.raw[name]
        return ns

    def elapsed(
        self, until_headers: bool, name: str, unit: Unit, definition: str, *, resolution_ns: int = 0
    ) -> int | None:
        """Take an elapsed time that a response header states: the server's total, or of a stream only the time to headers.

        Headers leave before a streamed body, so there they bound the first token from below and never state a total.
        """
        if until_headers:
            ns = self.part("server_until_headers", name, unit)
            if ns is not None:
                self.notes.append("streamed: the header's time ends at the headers, a lower bound on the first token")
            return ns
        return self.total(self.reported("server_all", name, unit, definition, resolution_ns=resolution_ns), raw=name)

    def between(self, start: str, end: str, unit: Unit = "s") -> int | None:
        """From one time stamp of a clock to a later one of the same clock; None if one is missing or they are reversed."""
        started, ended = self.moment(start, unit), self.moment(end, unit)
        if started is None or ended is None:
            return None
        if ended < started or ended - started > LONGEST_NS:
            self.rejected[end] = (
                f"before {start}" if ended < started else f"more than a day after {start}: another clock"
            )
            return None
        return ended - started

    def rate(self, rate: str, name: str, *, scale: float = 1.0) -> float | None:
        """Keep a rate the server states, times `scale`. Never negative, never used to correct another field."""
        value = self._value(name, False)
        if value is None:
            return None
        if value < 0:
            self.rejected[name] = f"negative: {value:g}"
            return None
        self.raw[rate] = RawValue(path=self.at + name, value=value, unit="tok/s" if scale == 1.0 else "ms")
        self.rates[rate] = value * scale
        return self.rates[rate]

    def total(self, ns: int | None, *, is_independent: bool = False, raw: str | None = None) -> int | None:
        """Set everything the server counts. `raw` names the field it was read from."""
        self.total_ns, self.total_is_independent = ns, is_independent and ns is not None
        if raw is not None and raw in self.raw:
            self.raw["total"] = self.raw[raw]
        return ns

    def ttft(self, name: str, unit: Unit) -> int | None:
        """Take the server's own time to first token, its wait included."""
        self.ttft_ns = self.duration(name, unit)
        if self.ttft_ns is not None:
            self.raw["ttft"] = self.raw[name]
        return self.ttft_ns

    def sum_of(self, *phases: str) -> int | None:
        """What these phases add up to; None if one of them has no number."""
        total = 0
        for phase in phases:
            timing = self.phases.get(phase)
            if timing is None or timing.ns is None:
                return None
            total += timing.ns
        return total

    def done(self, *, tokens: TokenCounts | None = None, resolution_ns: int = 0, **more: object) -> ServerReport:
        """The finished report. `more`: the remaining fields of `ServerReport`."""
        return ServerReport(
            server=self.server,
            phases=tuple(self.phases.values()),
            parts_ns=self.parts,
            total_ns=self.total_ns,
            total_is_independent=self.total_is_independent,
            from_total=frozenset(self.from_total),
            ttft_ns=self.ttft_ns,
            resolution_ns=resolution_ns,
            tokens=tokens or self.tokens,
            rates=self.rates,
            raw=self.raw,
            rejected=self.rejected,
            notes=tuple(self.notes),
            **more,  # type: ignore[arg-type]  # `members` and `speculation`, passed on as they are
        )
