"""A record to OpenTelemetry spans: itself, its phases and its HTTP attempts as children. Ids are derived from the step's, so
that a span that is sent twice is the same span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from agenttrace import semconv
from agenttrace.pricing import Prices, priced_model
from agenttrace.records import AttemptRecord, PhaseTiming, SpanRecord
from agenttrace.spans.messages import Value, as_text, message_attributes, tool_attributes
from agenttrace.steps import TOOL_CALL_ID

Attributes: TypeAlias = dict[str, Value]

KINDS = {
    "model": "LLM",
    "tool": "TOOL",
    "retriever": "RETRIEVER",
    "embedding": "EMBEDDING",
    "agent": "AGENT",
    "prompt": "PROMPT",
}
"""Our kinds to OpenInference's; every other one is CHAIN."""

SCOPE = InstrumentationScope("agenttrace")

NS = 1e9

TABLE_PRICES = Prices()


def readable_spans(span: SpanRecord, resource: Resource, prices: Prices = TABLE_PRICES) -> Iterator[ReadableSpan]:
    """The spans of one finished step: first itself, then its phases and attempts."""
    context = _context(span.trace_id, int(span.span_id, 16))
    parent = None if span.parent_id is None else _context(span.trace_id, int(span.parent_id, 16))
    yield _span(span.name, context, parent, resource, _attributes(span, prices), span.start_ns, span.end_ns or span.start_ns,
                events=[Event(event.name, {"data": as_text(event.data)}, event.at_ns) for event in span.events],
                status=_status(span))  # fmt: skip
    for name, attributes, start_ns, end_ns in [*_phase_children(span), *_attempt_children(span)]:
        child = _context(span.trace_id, derived_id(span.span_id, name))
        yield _span(name, child, context, resource, attributes, start_ns, end_ns)


def derived_id(span_id: str, name: str) -> int:
    """A span id for a part of a step: the same each time it is asked for."""
    return int.from_bytes(blake2b(f"{span_id}/{name}".encode(), digest_size=8).digest()) or 1


def _span(
    name: str,
    context: SpanContext,
    parent: SpanContext | None,
    resource: Resource,
    attributes: Attributes,
    start_ns: int,
    end_ns: int,
    *,
    events: Sequence[Event] = (),
    status: Status | None = None,
) -> ReadableSpan:
    return ReadableSpan(
        name=name,
        context=context,
        parent=parent,
        resource=resource,
        attributes=attributes,
        events=events,
        kind=SpanKind.INTERNAL,
        instrumentation_scope=SCOPE,
        status=status or Status(StatusCode.UNSET),
        start_time=start_ns,
        end_time=end_ns,
    )


