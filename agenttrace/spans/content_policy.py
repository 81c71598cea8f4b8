"""What a span may hold: inputs, outputs, tool arguments and prompts in full, as hashes, or not at all; redacted and cut.

A withheld value stands as `{"withheld": "hashes", "hash": …, "length": …}` or `{"withheld": "off"}`, a cut one as
`{"cut": its beginning, "hash": …, "length": …}`. Equal values have equal hashes, so that "the same prompt" can be told.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

import orjson

from agenttrace.digest import digest
from agenttrace.records import ErrorRecord, RunRecord, SettingValue, SpanRecord
from agenttrace.spans.redaction import scrub, scrub_text
from agenttrace.steps import JSON

Keep: TypeAlias = Literal["full", "hashes", "off"]
Redact: TypeAlias = Callable[[str], str]

KEEP: tuple[Keep, ...] = ("full", "hashes", "off")
"""From the most to the least."""

CONTENT = ("inputs", "outputs", "arguments", "prompts")

PROMPT_SETTINGS = ("prompt.content", "tools.descriptions", "tools.parameters", "output.schema")
"""Settings whose values are texts sent to the model."""

PRODUCED = ("assistant", "ai", "tool", "function")
"""Roles of messages that a model or a tool produced; every other one is a prompt."""

ROLES = ("user", "human", "system", "developer", "assistant", "ai", "tool", "function")

CALL_ARGUMENTS = ("args", "arguments", "input", "partial_json")
"""Where a tool call keeps its arguments, by whoever wrote it."""

CALL_TYPES = ("tool_use", "tool_call", "function_call", "server_tool_use", "tool_call_chunk", "invalid_tool_call")

FAILED = "[withheld: the redaction function failed]"

KNOWN_MESSAGES = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPolicy:
    """What is kept of content. The default keeps all of it."""

    inputs: Keep = "full"
    """What chains, agents, retrievers and parsers are given."""
    outputs: Keep = "full"
    """What every step returns, the data of its events, and what its error says."""
    arguments: Keep = "full"
    """What tools are called with, wherever a call is told."""
    prompts: Keep = "full"
    """What is sent to a model: system and user messages, wherever they stand, and descriptions of tools."""
    limit: int | None = None
    """Characters of one text, and items of one list, that are kept; None is no limit."""
    redact: Redact | None = None
    """Given every text before it is kept; returns what may be kept of it."""


def strictest(*keeps: Keep) -> Keep:
    return max(keeps, key=KEEP.index)


class ContentFilter:
    """Applies one policy to records, off the agent's thread. `count_error` hears of a redaction that failed."""

    def __init__(self, policy: ContentPolicy, count_error: Callable[[BaseException], None]) -> None:
        self._policy = policy
        self._count_error = count_error
        # The same object for the same message, as it came: its content is hashed once further on.
        self._known: OrderedDict[tuple[int, Keep], tuple[JSON, JSON]] = OrderedDict()

    def span(self, span: SpanRecord) -> SpanRecord:
        """The record as the policy lets it be kept."""
        policy = self._policy
        given: Keep = policy.inputs
        returned: Keep = policy.outputs
        if span.kind in ("model", "embedding"):
            given = policy.prompts
        elif span.kind == "tool":
            given = policy.arguments
        elif span.kind == "prompt":
            given, returned = strictest(policy.inputs, policy.prompts), strictest(policy.outputs, policy.prompts)
        return replace(
            span,
            input=self._value(span.input, given),
            output=self._value(span.output, returned),
            events=tuple(replace(event, data=self._value(event.data, policy.outputs)) for event in span.events),
            error=None if span.error is None else self._error(span.error),
            metadata=self._labels(span.metadata),
            tags=tuple(self._text_only(tag) for tag in span.tags),
            session=None if span.session is None else self._text_only(span.session),
            user=None if span.user is None else self._text_only(span.user),
            settings=self._settings(span.settings),
            server_report=self._value(span.server_report, "full"),
        )

    def run(self, run: RunRecord) -> RunRecord:
        """The run's labels, redacted."""
        return replace(
            run,
            tags=self._labels(run.tags),
            metadata=self._labels(run.metadata),
            session=None if run.session is None else self._text_only(run.session),
            user=None if run.user is None else self._text_only(run.user),
        )

    def _labels(self, labels: Mapping[str, JSON]) -> Mapping[str, JSON]:
        return cast(Mapping[str, JSON], self._value(labels, "full"))

    def _error(self, error: ErrorRecord) -> ErrorRecord:
        keep = self._policy.outputs
        text = self._text_only(error.message)
        if keep == "full":
            return replace(error, message=text)
        return replace(error, message=f"[withheld: {_hash(text)}]" if keep == "hashes" else "[withheld]")

    def _settings(self, settings: Mapping[str, SettingValue]) -> Mapping[str, SettingValue]:
        kept: dict[str, SettingValue] = {}
        for dimension, setting in settings.items():
            keep = self._policy.prompts if dimension in PROMPT_SETTINGS and setting.value is not None else "full"
            if keep == "off":
                continue  # not known is not equal: two runs without it are not called the same
            value = self._value(setting.value, "full", whole=True)
            kept[dimension] = replace(setting, value=value if keep == "full" else f"hash:{_hash(value)}")
        return kept

    def _value(self, value: JSON, keep: Keep, *, whole: bool = False) -> JSON:
        """`whole`: redacted, never cut, since it is compared."""
        if value is None:
            return None
        if isinstance(value, str):
            return self._text(value, whole=whole) if keep == "full" else self._withheld(value, keep)
        if isinstance(value, Mapping):
            return self._mapping(value, keep, whole=whole)
        if isinstance(value, Sequence):
            if _is_pair(value):
                return [value[0], self._value(value[1], strictest(keep, self._by_role(value[0])))]
            if keep != "full" and not _tells_messages(value):
                return self._withheld(value, keep)
            return self._items(value, keep, whole=whole)
        return value if keep == "full" else self._withheld(value, keep)

    def _items(self, items: Sequence[JSON], keep: Keep, *, whole: bool) -> JSON:
        limit = self._policy.limit
        if limit is not None and len(items) > limit and not whole:
            kept = [self._value(item, keep) for item in items[:limit]]
            return {"cut": kept, "hash": _hash(items), "length": len(items)}
        return [self._value(item, keep, whole=whole) for item in items]

    def _mapping(self, value: Mapping[str, JSON], keep: Keep, *, whole: bool) -> JSON:
        if "role" in value and "content" in value:
            return self._message(value, keep)
        is_call = value.get("type") in CALL_TYPES or ("name" in value and ("args" in value or "arguments" in value))
        if keep != "full" and not is_call and not any(_tells_messages(item) for item in value.values()):
            return self._withheld(value, keep)
        arguments = strictest(keep, self._policy.arguments) if is_call else keep
        return {
            self._text_only(key): item
            if keep != "full" and is_call and key in ("id", "name", "type")
            else self._value(item, arguments if key in CALL_ARGUMENTS else keep, whole=whole)
            for key, item in value.items()
        }

    def _message(self, message: Mapping[str, JSON], keep: Keep) -> JSON:
        """A message counts as what it is as well as for where it stands."""
        known = self._known.get((id(message), keep))
        if known is not None:
            return known[1]
        role = message["role"]
        own = strictest(keep, self._by_role(role))
        arguments = strictest(own, self._policy.arguments)
        kept: dict[str, JSON] = {}
        for key, item in message.items():
            if key in ("tool_calls", "invalid_tool_calls") and isinstance(item, Sequence) and not isinstance(item, str):
                kept[key] = [
                    {
                        name: self._value(part, arguments if name in (*CALL_ARGUMENTS, "error") else "full")
                        for name, part in call.items()
                    }
                    if isinstance(call, Mapping)
                    else self._value(call, arguments)
                    for call in item
                ]
            else:
                kept[key] = item if key in ("role", "tool_call_id", "status") else self._value(item, own)
        self._known[id(message), keep] = (message, kept)
        if len(self._known) > KNOWN_MESSAGES:
            self._known.popitem(last=False)
        return kept

    def _by_role(self, role: JSON) -> Keep:
        return self._policy.outputs if role in PRODUCED else self._policy.prompts

    def _text(self, text: str, *, whole: bool = False) -> JSON:
        text = self._text_only(text)
        limit = self._policy.limit
        if limit is None or len(text) <= limit or whole:
            return text
        # Secrets first: half a key is no longer known for one.
        return {"cut": scrub_text(text)[:limit], "hash": _hash(text), "length": len(text)}

    def _text_only(self, text: str) -> str:
        redact = self._policy.redact
        if redact is None:
            return text
        try:
            redacted = redact(text)
            if isinstance(redacted, str):
                redacted.encode()
                return redacted
            raise TypeError(f"the redaction function returned {type(redacted).__name__}, not a text")
        except Exception as error:
            # Its own text may repeat what it was given.
            self._count_error(TypeError(f"the redaction function failed with {type(error).__name__}"))
            return FAILED

    def _withheld(self, value: JSON, keep: Keep) -> JSON:
        if keep == "off":
            return {"withheld": "off"}
        whole = self._value(value, "full", whole=True) if self._policy.redact is not None else value
        return {"withheld": "hashes", "hash": _hash(whole), "length": len(_body(whole))}


def _tells_messages(value: JSON) -> bool:
    """Whether a list, or the list below a key, holds messages: then its shape stays, and they are withheld one by one."""
    if isinstance(value, Mapping):
        return "role" in value and "content" in value
    if isinstance(value, str) or not isinstance(value, Sequence):
        return False
    return bool(value) and all(
        (isinstance(item, Mapping) and "role" in item and "content" in item) or _is_pair(item) for item in value
    )


def _is_pair(value: JSON) -> bool:
    """Whether this is a message as LangChain also takes it: its role and its text."""
    return isinstance(value, (list, tuple)) and len(value) == 2 and value[0] in ROLES and isinstance(value[1], str)


def _body(value: JSON) -> bytes:
    return value.encode() if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _hash(value: JSON) -> str:
    """Over the value without its secrets: the text itself, or its JSON with sorted keys."""
    return digest(_body(scrub(value)))
