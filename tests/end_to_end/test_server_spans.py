"""A model server's own spans join ours: the real LangChain client, a server that traces as vLLM does, the real Phoenix."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import SecretStr

from agenttrace import open_store, record
from agenttrace.export.phoenix import Phoenix, call
from tests.browser import open_page, take_picture
from tests.end_to_end.test_phoenix_pages import open_step, open_trace
from tests.model_server import Exchange, chat_completion, serve
from tests.phoenix import a_phoenix


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phoenix]:
    with a_phoenix(tmp_path_factory.mktemp("phoenix")) as phoenix:
        yield phoenix


def tracing_as_vllm(phoenix: Phoenix, **resource: str) -> Callable[[Exchange], None]:
    """A server that answers, and sends a span about it: parent, name, kind and keys as vLLM's `llm_request` has them."""
    provider = TracerProvider(resource=Resource({"service.name": "vllm-server", **resource}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{phoenix.address}/v1/traces")))
    tracer = provider.get_tracer("vllm.llm_engine")

    def reply(exchange: Exchange) -> None:
        context = TraceContextTextMapPropagator().extract({"traceparent": exchange.headers.get("traceparent", "")})
        with tracer.start_as_current_span("llm_request", context=context, kind=SpanKind.SERVER) as span:
            span.set_attribute("gen_ai.latency.time_in_queue", 0.02)
            span.set_attribute("gen_ai.latency.time_in_model_prefill", 0.1)
            chat_completion(exchange)

    return reply


def ask(address: str, run: str) -> None:
    model = ChatOpenAI(model="served-model", base_url=f"{address}/v1", api_key=SecretStr("none"))
    with record(run):
        (ChatPromptTemplate.from_template("{x}") | model).invoke({"x": "hi"})


def view() -> str:
    result = subprocess.run(
        [sys.executable, "-m", "agenttrace", "view"], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def spans_in(phoenix: Phoenix, project: str) -> dict[str, Any]:
    answer = json.loads(call(phoenix.address, "GET", f"/v1/projects/{project}/spans?limit=100"))
    return {span["name"]: span for span in answer["data"]}


def test_a_servers_span_is_part_of_the_call(phoenix: Phoenix, store: Path) -> None:
    """One tree in the run's project, the server's span below the model call, though it came first and named no project."""
    with serve(tracing_as_vllm(phoenix)) as server:
        ask(server.url, "joined")
    view()
    spans = spans_in(phoenix, "joined")
    served, model = spans["llm_request"], spans["ChatOpenAI"]
    assert served["context"]["trace_id"] == model["context"]["trace_id"]
    assert served["parent_id"] == model["context"]["span_id"]
    assert served["attributes"]["gen_ai.latency.time_in_queue"] == 0.02
    assert "0 were new to it" in view()
    with open_page() as page:
        nodes = open_trace(page, phoenix, open_store().trace("last"))
        place = next(place for place, node in enumerate(nodes) if node.name == "ChatOpenAI")
        below = [node.name for node in nodes[place + 1 :] if node.level == nodes[place].level + 1]
        assert below.count("llm_request") == 1
        open_step(page, "llm_request")
        page.get_by_test_id("span-details").get_by_role("button", name="Attributes").click()
        page.get_by_text("gen_ai.latency.time_in_model_prefill").wait_for()
        take_picture(page.get_by_test_id("dialog"), "phoenix-server-span.png")


def test_a_server_may_name_the_project(phoenix: Phoenix, store: Path) -> None:
    """As the page says how: then its span is filed there whatever comes first."""
    with serve(tracing_as_vllm(phoenix, **{"openinference.project.name": "named"})) as server:
        ask(server.url, "named")
    view()
    assert {"llm_request", "ChatOpenAI"} <= set(spans_in(phoenix, "named"))
