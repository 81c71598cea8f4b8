"""The OTLP receiver with real exporters and hostile clients: acknowledged is on disk, everything else is told with its reason."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Status, StatusCode

from agenttrace import AgentTraceHandler, open_store
from agenttrace.errors import UsageError
from agenttrace.export import receiver as receiving
from agenttrace.export.receiver import MAX_BODY, PATH, Receiver, read_token
from agenttrace.recording import flush
from agenttrace.records import SpanRecord
from agenttrace.spans.otel import readable_spans
from agenttrace.store.intake import Intake
from tests.builders import NOON, SECOND
from tests.langchain.models import FakeModel

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def receiver(store: Path) -> Iterator[Receiver]:
    with running() as server:
        yield server


class running:
    """A receiver on a free port, in this process."""

    def __init__(self, **options: Any) -> None:
        self.server = Receiver(Intake(None), port=0, **options)

    def __enter__(self) -> Receiver:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self.server

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def post(server: Receiver, body: bytes, path: str = PATH, **headers: str) -> tuple[int, Any, Mapping[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    told = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request("POST", path, body, told)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    kind = response.headers.get("Content-Type")
    return response.status, json.loads(answer) if kind == "application/json" else answer, dict(response.headers)


def request(*spans: Mapping[str, Any], resource: str = "shop") -> bytes:
    attributes = [{"key": "service.name", "value": {"stringValue": resource}}]
    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": attributes},
                    "scopeSpans": [{"scope": {"name": "lib"}, "spans": list(spans)}],
                }
            ]
        }
    ).encode()


def a_span(span_id: str = SPAN, **fields: Any) -> dict[str, Any]:
    return {
        "traceId": TRACE, "spanId": span_id, "name": "work", "startTimeUnixNano": str(NOON),
        "endTimeUnixNano": str(NOON + SECOND), **fields,
    }  # fmt: skip


def attributes(**values: Any) -> list[dict[str, Any]]:
    kinds = {str: "stringValue", int: "intValue", float: "doubleValue", bool: "boolValue"}
    return [{"key": key, "value": {kinds[type(value)]: value}} for key, value in values.items()]


def stored() -> tuple[SpanRecord, ...]:
    return open_store().trace(TRACE)


@pytest.mark.parametrize("compression", [Compression.Gzip, Compression.NoCompression])
def test_a_real_exporter(receiver: Receiver, compression: Compression) -> None:
    """Spans of the OpenTelemetry SDK: nested, with attributes, events and errors, in a run of their service and day."""
    provider = TracerProvider(resource=Resource({"service.name": "shop", "deployment": "blue"}))
    exporter = OTLPSpanExporter(f"{receiver.url}{PATH}", compression=compression)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("lib")
    with tracer.start_as_current_span("outer", attributes={"openinference.span.kind": "AGENT", "custom": 7}) as outer:
        outer.add_event("noted", {"a": True})
        with tracer.start_as_current_span("inner") as inner:
            inner.record_exception(ValueError("no"))
            inner.set_status(Status(StatusCode.ERROR, "no"))
    provider.shutdown()
    [trace] = open_store().traces()
    root, child = open_store().trace(trace.trace_id)
    assert (trace.run, root.kind, root.name, child.parent_id) == ("shop", "agent", "outer", root.span_id)
    assert root.metadata["custom"] == 7
    assert [(event.name, event.data) for event in root.events] == [("noted", {"a": True})]
    assert child.error is not None
    assert (child.state, child.error.type, child.error.message) == ("error", "ValueError", "no")


def test_our_own_spans_come_back(store: Path, tmp_path: Path, receiver: Receiver) -> None:
    """What another store exported reads the same here: steps, states, settings by voice, phases, usage, messages."""
    other = tmp_path / "other"
    FakeModel(replies=["hello"]).invoke("hi", config={"callbacks": [AgentTraceHandler(other)], "tags": ["t"]})
    flush()
    with open_store(other) as opened:
        before = opened.trace("last")
    exporter = OTLPSpanExporter(f"{receiver.url}{PATH}")
    resource = Resource({"service.name": "agenttrace"})
    for _ in range(2):  # sent again, it is the same
        exporter.export([readable for span in before for readable in readable_spans(span, resource)])
    after = open_store().trace(before[0].trace_id)
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        assert (new.kind, new.name, new.state, new.run_id, new.call_site) == (
            old.kind,
            old.name,
            old.state,
            old.run_id,
            old.call_site,
        )
        assert (new.start_ns, new.end_ns, new.usage, new.tags) == (old.start_ns, old.end_ns, old.usage, old.tags)
        assert (new.input, new.output) == (old.input, old.output)
        assert {phase.name: (phase.ns, phase.source) for phase in new.phases} == {
            phase.name: (phase.ns, phase.source) for phase in old.phases
        }
        known = {name: (held.value, held.voice) for name, held in old.settings.items() if held.value is not None}
        assert {name: (held.value, held.voice) for name, held in new.settings.items() if name in known} == known


def test_openinference_of_the_openai_sdk(receiver: Receiver) -> None:
    """The real instrumentor, the real SDK, a server on loopback: one model call with settings, messages, tools and usage."""
    from openai import OpenAI
    from openinference.instrumentation.openai import OpenAIInstrumentor

    from tests.model_server import serve

    answer = {
        "id": "1", "object": "chat.completion", "created": 1, "model": "gpt-5-mini-2026-08-07",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "etna"}'}}]}}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15, "prompt_tokens_details": {"cached_tokens": 8}},
    }  # fmt: skip
    provider = TracerProvider(resource=Resource({"service.name": "sdk"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{receiver.url}{PATH}")))
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        with serve(lambda exchange: exchange.send(answer)) as server:
            tool = {
                "type": "function",
                "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}},
            }
            OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0).chat.completions.create(
                model="gpt-5-mini", temperature=0.3, max_tokens=50, tools=[tool],  # type: ignore[list-item]  # plain JSON
                messages=[{"role": "system", "content": "Help."}, {"role": "user", "content": "How high?"}],
            )  # fmt: skip
    finally:
        instrumentor.uninstrument()
    provider.shutdown()
    [call] = [span for span in open_store().trace("last") if span.kind == "model"]
    told = {name: setting.value for name, setting in call.settings.items()}
    assert (told["model.requested"], told["sampling.temperature"], told["limits.max_output_tokens"]) == (
        "gpt-5-mini",
        0.3,
        50,
    )
    assert told["model.served"] == "gpt-5-mini-2026-08-07"
    assert told["tools.names"] == ["look_up"]
    assert call.input == [{"role": "system", "content": "Help."}, {"role": "user", "content": "How high?"}]
    assert isinstance(call.output, dict)
    assert call.output["tool_calls"] == [{"id": "c1", "name": "look_up", "args": {"word": "etna"}}]
    assert call.usage is not None
    assert (call.usage.input, call.usage.output, call.usage.cached) == (12, 3, 8)


def test_gen_ai_spans(receiver: Receiver) -> None:
    """OpenTelemetry's own conventions, today's and the ones before."""
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "How high?"}]}])
    call = attributes(**{
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m", "gen_ai.response.model": "m-1",
        "gen_ai.request.temperature": 0.5, "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4,
        "gen_ai.input.messages": messages, "gen_ai.response.time_to_first_chunk": 0.25, "nobody.knows": "this",
    })  # fmt: skip
    tool = attributes(
        **{
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "look",
            "gen_ai.tool.call.arguments": '{"a": 1}',
        }
    )
    status, _, _ = post(
        receiver, request(a_span(attributes=call), a_span("00f067aa0ba902b8", parentSpanId=SPAN, attributes=tool))
    )
    assert status == 200
    first, second = stored()
    told = {name: setting.value for name, setting in first.settings.items()}
    assert (first.kind, told["model.requested"], told["model.served"], told["provider"]) == (
        "model",
        "m",
        "m-1",
        "openai",
    )
    assert told["sampling.temperature"] == 0.5
    assert first.usage is not None
    assert (first.usage.input, first.usage.output, first.usage.cached) == (9, 4, None)
    assert first.input == [{"role": "user", "content": "How high?"}]
    assert first.marks is not None
    assert first.marks.first_content_ns == SECOND // 4
    assert first.metadata["nobody.knows"] == "this"
    assert (second.kind, second.input, second.parent_id) == ("tool", {"a": 1}, SPAN)


def test_a_servers_own_span(receiver: Receiver) -> None:
    """vLLM's span below the call that it served: one tree, its queue, prefill and decode as it measured them."""
    server = attributes(**{
        "gen_ai.latency.time_in_queue": 0.1, "gen_ai.latency.time_in_model_prefill": 0.2, "gen_ai.latency.time_in_model_decode": 0.6,
        "gen_ai.latency.time_to_first_token": 0.3, "gen_ai.latency.e2e": 0.9, "gen_ai.usage.prompt_tokens": 9,
        "gen_ai.usage.completion_tokens": 4,
    })  # fmt: skip
    call = attributes(**{"openinference.span.kind": "LLM", "llm.model_name": "m"})
    post(
        receiver,
        request(a_span("00f067aa0ba902b8", name="llm_request", parentSpanId=SPAN, attributes=server), resource="vllm"),
    )
    post(receiver, request(a_span(attributes=call)))
    first, second = stored()
    assert (first.kind, second.parent_id, second.name) == ("model", SPAN, "llm_request")
    told = {phase.name: phase.ns for phase in second.phases if phase.source == "server-reported"}
    assert (told["queue"], told["prefill"], told["decode"]) == (SECOND // 10, SECOND // 5, SECOND * 6 // 10)


def gzipped(body: bytes) -> bytes:
    return gzip.compress(body)


@pytest.mark.parametrize(
    ("body", "headers", "status", "reason"),
    [
        (b"{", {}, 400, "no JSON"),
        (b"[]", {}, 400, "no object"),
        (b'{"resourceSpans": 3}', {}, 400, "no list of objects"),
        (b"\xff\xff\xff", {"Content_Type": "application/x-protobuf"}, 400, b"no ExportTraceServiceRequest"),
        (b"{}", {"Content_Type": "text/plain"}, 415, "send application/x-protobuf"),
        (b"{}", {"Content_Encoding": "br"}, 415, "packed by gzip"),
        (b"{}", {"Content_Encoding": "gzip"}, 400, "no gzip"),
        (gzipped(b"{}")[:-4], {"Content_Encoding": "gzip"}, 400, "ended early"),
        (zlib.compress(b"", wbits=31), {"Content_Encoding": "gzip"}, 400, "no JSON"),
        (b"{}", {"Host": "evil.example"}, 403, "no name of this machine"),
        (b"{}", {"Origin": "http://evil.example"}, 403, "web pages"),
        (b'{"a":' + b"[" * 500 + b"]" * 500 + b"}", {}, 400, "nested"),
        (b'{"name": "\xff\xfe"}', {}, 400, "no JSON"),
    ],
)
def test_a_wrong_request_is_told_why(
    body: bytes, headers: dict[str, str], status: int, reason: str | bytes, receiver: Receiver
) -> None:
    """And nothing of it is kept."""
    answered, told, _ = post(receiver, body, **headers)
    assert answered == status
    assert reason in (told if isinstance(told, bytes) else told["message"])
    assert receiver.intake.spans == 0


def test_a_body_that_unpacks_to_gigabytes(receiver: Receiver) -> None:
    """It is unpacked as far as the limit and no further."""
    bomb = gzip.compress(b" " * (MAX_BODY + 10))
    assert len(bomb) < 100_000
    status, told, _ = post(receiver, bomb, Content_Encoding="gzip")
    assert (status, "unpacked body is larger" in told["message"]) == (413, True)


def test_a_body_that_says_it_is_too_large(receiver: Receiver) -> None:
    """Refused by what it says, before it is read."""
    connection = http.client.HTTPConnection("127.0.0.1", receiver.server_port, timeout=20)
    connection.putrequest("POST", PATH)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(MAX_BODY + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413


def test_forged_ids_and_times_are_rejected_one_by_one(receiver: Receiver) -> None:
    """The request's other spans are kept, and the answer says how many were not, and why."""
    bad = [
        a_span(traceId="0" * 32),
        a_span(traceId="xyz"),
        a_span(spanId="0" * 16),
        a_span(parentSpanId="12"),
        a_span(startTimeUnixNano="-5"),
        a_span(startTimeUnixNano=str(1 << 70)),
        a_span(startTimeUnixNano="soon"),
    ]
    good = a_span(endTimeUnixNano="1")  # ends before it began: it took no time
    status, told, _ = post(receiver, request(*bad, good))
    assert status == 200
    assert told["partialSuccess"]["rejectedSpans"] == str(len(bad))
    assert "trace id is not 32 hexadecimal digits" in told["partialSuccess"]["errorMessage"]
    [kept] = stored()
    assert kept.duration_ns == 0


def test_huge_attributes_are_kept(receiver: Receiver) -> None:
    """A megabyte of text, ten thousand attributes, control characters, surrogates: kept or replaced, never an error."""
    many = attributes(**{f"a{n}": n for n in range(10_000)}, text="x" * 1_000_000, odd="\x00\x1b\ud800")
    status, told, _ = post(receiver, request(a_span(attributes=many)).replace(b"\\ud800", b"?"))
    assert (status, told) == (200, {})
    [span] = stored()
    assert span.metadata["a9999"] == 9999
    assert len(str(span.metadata["text"])) == 1_000_000


def test_too_much_at_once_is_told_to_come_again(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """429 with Retry-After while as many requests are decoded as may be; afterwards it is taken."""
    for _ in range(receiving.MAX_AT_ONCE):
        assert receiver.decoding.acquire(blocking=False)
    status, _, headers = post(receiver, request(a_span()))
    assert (status, headers["Retry-After"]) == (429, "1")
    for _ in range(receiving.MAX_AT_ONCE):
        receiver.decoding.release()
    assert post(receiver, request(a_span()))[0] == 200


def test_a_disk_that_refuses_is_not_acknowledged(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """503, so that the client keeps its spans and sends them again; then they are taken."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("agenttrace.store.journal.Journal.append", refuse)
        status, told, headers = post(receiver, request(a_span()))
    assert (status, headers["Retry-After"]) == (503, "1")
    assert "No space left" in told["message"]
    assert post(receiver, request(a_span()))[0] == 200
    assert len(stored()) == 1


def test_a_token_for_other_addresses(store: Path, tmp_path: Path) -> None:
    """Without one it is refused to listen there; with one every sender must tell it; the file is for its owner alone."""
    with pytest.raises(UsageError, match="takes a token"):
        Receiver(Intake(None), host="0.0.0.0", port=0)
    file = tmp_path / "token"
    file.write_text("0123456789abcdef0123\n")
    file.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        read_token(file)
    file.chmod(0o600)
    with running(host="0.0.0.0", token=read_token(file)) as server:
        assert post(server, request(a_span()))[0] == 401
        assert post(server, request(a_span()), Authorization="Bearer wrong")[0] == 401
        assert post(server, request(a_span()), Authorization="Bearer 0123456789abcdef0123")[0] == 200


def test_health_and_unknown_places(receiver: Receiver) -> None:
    """How many spans came; everything else is not there; no answer lets a web page read it."""
    post(receiver, request(a_span()))
    connection = http.client.HTTPConnection("127.0.0.1", receiver.server_port, timeout=20)
    connection.request("GET", "/healthz")
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["spans"]) == (200, 1)
    assert "Access-Control-Allow-Origin" not in response.headers
    assert post(receiver, b"{}", "/v1/metrics")[0] == 404


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(("resourceSpans", "scopeSpans", "spans", "resource", "attributes", "key", "value", "arrayValue", "values",
                         "intValue", "stringValue", "traceId", "spanId", "startTimeUnixNano", "events", "status", "code")),
        inner, max_size=5),
    max_leaves=30,
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=200), JSONISH.map(lambda value: json.dumps(value).encode())), st.booleans())
def test_whatever_comes_is_answered(receiver: Receiver, body: bytes, is_protobuf: bool) -> None:
    """With success or with a client's mistake, never with ours; and the receiver goes on."""
    kind = "application/x-protobuf" if is_protobuf else "application/json"
    status, _, _ = post(receiver, body, Content_Type=kind)
    assert status in (200, 400, 413)


SENDERS = int(os.environ.get("AGENTTRACE_SOAK_CLIENTS", "4"))
SPANS = int(os.environ.get("AGENTTRACE_SOAK_SPANS", "4000"))
"""The long version: AGENTTRACE_SOAK_CLIENTS=8 AGENTTRACE_SOAK_SPANS=200000."""


def test_kill_in_the_middle_loses_nothing_that_was_acknowledged(store: Path) -> None:
    """Clients send, the receiver is killed and started again on its port; what was answered with 200 is in the store, once."""
    acknowledged: set[str] = set()
    lock = threading.Lock()
    process, port = started(0)
    killed = threading.Event()

    def send(sender: int) -> None:
        for number in range(SPANS // SENDERS // 50):
            ids = [f"{sender + 1:04x}{number:08x}{place:04x}" for place in range(50)]
            body = request(*(a_span(one, attributes=attributes(text="x" * 300)) for one in ids))
            while True:
                try:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                    connection.request("POST", PATH, body, {"Content-Type": "application/json"})
                    if connection.getresponse().status == 200:
                        break
                except (OSError, http.client.HTTPException):
                    killed.wait(0.05)
            with lock:
                acknowledged.update(ids)

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(SENDERS)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < SPANS // 2 - 50 * SENDERS:
        threads[0].join(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process, _ = started(port)
    for thread in threads:
        thread.join()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    found = [span.span_id for span in stored()]
    assert len(found) == len(set(found))
    assert set(found) >= acknowledged
    assert len(acknowledged) == SPANS // SENDERS // 50 * 50 * SENDERS


def started(port: int) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "agenttrace", "serve", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Receiving at http://127.0.0.1:"), line
    return process, int(line.partition("127.0.0.1:")[2].partition("/")[0])
