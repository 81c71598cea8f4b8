"""What leaves as OpenTelemetry spans is what other tools read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain_core.prompts import ChatPromptTemplate
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from agenttrace import AgentTraceHandler
from agenttrace.pricing import Price, Prices
from agenttrace.recording import flush
from agenttrace.records import ErrorRecord, PhaseTiming, SettingValue, Usage
from agenttrace.spans.otel import readable_spans
from tests.builders import NOON, SECOND, a_model_call, a_span
from tests.langchain.models import FakeModel

RESOURCE = Resource({})


def test_an_exporter_gets_every_finished_span(store: Path) -> None:
    """A handler's exporter sees the tree that the store has, ids and all."""
    exporter = InMemorySpanExporter()
    chain = ChatPromptTemplate.from_template("{x}") | FakeModel(replies=["ok"])
    chain.invoke({"x": "hi"}, config={"callbacks": [AgentTraceHandler(exporter=exporter)]})
    flush()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert {"RunnableSequence", "ChatPromptTemplate", "FakeModel"} <= set(spans)
    root, model = spans["RunnableSequence"], spans["FakeModel"]
    assert root.context
    assert model.parent
    assert model.parent.span_id == root.context.span_id
    assert dict(model.attributes or {})["llm.input_messages.0.message.content"] == "hi"


def attributes(span: Any) -> dict[str, Any]:
    return dict(next(iter(readable_spans(span, RESOURCE))).attributes or {})


def test_a_model_call_speaks_both_vocabularies() -> None:
    """OpenInference and gen_ai name the same facts."""
    call = a_model_call(
        settings={
            "model.requested": SettingValue(value="gpt", voice="requested", source="metadata"),
            "model.served": SettingValue(value="gpt-1", voice="served", source="response"),
            "sampling.temperature": SettingValue(value=0.5, voice="sent", source="wire"),
        },
        usage=Usage(input=40, output=10, cached=8),
        finish_reason="stop",
        output={"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "add", "args": {"a": 1}}]},
    )
    found = attributes(call)
    assert found["openinference.span.kind"] == "LLM"
    assert found["llm.model_name"] == found["gen_ai.response.model"] == "gpt-1"
    assert found["gen_ai.request.model"] == "gpt"
    assert found["gen_ai.request.temperature"] == 0.5
    assert found["llm.token_count.prompt"] == found["gen_ai.usage.input_tokens"] == 40
    assert found["llm.token_count.prompt_details.cache_read"] == 8
    assert "llm.token_count.total" not in found
    assert found["llm.output_messages.0.message.tool_calls.0.tool_call.function.name"] == "add"
    assert found["agenttrace.phase.decode.duration_s"] == 0.5


def test_phases_are_children_with_ids_that_stay() -> None:
    """A phase span has the same id each time it is made, so sending twice is harmless."""
    phases = (
        PhaseTiming(name="queue", ns=SECOND // 4, source="server-reported"),
        PhaseTiming(name="prefill", ns=None),
        PhaseTiming(name="decode", ns=SECOND // 2, source="server-reported"),
    )
    first = list(readable_spans(a_model_call(phases=phases), RESOURCE))
    again = list(readable_spans(a_model_call(phases=phases), RESOURCE))
    assert [span.name for span in first] == ["ChatModel", "queue", "decode"]
    assert [span.context for span in first] == [span.context for span in again]
    assert [(span.start_time, span.end_time) for span in first[1:]] == [
        (NOON, NOON + SECOND // 4),
        (NOON + SECOND // 4, NOON + 3 * SECOND // 4),
    ]


def test_only_errors_are_errors() -> None:
    """An interrupted or abandoned step is no error in OpenTelemetry's sense."""
    error = ErrorRecord(type="ValueError", message="no")
    [failed] = readable_spans(a_span(state="error", error=error), RESOURCE)
    [paused] = readable_spans(a_span(state="interrupted"), RESOURCE)
    assert failed.status.status_code is StatusCode.ERROR
    assert paused.status.status_code is StatusCode.UNSET


def test_nothing_is_dropped_for_being_long() -> None:
    """A long conversation keeps its first message, where the SDK's default of 128 attributes would drop it."""
    messages = [{"role": "user", "content": str(number)} for number in range(500)]
    found = attributes(a_model_call(input=messages))
    assert found["llm.input_messages.0.message.content"] == "0"
    assert found["llm.input_messages.499.message.content"] == "499"


def test_a_model_call_carries_its_cost() -> None:
    """By the prices that are given, each kind of token by its own; where there is no price there is no cost, not zero."""
    call = a_model_call(
        settings={"model.served": SettingValue(value="ours", voice="served", source="response")},
        usage=Usage(input=1000, output=200, cached=600, reasoning=50),
    )
    prices = Prices({"ours": Price(input=1.0, cached=0.1, output=4.0)})
    found = dict(next(iter(readable_spans(call, RESOURCE, prices))).attributes or {})
    costs = {key.removeprefix("llm.cost."): round(float(value), 9) for key, value in found.items() if "cost" in key}  # type: ignore[arg-type]  # costs are numbers
    assert costs == {
        "total": 0.00126,
        "prompt": 0.00046,
        "completion": 0.0008,
        "prompt_details.cache_read": 0.00006,
        "completion_details.reasoning": 0.0002,
    }
    assert not [key for key in attributes(call) if "cost" in key]
