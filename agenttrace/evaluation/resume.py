"""Where a run goes on: the one of its name that was broken off, if the suite is still the same; else a new one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b

import portalocker

from agenttrace import clock
from agenttrace.comparison.recorded_suite import RecordedSuite, recorded_suite, suite_metadata
from agenttrace.errors import RunNotFound, RunUnderWay, SuiteChanged, UsageError
from agenttrace.records import RunRecord
from agenttrace.settings.canonical import canonical
from agenttrace.steps import JSON
from agenttrace.store.journal import process_name
from agenttrace.store.layout import Layout, store_path
from agenttrace.store.reading import open_store
from agenttrace.store.results import ResultRecord, read_results

MEASURED_BY = ("data.cases", "data.expected", "evaluator.code", "evaluator.judge")
"""What must be the same for a run to be gone on with, besides the number of repetitions and the task."""

SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A run that is about to be recorded."""

    run: RunRecord
    suite: RecordedSuite
    done: tuple[ResultRecord, ...] = ()
    """What it has already; empty for a new run."""


def begin(
    suite: RecordedSuite, name: str, *, store: str | os.PathLike[str] | None, tags: Mapping[str, JSON], is_new: bool
) -> Begun:
    """The run of this name that was broken off, or one of its shards, else a new one.

    Raises:
        SuiteChanged: the run that was broken off is of another suite.
        UsageError: a new run was asked for in shards, which find each other by their name.
    """
    run = RunRecord(
        run_id=_shared_id(suite, name) if suite.shards > 1 else secrets.token_hex(8),
        name=name,
        start_ns=clock.wall_ns(),
        tags=tags,
        metadata=suite_metadata(suite),
        process=process_name(),
    )
    if suite.shards > 1 and is_new:
        raise UsageError("Shards find each other by their run's name, so --new cannot be. Give the run another name.")
    earlier = _earlier(store, run.run_id if suite.shards > 1 else name, name)
    if earlier is None or is_new:
        return Begun(run=run, suite=suite)
    done = read_results(store, earlier.run_id)
    before = recorded_suite(earlier)
    is_whole = before is not None and not before.missing([(result.case, result.repetition) for result in done])
    if before is None or (is_whole and suite.shards == 1):
        return Begun(run=run, suite=suite)
    _require_same(before, suite, earlier)
    run = replace(run, run_id=earlier.run_id, start_ns=earlier.start_ns, tags={**earlier.tags, **tags})
    return Begun(run=run, suite=suite, done=done)


@contextmanager
def held(begun: Begun, shard: int, store: str | os.PathLike[str] | None) -> Iterator[None]:
    """Keep other processes from the same run, or the same shard of it. Let go by the system when this process ends.

    Raises:
        RunUnderWay: another process holds it.
    """
    path = store_path(store) / f"evaluating-{begun.run.run_id}-{shard}.lock"
    with open(path, "w") as file:
        try:
            portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.LockException as error:
            raise RunUnderWay(
                f"Another process is at run {begun.run.name} ({begun.run.run_id}). Wait for it, or begin another with --new."
            ) from error
        yield
        path.unlink(missing_ok=True)


def _shared_id(suite: RecordedSuite, name: str) -> str:
    """The same in every process that runs a part of the same suite and code under the same name."""
    shared: list[JSON] = [name, suite.name, list(suite.task), suite.repetitions, suite.shards]
    shared += [suite.settings.get(key) for key in (*MEASURED_BY, "code.commit")]
    return blake2b(canonical(shared), digest_size=8).hexdigest()


def _earlier(store: str | os.PathLike[str] | None, ref: str, name: str) -> RunRecord | None:
    Layout(store_path(store)).create()  # that it cannot be written is better known before anything is spent
    try:
        run = open_store(store).run(ref)
    except RunNotFound:
        return None
    return run if run.name == name else None


def _require_same(before: RecordedSuite, now: RecordedSuite, run: RunRecord) -> None:
    changes = list(_changes(before, now))
    if changes:
        raise SuiteChanged(
            f"Run {run.name} ({run.run_id}) was broken off, and the suite is another one now: {'; '.join(changes)}. "
            "Put it back to go on, or begin a new run with --new; nothing was run."
        )


def _changes(before: RecordedSuite, now: RecordedSuite) -> Iterator[str]:
    for what in ("name", "task", "repetitions", "shards"):
        old, new = getattr(before, what), getattr(now, what)
        if old != new:
            yield "the task's code changed" if what == "task" and old[0] == new[0] else f"{what} {new}, was {old}"
    for dimension in MEASURED_BY:
        yield from _changed_parts(dimension, before.settings.get(dimension), now.settings.get(dimension))


def _changed_parts(dimension: str, before: JSON, now: JSON) -> Iterator[str]:
    if before == now:
        return
    old = before if isinstance(before, Mapping) else {}
    new = now if isinstance(now, Mapping) else {}
    for word, names in (
        ("added", [name for name in new if name not in old]),
        ("removed", [name for name in old if name not in new]),
        ("changed", [name for name in new if name in old and old[name] != new[name]]),
    ):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            yield f"{dimension} {word}: {', '.join(names[:SHOWN])}{more}"
    if list(old) != list(new) and set(old) == set(new):
        yield f"{dimension} in another order"
