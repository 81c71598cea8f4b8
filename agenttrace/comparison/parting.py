"""Of cases whose scores differ: which attempts to lay side by side, and where they part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agenttrace.comparison.evidence import Repetition, RunEvidence
from agenttrace.comparison.pairing import PairedCase
from agenttrace.comparison.trace_diff import Part, trace_diff
from agenttrace.records import SpanRecord

MAX_CASES = 200
"""Cases of which traces are read: as many as a report shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Where one attempt at a case parted from the other run's."""

    baseline: str
    """Its trace."""
    candidate: str
    parts: tuple[Part, ...]
    """What differs, each once, first difference first; empty where nothing recorded does."""


def telling_attempts(
    cases: Iterable[PairedCase], baseline: RunEvidence, candidate: RunEvidence
) -> dict[str, tuple[str, str]]:
    """By case whose scores differ, the traces of two attempts that differ as the case does: where the candidate is worse, the
    baseline's best attempt and the candidate's worst, else the other way round.
    """
    changed = [case for case in cases if case.difference[0] > 0][:MAX_CASES]
    wanted = {case.case for case in changed}
    before, after = _traced(baseline, wanted), _traced(candidate, wanted)
    pairs: dict[str, tuple[str, str]] = {}
    for case in changed:
        sides = before[case.case], after[case.case]
        if all(sides):
            is_worse = sum(value.delta for key, value in case.values.items() if key.is_score) < 0
            picked = [
                _pick(side, best=is_worse == is_baseline)
                for side, is_baseline in zip(sides, (True, False), strict=True)
            ]
            pairs[case.case] = picked[0], picked[1]
    return pairs


def _traced(evidence: RunEvidence, wanted: set[str]) -> dict[str, list[Repetition]]:
    found: dict[str, list[Repetition]] = defaultdict(list)
    for repetition in evidence.repetitions:
        if repetition.case in wanted and repetition.trace_id is not None:
            found[repetition.case].append(repetition)
    return found


def _pick(repetitions: Sequence[Repetition], *, best: bool) -> str:
    """The trace of the best or the worst attempt, the first of equals; an attempt without scores failed."""
    ranked = sorted(
        repetitions, key=lambda one: fmean(one.scores.values()) if one.scores else float("-inf"), reverse=best
    )
    return str(ranked[0].trace_id)


def partings(attempts: Mapping[str, tuple[str, str]], traces: Mapping[str, Sequence[SpanRecord]]) -> dict[str, Parting]:
    """Where each pair of attempts parts, by case; without those whose traces are not stored."""
    return {
        case: Parting(baseline=before, candidate=after, parts=trace_diff(traces[before], traces[after]).parts)
        for case, (before, after) in attempts.items()
        if before in traces and after in traces
    }
