"""What a candidate is compared with: finds the run that a reference means, accepts a run as a baseline, and warns of one
that is old or from another history.

An accepted baseline is a file in the repository, so that accepting is a change that is reviewed, and a fresh checkout with an
empty store can compare against it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agenttrace import clock
from agenttrace.comparison.evidence import RunEvidence
from agenttrace.comparison.gate import faults
from agenttrace.comparison.recorded_suite import run_settings
from agenttrace.configuration import Configuration, read_configuration
from agenttrace.errors import NoBaseline, RunNotFound, UnfitBaseline
from agenttrace.export.baseline_file import (
    AcceptedBaseline,
    baseline_text,
    is_baseline,
    read_baseline,
    unwritable_values,
)
from agenttrace.provenance import is_ancestor
from agenttrace.records import RunRecord

ACCEPTED = "accepted"
SUFFIX = ".json"

DAY_NS = 86_400 * 10**9

MAX_AGE_NS = 30 * DAY_NS
"""From which a baseline is told to be old, where the project says nothing else."""

MAX_FILE_NAME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBaseline:
    """What a reference to a baseline means."""

    evidence: RunEvidence
    warnings: tuple[str, ...]
    """What a reader of the comparison must know of its age and origin; nothing where a run was named itself."""


def find_baseline(ref: str, candidate: RunEvidence, read: Callable[[str], RunEvidence]) -> FoundBaseline:
    """The run that `ref` means beside a candidate: `accepted`, `accepted:NAME`, a file, else what `read` finds in the store.

    Raises:
        NoBaseline: there is none.
        InvalidRecord: there is a file, and it is not as it was accepted.
    """
    project = read_configuration()
    file = _file_of(ref, candidate, project)
    if file is not None:
        evidence = read_baseline_file(file, project).evidence
    else:
        try:
            evidence = read(ref)
        except RunNotFound as error:
            known = accepted_run(ref)
            if known is None:
                raise NoBaseline(f"There is nothing to compare with. {error}") from error
            evidence = known.evidence
        if ref == evidence.run.name or evidence.run.run_id.startswith(ref):
            return FoundBaseline(evidence=evidence, warnings=())
    return FoundBaseline(evidence=evidence, warnings=tuple(warnings(evidence.run, candidate.run, project)))


def names_file(ref: str) -> bool:
    """Whether a reference means an accepted baseline's file rather than a run of the store."""
    return ref.partition(":")[0] == ACCEPTED or ref.endswith(SUFFIX)


def _file_of(ref: str, candidate: RunEvidence, project: Configuration) -> Path | None:
    """The file that a reference names; None where it means a run of the store."""
    if not names_file(ref):
        return None
    word, colon, name = ref.partition(":")
    if word == ACCEPTED:
        return _file_named(name if colon else baseline_name(candidate), project)
    return Path(ref)


def _file_named(name: str, project: Configuration) -> Path:
    return Path(name) if name.endswith(SUFFIX) else project.baselines / file_name(name)


def baseline_name(evidence: RunEvidence) -> str:
    """Under which a run is accepted: its suite's name, else its own."""
    return evidence.run.name if evidence.suite is None else evidence.suite.name


def file_name(name: str) -> str:
    """A name as that of a file, which is in no other folder whatever the name holds."""
    plain = re.sub(r"[^\w.-]+", "-", name).lstrip(".")[:MAX_FILE_NAME]
    return f"{plain or '-'}{SUFFIX}"


def read_baseline_file(file: Path, project: Configuration) -> AcceptedBaseline:
    """The baseline in a file. Raises `NoBaseline` where there is no such file, `InvalidRecord` where it is something else."""
    try:
        return read_baseline(file.read_bytes(), file)
    except OSError as error:
        there = ", ".join(sorted(found.stem for found in _files(project)))
        known = f" Accepted are: {there}; 'accepted:NAME' names one." if there else ""
        raise NoBaseline(
            f"There is no accepted baseline {file} ({error.strerror}).{known} 'agenttrace baseline accept RUN' accepts one."
        ) from error


def _files(project: Configuration) -> Sequence[Path]:
    return sorted(project.baselines.glob(f"*{SUFFIX}")) if project.baselines.is_dir() else ()