def _context(trace_id: str, span_id: int) -> SpanContext:
    return SpanContext(int(trace_id, 16), span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _status(span: SpanRecord) -> Status:
    """Only `error` and `timed_out` are errors in OpenTelemetry's sense."""
    if span.state in ("error", "timed_out"):
        return Status(StatusCode.ERROR, span.error.message if span.error else span.state)
    return Status(StatusCode.OK if span.state == "ok" else StatusCode.UNSET)


def _attributes(span: SpanRecord, prices: Prices) -> Attributes:
    attributes: Attributes = {
        semconv.SPAN_KIND: KINDS.get(span.kind, "CHAIN"),
        semconv.RUN_ID: span.run_id,
        semconv.STATE: span.state,
    }
    for group in (_io, _labels, _model, _usage, _settings, _prompt, _phases, _tool, _documents):
        attributes.update(group(span))
    attributes.update(_cost(span, prices))
    return attributes


def _io(span: SpanRecord) -> Iterator[tuple[str, Value]]:
    for value, key, mime in (
        (span.input, semconv.INPUT_VALUE, semconv.INPUT_MIME),
        (span.output, semconv.OUTPUT_VALUE, semconv.OUTPUT_MIME),
    ):
        if value is not None:
            yield key, as_text(value)
            yield mime, "text/plain" if isinstance(value, str) else "application/json"


def _labels(span: SpanRecord) -> Iterator[tuple[str, Value]]:
    if span.metadata:
        yield semconv.METADATA, as_text(span.metadata)
    if span.tags:
        yield semconv.TAGS, span.tags
    if span.call_site:
        yield semconv.CALL_SITE, span.call_site
    if span.attempt > 1:
        yield semconv.ATTEMPT, span.attempt
    if span.error:
        yield semconv.ERROR_TYPE, span.error.type
    if span.notes:
        yield semconv.NOTES, span.notes
    if span.session is not None:
        yield semconv.SESSION, span.session
    if span.user is not None:
        yield semconv.USER, span.user


def _model(span: SpanRecord) -> Iterator[tuple[str, Value]]:
    if span.kind != "model":
        return
    yield semconv.OPERATION, "chat"
    if span.model:
        yield semconv.LLM_MODEL, span.model
    for dimension, key in (("model.requested", semconv.REQUEST_MODEL), ("model.served", semconv.RESPONSE_MODEL)):
        if name := _text(span, dimension):
            yield key, name
    if provider := _text(span, "provider"):
        yield semconv.PROVIDER, provider
        yield semconv.LLM_PROVIDER, provider
    if span.finish_reason:
        yield semconv.LLM_FINISH_REASON, span.finish_reason
        yield semconv.FINISH_REASONS, (span.finish_reason,)
    if span.marks and span.marks.first_byte_ns is not None and span.marks.chunks:
        yield semconv.TIME_TO_FIRST_CHUNK, span.marks.first_byte_ns / NS
    yield from message_attributes(semconv.LLM_INPUT_MESSAGES, span.input)
    yield from message_attributes(semconv.LLM_OUTPUT_MESSAGES, span.output)


def _usage(span: SpanRecord) -> Iterator[tuple[str, Value]]:
    if span.usage:
        for vocabulary in (semconv.LLM_TOKENS, semconv.USAGE):
            for name, key in vocabulary.items():
                count = getattr(span.usage, name)
                if count is not None:
                    yield key, count


def _cost(span: SpanRecord, prices: Prices) -> Iterator[tuple[str, Value]]:
    """US dollars; nothing where the tokens or the prices are not known."""
    if span.kind != "model" or span.usage is None:
        return
    cost = prices.cost(span.usage, priced_model(span.settings), span.start_ns)
    if cost is None:
        return
    yield semconv.LLM_COST_TOTAL, cost.total
    yield semconv.LLM_COST_PROMPT, cost.uncached + cost.cached + cost.cache_written
    yield semconv.LLM_COST_COMPLETION, cost.output + cost.reasoning
    for part, key in semconv.LLM_COST_DETAILS.items():
        if getattr(span.usage, part) is not None:
            yield key, getattr(cost, part)


def _text(span: SpanRecord, dimension: str) -> str | None:
    setting = span.settings.get(dimension)
    return setting.value if setting and isinstance(setting.value, str) else None


def _settings(span: SpanRecord) -> Iterator[tuple[str, Value]]:
    parameters = {}
    for dimension, setting in span.settings.items():
        if setting.value is None or dimension == "prompt.content":
            continue
        value = setting.value if isinstance(setting.value, (str, int, float, bool)) else as_text(setting.value)
        yield f"{semconv.SETTING}.{dimension}", value
        yield f"{semconv.SETTING}.{dimension}.voice", setting.voice
        if dimension in semconv.REQUEST:
            yield semconv.REQUEST[dimension], value
        if dimension in semconv.PARAMETERS:
            parameters[semconv.PARAMETERS[dimension]] = setting.value
    if parameters:
        yield semconv.LLM_PARAMETERS, as_text(parameters)
    if span.kind == "model":
        yield from tool_attributes(span.settings)


def _prompt(span: SpanRecord) -> Iterator[tuple[str, Value]]:
    """Of a model call its prompt's text and version, of a prompt step what was filled in."""
    for dimension, key in (("prompt.content", semconv.PROMPT_TEMPLATE), ("prompt.label", semconv.PROMPT_VERSION)):
        setting = span.settings.get(dimension)
        if setting and setting.value is not None:
            yield key, as_text(setting.value)
    if span.kind == "prompt" and isinstance(span.input, Mapping):
        yield semconv.PROMPT_VARIABLES, as_text(span.input)


def _phases(span: SpanRecord) -> Iterator[tuple[str, Value]]:
    for phase in span.phases:
        prefix = f"{semconv.PHASE}.{phase.name}."
        yield prefix + "source", phase.source
        for name, value in (("duration_s", phase.ns), ("low_s", phase.low_ns), ("high_s", phase.high_ns)):
            if value is not None:
                yield prefix + name, value / NS
        if phase.method:
            yield prefix + "method", phase.method
        if phase.name in semconv.LATENCY and phase.ns is not None:
            yield semconv.LATENCY[phase.name], phase.ns / NS
    if span.server_report is not None:
        yield semconv.SERVER_REPORT, as_text(span.server_report)


def _tool(span: SpanRecord) -> Iterator[tuple[str, Value]]:
    if span.kind == "tool":
        yield semconv.TOOL_NAME, span.name
        yield semconv.GEN_AI_TOOL_NAME, span.name
        yield semconv.OPERATION, "execute_tool"
        yield semconv.TOOL_PARAMETERS, as_text(span.input)
        if call_id := span.metadata.get(TOOL_CALL_ID):
            yield semconv.GEN_AI_TOOL_CALL_ID, str(call_id)
        descriptions = span.settings.get("tools.descriptions")
        if descriptions and isinstance(descriptions.value, Mapping):
            yield semconv.TOOL_DESCRIPTION, str(descriptions.value.get(span.name, ""))


def _documents(span: SpanRecord) -> Iterator[tuple[str, Value]]:
    if span.kind != "retriever" or not isinstance(span.output, list):
        return
    for index, document in enumerate(span.output):
        if isinstance(document, Mapping):
            prefix = f"{semconv.RETRIEVAL_DOCUMENTS}.{index}."
            yield prefix + semconv.DOCUMENT_CONTENT, str(document.get("page_content", ""))
            yield prefix + semconv.DOCUMENT_METADATA, as_text(document.get("metadata"))
            if document.get("id"):
                yield prefix + semconv.DOCUMENT_ID, str(document["id"])


def _phase_children(span: SpanRecord) -> Iterator[tuple[str, Attributes, int, int]]:
    """The phases that have a time, end to end from the step's start: their lengths are known, their places are drawn."""
    at = span.start_ns
    for phase in span.phases:
        if phase.ns is not None and phase.ns > 0 and phase.included_in is None:
            yield phase.name, _phase_attributes(phase), at, at + phase.ns
            at += phase.ns


def _phase_attributes(phase: PhaseTiming) -> Attributes:
    attributes: Attributes = {
        semconv.SPAN_KIND: "CHAIN",
        f"{semconv.PHASE}.name": phase.name,
        f"{semconv.PHASE}.source": phase.source,
        f"{semconv.PHASE}.definition": phase.definition,
    }
    return attributes


def _attempt_children(span: SpanRecord) -> Iterator[tuple[str, Attributes, int, int]]:
    for number, attempt in enumerate(span.attempts, 1):
        end_ns = attempt.end_ns or attempt.start_ns
        yield f"attempt {number}", _attempt_attributes(attempt), attempt.start_ns, end_ns


def _attempt_attributes(attempt: AttemptRecord) -> Attributes:
    attributes: Attributes = {semconv.SPAN_KIND: "CHAIN", semconv.SERVER_ADDRESS: attempt.host}
    if attempt.status is not None:
        attributes[semconv.HTTP_STATUS] = attempt.status
    if attempt.error:
        attributes[semconv.ERROR_TYPE] = attempt.error
    for name in ("connect", "sent", "headers", "first_byte"):
        moment = getattr(attempt, f"{name}_ns")
        if moment is not None:
            attributes[f"{semconv.HTTP_ATTEMPT}.{name}_s"] = moment / NS
    attributes[f"{semconv.HTTP_ATTEMPT}.reads"] = attempt.reads
    return attributes
