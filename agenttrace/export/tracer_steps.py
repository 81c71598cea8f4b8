"""A step that another tracer recorded, in our words, and what it becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

from agenttrace.errors import InvalidRecord
from agenttrace.export.json_fields import MAX_INTEGER
from agenttrace.langchain.open_steps import call_site
from agenttrace.steps import JSON, ChainStep, Kind, ModelCall, State, Step, ToolCall

HEX: Final = re.compile(r"[0-9a-f]+")

ROLES: Mapping[str, str] = {
    "human": "user",
    "HumanMessage": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
}

CANCELLED = ("CancelledError", "KeyboardInterrupt")
INTERRUPTED = ("GraphInterrupt",)


@dataclass(slots=True)
class Facts:
    """What either tracer tells of a step, in our words."""

    id: str
    trace: str
    parent: str | None
    kind: Kind
    name: str
    start_ns: int
    end_ns: int | None
    input: JSON
    output: JSON
    metadata: Mapping[str, JSON]
    tags: tuple[str, ...] = ()
    error: str | None = None
    params: Mapping[str, JSON] | None = None
    """Of a model call, what was asked for."""
    tells_all: bool = True
    """Whether what `params` does not name was not asked for."""
    response: Mapping[str, JSON] | None = None
    tokens: Mapping[str, int | None] | None = None
    first_token_ns: int | None = None
    prompt_label: str | None = None
    call_id: str | None = None
    """Of a tool, the call that it answers."""


@dataclass(slots=True)
class Node:
    """A step of the file, which may stand before the one that contains it."""

    facts: Facts

    @property
    def id(self) -> str:
        return self.facts.id


@dataclass(frozen=True, slots=True)
class Place:
    """A step's name, and what is above it."""

    name: str
    parent: Place | None


def step_of(node: Node, nodes: Mapping[str, Node], run_id: str) -> Step:
    facts = node.facts
    parent = nodes.get(facts.parent) if facts.parent else None
    error_type, message = _error(facts.error)
    common: dict[str, Any] = {
        "trace_id": int(_digest(facts.trace, 32), 16),
        "span_id": int(_digest(facts.id, 16), 16),
        "parent_id": None if parent is None else int(_digest(parent.id, 16), 16),
        "run_id": run_id,
        "kind": facts.kind if facts.kind != "chain" or parent is not None else "agent",
        "name": facts.name,
        "state": _state(facts, error_type),
        "start_ns": facts.start_ns,
        "end_ns": None if facts.end_ns is None else max(facts.end_ns, facts.start_ns),
        "call_site": call_site(facts.metadata, _above(node, nodes)),
        "input": facts.input,
        "output": facts.output,
        "metadata": facts.metadata,
        "tags": facts.tags,
        "error_type": error_type,
        "error_message": message,
        "is_root": parent is None,
    }
    if facts.kind == "model":
        return ModelCall(
            **common,
            params=facts.params or {} if facts.tells_all else {},
            serialized={} if facts.tells_all else {"kwargs": facts.params},
            response=facts.response or {},
            tokens=facts.tokens or {},
            finish_reason=text_or_none((facts.response or {}).get("finish_reason")),
            prompt_label=facts.prompt_label,
            is_streamed=facts.first_token_ns is not None,
            first_content_ns=facts.first_token_ns,
        )
    return ToolCall(**common, tool_call_id=facts.call_id) if facts.kind == "tool" else ChainStep(**common)


def _above(node: Node, nodes: Mapping[str, Node]) -> Place | None:
    """What a step stands below. Parents come from the file, so they may go round in a circle."""
    chain: list[Node] = []
    seen = {node.id}
    while (above := nodes.get((chain or [node])[-1].facts.parent or "")) is not None and above.id not in seen:
        seen.add(above.id)
        chain.append(above)
    place: Place | None = None
    for above in reversed(chain):
        place = Place(above.facts.name, place)
    return place


def _state(facts: Facts, error_type: str | None) -> State:
    if error_type is None:
        return "unfinished" if facts.end_ns is None else "ok"
    if error_type in CANCELLED:
        return "cancelled"
    return "interrupted" if error_type in INTERRUPTED else "error"


def _error(text: str | None) -> tuple[str | None, str | None]:
    """Type and message of an error that is told as the `repr` of an exception, with its traceback or without."""
    if not text:
        return None, None
    first = re.split(r"Traceback \(most recent call last\)", text, maxsplit=1)[0].strip() or text
    told = re.match(r"([A-Za-z_][\w.]*)\((.*)\)$", first, re.DOTALL) or re.match(
        r"([A-Za-z_][\w.]*Error): (.*)$", first, re.DOTALL
    )
    if told is None:
        return "Error", first
    return told[1].rpartition(".")[2], told[2].strip("'\"")


def _digest(text: str, digits: int) -> str:
    """An id of ours: theirs where it has the form, else made from it, so that a second import finds the first."""
    plain = text.replace("-", "").lower()
    if len(plain) == digits and HEX.fullmatch(plain) and int(plain, 16):
        return plain
    return blake2b(text.encode("utf-8", "replace"), digest_size=digits // 2).hexdigest()


def moment(value: object) -> int | None:
    """Nanoseconds since 1970 of a time as ISO 8601 writes it; one without a zone is UTC."""
    if value is None:
        return None
    at = datetime.fromisoformat(str(value))
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    at_ns = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1_000
    if not 0 <= at_ns <= MAX_INTEGER:
        raise InvalidRecord(f"{value} is no time between 1970 and 2262")
    return at_ns


def start_moment(value: object) -> int:
    at_ns = moment(value)
    if at_ns is None:
        raise InvalidRecord("it does not tell when it began")
    return at_ns


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a message, as LangChain serialises it or plain."""
    if not isinstance(value, dict):
        return {}
    return value["kwargs"] if value.get("lc") and isinstance(value.get("kwargs"), dict) else value


def plain_content(value: Any) -> JSON:
    """What a step took or gave, with LangChain's messages and documents as we keep them."""
    if isinstance(value, list):
        return [plain_content(item) for item in value]
    if not isinstance(value, dict):
        return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
    fields = fields_of(value)
    kind = fields.get("type") if isinstance(fields.get("type"), str) else None
    if value.get("lc") and kind is None and isinstance(value.get("id"), list) and value["id"]:
        kind = str(value["id"][-1])
    if "content" in fields and (kind in ROLES or kind in ROLES.values()):
        return _message(fields, str(kind))
    return {str(key): plain_content(held) for key, held in fields.items()}


def _message(fields: Mapping[str, Any], kind: str) -> JSON:
    told: dict[str, JSON] = {"role": ROLES.get(kind, kind), "content": plain_content(fields.get("content"))}
    if fields.get("name"):
        told["name"] = str(fields["name"])
    if fields.get("tool_calls"):
        told["tool_calls"] = [
            {"id": call.get("id"), "name": call.get("name"), "args": plain_content(call.get("args"))}
            for call in fields["tool_calls"]
        ]
    if fields.get("tool_call_id"):
        told["tool_call_id"] = str(fields["tool_call_id"])
    if fields.get("status") == "error":
        told["status"] = "error"
    return told


def token_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def text_or_none(value: object) -> str | None:
    return None if value is None or value == "" else str(value)
