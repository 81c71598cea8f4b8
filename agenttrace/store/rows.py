"""Records to rows of the schema and back. A row is an object under the schema's column names, with `r` naming its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

import orjson

from agenttrace.records import (
    AttemptRecord,
    CaptureCounters,
    ErrorRecord,
    EventRecord,
    ExportRecord,
    Marks,
    PhaseTiming,
    RunRecord,
    SettingValue,
    SpanRecord,
    Usage,
)
from agenttrace.store.content import ContentWriter

Row = Mapping[str, Any]

USAGE_COLUMNS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "cached_tokens",
    "cache_written": "cache_written_tokens",
    "reasoning": "reasoning_tokens",
    "total": "total_tokens",
}
MARK_COLUMNS = tuple(Marks.__dataclass_fields__)
ATTEMPT_COLUMNS = tuple(AttemptRecord.__dataclass_fields__)
PHASE_COLUMNS = tuple(PhaseTiming.__dataclass_fields__)


def run_row(run: RunRecord) -> Row:
    return {"r": "runs", **{name: getattr(run, name) for name in RunRecord.__dataclass_fields__}}


def counters_row(counters: CaptureCounters, at_ns: int) -> Row:
    values = {name: getattr(counters, name) for name in CaptureCounters.__dataclass_fields__}
    return {"r": "counters", "at_ns": at_ns, **values}


def export_row(export: ExportRecord) -> Row:
    return {"r": "exports", **{name: getattr(export, name) for name in ExportRecord.__dataclass_fields__}}


def start_row(span: SpanRecord, content: ContentWriter) -> Row:
    return {"r": "span_starts", **_begun(span, content)}


START_COLUMNS = ("trace_id", "span_id", "parent_id", "run_id", "kind", "name", "start_ns", "call_site",
                 "session", "user")  # fmt: skip
_start_values = attrgetter(*START_COLUMNS)


def _begun(span: SpanRecord, content: ContentWriter) -> dict[str, Any]:
    begun = zip(START_COLUMNS, _start_values(span), strict=True)
    row = {name: value for name, value in begun if value is not None}
    row["tags"] = list(span.tags)
    row["metadata"] = content.brief(span.metadata)
    row["input"] = content.intern(span.input)
    return row


def span_row(span: SpanRecord, content: ContentWriter) -> Row:
    """The row of a finished span, without the columns that would be empty.

    Its phases and attempts lie inside, and get rows of their own when they are merged.
    """
    row = _begun(span, content)
    row |= {"r": "spans", "state": span.state, "end_ns": span.end_ns, "attempt": span.attempt}
    row["output"] = content.intern(span.output)
    rest = {
        "events": [{"name": event.name, "at_ns": event.at_ns, "data": event.data} for event in span.events],
        "notes": list(span.notes),
        "paused_at": span.paused_at,
        "resumed_from": span.resumed_from,
        "phases": [_known(phase, PHASE_COLUMNS) for phase in span.phases],
        "attempts": span.attempts,
        "finish_reason": span.finish_reason,
        "server_parts": span.server_parts_ns,
        "server_report": span.server_report,
    }
    if span.error:
        rest |= {"error_type": span.error.type, "error_message": span.error.message}
    if span.settings:
        rest |= {
            "model_requested": _setting_text(span, "model.requested"),
            "model_served": _setting_text(span, "model.served"),
            "settings": content.whole(span.settings),
        }
    row |= {name: value for name, value in rest.items() if value}
    if span.usage:
        counts = ((column, _column(getattr(span.usage, name))) for name, column in USAGE_COLUMNS.items())
        row |= {column: count for column, count in counts if count is not None}
    if span.marks:
        row |= _known(span.marks, MARK_COLUMNS)
    return row


def _known(record: Marks | PhaseTiming, columns: Sequence[str]) -> dict[str, Any]:
    """What is known of it: a row names nothing that would be NULL."""
    return {name: value for name in columns if (value := getattr(record, name)) is not None}


def _setting_text(span: SpanRecord, dimension: str) -> str | None:
    setting = span.settings.get(dimension)
    return setting.value if setting and isinstance(setting.value, str) else None


def run_from_row(row: Row) -> RunRecord:
    return RunRecord(
        **{name: row[name] for name in RunRecord.__dataclass_fields__}
        | {name: row[name] or {} for name in ("tags", "metadata", "policy")}
    )


def span_from_row(row: Row, phases: Sequence[Row], attempts: Sequence[Row]) -> SpanRecord:
    """A finished span. JSON columns hold values, not text, with references expanded."""
    is_model = row["kind"] in ("model", "embedding")
    error = ErrorRecord(type=row["error_type"], message=row["error_message"] or "") if row["error_type"] else None
    return SpanRecord(
        **{name: row[name] for name in START_COLUMNS},
        state=row["state"],
        end_ns=row["end_ns"],
        attempt=row["attempt"] or 1,
        input=row["input"],
        output=row["output"],
        finish_reason=row["finish_reason"],
        settings={key: SettingValue(**value) for key, value in (row["settings"] or {}).items()},
        usage=Usage(**{name: row[column] for name, column in USAGE_COLUMNS.items()}) if is_model else None,
        metadata=row["metadata"] or {},
        tags=tuple(row["tags"] or ()),
        phases=tuple(PhaseTiming(**{name: phase[name] for name in PHASE_COLUMNS}) for phase in phases),
        server_parts_ns=row["server_parts"] or {},
        marks=Marks(**{name: row[name] for name in MARK_COLUMNS}) if is_model else None,
        attempts=tuple(_attempt(attempt) for attempt in attempts),
        events=tuple(EventRecord(**event) for event in row["events"] or ()),
        error=error,
        notes=tuple(row["notes"] or ()),
        paused_at=row["paused_at"],
        resumed_from=row["resumed_from"],
        server_report=row["server_report"],
    )


def unfinished_from_row(row: Row) -> SpanRecord:
    return SpanRecord(
        **{name: row[name] for name in START_COLUMNS},
        state="unfinished",
        end_ns=None,
        input=row["input"],
        metadata=row["metadata"] or {},
        tags=tuple(row["tags"] or ()),
    )


def _attempt(row: Row) -> AttemptRecord:
    values = {name: row[name] for name in ATTEMPT_COLUMNS}
    return AttemptRecord(**{**values, "host": row["host"] or "", "headers": row["headers"] or {}})


NESTED = {"phases": (), "attempts": ("ordinal",)}
"""Tables whose rows lie in lists inside the rows of `spans`, with the column that holds the place in the list, if any."""


LARGEST = (1 << 63) - 1
"""The largest integer that a column holds."""


def row_line(row: Row) -> bytes:
    """A row as a line of JSON. A text that has no UTF-8 form is escaped: a name must not cost its record."""
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return orjson.dumps(_writable(row), option=orjson.OPT_APPEND_NEWLINE)


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_writable(item) for item in value]
    return value


def _column(number: int | None) -> int | None:
    """A count as a column holds it: one beyond all reason is not known."""
    return number if number is not None and -LARGEST <= number <= LARGEST else None


def table_of(row: object) -> str | None:
    """The table that a line of a journal belongs to; None if it is no row."""
    table = row.get("r") if isinstance(row, dict) else None
    return cast(str, table) if table in TABLES else None


TABLES = ("runs", "spans", "span_starts", "contents", "links", "counters", "results", "exports", "comparisons")
