"""Makes a recorded model call again: the model from its settings, the messages from the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from agenttrace.errors import NotReproducible
from agenttrace.records import SpanRecord
from agenttrace.steps import JSON

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "sampling.temperature": ("temperature",),
    "sampling.top_p": ("top_p",),
    "sampling.top_k": ("top_k",),
    "sampling.min_p": ("min_p",),
    "sampling.n": ("n",),
    "sampling.stop": ("stop", "stop_sequences"),
    "sampling.seed": ("seed", "random_seed"),
    "sampling.logit_bias": ("logit_bias",),
    "limits.max_output_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict"),
    "limits.context": ("num_ctx",),
    "reasoning.effort": ("reasoning_effort", "effort"),
    "service_tier": ("service_tier",),
}
"""Dimensions to the names that model classes have for them, the usual one first."""

WITHHELD: Final = ("withheld", "cut")
"""Keys of what a content policy leaves in place of content."""


class RebuiltCall:
    """A recorded model call, ready to be made again. Raises `NotReproducible` where its trace does not hold what it takes."""

    def __init__(self, span: SpanRecord, base_url: str | None = None) -> None:
        self._messages = _messages(span)
        self._is_streamed = _value(span, "delivery.streamed") is True
        self._model = _bound(_model(span, base_url), span)

    def ask(self) -> None:
        """Make the call, in the way it was made: as a stream where it was one. What comes back is in its own trace."""
        if self._is_streamed:
            for _ in self._model.stream(self._messages):
                pass
        else:
            self._model.invoke(self._messages)


def _value(span: SpanRecord, dimension: str) -> JSON:
    setting = span.settings.get(dimension)
    return None if setting is None else setting.value


def _model(span: SpanRecord, base_url: str | None) -> Any:
    name, provider = _value(span, "model.requested"), _value(span, "provider")
    if not isinstance(name, str) or not isinstance(provider, str):
        missing = "model was asked for" if not isinstance(name, str) else "provider it was asked of"
        raise NotReproducible(
            f"Call {span.span_id} ({span.name}) does not say which {missing}. "
            "Only calls of models that init_chat_model knows can be made again; watch(model) has others tell more."
        )
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise NotReproducible("Making a call again needs 'langchain'. Install it: pip install langchain") from error
    where: dict[str, Any] = {} if base_url is None else {"base_url": base_url}
    try:
        kind = type(init_chat_model(model=name, model_provider=provider, **where))
        return init_chat_model(model=name, model_provider=provider, **{**where, **_arguments(span, kind)})
    except Exception as error:  # whatever an integration refuses: its package, its key, its values
        first = (str(error).strip().splitlines() or [""])[0]
        raise NotReproducible(
            f"The model {name} of {provider} cannot be made again: {type(error).__name__}: {first[:300]} "
            "Install its package and set its key as for the run that was recorded."
        ) from error


def _arguments(span: SpanRecord, kind: Any) -> dict[str, Any]:
    """The settings that the class has a field for."""
    fields = kind.model_fields
    known = {*fields, *(field.alias for field in fields.values() if field.alias)}
    arguments: dict[str, Any] = {}
    for dimension, names in FIELDS.items():
        name = next((name for name in names if name in known), None)
        if name is not None and _value(span, dimension) is not None:
            arguments[name] = _value(span, dimension)
    penalties = _value(span, "sampling.penalties")
    if isinstance(penalties, Mapping):
        arguments |= {name: value for name, value in penalties.items() if name in known}
    budget = _value(span, "reasoning.budget")
    if budget is not None and "thinking" in known:
        arguments["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return arguments


def _bound(model: Any, span: SpanRecord) -> Any:
    """The model with the tools and the format that it was asked with."""
    choice, parallel, schema = (_value(span, name) for name in ("tools.choice", "tools.parallel", "output.schema"))
    kwargs = {"tool_choice": choice, "parallel_tool_calls": parallel}
    told = {name: value for name, value in kwargs.items() if value is not None}
    tools = _tools(span)
    if _value(span, "output.format") == "json_schema" and schema is not None:
        told["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif isinstance(_value(span, "output.format"), str):
        told["response_format"] = {"type": _value(span, "output.format")}
    if tools:
        return model.bind_tools(tools, **told)
    return model.bind(**told) if told else model


def _tools(span: SpanRecord) -> list[dict[str, Any]]:
    order = _value(span, "tools.order") or _value(span, "tools.names") or []
    parameters, descriptions = _value(span, "tools.parameters"), _value(span, "tools.descriptions")
    schemas = parameters if isinstance(parameters, Mapping) else {}
    texts = descriptions if isinstance(descriptions, Mapping) else {}
    return [
        {
            "type": "function",
            "function": {
                "name": str(name),
                "description": texts.get(str(name)) or "",
                "parameters": schemas.get(str(name)) or {"type": "object", "properties": {}},
            },
        }
        for name in (order if isinstance(order, (list, tuple)) else ())
    ]


def _messages(span: SpanRecord) -> list[BaseMessage]:
    given = span.input
    if isinstance(given, str):
        raise NotReproducible(
            f"Call {span.span_id} ({span.name}) is one of a text model, and only chat models can be made again from a trace. "
            "Give the suite that it belongs to, with --suite, to repeat its task."
        )
    items = given if isinstance(given, Sequence) else [given]
    messages = [_message(item) for item in items]
    if not messages or any(message is None for message in messages):
        raise NotReproducible(
            f"The messages of call {span.span_id} ({span.name}) were not kept in full. "
            "Record with content='full' and without a payload limit."
        )
    return [message for message in messages if message is not None]


def _message(item: JSON) -> BaseMessage | None:
    """None where it was withheld or cut."""
    if not isinstance(item, Mapping) or "role" not in item or _is_withheld(item):
        return None
    content: Any = item.get("content") or ""
    role = str(item["role"])
    if role == "system":
        return SystemMessage(content)
    if role == "user":
        return HumanMessage(content)
    if role == "assistant":
        calls: Any = item.get("tool_calls") or []
        return AIMessage(content, tool_calls=[dict(call) for call in calls])
    if role == "tool":
        status: Any = item.get("status") or "success"
        return ToolMessage(content, tool_call_id=str(item.get("tool_call_id") or ""), status=status)
    return ChatMessage(content=content, role=role)


def _is_withheld(value: JSON) -> bool:
    if isinstance(value, Mapping):
        return any(key in value for key in WITHHELD) or any(_is_withheld(item) for item in value.values())
    return any(_is_withheld(item) for item in value) if isinstance(value, (list, tuple)) else False
