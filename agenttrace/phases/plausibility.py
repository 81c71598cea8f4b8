"""Which of a server's numbers cannot be true: longer than the client waited, or a total smaller than its parts.

Nothing is clipped or rescaled. A rejected value is unknown from then on, and its reason is kept.
"""

from __future__ import annotations

from dataclasses import replace

from agenttrace.phases.client_view import ClientView
from agenttrace.phases.draft import NS
from agenttrace.phases.names import counted, members
from agenttrace.phases.server_report import ServerReport
from agenttrace.records import PhaseTiming

CLOCK_DRIFT_PPM = 200
"""Two machines' clocks may run this much apart; more than an NTP-kept clock ever does."""


def tolerance_ns(report: ServerReport, span_ns: int) -> int:
    """How far the server's and the client's durations may disagree before it means something.

    1 ms for scheduling, the server's resolution, and 200 ppm for clocks that run apart.
    """
    return NS["ms"] + report.resolution_ns + span_ns * CLOCK_DRIFT_PPM // 1_000_000


def without_impossible(report: ServerReport, view: ClientView) -> tuple[ServerReport, list[str]]:
    """The report without what cannot be true, and notes on what went."""
    fresh: dict[str, str] = {}
    if view.exchange_ns is not None:
        report = _within(report, view.exchange_ns, fresh)
    report = _total_holds_parts(report, fresh)
    if not fresh:
        return report, list(report.notes)
    told = f"rejected as impossible: {', '.join(fresh)}"
    return replace(report, rejected={**report.rejected, **fresh}), [*report.notes, told]


def _within(report: ServerReport, exchange_ns: int, rejected: dict[str, str]) -> ServerReport:
    longest = exchange_ns + tolerance_ns(report, exchange_ns)

    def is_possible(name: str, ns: int | None) -> bool:
        if ns is None or ns <= longest:
            return True
        rejected[_field(report, name)] = f"{ns / NS['s']:g} s is longer than the client's {exchange_ns / NS['s']:g} s"
        return False

    total_fell = not is_possible("total", report.total_ns)
    dropped = {phase.name for phase in report.phases if not is_possible(phase.name, phase.ns)}
    if total_fell:
        dropped |= report.from_total
    total = None if total_fell or (dropped and not report.total_is_independent) else report.total_ns
    ttft = report.ttft_ns if is_possible("ttft", report.ttft_ns) else None
    parts = {name: ns for name, ns in report.parts_ns.items() if is_possible(name, ns)}
    if not rejected:
        return report
    return replace(
        report,
        phases=_without(report.phases, dropped),
        total_ns=total,
        total_is_independent=report.total_is_independent and total is not None,
        ttft_ns=ttft,
        parts_ns=parts,
    )


def _total_holds_parts(report: ServerReport, rejected: dict[str, str]) -> ServerReport:
    if report.total_ns is None or not report.total_is_independent:
        return report
    parts = counted(report.phases)
    taken = sum(phase.ns or 0 for phase in parts)
    if taken <= report.total_ns + tolerance_ns(report, report.total_ns):
        return report
    rejected[_field(report, "total")] = f"{report.total_ns / NS['s']:g} s is less than its parts, {taken / NS['s']:g} s"
    held = {member for phase in parts for member in members(phase.name)}
    total = taken if {"queue", "prefill", "decode"} <= held else None
    phases = _without(report.phases, report.from_total)
    return replace(report, phases=phases, total_ns=total, total_is_independent=False)


def _without(phases: tuple[PhaseTiming, ...], dropped: set[str] | frozenset[str]) -> tuple[PhaseTiming, ...]:
    """These phases with the dropped ones unknown; a dropped sum's name goes with it, a phase's stays."""
    kept = []
    for phase in phases:
        if phase.name not in dropped:
            kept.append(replace(phase, included_in=None) if phase.included_in in dropped else phase)
        elif len(members(phase.name)) == 1:
            kept.append(PhaseTiming(name=phase.name, ns=None, low_ns=0, definition=phase.definition))
    return tuple(kept)


def _field(report: ServerReport, name: str) -> str:
    """The server's own name for a value, where one field held it."""
    raw = report.raw.get(name)
    return name if raw is None else raw.path.removeprefix("header:").rsplit(".", 1)[-1]
