"""Spans reach an OTLP endpoint whole, packed, again when it was busy, and with a clear word when it does not take them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agenttrace.errors import EndpointRefused, EndpointUnreachable
from agenttrace.export.otlp import send_spans
from agenttrace.records import PhaseTiming, SpanRecord
from tests.builders import SECOND, a_model_call, a_span
from tests.model_server import Exchange, serve


def accepted(exchange: Exchange) -> None:
    exchange.send({}, headers={"content-type": "application/x-protobuf"})


def busy(exchange: Exchange) -> None:
    exchange.send({}, status=503, headers={"retry-after": "0"})


def spans() -> Iterator[SpanRecord]:
    yield a_span(1)
    yield a_model_call(2, phases=(PhaseTiming(name="queue", ns=SECOND // 4, source="server-reported"),))


def sent(exchange: Exchange) -> dict[str, str]:
    """Name of each span that arrived, to its parent's id."""
    body = exchange.raw
    if exchange.headers["content-encoding"] == "gzip":
        body = gzip.decompress(body)
    request = ExportTraceServiceRequest.FromString(body)
    found = [span for group in request.resource_spans for scope in group.scope_spans for span in scope.spans]
    return {span.name: span.parent_span_id.hex() for span in found}


def test_steps_and_phases_arrive_packed() -> None:
    """A step is a span and its phases are spans below it, with the ids of the store."""
    with serve(accepted) as server:
        result = send_spans(spans(), server.url, project="p", headers={"x-key": "k"})
    [exchange] = server.asked
    assert exchange.path == "/v1/traces"
    assert exchange.headers["content-encoding"] == "gzip"
    assert exchange.headers["x-key"] == "k"
    assert sent(exchange) == {"agent": "", "ChatModel": f"{1:016x}", "queue": f"{2:016x}"}
    assert (result.steps, result.spans) == (2, 3)


def test_a_busy_endpoint_is_asked_again() -> None:
    """503 is tried again, and what arrives is the same."""
    with serve(busy, busy, accepted) as server:
        result = send_spans(spans(), server.url)
    assert len(server.asked) == 3
    assert sent(server.asked[0]) == sent(server.asked[2])
    assert result.spans == 3


def test_nobody_there_is_said() -> None:
    """A refused connection names the endpoint and what to do."""
    with serve(accepted) as server:
        pass
    with pytest.raises(EndpointUnreachable, match=r"127\.0\.0\.1"):
        send_spans(spans(), server.url, patience_s=0.2)


def test_a_refusal_is_said_with_its_reason() -> None:
    """An endpoint that answers 401 is not asked again."""
    with (
        serve(lambda exchange: exchange.send({"message": "no key"}, status=401)) as server,
        pytest.raises(EndpointRefused, match="401"),
    ):
        send_spans(spans(), server.url)
    assert len(server.asked) == 1
