"""The JSON shape of runs and spans, both ways, and files of JSON Lines made of it.

In JSON, moments are integer nanoseconds since 1970 (`*_ns`) and durations are seconds (`*_s`, and `seconds`, `low`,
`high` of a phase); null is unknown. `show --json`, `export --to jsonl` and `import` share this shape. Keys that are not
known here are ignored, so that a newer release may add some.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast, get_args

import orjson

from agenttrace.errors import InvalidRecord
from agenttrace.export.json_fields import MAX_SMALL, BadRecords, Fields, is_nested_deeper
from agenttrace.records import (
    AttemptRecord,
    ErrorRecord,
    EventRecord,
    Marks,
    PhaseSource,
    PhaseTiming,
    RunRecord,
    SettingValue,
    SpanKind,
    SpanRecord,
    Usage,
    Voice,
)
from agenttrace.steps import JSON, Kind, State

Object: TypeAlias = dict[str, Any]
"""A JSON object on its way out. It never enters another room: the other way goes through `Fields`."""

KINDS = (*get_args(Kind), "attempt", "phase")
STATES = get_args(State)
SOURCES = get_args(PhaseSource)
VOICES = get_args(Voice)

TRACE_ID = re.compile("(?!0{32})[0-9a-f]{32}")
SPAN_ID = re.compile("(?!0{16})[0-9a-f]{16}")
RUN_ID = re.compile("[0-9A-Za-z][0-9A-Za-z._:-]{0,127}")
"""Never a path, and nothing that a terminal would obey."""

MARKS = ("first_byte", "first_reasoning", "first_content", "first_tool", "last_content")
ATTEMPT_DURATIONS = ("connect", "sent", "headers", "first_byte")

MAX_NESTING = 200
"""orjson reads lists 1,024 deep and writes them 254 deep; what is read here must be writable in the store, wrapped."""


def run_json(run: RunRecord) -> Object:
    return {name: getattr(run, name) for name in RunRecord.__dataclass_fields__}


def run_from_json(value: object) -> RunRecord:
    """The run an object describes. Raises `InvalidRecord` with the first thing that is wrong."""
    fields = Fields(value)
    run = RunRecord(
        run_id=fields.matching("run_id", RUN_ID, "letters, digits and . _ : -"),
        name=fields.text("name"),
        start_ns=fields.integer("start_ns"),
        end_ns=fields.integer_or_none("end_ns"),
        tags=fields.object("tags").items(Fields.json),
        metadata=fields.object("metadata").items(Fields.json),
        session=fields.text_or_none("session"),
        user=fields.text_or_none("user"),
        process=fields.text_or_none("process"),
        policy=fields.object("policy").items(Fields.json),
        sampled_out=fields.integer_or_none("sampled_out"),
    )
    _require_order(run.start_ns, run.end_ns)
    return run


def span_json(span: SpanRecord) -> Object:
    """One span as `show --json` prints it."""
    return {
        "trace_id": span.trace_id,
        "run_id": span.run_id,
        "span_id": span.span_id,
        "parent_id": span.parent_id,
        "kind": span.kind,
        "name": span.name,
        "state": span.state,
        "start_ns": span.start_ns,
        "end_ns": span.end_ns,
        "call_site": span.call_site,
        "attempt": span.attempt,
        "input": span.input,
        "output": span.output,
        "finish_reason": span.finish_reason,
        "settings": {
            name: {"value": setting.value, "voice": setting.voice, "source": setting.source}
            for name, setting in span.settings.items()
        },
        "usage": {name: getattr(span.usage, name) for name in Usage.__dataclass_fields__} if span.usage else None,
        "metadata": dict(span.metadata),
        "tags": list(span.tags),
        "session": span.session,
        "user": span.user,
        "phases": {phase.name: _phase_json(phase) for phase in span.phases},
        "server_parts_s": {name: _seconds(ns) for name, ns in span.server_parts_ns.items()},
        "marks": _marks_json(span.marks) if span.marks else None,
        "attempts": [_attempt_json(attempt) for attempt in span.attempts],
        "events": [{"name": event.name, "at_ns": event.at_ns, "data": event.data} for event in span.events],
        "error": {"type": span.error.type, "message": span.error.message} if span.error else None,
        "notes": list(span.notes),
        "paused_at": span.paused_at,
        "resumed_from": span.resumed_from,
        "server_report": span.server_report,
    }


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _phase_json(phase: PhaseTiming) -> Object:
    return {
        "seconds": _seconds(phase.ns),
        "low": _seconds(phase.low_ns),
        "high": _seconds(phase.high_ns),
        "source": phase.source,
        "method": phase.method,
        "definition": phase.definition,
        "included_in": phase.included_in,
    }


def _marks_json(marks: Marks) -> Object:
    return {f"{name}_s": _seconds(getattr(marks, f"{name}_ns")) for name in MARKS} | {
        "chunks": marks.chunks,
        "arrivals": marks.arrivals,
    }


def _attempt_json(attempt: AttemptRecord) -> Object:
    return {
        "start_ns": attempt.start_ns,
        "end_ns": attempt.end_ns,
        "status": attempt.status,
        "host": attempt.host,
        **{f"{name}_s": _seconds(getattr(attempt, f"{name}_ns")) for name in ATTEMPT_DURATIONS},
        "reads": attempt.reads,
        "read_bytes": attempt.read_bytes,
        "arrivals": attempt.arrivals,
        "error": attempt.error,
        "headers": dict(attempt.headers),
    }


def span_from_json(value: object) -> SpanRecord:
    """The span an object describes. Raises `InvalidRecord` with the first thing that is wrong."""
    fields = Fields(value)
    span = SpanRecord(
        **_identity(fields),
        call_site=fields.text_or_none("call_site"),
        attempt=fields.integer_or("attempt", 1, low=1, high=MAX_SMALL),
        input=fields.json("input"),
        output=fields.json("output"),
        finish_reason=fields.text_or_none("finish_reason"),
        settings=fields.object("settings").items(_setting),
        usage=fields.made_of("usage", _usage),
        metadata=fields.object("metadata").items(Fields.json),
        tags=fields.texts("tags"),
        session=fields.text_or_none("session"),
        user=fields.text_or_none("user"),
        phases=tuple(fields.object("phases").items(_phase).values()),
        server_parts_ns=fields.object("server_parts_s").items(Fields.nanoseconds),
        marks=fields.made_of("marks", _marks),
        attempts=tuple(_attempt(attempt) for attempt in fields.objects("attempts")),
        events=tuple(_event(event) for event in fields.objects("events")),
        error=fields.made_of("error", _error),
        notes=fields.texts("notes"),
        paused_at=fields.text_or_none("paused_at"),
        resumed_from=fields.text_or_none("resumed_from"),
        server_report=fields.json("server_report"),
    )
    _require_end(span)
    return span


def _identity(fields: Fields) -> Object:
    """Which step it is, and when: what no span can be without."""
    return {
        "trace_id": fields.matching("trace_id", TRACE_ID, "32 lower-case hexadecimal digits"),
        "span_id": fields.matching("span_id", SPAN_ID, "16 lower-case hexadecimal digits"),
        "parent_id": fields.matching_or_none("parent_id", SPAN_ID, "16 lower-case hexadecimal digits or null"),
        "run_id": fields.matching("run_id", RUN_ID, "letters, digits and . _ : -"),
        "kind": cast(SpanKind, fields.one_of("kind", KINDS)),
        "name": fields.text("name"),
        "state": cast(State, fields.one_of("state", STATES)),
        "start_ns": fields.integer("start_ns"),
        "end_ns": fields.integer_or_none("end_ns"),
    }


def _setting(settings: Fields, name: str) -> SettingValue:
    fields = settings.object(name)
    voice = cast(Voice, fields.one_of("voice", VOICES))
    return SettingValue(value=fields.json("value"), voice=voice, source=fields.text("source"))


def _phase(phases: Fields, name: str) -> PhaseTiming:
    fields = phases.object(name)
    return PhaseTiming(
        name=name,
        ns=fields.nanoseconds_or_none("seconds"),
        low_ns=fields.nanoseconds_or_none("low"),
        high_ns=fields.nanoseconds_or_none("high"),
        source=cast(PhaseSource, fields.one_of("source", SOURCES)),
        method=fields.text_or_none("method"),
        definition=fields.text_or_none("definition") or "",
        included_in=fields.text_or_none("included_in"),
    )


def _usage(fields: Fields) -> Usage:
    return Usage(**{name: fields.integer_or_none(name) for name in Usage.__dataclass_fields__})


def _error(fields: Fields) -> ErrorRecord:
    return ErrorRecord(type=fields.text("type"), message=fields.text("message"))


def _marks(fields: Fields) -> Marks:
    seen = {f"{name}_ns": fields.nanoseconds_or_none(f"{name}_s") for name in MARKS}
    return Marks(**seen, chunks=fields.integer_or_none("chunks"), arrivals=fields.text_or_none("arrivals"))


def _attempt(fields: Fields) -> AttemptRecord:
    return AttemptRecord(
        start_ns=fields.integer("start_ns"),
        end_ns=fields.integer_or_none("end_ns"),
        status=fields.integer_or_none("status", high=MAX_SMALL),
        host=fields.text("host"),
        **{f"{name}_ns": fields.nanoseconds_or_none(f"{name}_s") for name in ATTEMPT_DURATIONS},
        reads=fields.integer_or("reads", 0),
        read_bytes=fields.integer_or_none("read_bytes"),
        arrivals=fields.text_or_none("arrivals"),
        error=fields.text_or_none("error"),
        headers=fields.object("headers").items(Fields.text),
    )


def _event(fields: Fields) -> EventRecord:
    return EventRecord(name=fields.text("name"), at_ns=fields.integer("at_ns"), data=fields.json("data"))


def _require_end(span: SpanRecord) -> None:
    if (span.end_ns is None) != (span.state == "unfinished"):
        raise InvalidRecord(f"'end_ns' and state '{span.state}' contradict each other: null means unfinished")
    _require_order(span.start_ns, span.end_ns)


def _require_order(start_ns: int, end_ns: int | None) -> None:
    if end_ns is not None and end_ns < start_ns:
        raise InvalidRecord(f"'end_ns' ({end_ns}) is before 'start_ns' ({start_ns})")


def write_lines(runs: Iterable[RunRecord], spans: Iterable[SpanRecord]) -> Iterator[bytes]:
    """A line for each run, then a line for each span; each is a JSON object and ends in a newline."""
    for run in runs:
        yield _line({"record": "run", **run_json(run)})
    for span in spans:
        yield _line({"record": "span", **span_json(span)})


def _line(value: Mapping[str, JSON]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def read_lines(file: str | os.PathLike[str], bad: BadRecords | None = None) -> tuple[list[RunRecord], list[SpanRecord]]:
    """All runs and spans of a file of JSON Lines: see `read_records`. Raises `OSError` if it cannot be read."""
    with open(file, "rb") as lines:
        return read_records(lines, bad or BadRecords(Path(file).name))


def read_records(lines: Iterable[bytes], bad: BadRecords) -> tuple[list[RunRecord], list[SpanRecord]]:
    """All runs and spans of lines, in their order. A run told twice counts as told last; an equal span counts once.

    Raises:
        InvalidRecord: lines that are no records and not to be skipped, by number, or none at all.
    """
    runs: dict[str, RunRecord] = {}
    spans: dict[tuple[str, str], SpanRecord] = {}
    for number, line in enumerate(lines, 1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not text.strip():
            continue
        try:
            _take(text, runs, spans)
        except InvalidRecord as error:
            bad.add(f"line {number}", error)
    bad.require_none("records")
    if not runs and not spans:
        raise InvalidRecord(
            f"{bad.file} holds no record. Name a file that 'agenttrace export' wrote as jsonl or parquet; nothing was imported."
        )
    return list(runs.values()), list(spans.values())


def _take(line: bytes, runs: dict[str, RunRecord], spans: dict[tuple[str, str], SpanRecord]) -> None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidRecord(f"this is no JSON ({error})") from error
    if line.count(b"[") + line.count(b"{") > MAX_NESTING and is_nested_deeper(value, MAX_NESTING):
        raise InvalidRecord(f"its lists and objects are nested more than {MAX_NESTING} deep")
    if Fields(value).one_of("record", ("run", "span")) == "run":
        run = run_from_json(value)
        runs[run.run_id] = run
        return
    span = span_from_json(value)
    if spans.setdefault((span.trace_id, span.span_id), span) != span:
        raise InvalidRecord(f"span {span.span_id} of trace {span.trace_id} is there already, and differs")
