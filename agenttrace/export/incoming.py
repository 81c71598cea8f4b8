"""Spans of other instrumentations as steps of ours: OpenInference, `gen_ai.*`, vLLM's and SGLang's own, and ours come back.

The vocabularies and their versions stand in `semconv`. What no table knows is kept under its name in the step's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final, cast

import orjson

from agenttrace import semconv
from agenttrace.export.otlp_decoding import WireSpan
from agenttrace.records import PhaseTiming, RunRecord, SettingValue, SpanRecord
from agenttrace.spans.record import span_record
from agenttrace.spans.redaction import scrub_record
from agenttrace.steps import JSON, ChainStep, Kind, ModelCall, State, Step, ToolCall

KINDS: Mapping[str, Kind] = {
    "LLM": "model",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
    "EMBEDDING": "embedding",
    "AGENT": "agent",
    "PROMPT": "prompt",
}
"""OpenInference's kinds; every other one is a chain."""

OPERATIONS: Mapping[str, Kind] = {
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
    "embeddings": "embedding",
    "retrieval": "retriever",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "create_agent": "agent",
}
"""`gen_ai.operation.name`."""

OLD_USAGE: Mapping[str, str] = {"input": "gen_ai.usage.prompt_tokens", "output": "gen_ai.usage.completion_tokens"}
"""Before version 1.27 of the conventions; vLLM and SGLang write them still."""

FIRST_CHUNK_EVENT: Final = "First Token Stream Event"
"""OpenInference's."""

SERVER: Final = "gen_ai.latency."

FLAT: Final = re.compile(r"(\d+)\.(.+)")

STATES = ("ok", "error", "cancelled", "abandoned", "interrupted", "handed_off", "timed_out", "unfinished")

UNNAMED: Final = "otlp"


def incoming_run(span: WireSpan) -> RunRecord:
    """The run that a span belongs to: the one it names, if it is ours; else one for each service and day."""
    own = span.attributes.get(semconv.RUN_ID)
    name = str(span.resource.get("service.name") or UNNAMED)
    day = datetime.fromtimestamp(span.start_ns / 1e9, UTC).date().isoformat()
    run_id = str(own) if own else blake2b(f"{name} {day}".encode("utf-8", "replace"), digest_size=8).hexdigest()
    return RunRecord(
        run_id=run_id,
        name=name,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        metadata={"received": "otlp", "resource": dict(span.resource)},
    )


def incoming_record(span: WireSpan, run_id: str) -> SpanRecord | None:
    """The step; None for what we draw below one of ours, its phases and attempts, which its own attributes tell."""
    known = Reader(span.attributes)
    if f"{semconv.PHASE}.name" in span.attributes or f"{semconv.HTTP_ATTEMPT}.reads" in span.attributes:
        return None
    record = span_record(_step(span, known, run_id))
    record = _with_our_own(record, known) if semconv.STATE in span.attributes else record
    metadata = _metadata(span, known)
    return scrub_record(_labelled(record, known, metadata))


class Reader:
    """Attributes that are taken out as they are understood, so that what is left can be kept."""

    def __init__(self, attributes: Mapping[str, JSON]) -> None:
        self.all = attributes
        self.left = dict(attributes)

    def take(self, *names: str) -> JSON:
        """The first of the attributes that is there."""
        values = [self.left.pop(name, None) for name in names]
        return next((value for value in values if value is not None), None)

    def text(self, *names: str) -> str | None:
        value = self.take(*names)
        return None if value is None else str(value)

    def number(self, *names: str) -> int | None:
        value = self.take(*names)
        with suppress(TypeError, ValueError, OverflowError):
            number = int(value) if isinstance(value, (int, float, str)) else -1
            return number if 0 <= number < 1 << 62 else None
        return None

    def json(self, *names: str) -> JSON:
        """A value that is written as JSON text."""
        value = self.take(*names)
        if isinstance(value, str):
            with suppress(orjson.JSONDecodeError):
                return cast(JSON, orjson.loads(value))
        return value

    def flat(self, prefix: str) -> list[dict[str, JSON]]:
        """A list that was flattened: `prefix.0.rest`, in the order of its places."""
        found: dict[int, dict[str, JSON]] = {}
        for name in [name for name in self.left if name.startswith(f"{prefix}.")]:
            told = FLAT.fullmatch(name[len(prefix) + 1 :])
            if told is not None and len(told[1]) < 7:
                found.setdefault(int(told[1]), {})[told[2]] = self.left.pop(name)
        return [found[place] for place in sorted(found)]


