"""Reads a scored run of any tool: JSON Lines, one attempt at a case a line, into the store as one run.

`{"case": "q17", "repetition": 1, "cluster": "doc-3", "outcome": "scored", "scores": {"correct": 1.0},
"metrics": {"latency_s": 1.2}, "settings": {"model.served": "…"}}`. Only `case` must be there, and a score or metric
where the outcome is `scored`. All lines are checked before any is stored.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import cast, get_args

import orjson

from agenttrace import clock
from agenttrace.comparison.dimensions import DIMENSIONS, unknown_dimension
from agenttrace.comparison.evidence import Outcome
from agenttrace.errors import InvalidRecord
from agenttrace.export.json_fields import MAX_SMALL, BadRecords, Fields, is_nested_deeper
from agenttrace.records import RunRecord, SettingValue
from agenttrace.store.results import ResultRecord, import_results

OUTCOMES = get_args(Outcome)

SERVED = frozenset(("model.served", "model.fingerprint"))
"""What only a response can tell; everything else in a scored file was asked for."""

KEYS = frozenset(("case", "repetition", "cluster", "outcome", "scores", "metrics", "settings", "trace_id"))

MAX_NESTING = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedScores:
    """What an import of a scored file brought."""

    run_id: str
    run: str
    """The run's name."""
    cases: int
    repetitions: int
    already_there: bool
    """The same file was imported under this name before: nothing changed."""


def looks_scored(first_line: Mapping[str, object]) -> bool:
    """Whether a file that begins with this object is a scored run, rather than runs and spans."""
    return "case" in first_line and "record" not in first_line


def is_scored_file(file: str | os.PathLike[str]) -> bool:
    """Whether `import_scored` is for this file: its first line that holds an object decides, whatever is broken before."""
    with open(file, "rb") as lines:
        for line in lines:
            with suppress(orjson.JSONDecodeError):
                value = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
                if isinstance(value, dict):
                    return looks_scored(value)
    return False


def import_scored(
    store_path: str | os.PathLike[str] | None,
    file: str | os.PathLike[str],
    run_name: str | None = None,
    bad: BadRecords | None = None,
) -> ImportedScores:
    """Store a scored file as one run, named after the file where no name is given. Creates the store.

    Raises:
        InvalidRecord: lines that are no results, by number, or a file without any. Nothing is imported of such a file.
        OSError: the file cannot be read.
    """
    data = Path(file).read_bytes()
    results = read_scored(data, bad or BadRecords(Path(file).name))
    return store_results(store_path, results, run_name or Path(file).stem, data, Path(file).name)


def store_results(
    store_path: str | os.PathLike[str] | None, results: Sequence[ResultRecord], name: str, data: bytes, file: str
) -> ImportedScores:
    """Store results as the run `name`. `data`, which they were read from, makes its id: the same file under the same name is
    the same run, so that importing it twice changes nothing.
    """
    now = clock.wall_ns()
    run_id = blake2b(data, digest_size=8, key=blake2b(name.encode(), digest_size=16).digest()).hexdigest()
    run = RunRecord(run_id=run_id, name=name, start_ns=now, end_ns=now, metadata={"imported_from": file})
    is_new = import_results(store_path, run, results)
    return ImportedScores(
        run_id=run_id,
        run=name,
        cases=len({result.case for result in results}),
        repetitions=len(results),
        already_there=not is_new,
    )


def read_scored(data: bytes, bad: BadRecords) -> list[ResultRecord]:
    """The results in a scored file's text, in its order. Raises `InvalidRecord` as `import_scored` does."""
    results: list[ResultRecord] = []
    places: dict[tuple[str, int], int] = {}
    for number, line in _lines(data):
        try:
            result = _result(line, places)
            _require_first(result, places, number)
            results.append(result)
        except InvalidRecord as error:
            bad.add(f"line {number}", error)
    bad.require_none("results")
    if not results:
        raise InvalidRecord(
            f"{bad.file} holds no result. Name a file with one attempt at a case a line; nothing was imported."
        )
    return results


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            yield number, line


def _result(line: bytes, places: Mapping[tuple[str, int], int]) -> ResultRecord:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidRecord(f"this is no JSON ({error})") from error
    if is_nested_deeper(value, MAX_NESTING):
        raise InvalidRecord(f"its lists and objects are nested more than {MAX_NESTING} deep")
    fields = Fields(value)
    unknown = sorted(value.keys() - KEYS)
    if unknown:
        raise InvalidRecord(f"'{unknown[0]}' is no key of a result. There are: {', '.join(sorted(KEYS))}")
    case = fields.text("case")
    if not case:
        raise InvalidRecord("'case' is empty, expected a name")
    is_outcome_told = fields.json("outcome") is not None
    result = ResultRecord(
        case=case,
        repetition=fields.integer_or("repetition", _next(case, places), low=1, high=MAX_SMALL),
        cluster=fields.text_or_none("cluster"),
        outcome=cast(Outcome, fields.one_of("outcome", OUTCOMES)) if is_outcome_told else "scored",
        scores=fields.object("scores").items(lambda scores, name: _number(scores, name, "scores")),
        metrics=fields.object("metrics").items(lambda metrics, name: _number(metrics, name, "metrics")),
        settings=fields.object("settings").items(_setting),
        trace_id=fields.text_or_none("trace_id"),
    )
    if result.outcome == "scored" and not result.scores and not result.metrics:
        raise InvalidRecord("'scores' and 'metrics' are both empty, and the outcome is 'scored'")
    return result


def _next(case: str, places: Mapping[tuple[str, int], int]) -> int:
    """The number of a repetition that tells none: the first that its case has not had."""
    number = 1
    while (case, number) in places:
        number += 1
    return number


def _number(fields: Fields, name: str, where: str) -> float:
    value = fields.json(name)
    if not isinstance(value, (bool, int, float)):
        shown = "null" if value is None else repr(value)[:60]
        raise InvalidRecord(f"'{where}.{name}' is {shown}, expected a number, true or false")
    if not math.isfinite(value):
        raise InvalidRecord(f"'{where}.{name}' is larger than any number that can be calculated with")
    return float(value)


def _setting(fields: Fields, name: str) -> SettingValue:
    if name not in DIMENSIONS:
        raise InvalidRecord(f"'settings.{name}' cannot be compared. {unknown_dimension(name)}")
    return SettingValue(value=fields.json(name), voice="served" if name in SERVED else "requested", source="import")


def _require_first(result: ResultRecord, places: dict[tuple[str, int], int], number: int) -> None:
    first = places.setdefault((result.case, result.repetition), number)
    if first != number:
        raise InvalidRecord(f"repetition {result.repetition} of case '{result.case}' is there already, in line {first}")
