"""Reads traces that LangSmith and Langfuse exported, as steps of ours. What each field becomes stands in docs/importing.md.

Both write one object a step: LangSmith its runs (`Client.list_runs`, its bulk export as JSON), Langfuse its observations (API
or export). What they do not tell (the wire, attempts, most phases) stays unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, cast

from agenttrace.errors import InvalidRecord
from agenttrace.export.json_fields import BadRecords, is_nested_deeper
from agenttrace.export.langfuse import langfuse_step
from agenttrace.export.langsmith import langsmith_step
from agenttrace.export.tracer_steps import Node, step_of
from agenttrace.records import RunRecord, SpanRecord
from agenttrace.spans.record import span_record
from agenttrace.spans.redaction import scrub_record

Tracer: TypeAlias = Literal["langsmith", "langfuse"]

MAX_NESTING = 200


def tracer_of(value: object) -> Tracer | None:
    """Whose step this is; None where it is neither's."""
    if isinstance(value, dict):
        if {"id", "trace_id", "run_type", "start_time"} <= value.keys():
            return "langsmith"
        if {"id", "traceId", "type", "startTime"} <= value.keys():
            return "langfuse"
    return None


def open_tracer_file(data: bytes) -> tuple[Tracer, list[tuple[str, object]]] | None:
    """The tracer that wrote a file, and its steps with their places: a list, an object with the list under `data`, `runs` or
    `observations`, or JSON Lines. None where neither wrote it.
    """
    text = data.removeprefix(b"\xef\xbb\xbf").strip()
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        if isinstance(value, dict) and tracer_of(value) is None:
            value = next(
                (value[key] for key in ("data", "runs", "observations") if isinstance(value.get(key), list)), None
            )
        items = value if isinstance(value, list) else [value]
        tracer = next((found for item in items if (found := tracer_of(item))), None)
        return None if tracer is None else (tracer, [(f"item {place}", item) for place, item in enumerate(items, 1)])
    first, _, _ = text.partition(b"\n")
    with suppress(ValueError, RecursionError):
        tracer = tracer_of(json.loads(first))
        return None if tracer is None else (tracer, list(_lines(text)))
    return None


def _lines(text: bytes) -> Iterator[tuple[str, object]]:
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except (ValueError, RecursionError):
                yield f"line {number}", None


def read_tracer(
    tracer: Tracer, items: Sequence[tuple[str, object]], name: str, bad: BadRecords
) -> tuple[RunRecord, list[SpanRecord]]:
    """One run of the file's steps, in start order. The same file gives the same ids.

    Raises:
        InvalidRecord: steps that cannot be read and are not to be skipped, by place, or none at all.
    """
    read = langsmith_step if tracer == "langsmith" else langfuse_step
    nodes: dict[str, Node] = {}
    for place, item in items:
        try:
            if tracer_of(item) != tracer:
                raise InvalidRecord(f"this is no step of {tracer}")
            if is_nested_deeper(item, MAX_NESTING):
                raise InvalidRecord(f"its lists and objects are nested more than {MAX_NESTING} deep")
            node = Node(read(cast("dict[str, Any]", item)))
            nodes[node.id] = node
        except (KeyError, TypeError, AttributeError, ValueError, InvalidRecord) as error:
            bad.add(place, str(error) if isinstance(error, InvalidRecord) else f"{type(error).__name__}: {error}")
    bad.require_none("records")
    if not nodes:
        raise InvalidRecord(f"{bad.file} holds no step. Name a file that {tracer} exported; nothing was imported.")
    run_id = blake2b("\n".join(sorted(nodes)).encode(), digest_size=8, key=name.encode()[:64]).hexdigest()
    spans = [scrub_record(span_record(step_of(node, nodes, run_id))) for node in nodes.values()]
    spans.sort(key=lambda span: (span.start_ns, span.parent_id is not None))
    run = RunRecord(
        run_id=run_id,
        name=name,
        start_ns=min(span.start_ns for span in spans),
        end_ns=max(span.end_ns or span.start_ns for span in spans),
        metadata={"imported_from": tracer},
    )
    return run, spans
