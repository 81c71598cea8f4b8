"""Writes steps as OTLP JSON lines: the file format of the OpenTelemetry Collector's file exporter and receiver.

In: records. Out: lines, each an export request with the spans of one step. Encoded by the OTLP encoder, with the two
things in which OTLP's JSON departs from protobuf's: ids are hexadecimal, and enums are numbers.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import orjson
from opentelemetry.sdk.resources import Resource

from agenttrace.errors import MissingExtra
from agenttrace.export.otlp import SERVICE
from agenttrace.pricing import Prices
from agenttrace.records import SpanRecord
from agenttrace.spans.otel import TABLE_PRICES, readable_spans

IDS = ("traceId", "spanId", "parentSpanId")


def write_otlp_json(spans: Iterable[SpanRecord], prices: Prices = TABLE_PRICES) -> Iterator[bytes]:
    """One line a step, with its phases and attempts. Raises `MissingExtra` where the encoder is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    except ModuleNotFoundError as error:
        raise MissingExtra("phoenix", "Writing OTLP") from error
    to_dict = import_module("google.protobuf.json_format").MessageToDict  # ships no types
    resource = Resource({SERVICE: "agenttrace"})
    for span in spans:
        request = to_dict(encode_spans(list(readable_spans(span, resource, prices))), use_integers_for_enums=True)
        for found in _spans(request):
            found |= {name: base64.b64decode(found[name]).hex() for name in IDS if name in found}
        yield orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE)


def _spans(request: Any) -> Iterator[dict[str, Any]]:
    for resource_spans in request["resourceSpans"]:
        for scope_spans in resource_spans["scopeSpans"]:
            yield from scope_spans["spans"]
