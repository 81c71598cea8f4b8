"""Shows what was judged to a running Phoenix: scores as annotations of spans, a suite as a dataset, its runs as experiments.

What Phoenix has is asked for first and not sent again, and annotations replace those of the same name that came from
here, so showing twice changes nothing. What others put into a dataset is left as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias
from urllib.parse import quote

import orjson

from agenttrace.comparison.recorded_suite import RecordedSuite
from agenttrace.export.judged import Finding, JudgedAttempt, JudgedRun
from agenttrace.export.otlp import Progress
from agenttrace.export.phoenix import Phoenix
from agenttrace.export.phoenix_rest import get, pages, post, understood

Object: TypeAlias = dict[str, Any]
"""JSON as Phoenix answers it; what is read of it is checked where it is asked for."""

IDENTIFIER = "agenttrace"
"""Under this Phoenix keeps annotations of a name apart from those of people and other programs, and ours are told by it."""

RUN = "agenttrace_run"
"""In an experiment's metadata: the id of the run that it shows."""

ANNOTATIONS_AT_A_TIME = 100
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A run as Phoenix has it."""

    dataset_id: str
    experiment_id: str


def show_scores(phoenix: Phoenix, judged: JudgedRun, trace_ids: Collection[str]) -> int:
    """Annotate the first span of each attempt of these traces, which Phoenix must have. Returns how many scores it has.

    Raises:
        PhoenixNotHealthy, EndpointRefused: it does not answer, or not as Phoenix does.
    """
    annotations = [
        _annotation(attempt.root.span_id, finding)
        for attempt in judged.attempts
        if attempt.root and attempt.root.trace_id in trace_ids
        for finding in attempt.findings
        if finding.error is None
    ]
    for start in range(0, len(annotations), ANNOTATIONS_AT_A_TIME):
        part = annotations[start : start + ANNOTATIONS_AT_A_TIME]
        with understood(phoenix):
            post(phoenix, "/v1/span_annotations?sync=true", {"data": part})
    return len(annotations)


def show_experiment(phoenix: Phoenix, judged: JudgedRun, progress: Progress | None = None) -> Experiment | None:
    """Let Phoenix have the run as an experiment on its suite's dataset; None for a run that no suite made, or not all of it.

    Raises:
        PhoenixNotHealthy, EndpointRefused: it does not answer, or not as Phoenix does.
    """
    suite = judged.suite
    if suite is None or not judged.is_complete:
        return None
    with understood(phoenix):
        found = _experiment(phoenix, judged, suite)
        if found is None:
            # Only now: a run that is there has its own version of the dataset, whatever the suite's cases have become.
            dataset_id = _dataset(phoenix, judged, suite)
            experiment_id = _new_experiment(phoenix, judged, suite, dataset_id)
            found = Experiment(dataset_id=dataset_id, experiment_id=experiment_id)
        _complete(phoenix, judged, found, progress)
    return found


def comparison_page(phoenix: Phoenix, experiments: Collection[Experiment]) -> str:
    """Where Phoenix compares experiments on one dataset."""
    chosen = "&".join(f"experimentId={quote(experiment.experiment_id)}" for experiment in experiments)
    dataset_id = next(iter(experiments)).dataset_id
    return f"{phoenix.address}/datasets/{quote(dataset_id)}/compare?{chosen}"


def _annotation(span_id: str, finding: Finding) -> Object:
    return {
        "span_id": span_id,
        "name": finding.name,
        "annotator_kind": finding.judge,
        "identifier": IDENTIFIER,
        "result": _result(finding),
    }


def _result(finding: Finding) -> Object:
    told = {"score": finding.score, "label": finding.label, "explanation": finding.explanation}
    return {name: value for name, value in told.items() if value is not None}


def _experiment(phoenix: Phoenix, judged: JudgedRun, suite: RecordedSuite) -> Experiment | None:
    """The experiment that was made of this run before."""
    for dataset in pages(phoenix, f"/v1/datasets?name={quote(suite.name)}"):
        for experiment in pages(phoenix, f"/v1/datasets/{quote(dataset['id'])}/experiments"):
            if experiment["metadata"].get(RUN) == judged.run.run_id:
                return Experiment(dataset_id=dataset["id"], experiment_id=experiment["id"])
    return None


def _dataset(phoenix: Phoenix, judged: JudgedRun, suite: RecordedSuite) -> str:
    """The id of the suite's dataset, which has an example for each case of the run when this returns."""
    there: Mapping[str, Object] = {}
    dataset_id = ""
    for dataset in pages(phoenix, f"/v1/datasets?name={quote(suite.name)}"):
        dataset_id = dataset["id"]
        there = _examples(phoenix, dataset_id)
    # Of a case's attempts the last one that was recorded: that it was given the same each time is the suite's promise.
    inputs = {attempt.case: _input(attempt) for attempt in sorted(judged.attempts, key=_is_recorded)}
    clusters = {attempt.case: attempt.cluster for attempt in judged.attempts}
    lacking = [
        case
        for case in suite.cases
        if case not in there or (IDENTIFIER in there[case]["metadata"] and there[case]["input"] != inputs[case])
    ]
    if not lacking:
        return dataset_id
    uploaded = post(
        phoenix,
        "/v1/datasets/upload?sync=true",
        {
            "action": "append",
            "name": suite.name,
            "description": f"The cases of the suite '{suite.name}', as its runs were given them.",
            "inputs": [inputs[case] for case in lacking],
            "outputs": [{} for _ in lacking],
            "metadata": [{IDENTIFIER: {"cluster": clusters[case]}} for case in lacking],
            "example_ids": lacking,
        },
    )
    return str(uploaded["dataset_id"])


