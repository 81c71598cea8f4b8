"""The page on which a call is divided: entries by phase, what is still missing, and who holds what."""

from __future__ import annotations

from dataclasses import dataclass, field

from agenttrace.phases.client_view import ClientView
from agenttrace.phases.names import CLIENT, MEANING, counted, in_order, members
from agenttrace.phases.server_report import ServerReport
from agenttrace.records import PhaseTiming

REMAINDER = "arithmetic.remainder"
"""Method of what is left when everything known is taken away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The phases of one call, and the report as far as it was believed."""

    phases: tuple[PhaseTiming, ...]
    report: ServerReport
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Ledger:
    """A call being divided: the entries so far, by name."""

    view: ClientView
    report: ServerReport
    entries: dict[str, PhaseTiming] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, phase: PhaseTiming) -> None:
        self.entries[phase.name] = phase

    def taken(self) -> tuple[PhaseTiming, ...]:
        """What takes time out of the exchange, each nanosecond once."""
        return counted(phase for phase in self.entries.values() if phase.name not in CLIENT)

    def missing(self) -> list[str]:
        """The server's phases that no entry accounts for."""
        timed = [phase for phase in self.entries.values() if phase.ns is not None]
        held = {member for phase in timed for member in members(phase.name)}
        held |= {phase.name for phase in self.entries.values() if phase.included_in is not None}
        return [name for name in self.report.members if name not in held]

    def include(self, name: str, whole: str) -> None:
        """Say that a phase without a number is somewhere in an entry that has one."""
        phase = self.entries.get(name)
        high = self.entries[whole].high_ns
        if phase is None:
            self.put(PhaseTiming(name=name, ns=None, low_ns=lower(0, high), high_ns=high,
                                 definition=MEANING.get(name, ""), included_in=whole))  # fmt: skip
        elif phase.ns is None and phase.source != "not-applicable" and phase.included_in is None:
            high = lower(phase.high_ns, high)
            self.put(bounded(phase, lower(phase.low_ns or 0, high), high, included_in=whole))

    def closed(self) -> Attribution:
        """The division as it stands, in the order in which things happen."""
        notes = tuple(dict.fromkeys(self.notes))
        return Attribution(phases=in_order(self.entries.values()), report=self.report, notes=notes)


def unknown(name: str, high_ns: int | None = None) -> PhaseTiming:
    """A phase without a number: at least nothing, at most `high_ns`."""
    return PhaseTiming(name=name, ns=None, low_ns=0, high_ns=high_ns, definition=MEANING.get(name, ""))


def bounded(phase: PhaseTiming, low_ns: int | None, high_ns: int | None, *, included_in: str | None) -> PhaseTiming:
    """The phase without a number, within other bounds. As `replace`, which is several times slower and done for every phase."""
    return PhaseTiming(
        name=phase.name,
        ns=None,
        low_ns=low_ns,
        high_ns=high_ns,
        source=phase.source,
        definition=phase.definition,
        included_in=included_in,
    )


def exactly(name: str, ns: int, definition: str) -> PhaseTiming:
    """An entry that follows by arithmetic from numbers that are certain."""
    return PhaseTiming(
        name=name, ns=ns, low_ns=ns, high_ns=ns, source="derived", method=REMAINDER, definition=definition
    )


def lower(bound: int | None, other: int | None) -> int | None:
    """The tighter of two upper bounds; None bounds nothing."""
    if bound is None or other is None:
        return other if bound is None else bound
    return min(bound, other)
