"""Sends what was judged of stored runs along to Phoenix: their scores, and whole runs of suites as experiments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agenttrace.records import TraceSummary
from agenttrace.store.results import read_results, runs_with_results

if TYPE_CHECKING:
    from agenttrace.export.judged import JudgedRun
    from agenttrace.export.phoenix import Phoenix
    from agenttrace.export.phoenix_scores import Experiment
    from agenttrace.store.reading import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SentScores:
    """What Phoenix has of what was judged."""

    scores: int = 0
    """Annotations of the chosen traces."""
    experiments: int = 0
    pages: tuple[str, ...] = ()
    """Where Phoenix compares the experiments of each suite."""
    left_out: tuple[str, ...] = ()
    """Why a run is no experiment yet."""


def send_scores(
    store: Store, path: str | None, phoenix: Phoenix, chosen: Sequence[TraceSummary], notice: Callable[[str], None]
) -> SentScores:
    """Let Phoenix have what was judged of these traces, which it must have. `notice` is told what is under way."""
    from agenttrace.export.judged import judged_run
    from agenttrace.export.phoenix_scores import comparison_page, show_experiment, show_scores

    by_suite: Mapping[str, list[Experiment]] = defaultdict(list)
    scores = 0
    left_out = []
    with store.connection() as connection:
        judged_runs = runs_with_results(connection)
    for run_id in dict.fromkeys(summary.run_id for summary in chosen if summary.run_id in judged_runs):
        judged = judged_run(store.run(run_id), store.run_spans(run_id), read_results(path, run_id))
        trace_ids = {summary.trace_id for summary in chosen if summary.run_id == run_id}
        notice(f"Showing the scores of {judged.run.name}")
        scores += show_scores(phoenix, judged, trace_ids)
        if judged.suite is None:
            continue
        why = _why_none(judged, trace_ids)
        experiment = None if why else show_experiment(phoenix, judged, partial(_count, notice, judged))
        if experiment:
            by_suite[experiment.dataset_id].append(experiment)
        else:
            left_out.append(f"Run {judged.run.name} is no experiment in Phoenix yet: {why}.")
    return SentScores(
        scores=scores,
        experiments=sum(map(len, by_suite.values())),
        pages=tuple(comparison_page(phoenix, experiments) for experiments in by_suite.values()),
        left_out=tuple(left_out),
    )


def _count(notice: Callable[[str], None], judged: JudgedRun, done: int) -> None:
    notice(f"Showing {judged.run.name} as an experiment: {done} of {len(judged.attempts)} attempts")


def _why_none(judged: JudgedRun, trace_ids: set[str]) -> str | None:
    if not judged.is_complete:
        return "not all that its suite planned has a result"
    if any(attempt.root and attempt.root.trace_id not in trace_ids for attempt in judged.attempts):
        return f"not all of its traces were chosen; --run {judged.run.name} chooses them"
    return None


def told(sent: SentScores) -> list[str]:
    """What came of it, in lines for a person; none where nothing was judged."""
    from agenttrace.report.numbers import quantity

    lines = []
    if sent.scores or sent.experiments:
        lines.append(f"It has {quantity(sent.scores, 'score')} and {quantity(sent.experiments, 'experiment')} of them.")
    lines += [f"Compared there: {page}" for page in sent.pages]
    return [*lines, *sent.left_out]
