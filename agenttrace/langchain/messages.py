"""LangChain's objects to plain JSON: messages, documents, generations, and whatever else travels through a chain.

Runs off the agent's thread. `Any` is at home here: what comes in is not ours. Nothing that comes in can make it raise.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import math
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import Any, cast

import orjson
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from agenttrace.steps import JSON

ROLES = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
}
"""LangChain's type to the role models know; a streamed answer and a whole one are the same message."""

MAX_DEPTH = 24
QUICK_DEPTH = 2
"""How deep a value is tried as a whole before it is walked: each failed try costs its length."""
MAX_REPR = 2_000
KNOWN_MESSAGES = 8_192
KNOWN_LISTS = 64
LOOKED_AT = 4
"""How many messages at the end of a known list are looked at again; one further up that is changed in place is not noticed."""

_rendered: OrderedDict[int, tuple[weakref.ref[BaseMessage], object, object, JSON]] = OrderedDict()


def message(value: BaseMessage) -> JSON:
    """A message as JSON; the same object for the same message, so that its content is hashed once.

    The message's own id is left out: frameworks set it in place after the message was first seen.
    """
    known = _rendered.get(id(value))
    fields = value.__dict__  # `getattr` goes a long way where a pydantic model has no such field
    content, calls = fields.get("content"), fields.get("tool_calls")
    if known is not None and known[0]() is value and known[1] is content and known[2] is calls:
        return known[3]
    plainly = _render(value)
    _rendered[id(value)] = (weakref.ref(value), content, calls, plainly)
    if len(_rendered) > KNOWN_MESSAGES:
        _rendered.popitem(last=False)
    return plainly


_lists: OrderedDict[int, tuple[list[Any], list[JSON]]] = OrderedDict()  # by the first message's id


def _conversation(values: Sequence[Any], depth: int) -> list[JSON]:
    """A list that begins with a message. One that grew since it was last seen is rendered from there on."""
    known, plainly = _lists.get(id(values[0]), ([], []))
    kept = 0
    if len(known) <= len(values) and all(map(is_, known, values)):
        kept = max(len(known) - LOOKED_AT, 0)
    result = plainly[:kept] + [plain(value, depth) for value in values[kept:]]
    _lists[id(values[0])] = (list(values), result)
    if len(_lists) > KNOWN_LISTS:
        _lists.popitem(last=False)
    return result


@lru_cache(maxsize=1_024)
def _is_message(kind: type) -> bool:
    """Asked of every value; messages belong to an abstract class, which takes its time to answer."""
    return issubclass(kind, BaseMessage)


def _render(value: BaseMessage) -> JSON:
    result: dict[str, JSON] = {"role": ROLES.get(value.type, value.type), "content": plain(value.content)}
    if value.name:
        result["name"] = value.name
    fields = value.__dict__
    calls = fields.get("tool_calls")
    if calls:
        result["tool_calls"] = [
            {"id": call.get("id"), "name": call.get("name"), "args": plain(call.get("args"))} for call in calls
        ]
    for key in ("invalid_tool_calls", "tool_call_id"):
        if fields.get(key):
            result[key] = plain(fields[key])
    if fields.get("status") == "error":
        result["status"] = "error"
    reasoning = value.additional_kwargs.get("reasoning_content")
    if reasoning:
        result["reasoning"] = plain(reasoning)
    return result


def plain(value: Any, depth: int = 0) -> JSON:
    """Any object as JSON. What has no JSON form is kept as its type and the beginning of its `repr`."""
    kind: Any = type(value)
    try:
        if _is_message(kind):
            return message(value)
        if value is None or value is True or value is False:
            return cast(JSON, value)
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, int):
            return int(value) if -(1 << 63) <= value < 1 << 64 else str(int(value))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(value)
        if depth > MAX_DEPTH:
            return {"cut": "nested too deeply", "type": kind.__name__}
        return _structure(value, depth + 1)
    except Exception as error:  # an object whose own methods raise is recorded as such
        return {"unreadable": kind.__name__, "because": type(error).__name__}


PLAIN = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def _copied(value: Any) -> JSON:
    """A copy of what is JSON as it stands, several times faster than a walk; None where it is not."""
    try:
        body = orjson.dumps(value, option=PLAIN)
    except TypeError:
        return None
    copy: JSON = orjson.loads(body)
    return copy if b"null" not in body or copy == value else None  # NaN too is written as null


def _is_plain(value: Any) -> bool:
    """Whether it is JSON as it stands: asked of every item, so it looks at types and at nothing else."""
    kind = type(value)
    return (kind is str and value.isascii()) or kind in _SCALARS


_SCALARS = (bool, type(None))


def _text(value: str) -> str:
    text = str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form; its escape is readable and says what it was
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def _structure(value: Any, depth: int) -> JSON:
    if depth <= QUICK_DEPTH and type(value) is dict and "messages" not in value and (copied := _copied(value)):
        return copied
    if isinstance(value, dict):
        return {
            key if type(key) is str and key.isascii() else _text(str(key)): item
            if _is_plain(item)
            else plain(item, depth)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], BaseMessage):
        return _conversation(value, depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [item if _is_plain(item) else plain(item, depth) for item in value]
    if isinstance(value, Mapping):
        return plain(dict(value), depth)
    if isinstance(value, Document):
        return {"page_content": _text(value.page_content), "metadata": plain(value.metadata, depth), "id": value.id}
    if isinstance(value, enum.Enum):
        return plain(value.value, depth)
    if isinstance(value, (datetime.datetime, datetime.date, uuid.UUID)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": len(value)}
    if isinstance(value, type):
        return _class(value)
    if dataclasses.is_dataclass(value):
        return {item.name: plain(getattr(value, item.name), depth) for item in dataclasses.fields(value)}
    fields = getattr(type(value), "model_fields", None)  # pydantic
    if isinstance(fields, dict):
        return {name: plain(getattr(value, name, None), depth) for name in fields}
    if type(value).__name__ == "Send":  # LangGraph's: where a branch goes, and with what
        return {"node": plain(value.node, depth), "arg": plain(value.arg, depth)}
    text = repr(value)
    return {"type": type(value).__name__, "repr": _text(text[:MAX_REPR])}


def _class(value: type) -> JSON:
    """A class given as data, like a structured output: its JSON schema where it has one."""
    schema = getattr(value, "model_json_schema", None)
    return plain(schema()) if callable(schema) else {"class": value.__qualname__}


def generations(held: Sequence[BaseMessage | str]) -> JSON:
    """The output of a model call: one message (or text), or a list where several were asked for; None where none came."""
    outputs = [plain(one) for one in held]
    return outputs[0] if len(outputs) == 1 else outputs or None
