"""When an agent gives up: recursion, timeouts and retries, which decide about outcomes and are in no request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agenttrace.records import SettingValue
from agenttrace.settings.model_object import settings_of_repr
from agenttrace.steps import JSON, ModelCall

NAMES: Mapping[str, tuple[str, ...]] = {
    "timeout_s": ("timeout", "request_timeout", "default_request_timeout"),
    "max_retries": ("max_retries",),
}
"""What each limit is called in model objects."""


def agent_limits(call: ModelCall) -> dict[str, SettingValue]:
    """`agent.limits`, with what is known of them; nothing where none is."""
    limits: dict[str, JSON] = {}
    if call.recursion_limit is not None:
        limits["recursion_limit"] = call.recursion_limit
    for limit, names in NAMES.items():
        value = next(
            (values[name] for values in _objects(call) for name in names if values.get(name) is not None), None
        )
        if isinstance(value, (int, float)):
            limits[limit] = value
    source = "config" if call.recursion_limit is not None else "model object"
    return {"agent.limits": SettingValue(value=limits, voice="requested", source=source)} if limits else {}


def _objects(call: ModelCall) -> Iterator[Mapping[str, JSON]]:
    yield call.watched
    constructor, text = call.serialized.get("kwargs"), call.serialized.get("repr")
    if isinstance(constructor, Mapping):
        yield constructor
    if isinstance(text, str):
        yield settings_of_repr(text)
