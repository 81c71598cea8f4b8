"""A model call as it was asked for, in plain JSON: the class of the model, its parameters, its messages, and where it stands.

What says how a reply is fetched, and not which reply it is, is left out: another port, timeout or key asks for the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import BaseMessage

from agenttrace.digest import digest
from agenttrace.langchain.messages import ROLES, plain
from agenttrace.settings.model_object import OBJECT_KEYS
from agenttrace.steps import EVALUATOR, JSON

NOT_ASKED: Final = frozenset(
    (
        *("stream", "streaming", "stream_options", "stream_usage", "disable_streaming"),
        *("timeout", "request_timeout", "default_request_timeout", "max_retries", "retries"),
        *("base_url", "api_base", "openai_api_base", "anthropic_api_url", "endpoint", "endpoint_url", "host"),
        *("default_headers", "extra_headers", "headers", "http_client", "http_async_client", "client", "async_client"),
        *("verbose", "callbacks", "cache", "rate_limiter", "metadata", "tags", "name", "user", "_type"),
    )
)
"""Parameters that say how a request travels, or whose it is."""

ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of a model. Two are the same where model, parameters and messages are; site and scope say which repetition."""

    model: str
    """The class of the model object: one provider's API."""
    params: JSON
    messages: Sequence[JSON]
    """Of a text model its prompts."""
    site: str
    scope: Mapping[str, JSON]
    """The attempt of a suite that it belongs to: `case`, `repetition`, `try`; empty outside of one."""
    run_id: str | None
    """The run that its step belongs to."""


def request(model: Any, given: Sequence[Any], stop: Any, kwargs: Mapping[str, Any], place: Place) -> Request:
    """What this model object is asked with these messages, or prompts, and call parameters."""
    told = _told(model, stop, kwargs)
    return Request(
        model=type(model).__name__,
        params={key: exact(value) for key, value in told.items() if value is not None and key not in NOT_ASKED},
        messages=[_message(item) if isinstance(item, BaseMessage) else exact(item) for item in given],
        site=place.site,
        scope=scope_of(place.metadata),
        run_id=place.run_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in an agent, and in which run, a model is called."""

    site: str = ""
    metadata: Mapping[str, Any]
    run_id: str | None = None


def scope_of(metadata: Mapping[str, Any]) -> dict[str, JSON]:
    """The attempt that a call belongs to, by its step's metadata; of a judge's call the attempt that is judged."""
    names = ("judged_case", "judged_repetition") if EVALUATOR in metadata else ("case", "repetition", "try")
    found = {name.removeprefix("judged_"): metadata[name] for name in names if metadata.get(name) is not None}
    return {name: value if isinstance(value, int) else str(value) for name, value in found.items()}


def _told(model: Any, stop: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The call's parameters, as LangChain tells them to callbacks, and what else of the object is a setting."""
    describe = getattr(model, "_get_invocation_params", None)
    told = dict(describe(stop=stop, **kwargs)) if describe is not None else {**model.dict(), **kwargs, "stop": stop}
    fields = getattr(type(model), "model_fields", {})
    own = {key: getattr(model, key, None) for key in OBJECT_KEYS if key in fields and key not in told}
    return {**{key: value for key, value in own.items() if not callable(value)}, **told}


def _message(value: BaseMessage) -> JSON:
    """A message as the model is given it. Its id and what a response said of itself are no part of it."""
    fields = value.__dict__
    told = {
        "role": ROLES.get(value.type, value.type),
        "content": fields.get("content"),
        "name": fields.get("name"),
        "tool_calls": [
            {name: call.get(name) for name in ("id", "name", "args")} for call in fields.get("tool_calls") or ()
        ],
        "tool_call_id": fields.get("tool_call_id"),
        "status": "error" if fields.get("status") == "error" else None,
        "function_call": value.additional_kwargs.get("function_call"),
        "reasoning": value.additional_kwargs.get("reasoning_content"),
    }
    return {name: exact(item) for name, item in told.items() if item not in (None, [])}


def exact(value: Any) -> JSON:
    """A value as JSON that differs where the value does: bytes by their digest, an object without its address."""
    if isinstance(value, BaseMessage):
        return _message(value)
    if isinstance(value, Mapping):
        return {str(key): exact(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [exact(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": digest(bytes(value))}
    if value is None or isinstance(value, (str, int, float)):
        return plain(value)
    return _without_address(plain(value))


def _without_address(value: JSON) -> JSON:
    if isinstance(value, str):
        return ADDRESS.sub("", value)
    if isinstance(value, Mapping):
        return {key: _without_address(item) for key, item in value.items()}
    return [_without_address(item) for item in value] if isinstance(value, (list, tuple)) else value