def accepted_baselines(folder: Path | None = None) -> tuple[AcceptedBaseline, ...]:
    """All baselines of the project in `folder` (the current one). Raises `InvalidRecord` for one that was changed."""
    return tuple(
        read_baseline(text, file)
        for file in _files(read_configuration(folder))
        if is_baseline(text := file.read_bytes())
    )


def accepted_baseline(name: str) -> AcceptedBaseline:
    """The one of a name, or in a file. Raises `NoBaseline` and `InvalidRecord`."""
    project = read_configuration()
    return read_baseline_file(_file_named(name, project), project)


def accepted_run(ref: str) -> AcceptedBaseline | None:
    """The accepted baseline that a run's id, or the beginning of one, means, for runs that the store does not have; None where
    there is none, or several.
    """
    found = [one for one in accepted_baselines() if ref and one.run.run_id.startswith(ref)]
    return found[0] if len(found) == 1 else None


def accepted_run_ids(folder: Path | None = None) -> frozenset[str]:
    """The runs that are accepted baselines of the project in `folder` (the current one): a store should keep them.

    A file that cannot be read any more counts with the id that it shows: this is no place to refuse anything.
    """
    ids = set()
    for file in _files(read_configuration(folder)):
        with suppress(OSError):
            text = file.read_bytes()
            found = re.search(rb'"run_id":\s*"([^"\\]+)"', text) if is_baseline(text) else None
            if found:
                ids.add(found[1].decode("utf-8", "replace"))
    return frozenset(ids)


def accept(evidence: RunEvidence, *, file: Path | None = None, reason: str | None = None) -> AcceptedBaseline:
    """Write a run down as the baseline, in the project's folder for them or in `file`. Replaces the one before it.

    Raises:
        UnfitBaseline: the run could not be judged: it is unfinished, was not recorded whole, or names no case.
    """
    problems = [*faults("run", evidence), *_unfit(evidence)]
    if problems:
        raise UnfitBaseline(f"{' '.join(problems)} Nothing was accepted.")
    place = file or read_configuration().baselines / file_name(baseline_name(evidence))
    accepted = AcceptedBaseline(evidence=evidence, accepted_ns=clock.wall_ns(), reason=reason, file=place)
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f".{place.name}.new")
    new.write_bytes(baseline_text(accepted))
    os.replace(new, place)
    return accepted


def _unfit(evidence: RunEvidence) -> Iterator[str]:
    if not evidence.repetitions:
        yield (
            f"The run {evidence.label} names no cases, so nothing could be compared with it. Run a suite, or give each "
            "invocation its case: config={'metadata': {'case': 'q17'}}."
        )
    if not evidence.contract.sites:
        yield f"The run {evidence.label} holds no finished model call and no imported result."
    if broken := unwritable_values(evidence):
        yield f"The run {evidence.label} has values that are no numbers (NaN or infinity): {', '.join(broken)}."


def warnings(
    baseline: RunRecord, candidate: RunRecord | None = None, project: Configuration | None = None
) -> Iterator[str]:
    """What speaks against a baseline, one sentence each: its age, uncommitted changes, a commit of another history."""
    project = project or read_configuration()
    age = clock.wall_ns() - (baseline.end_ns or baseline.start_ns)
    if age > (project.baseline_max_age_ns or MAX_AGE_NS):
        yield f"The baseline is {age // DAY_NS} days old: models and services change meanwhile. Record and accept a newer one."
    commit = _commit(baseline)
    if commit is None:
        return
    if commit.get("dirty") is True:
        yield "The baseline was recorded with changes that were not committed, so its code cannot be looked up."
    yield from _ancestry(str(commit.get("commit")), candidate)


def _ancestry(commit: str, candidate: RunRecord | None) -> Iterator[str]:
    newer = None if candidate is None else _commit(candidate)
    head = "HEAD" if newer is None else str(newer.get("commit"))
    known = is_ancestor(Path.cwd(), commit, head)
    if known is None and head != "HEAD":
        head, known = "HEAD", is_ancestor(Path.cwd(), commit)
    if known is False:
        yield (
            f"The baseline's commit {commit[:12]} is not in the history of {head[:12]}: the candidate may lack changes that "
            "the baseline has."
        )
    elif known is None:
        yield f"Whether the baseline's commit {commit[:12]} is in this history cannot be told: this checkout does not have it."


def _commit(run: RunRecord) -> Mapping[str, object] | None:
    told = run_settings(run).get("code.commit")
    return told if isinstance(told, Mapping) else None
