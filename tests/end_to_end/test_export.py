"""`agenttrace export` to a backend: everything arrives once, goes on where it stopped, and errors are sentences."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agenttrace.store.importing import import_records
from tests.builders import NOON, SECOND, a_model_call, a_run, a_span
from tests.model_server import Exchange, ModelServer, serve


def export(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agenttrace", "export", *arguments],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def accept(exchange: Exchange) -> None:
    exchange.send({}, headers={"content-type": "application/x-protobuf"})


def refuse(exchange: Exchange) -> None:
    exchange.send({"message": "no"}, status=400)


def arrived(server: ModelServer) -> list[str]:
    """The ids of the spans that the server was sent, in order."""
    found = []
    for exchange in server.asked:
        request = ExportTraceServiceRequest.FromString(gzip.decompress(exchange.raw))
        for group in request.resource_spans:
            found += [span.span_id.hex() for scope in group.scope_spans for span in scope.spans]
    return found


def resource_of(exchange: Exchange) -> dict[str, str]:
    group, *_ = ExportTraceServiceRequest.FromString(gzip.decompress(exchange.raw)).resource_spans
    return {attribute.key: attribute.value.string_value for attribute in group.resource.attributes}


@pytest.fixture
def filled(store: Path) -> Path:
    """Two traces of one run; the second has a step that has not ended."""
    other = "b" * 32
    spans = [
        a_span(1),
        a_model_call(2, phases=()),
        a_span(3, trace_id=other),
        a_span(4, trace_id=other, parent_id=f"{3:016x}", state="unfinished", end_ns=None),
    ]
    import_records(store, [a_run()], spans)
    return store


def test_what_is_confirmed_is_not_sent_again(filled: Path) -> None:
    """--resume sends what the backend has not confirmed, and then there is nothing left."""
    with serve(accept) as server:
        first = export("--to", "otlp", "--endpoint", server.url, "--trace", "a" * 32)
        assert first.returncode == 0, first.stderr
        rest = export("--to", "otlp", "--endpoint", server.url, "--resume", "--json")
        again = export("--to", "otlp", "--endpoint", server.url, "--resume")
    assert arrived(server) == [f"{number:016x}" for number in (1, 2, 3)]
    assert json.loads(rest.stdout)["steps"] == 1
    assert json.loads(rest.stdout)["unfinished"] == 1
    assert "Nothing to send" in again.stdout


def test_another_backend_has_confirmed_nothing(filled: Path) -> None:
    """Confirmations are kept by address and project."""
    with serve(accept) as server, serve(accept) as other:
        export("--to", "otlp", "--endpoint", server.url)
        export("--to", "otlp", "--endpoint", other.url, "--resume")
        export("--to", "otlp", "--endpoint", server.url, "--resume", "--project", "p")
    assert len(arrived(other)) == 3
    assert len(arrived(server)) == 6


def test_a_refusal_confirms_nothing(filled: Path) -> None:
    """What was refused is sent by the next --resume."""
    with serve(refuse) as server:
        refused = export("--to", "otlp", "--endpoint", server.url)
    assert refused.returncode == 3
    assert "docs/messages.md#endpoint-refused" in refused.stderr
    with serve(accept) as server:
        export("--to", "otlp", "--endpoint", server.url, "--resume")
    assert len(arrived(server)) == 3


def test_headers_and_address_come_from_the_environment(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of agenttrace and of OpenTelemetry; an option wins."""
    with serve(accept) as server:
        monkeypatch.setenv("AGENTTRACE_OTLP_ENDPOINT", server.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-a=1,x-b=two%20words")
        result = export("--to", "otlp", "--header", "x-a=3")
    assert result.returncode == 0, result.stderr
    assert (server.asked[0].headers["x-a"], server.asked[0].headers["x-b"]) == ("3", "two words")


def test_arize_gets_its_keys_and_its_project(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The space, the key and the project stand where Arize AX documents them."""
    monkeypatch.setenv("ARIZE_SPACE_ID", "space")
    monkeypatch.setenv("ARIZE_API_KEY", "key")
    with serve(accept) as server:
        result = export("--to", "arize-ax", "--endpoint", f"{server.url}/v1/traces", "--project", "shop")
    assert result.returncode == 0, result.stderr
    [exchange] = server.asked
    assert exchange.path == "/v1/traces"
    assert (exchange.headers["space_id"], exchange.headers["api_key"]) == ("space", "key")
    assert resource_of(exchange)["model_id"] == resource_of(exchange)["openinference.project.name"] == "shop"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "otlp"), "No endpoint was named"),
        (("--to", "arize-ax"), "space_id and api_key"),
        (("--to", "otlp", "--endpoint", "http://127.0.0.1:1", "--header", "secret"), "name=value"),
        (("--to", "jsonl", "--resume"), "are for backends"),
        (("--to", "otlp", "--endpoint", "http://127.0.0.1:1", "-o", "file"), "Leave one of them out"),
        (("--to", "otlp", "--endpoint", "ftp://127.0.0.1"), "no address"),
        (("--to", "otlp", "--endpoint", "http://127.0.0.1:1", "--run", "none"), "none"),
        (("--to", "jsonl", "--trace", "last", "--since", "1d"), "--trace names one"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(
    filled: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    """One sentence, no traceback, and no key repeated."""
    for variable in ("AGENTTRACE_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "ARIZE_SPACE_ID", "ARIZE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    result = export(*arguments)
    assert result.returncode in (2, 3)
    assert said in result.stderr
    assert "secret" not in result.stderr
    assert "Traceback" not in result.stderr


def test_only_what_began_since_then_is_sent(store: Path) -> None:
    """To a backend and to a file, of all runs and of one; where nothing has begun since, that is said."""
    later = NOON + 3600 * SECOND
    spans = [
        a_span(1),
        a_span(2, trace_id="b" * 32, start_ns=later, end_ns=later + SECOND),
        a_span(3, trace_id="c" * 32, run_id="run2", start_ns=later + 1, end_ns=later + SECOND),
    ]
    import_records(store, [a_run(), a_run(run_id="run2", name="other")], spans)
    since = ("--since", datetime.fromtimestamp(later / SECOND, UTC).isoformat())
    with serve(accept) as server:
        assert export("--to", "otlp", "--endpoint", server.url, *since).returncode == 0
        assert export("--to", "otlp", "--endpoint", server.url, *since, "--run", "other").returncode == 0
    assert arrived(server) == [f"{number:016x}" for number in (2, 3, 3)]
    lines = [json.loads(line) for line in export("--to", "jsonl", *since, "--run", "nightly").stdout.splitlines()]
    assert [line["span_id"] for line in lines if "span_id" in line] == [f"{2:016x}"]
    nothing = export("--to", "jsonl", "--since", "2099-01-01")
    assert nothing.returncode == 3
    assert "since then" in nothing.stderr


def test_otlp_json_is_what_the_collector_writes(filled: Path, tmp_path: Path) -> None:
    """Ids in hexadecimal, enums as numbers, times as text: a line is a request."""
    file = tmp_path / "spans.json"
    assert export("--to", "otlp-json", "-o", str(file)).returncode == 0
    requests = [json.loads(line) for line in file.read_text().splitlines()]
    [span] = requests[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (span["traceId"], span["spanId"]) == ("a" * 32, f"{1:016x}")
    assert span["kind"] == 1
    assert span["startTimeUnixNano"].isdecimal()
