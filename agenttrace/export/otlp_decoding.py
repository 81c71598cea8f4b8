"""Reads OTLP trace requests, protobuf and JSON, into plain spans. What does not fit the protocol is an error with its reason."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import orjson

from agenttrace.errors import InvalidRecord, MissingExtra
from agenttrace.export.json_fields import MAX_INTEGER, is_nested_deeper
from agenttrace.steps import JSON

MAX_NESTING = 64

ERROR_STATUS = 2


@dataclass(slots=True, kw_only=True)
class WireSpan:
    """A span as it came, with ids in hexadecimal and attributes as plain values."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, JSON]
    resource: Mapping[str, JSON]
    scope: str
    events: list[tuple[str, int, Mapping[str, JSON]]] = field(default_factory=list)
    is_error: bool = False
    message: str = ""


@dataclass(slots=True)
class Decoded:
    """The spans of a request, and those that cannot be taken."""

    spans: list[WireSpan] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    """One reason each."""


def decode_protobuf(body: bytes) -> Decoded:
    """An `ExportTraceServiceRequest`.

    Raises:
        InvalidRecord: the body is none.
        MissingExtra: the protocol's definitions are not installed.
    """
    try:
        service = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        message = import_module("google.protobuf.message")
    except ModuleNotFoundError as error:
        raise MissingExtra("serve", "Receiving OTLP") from error
    request = service.ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except (message.DecodeError, RecursionError, ValueError) as error:
        raise InvalidRecord(f"the body is no ExportTraceServiceRequest ({error})") from error
    decoded = Decoded()
    for resource_spans in request.resource_spans:
        resource = {pair.key: _proto_value(pair.value) for pair in resource_spans.resource.attributes}
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                told = {
                    "traceId": span.trace_id.hex(),
                    "spanId": span.span_id.hex(),
                    "parentSpanId": span.parent_span_id.hex(),
                    "name": span.name,
                    "startTimeUnixNano": span.start_time_unix_nano,
                    "endTimeUnixNano": span.end_time_unix_nano,
                    "events": [
                        (
                            event.name,
                            event.time_unix_nano,
                            {pair.key: _proto_value(pair.value) for pair in event.attributes},
                        )
                        for event in span.events
                    ],
                    "status": {"code": span.status.code, "message": span.status.message},
                }
                attributes = {pair.key: _proto_value(pair.value) for pair in span.attributes}
                _take(decoded, told, attributes, resource, scope_spans.scope.name)
    return decoded


def decode_json(body: bytes) -> Decoded:
    """The same as OTLP's JSON, where ids are hexadecimal. Raises `InvalidRecord`."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRecord(f"the body is no JSON ({error})") from error
    if not isinstance(request, dict) or is_nested_deeper(request, MAX_NESTING):
        raise InvalidRecord(f"the body is no object, or nested more than {MAX_NESTING} deep")
    decoded = Decoded()
    try:
        for resource_spans in _list(request, "resourceSpans"):
            resource = _json_attributes(resource_spans.get("resource") or {})
            for scope_spans in _list(resource_spans, "scopeSpans"):
                scope = str((scope_spans.get("scope") or {}).get("name") or "")
                for span in _list(scope_spans, "spans"):
                    events = [
                        (str(event.get("name") or ""), _integer(event.get("timeUnixNano")), _json_attributes(event))
                        for event in _list(span, "events")
                    ]
                    _take(decoded, {**span, "events": events}, _json_attributes(span), resource, scope)
    except (AttributeError, TypeError, KeyError) as error:
        raise InvalidRecord(f"the body is no trace request ({type(error).__name__}: {error})") from error
    return decoded


def _list(holder: Mapping[str, Any], key: str) -> list[Any]:
    value = holder.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise TypeError(f"'{key}' is no list of objects")
    return value


ID = re.compile(r"[0-9a-f]*")


def _take(
    decoded: Decoded, told: Mapping[str, Any], attributes: dict[str, JSON], resource: Mapping[str, JSON], scope: str
) -> None:
    """Add a span, or the reason for which it cannot be added."""
    try:
        start, end = _integer(told.get("startTimeUnixNano")), _integer(told.get("endTimeUnixNano"))
        if not 0 < start <= MAX_INTEGER or not 0 <= end <= MAX_INTEGER:
            raise InvalidRecord("its times are no nanoseconds since 1970")
        status = told.get("status") or {}
        decoded.spans.append(
            WireSpan(
                trace_id=_id(told.get("traceId"), 32, "trace id"),
                span_id=_id(told.get("spanId"), 16, "span id"),
                parent_id=_id(told.get("parentSpanId"), 16, "parent's id") if told.get("parentSpanId") else None,
                name=str(told.get("name") or "span"),
                start_ns=start,
                end_ns=max(start, end),
                attributes=attributes,
                resource=resource,
                scope=scope,
                events=[event for event in told.get("events", ()) if 0 <= event[1] <= MAX_INTEGER],
                is_error=status.get("code") in (ERROR_STATUS, "STATUS_CODE_ERROR"),
                message=str(status.get("message") or ""),
            )
        )
    except (InvalidRecord, ValueError, TypeError, AttributeError) as error:
        decoded.rejected.append(f"span '{str(told.get('name'))[:60]}': {error}")


def _id(value: object, digits: int, what: str) -> str:
    text = str(value or "").lower()
    if len(text) != digits or not ID.fullmatch(text) or not int(text, 16):
        raise InvalidRecord(f"its {what} is not {digits} hexadecimal digits other than 0")
    return text


def _integer(value: object) -> int:
    """JSON writes 64-bit integers as texts."""
    return int(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else 0


def _proto_value(value: Any) -> JSON:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_proto_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _proto_value(pair.value) for pair in value.kvlist_value.values}
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if kind is None:
        return None
    return _finite(getattr(value, kind))


def _json_attributes(holder: Mapping[str, Any]) -> dict[str, JSON]:
    return {str(pair["key"]): _json_value(pair.get("value")) for pair in _list(holder, "attributes")}


def _json_value(value: Any) -> JSON:
    if not isinstance(value, dict):
        return None
    for kind, held in value.items():
        if kind == "intValue":
            return _integer(held)
        if kind == "arrayValue":
            return [_json_value(item) for item in _list(held or {}, "values")]
        if kind == "kvlistValue":
            return {str(pair["key"]): _json_value(pair.get("value")) for pair in _list(held or {}, "values")}
        if kind == "bytesValue":
            try:
                base64.b64decode(str(held), validate=True)
            except binascii.Error as error:
                raise TypeError("a bytesValue is no base64") from error
            return str(held)
        if kind in ("stringValue", "boolValue", "doubleValue"):
            return _finite(held)
    return None


def _finite(value: Any) -> JSON:
    """Numbers that JSON has no form for, by their name."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value  # type: ignore[no-any-return]  # a scalar of the protocol


def decode_lines(data: bytes) -> Iterator[tuple[str, Decoded | InvalidRecord]]:
    """A file of the Collector's file exporter: a request a line, each with its place."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", decode_json(line)
            except InvalidRecord as error:
                yield f"line {number}", error
