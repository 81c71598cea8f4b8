"""Draws what is inferred of servers that tell neither queue nor prefill: with what it rests on, and how far off it may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from agenttrace.phases.prefill_fit import Calibration, Inferred, PrefillFit, fit_json
from agenttrace.report.drawing import Column, table
from agenttrace.report.escaping import visible
from agenttrace.report.numbers import between, duration, percent, quantity, rate
from agenttrace.report.phase_table import INDENT


def draw_inferred(inferred: Inferred) -> RenderableType:
    """One block a server; a server without an estimate says why."""
    parts: list[RenderableType] = [
        Text("inferred, not measured", style="bold yellow").append(
            "  of servers that tell neither queue nor prefill", "dim"
        )
    ]
    for fit in inferred.fits:
        name = visible(fit.name, limit=100)
        if fit.refused is not None:
            parts.append(Text(f"  no estimate for {name}: {fit.refused}", style="dim"))
            continue
        facts = table([Column(), Column()], [], indent=INDENT)
        facts.columns[-1].no_wrap = False
        for label, text in _facts(fit, inferred.calibrations):
            facts.add_row(Text(""), Text(label, style="dim"), Text(text))
        parts += [Text(f"  {name}"), facts]
    return Group(*parts)


def _facts(fit: PrefillFit, calibrations: Sequence[Calibration]) -> Iterator[tuple[str, str]]:
    calls = quantity(fit.calls, "call")
    disagree = f"estimators disagree by {percent(fit.disagreement)}"
    yield "from", f"{calls} in the last 24 h; prefill ± {percent(fit.uncertainty)} ({disagree})"
    told = fit_json(fit)
    speed = rate(1e9 / fit.slope_ns if fit.slope_ns else None)
    each = between(fit.slope_low_ns, fit.slope_high_ns)
    yield "prefill", f"{each} an uncached prompt token ({speed}); {_quantiles(told['prefill_s'])}"
    yield "queue excess", f"over the best-observed floor: {_quantiles(told['queue_excess_over_floor_s'])}"
    yield (
        "floor",
        f"{duration(fit.fixed_ns)}: network, routing, first step. Constant queueing cannot be seen from outside.",
    )
    yield "calibration", _calibration(calibrations)


def _quantiles(values: dict[str, float] | None) -> str:
    return ", ".join(f"{name} {duration(seconds * 1e9)}" for name, seconds in (values or {}).items())


def _calibration(calibrations: Sequence[Calibration]) -> str:
    if not calibrations:
        return "none: no server in this selection tells its prefill, so how far this is off is not known"
    worst = max(calibrations, key=lambda told: abs(told.slope_error))
    within = sum(told.is_within for told in calibrations)
    return (
        f"with the server's own numbers hidden, off by {percent(abs(worst.slope_error))} in prefill and "
        f"{duration(worst.queue_error_ns)} in queue excess at worst ({visible(worst.name, limit=80)}); "
        f"the truth within the bounds for {within} of {quantity(len(calibrations), 'server')}"
    )