def _step(span: WireSpan, known: Reader, run_id: str) -> Step:
    kind = _kind(known)
    error_type, message = _error(span, known)
    common: dict[str, Any] = {
        "trace_id": int(span.trace_id, 16),
        "span_id": int(span.span_id, 16),
        "parent_id": None if span.parent_id is None else int(span.parent_id, 16),
        "run_id": run_id,
        "kind": kind,
        "name": span.name,
        "state": "ok" if error_type is None else "error",
        "start_ns": span.start_ns,
        "end_ns": span.end_ns,
        "call_site": known.text(semconv.CALL_SITE) or "",
        "input": known.json(semconv.INPUT_VALUE, "gen_ai.tool.call.arguments"),
        "output": known.json(semconv.OUTPUT_VALUE, "gen_ai.tool.call.result"),
        "events": tuple((name, at_ns, dict(data)) for name, at_ns, data in span.events if name != "exception"),
        "error_type": error_type,
        "error_message": message,
        "is_root": span.parent_id is None,
    }
    for name in (semconv.INPUT_MIME, semconv.OUTPUT_MIME):
        known.take(name)
    is_server = any(name.startswith(SERVER) for name in known.all) and semconv.STATE not in known.all
    if kind == "model" or is_server:
        return _model_call(span, known, common, is_server=is_server)
    if kind == "retriever" and (documents := known.flat(semconv.RETRIEVAL_DOCUMENTS)):
        common["output"] = [_document(document) for document in documents]
    if kind == "tool":
        known.take(semconv.TOOL_NAME, semconv.GEN_AI_TOOL_NAME)
        known.take(semconv.TOOL_PARAMETERS)
        return ToolCall(**common, tool_call_id=known.text(semconv.GEN_AI_TOOL_CALL_ID))
    return ChainStep(**common)


def _kind(known: Reader) -> Kind:
    told, operation = known.text(semconv.SPAN_KIND), known.text(semconv.OPERATION)
    if told is not None:
        return KINDS.get(told.upper(), "chain")
    return OPERATIONS.get(operation or "", "chain")


def _error(span: WireSpan, known: Reader) -> tuple[str | None, str | None]:
    kind = known.text(semconv.ERROR_TYPE)
    raised = next((data for name, _, data in reversed(span.events) if name == "exception"), {})
    if not span.is_error and kind is None:
        return None, None
    message = raised.get("exception.message") or span.message
    return str(kind or raised.get("exception.type") or "Error"), str(message or "")


def _model_call(span: WireSpan, known: Reader, common: dict[str, Any], *, is_server: bool) -> ModelCall:
    messages = known.flat(semconv.LLM_INPUT_MESSAGES)
    replies = known.flat(semconv.LLM_OUTPUT_MESSAGES)
    asked, answered = known.json("gen_ai.input.messages"), known.json("gen_ai.output.messages")
    if messages:
        common["input"] = [_message(message) for message in messages]
    elif asked is not None:
        common["input"] = _parts(asked)
    if replies:
        common["output"] = _message(replies[0])
    elif isinstance(answered, list) and answered:
        common["output"] = _parts(answered)[0]
    report = {name: value for name, value in known.all.items() if name.startswith("gen_ai.")} if is_server else {}
    asked_for = _asked(known)
    named = known.text(semconv.LLM_MODEL)
    # OpenInference names the model of the answer where it differs from the one of the request; the same name may be an echo.
    served = known.text(semconv.RESPONSE_MODEL) or (named if named != asked_for.get("model") else None)
    finish = known.take(semconv.FINISH_REASONS)
    reason = finish[0] if isinstance(finish, list) and finish else known.take(semconv.LLM_FINISH_REASON)
    provider = known.text(semconv.PROVIDER, "gen_ai.system", semconv.LLM_PROVIDER, "llm.system")
    return ModelCall(
        **{
            **common,
            "kind": "chain" if is_server else "model",
            "metadata": {semconv.LS_PROVIDER: provider} if provider else {},
        },
        serialized={"kwargs": asked_for},
        response={**report, **({"model_name": served} if served else {})},
        tokens=_tokens(known),
        finish_reason=None if reason is None else str(reason),
        prompt_label=known.text(semconv.PROMPT_VERSION),
        first_content_ns=_first_token(span, known),
        is_streamed=any(name == FIRST_CHUNK_EVENT for name, _, _ in span.events),
    )


