"""Draws accepted baselines: which run, how it scored, when and why it was accepted, and what speaks against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from agenttrace.comparison.recorded_suite import run_settings
from agenttrace.export.baseline_file import AcceptedBaseline
from agenttrace.report.escaping import visible
from agenttrace.report.numbers import UNKNOWN, moment, quantity

LIMIT = 200
"""Characters of a name or a reason."""


def draw_baselines(baselines: Sequence[AcceptedBaseline], warnings: Mapping[str, Sequence[str]]) -> RenderableType:
    """Each with a line of its own for what matters. `warnings` by run id."""
    parts: list[RenderableType] = []
    for baseline in baselines:
        parts += [Text("")] * bool(parts)
        parts.append(Text(visible(str(baseline.file)), style="bold", no_wrap=True, overflow="ignore"))
        parts += [Text(line) for line in _lines(baseline)]
        parts += [Text(f"  Note: {visible(line)}", style="yellow") for line in warnings.get(baseline.run.run_id, ())]
    return Group(*parts)


def _lines(baseline: AcceptedBaseline) -> Sequence[str]:
    run, evidence = baseline.run, baseline.evidence
    scores = ", ".join(f"{visible(name, limit=40)} {mean:.3f}" for name, mean in baseline.means.items())
    reason = f": {visible(baseline.reason, limit=LIMIT)}" if baseline.reason else ""
    return (
        f"  run       {visible(run.name, limit=LIMIT)} ({visible(run.run_id, limit=40)}), recorded "
        f"{moment(run.end_ns or run.start_ns)}",
        f"  accepted  {moment(baseline.accepted_ns)}{reason}",
        f"  commit    {_commit(baseline)}",
        f"  results   {quantity(len(evidence.cases), 'case')}, {quantity(len(evidence.repetitions), 'attempt')}"
        f"{f': {scores}' if scores else ''}",
        f"  contract  {baseline.contract_digest}",
    )


def _commit(baseline: AcceptedBaseline) -> str:
    told = run_settings(baseline.run).get("code.commit")
    if not isinstance(told, Mapping):
        return UNKNOWN
    branch = f" on {told['branch']}" if told.get("branch") else ""
    dirty = ", with changes that were not committed" if told.get("dirty") else ""
    return visible(f"{str(told.get('commit'))[:12]}{branch}{dirty}", limit=LIMIT)
