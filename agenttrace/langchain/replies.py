"""What a model replied, as JSON and back: whole results, the chunks of a stream, and the errors that a model raised.

Nothing is imported or unpickled by what a recording says: an error comes back as its own class only where that is loaded.
"""

from __future__ import annotations

import math
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import BaseMessage, messages_from_dict
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
    Generation,
    GenerationChunk,
    LLMResult,
)

from agenttrace.langchain.messages import plain
from agenttrace.langchain.payloads import error_text
from agenttrace.steps import JSON

BYTES, FLOAT = "@bytes", "@float"


class ReplayedError(Exception):
    """An error that a model raised while it was recorded, of a class that is not loaded here."""


def result_out(result: Any) -> JSON:
    """A `ChatResult`, or the `LLMResult` of a text model."""
    held: dict[str, JSON]
    if isinstance(result, ChatResult):
        held = {"choices": [_generation_out(item) for item in result.generations]}
    else:
        held = {"prompts": [[_generation_out(item) for item in items] for items in result.generations]}
    return {**held, "llm_output": _out(result.llm_output)}


def result_in(held: Any) -> ChatResult | LLMResult:
    output = _in(held["llm_output"])
    if "choices" in held:
        return ChatResult(generations=[_generation_in(item) for item in held["choices"]], llm_output=output)
    return LLMResult(
        generations=[[_generation_in(item) for item in items] for items in held["prompts"]], llm_output=output
    )


def chunk_out(chunk: Any) -> JSON:
    """A chunk of a stream, or an event of one."""
    return {"event": _out(chunk)} if isinstance(chunk, dict) else _generation_out(chunk)


def chunk_in(held: Any) -> Any:
    if "event" in held:
        return _in(held["event"])
    info = _in(held.get("info"))
    if "message" in held:
        return ChatGenerationChunk(message=cast(Any, _message_in(held["message"])), generation_info=info)
    return GenerationChunk(text=held["text"], generation_info=info)


def merged(chunks: Sequence[Any]) -> ChatResult | LLMResult:
    """The whole result of a stream, merged as LangChain merges it."""
    if isinstance(chunks[0], ChatGenerationChunk):
        return generate_from_stream(iter(chunks))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    return LLMResult(generations=[[Generation(text=whole.text, generation_info=whole.generation_info)]])


def _generation_out(item: Generation) -> dict[str, JSON]:
    held: dict[str, JSON] = {} if item.generation_info is None else {"info": _out(item.generation_info)}
    message = getattr(item, "message", None)
    if isinstance(message, BaseMessage):
        data = message.model_dump(exclude_defaults=True)
        if data.get("tool_call_chunks"):  # what LangChain reads out of them it reads again
            data = {key: value for key, value in data.items() if key not in ("tool_calls", "invalid_tool_calls")}
        return {"message": {"type": message.type, "data": _out(data)}, **held}
    return {"text": item.text, **held}


def _generation_in(held: Any) -> Any:
    info = _in(held.get("info"))
    if "message" in held:
        return ChatGeneration(message=_message_in(held["message"]), generation_info=info)
    return Generation(text=held["text"], generation_info=info)


def _message_in(held: Any) -> BaseMessage:
    data = {"content": "", **_in(held["data"])}
    return messages_from_dict([{"type": held["type"], "data": data}])[0]


def _out(value: Any) -> JSON:
    """As JSON, so that `_in` brings back what decides: texts, numbers, bytes, lists and mappings."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {FLOAT: str(float(value))}
    if isinstance(value, (bytes, bytearray)):
        return {BYTES: b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {str(key): _out(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_out(item) for item in value]
    return plain(value)


def _in(held: Any) -> Any:
    if isinstance(held, list):
        return [_in(item) for item in held]
    if isinstance(held, dict):
        if held.keys() == {BYTES}:
            return b64decode(held[BYTES])
        return float(held[FLOAT]) if held.keys() == {FLOAT} else {key: _in(item) for key, item in held.items()}
    return held


def error_out(error: Exception) -> JSON:
    status = getattr(error, "status_code", None)
    return {
        "module": type(error).__module__,
        "name": type(error).__qualname__,
        "text": error_text(error),
        "status": status if isinstance(status, int) else None,
    }


def error_in(held: Any) -> Exception:
    """The error again. Its class and text are the recorded ones; what else it carried is not kept."""
    kind = getattr(sys.modules.get(str(held["module"])), str(held["name"]), None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return ReplayedError(f"{held['name']}: {held['text']}")
    error = kind.__new__(kind)
    error.args = (held["text"],)
    for name, value in {"message": held["text"], "status_code": held["status"], "body": None}.items():
        if value is not None or name == "body":
            setattr(error, name, value)
    return error