def _asked(known: Reader) -> dict[str, JSON]:
    """What was asked of the model, under the names that model APIs have for it."""
    parameters = known.json(semconv.LLM_PARAMETERS)
    asked: dict[str, JSON] = dict(parameters) if isinstance(parameters, dict) else {}
    for dimension, name in semconv.REQUEST.items():
        value = known.take(name)
        if value is not None and dimension in semconv.PARAMETERS:
            asked[semconv.PARAMETERS[dimension]] = value
    for penalty in ("frequency_penalty", "presence_penalty"):
        if (value := known.take(f"gen_ai.request.{penalty}")) is not None:
            asked[penalty] = value
    if (stop := known.take("gen_ai.request.stop_sequences")) is not None:
        asked["stop"] = stop
    requested, named = known.text(semconv.REQUEST_MODEL), known.all.get(semconv.LLM_MODEL)
    if requested or ("model" not in asked and named):
        asked["model"] = requested or str(named)
    tools = [tool.get(semconv.TOOL_JSON_SCHEMA) for tool in known.flat(semconv.LLM_TOOLS)]
    schemas = [orjson.loads(tool) for tool in tools if isinstance(tool, str) and _is_json(tool)]
    if schemas:
        asked["tools"] = schemas
    return asked


def _is_json(text: str) -> bool:
    with suppress(orjson.JSONDecodeError):
        orjson.loads(text)
        return True
    return False


def _tokens(known: Reader) -> dict[str, int | None]:
    names = ("input", "output", "total", "cached", "cache_written", "reasoning")
    return {
        name: known.number(*(table[name] for table in (semconv.LLM_TOKENS, semconv.USAGE, OLD_USAGE) if name in table))
        for name in names
    }


def _first_token(span: WireSpan, known: Reader) -> int | None:
    seconds = known.take(semconv.TIME_TO_FIRST_CHUNK)
    if isinstance(seconds, (int, float)) and seconds >= 0:
        return span.start_ns + round(seconds * 1e9)
    event = next((at_ns for name, at_ns, _ in span.events if name == FIRST_CHUNK_EVENT), None)
    return event if event is not None and event >= span.start_ns else None


def _message(flat: Mapping[str, JSON]) -> JSON:
    """A message that OpenInference flattened."""
    reader = Reader(flat)
    told: dict[str, JSON] = {"role": reader.text(semconv.MESSAGE_ROLE) or "user"}
    contents = [
        {"type": part.get(semconv.CONTENT_TYPE) or "text", **_content(part)}
        for part in reader.flat(semconv.MESSAGE_CONTENTS)
    ]
    told["content"] = contents or reader.text(semconv.MESSAGE_CONTENT) or ""
    calls = [
        {
            "id": call.get(semconv.TOOL_CALL_ID),
            "name": call.get(semconv.TOOL_CALL_NAME),
            "args": Reader(call).json(semconv.TOOL_CALL_ARGUMENTS),
        }
        for call in reader.flat(semconv.MESSAGE_TOOL_CALLS)
    ]
    if calls:
        told["tool_calls"] = calls
    for name, key in ((semconv.MESSAGE_NAME, "name"), (semconv.MESSAGE_TOOL_CALL_ID, "tool_call_id")):
        if value := reader.text(name):
            told[key] = value
    return told


def _content(part: Mapping[str, JSON]) -> dict[str, JSON]:
    return {
        name.removeprefix(f"{semconv.CONTENT}."): value for name, value in part.items() if name != semconv.CONTENT_TYPE
    }