def _is_recorded(attempt: JudgedAttempt) -> bool:
    return attempt.root is not None


def _input(attempt: JudgedAttempt) -> Object:
    """What the case was, as an object, which Phoenix wants; compared with what it answers, so as JSON has it."""
    if attempt.root is None:
        return {}
    value: Any = orjson.loads(orjson.dumps(attempt.root.input))
    return value if isinstance(value, dict) else {"input": value}


def _examples(phoenix: Phoenix, dataset_id: str) -> Mapping[str, Object]:
    """By the id that they were given, which of ours is the case's."""
    answer = get(phoenix, f"/v1/datasets/{quote(dataset_id)}/examples")
    return {example["id"]: example for example in answer["data"]["examples"]}


def _new_experiment(phoenix: Phoenix, judged: JudgedRun, suite: RecordedSuite, dataset_id: str) -> str:
    run = judged.run
    created = post(
        phoenix,
        f"/v1/datasets/{quote(dataset_id)}/experiments",
        {
            "name": run.name,
            "description": f"Run {run.run_id} of agenttrace: the task '{suite.task[0]}' of the suite '{suite.name}'.",
            "metadata": {RUN: run.run_id, "task": suite.task[0], "tags": dict(run.tags)},
            "repetitions": suite.repetitions,
        },
    )
    return str(created["id"])


def _complete(phoenix: Phoenix, judged: JudgedRun, experiment: Experiment, progress: Progress | None) -> None:
    """Let the experiment have every attempt, and of each attempt every finding, that it lacks."""
    path = f"/v1/experiments/{quote(experiment.experiment_id)}"
    nodes = {case: example["node_id"] for case, example in _examples(phoenix, experiment.dataset_id).items()}
    run_ids = {
        (run["dataset_example_id"], run["repetition_number"]): run["id"]
        for run in pages(phoenix, f"{path}/runs?limit={PAGE}")
    }
    known = {
        (run["example_id"], run["repetition_number"]): {told["name"]: told for told in run["annotations"]}
        for run in (get(phoenix, f"{path}/json") if run_ids else ())  # of one without runs Phoenix says that it is none
    }
    for count, attempt in enumerate(judged.attempts, 1):
        place = (nodes[attempt.case], attempt.repetition)
        start, end = _times(judged, attempt)
        if place not in run_ids:
            run_ids[place] = post(phoenix, f"{path}/runs", _run(attempt, place[0], start, end))["id"]
        for finding in attempt.findings:
            if not _is_known(finding, known.get(place, {})):
                evaluation = _evaluation(finding, end) | {"experiment_run_id": run_ids[place]}
                post(phoenix, "/v1/experiment_evaluations", evaluation)
        if progress:
            progress(count)


def _run(attempt: JudgedAttempt, example: str, start: str, end: str) -> Object:
    return {
        "dataset_example_id": example,
        "repetition_number": attempt.repetition,
        "output": attempt.root.output if attempt.root else None,
        "error": attempt.error,
        "trace_id": attempt.root.trace_id if attempt.root else None,
        "start_time": start,
        "end_time": end,
    }


def _evaluation(finding: Finding, at: str) -> Object:
    return {
        "name": finding.name,
        "annotator_kind": finding.judge,
        "start_time": at,
        "end_time": at,
        **({"error": finding.error} if finding.error else {"result": _result(finding)}),
    }


def _is_known(finding: Finding, known: Mapping[str, Object]) -> bool:
    told = known.get(finding.name)
    fields = ("score", "label", "explanation", "error")
    return told is not None and all(told[field] == getattr(finding, field) for field in fields)


def _times(judged: JudgedRun, attempt: JudgedAttempt) -> tuple[str, str]:
    """When an attempt began and ended; of one without a trace, when its run did."""
    span = attempt.root or judged.run
    start, end = (
        datetime.fromtimestamp(ns / 1e9, UTC).isoformat() for ns in (span.start_ns, span.end_ns or span.start_ns)
    )
    return start, end
