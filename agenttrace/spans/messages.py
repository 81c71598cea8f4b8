"""Messages and tool definitions as OpenInference flattens them: one attribute a field, with the place in the list in its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import orjson

from agenttrace import semconv
from agenttrace.records import SettingValue
from agenttrace.steps import JSON

Value: TypeAlias = str | int | float | bool | Sequence[str]


def as_text(value: JSON) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def message_attributes(prefix: str, value: JSON) -> Iterator[tuple[str, Value]]:
    """A list of messages, one message, or a text that stands for one."""
    messages = value if isinstance(value, list) else [value]
    for index, message in enumerate(messages):
        if isinstance(message, str):
            message = {"role": "user" if prefix == semconv.LLM_INPUT_MESSAGES else "assistant", "content": message}
        if isinstance(message, Mapping):
            yield from _message(f"{prefix}.{index}.", message)


def tool_attributes(settings: Mapping[str, SettingValue]) -> Iterator[tuple[str, Value]]:
    """The tools that a model was offered, in their order, each as the JSON schema that every provider's is one of."""
    order, parameters, descriptions = (
        settings[name].value if name in settings else None
        for name in ("tools.order", "tools.parameters", "tools.descriptions")
    )
    for index, name in enumerate(order if isinstance(order, list) else ()):
        function = {"name": name}
        for key, known in (("description", descriptions), ("parameters", parameters)):
            if isinstance(known, Mapping) and known.get(str(name)) is not None:
                function[key] = known[str(name)]
        schema = as_text({"type": "function", "function": function})
        yield f"{semconv.LLM_TOOLS}.{index}.{semconv.TOOL_JSON_SCHEMA}", schema


def _message(prefix: str, message: Mapping[str, JSON]) -> Iterator[tuple[str, Value]]:
    yield prefix + semconv.MESSAGE_ROLE, str(message.get("role", ""))
    content = message.get("content")
    parts = [] if content is None or isinstance(content, str) else content if isinstance(content, list) else [content]
    reasoning = message.get("reasoning")
    if reasoning:
        parts = [{"type": "reasoning", "reasoning": reasoning}, *([content] if isinstance(content, str) else parts)]
    flat = [attributes for part in parts if (attributes := dict(_part(part)))]
    if flat:
        for index, attributes in enumerate(flat):
            for key, value in attributes.items():
                yield f"{prefix}{semconv.MESSAGE_CONTENTS}.{index}.{key}", value
    else:
        yield prefix + semconv.MESSAGE_CONTENT, content if isinstance(content, str) else ""
    for source, key in (("name", semconv.MESSAGE_NAME), ("tool_call_id", semconv.MESSAGE_TOOL_CALL_ID)):
        if message.get(source):
            yield prefix + key, str(message[source])
    calls = message.get("tool_calls")
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(call, Mapping):
            start = f"{prefix}{semconv.MESSAGE_TOOL_CALLS}.{number}."
            yield start + semconv.TOOL_CALL_ID, str(call.get("id") or "")
            yield start + semconv.TOOL_CALL_NAME, str(call.get("name") or "")
            yield start + semconv.TOOL_CALL_ARGUMENTS, as_text(call.get("args"))


TOOL_USES = ("tool_use", "tool_call", "function_call", "tool_call_chunk", "input_json_delta")
"""Parts that say again what stands in the message's tool calls."""


def _part(part: JSON) -> Iterator[tuple[str, Value]]:
    """One part of a message's content, as any of the providers spells it; nothing for a repeated tool call."""
    if isinstance(part, str):
        part = {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        yield from _typed("text", semconv.CONTENT_TEXT, as_text(part))
        return
    kind = str(part.get("type", "text"))
    if kind in TOOL_USES:
        return
    if kind in ("reasoning", "thinking", "redacted_thinking", "reasoning_content"):
        yield from _typed("reasoning", semconv.CONTENT_TEXT, _reasoning(part))
        if isinstance(signature := part.get("signature"), str):
            yield semconv.CONTENT_SIGNATURE, signature
        return
    for medium, key in MEDIA.items():
        if kind.startswith(medium) or kind in ALIASES.get(medium, ()):
            yield from _typed(key.partition(".")[0], f"{semconv.CONTENT}.{key}", _address(part, kind))
            return
    text = part.get("text")
    yield from _typed("text", semconv.CONTENT_TEXT, text if isinstance(text, str) else as_text(part))


MEDIA = {
    "image": "image.image.url",
    "audio": "audio.audio.url",
    "video": "video.video.url",
    "file": "document.document.url",
}
ALIASES = {"audio": ("input_audio",), "file": ("document", "input_file"), "image": ("input_image",)}


def _typed(kind: str, key: str, value: str) -> Iterator[tuple[str, Value]]:
    yield semconv.CONTENT_TYPE, kind
    yield key, value


def _reasoning(part: Mapping[str, JSON]) -> str:
    for key in ("reasoning", "thinking", "text", "summary", "data"):
        if part.get(key):
            return as_text(part[key])
    return ""


def _address(part: Mapping[str, JSON], kind: str) -> str:
    """Where a medium is: its URL, or its bytes as a data URL; else the part itself, so that nothing is hidden."""
    held = part.get(kind, part.get("source", part))
    if isinstance(held, str):
        return held
    if isinstance(held, Mapping):
        for key in ("url", "file_id", "image_url", "file_uri"):
            if isinstance(held.get(key), str):
                return str(held[key])
        data = next((held[key] for key in ("base64", "data", "file_data") if isinstance(held.get(key), str)), None)
        if data is not None:
            mime = held.get("mime_type") or held.get("media_type") or held.get("format") or "application/octet-stream"
            return str(data) if str(data).startswith("data:") else f"data:{mime};base64,{data}"
    return as_text(part)