def _parts(messages: JSON) -> list[JSON]:
    """Messages as `gen_ai.*` writes them: a role with parts, of which text and tool calls are told apart."""
    told: list[JSON] = []
    for message in messages if isinstance(messages, list) else [messages]:
        if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
            told.append(message)
            continue
        texts = [
            part.get("content") for part in message["parts"] if isinstance(part, dict) and part.get("type") == "text"
        ]
        calls = [
            {"id": part.get("id"), "name": part.get("name"), "args": part.get("arguments")}
            for part in message["parts"]
            if isinstance(part, dict) and part.get("type") == "tool_call"
        ]
        others = [
            part
            for part in message["parts"]
            if not isinstance(part, dict) or part.get("type") not in ("text", "tool_call")
        ]
        content: JSON = others if others else "".join(str(text) for text in texts)
        told.append({"role": message.get("role"), "content": content, **({"tool_calls": calls} if calls else {})})
    return told


def _document(flat: Mapping[str, JSON]) -> JSON:
    reader = Reader(flat)
    document: dict[str, JSON] = {"page_content": reader.text(semconv.DOCUMENT_CONTENT) or ""}
    document["metadata"] = reader.json(semconv.DOCUMENT_METADATA)
    if (own := reader.text(semconv.DOCUMENT_ID)) is not None:
        document["id"] = own
    return {**document, **{name.removeprefix("document."): value for name, value in reader.left.items()}}


def _with_our_own(record: SpanRecord, known: Reader) -> SpanRecord:
    """What only our own spans tell: how the step ended, its settings by voice, and its phases."""
    state = known.text(semconv.STATE)
    prefix = f"{semconv.SETTING}."
    names = [name for name in known.left if name.startswith(prefix) and not name.endswith(".voice")]
    settings = {
        name.removeprefix(prefix): SettingValue(
            value=known.json(name), voice=cast(Any, known.text(f"{name}.voice") or "requested"), source="otlp"
        )
        for name in names
    }
    return replace(
        record,
        state=cast(State, state) if state in STATES else record.state,
        attempt=known.number(semconv.ATTEMPT) or 1,
        settings={**record.settings, **settings},
        phases=tuple(_our_phases(known)) or record.phases,
        notes=tuple(map(str, notes)) if isinstance(notes := known.take(semconv.NOTES), list) else record.notes,
        server_report=known.json(semconv.SERVER_REPORT),
    )


def _our_phases(known: Reader) -> Iterator[PhaseTiming]:
    prefix = f"{semconv.PHASE}."
    for name in [name for name in known.left if name.startswith(prefix) and name.endswith(".source")]:
        phase = name.removeprefix(prefix).removesuffix(".source")

        def ns(part: str, phase: str = phase) -> int | None:
            seconds = known.take(f"{prefix}{phase}.{part}")
            return round(seconds * 1e9) if isinstance(seconds, (int, float)) else None

        yield PhaseTiming(
            name=phase,
            ns=ns("duration_s"),
            low_ns=ns("low_s"),
            high_ns=ns("high_s"),
            source=cast(Any, known.text(name)),
            method=known.text(f"{prefix}{phase}.method"),
        )


def _metadata(span: WireSpan, known: Reader) -> dict[str, JSON]:
    """The step's own, and every attribute that no table knows; what was derived from another attribute is not told twice."""
    told = known.json(semconv.METADATA)
    derived = ("llm.cost.", "llm.prompt_template.", SERVER if semconv.STATE in known.all else "\0")
    left = {
        name: value for name, value in known.left.items() if not name.startswith(derived) and name != semconv.RUN_ID
    }
    for name in (semconv.SESSION, semconv.USER, semconv.TAGS):
        left.pop(name, None)
    scope = {"otel.scope": span.scope} if span.scope and semconv.STATE not in known.all else {}
    return {**(told if isinstance(told, dict) else {}), **scope, **left}


def _labelled(record: SpanRecord, known: Reader, metadata: dict[str, JSON]) -> SpanRecord:
    session, user, tags = known.text(semconv.SESSION), known.text(semconv.USER), known.take(semconv.TAGS)
    return replace(
        record,
        metadata=metadata,
        session=session or record.session,
        user=user or record.user,
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
    )
