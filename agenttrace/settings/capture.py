"""Reads the settings of one model call from what was requested, sent and served, into the dimensions of D7.

Four sources, the later ones only where the earlier ones are silent: the wire (what left this machine), the framework's call
parameters, its `ls_*` metadata, and the model object as the framework serialises it. A dimension that is not in the
result is unknown; one whose value is None is known to be unset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from agenttrace.records import SettingValue, Voice
from agenttrace.settings.implementations import implementations
from agenttrace.settings.limits import agent_limits
from agenttrace.settings.model_object import settings_of_repr
from agenttrace.settings.prompts import prompt_settings
from agenttrace.settings.tools import tool_settings
from agenttrace.steps import JSON, ModelCall

PATHS: Mapping[str, tuple[str, ...]] = {
    "sampling.temperature": (
        "temperature",
        "options.temperature",
        "pipeline_kwargs.temperature",
        "generationConfig.temperature",
        "inferenceConfig.temperature",
    ),
    "sampling.top_p": (
        "top_p",
        "options.top_p",
        "pipeline_kwargs.top_p",
        "generationConfig.topP",
        "inferenceConfig.topP",
    ),
    "sampling.top_k": ("top_k", "options.top_k", "pipeline_kwargs.top_k", "generationConfig.topK", "extra_body.top_k"),
    "sampling.min_p": ("min_p", "options.min_p", "pipeline_kwargs.min_p", "extra_body.min_p"),
    "sampling.n": ("n", "generationConfig.candidateCount"),
    "sampling.stop": (
        "stop",
        "stop_sequences",
        "options.stop",
        "generationConfig.stopSequences",
        "inferenceConfig.stopSequences",
    ),
    "sampling.logit_bias": ("logit_bias",),
    "sampling.seed": ("seed", "random_seed", "options.seed", "generationConfig.seed"),
    "limits.max_output_tokens": (
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "options.num_predict",
        "num_predict",
        "generationConfig.maxOutputTokens",
        "inferenceConfig.maxTokens",
        "max_new_tokens",
        "pipeline_kwargs.max_new_tokens",
    ),
    "limits.context": ("options.num_ctx", "num_ctx"),
    "reasoning.effort": ("reasoning_effort", "reasoning.effort", "output_config.effort", "think", "reasoning"),
    "reasoning.budget": ("thinking.budget_tokens", "generationConfig.thinkingConfig.thinkingBudget"),
    "tools.choice": ("tool_choice", "toolConfig.functionCallingConfig.mode", "toolConfig.toolChoice"),
    "tools.parallel": ("parallel_tool_calls",),
    "service_tier": ("service_tier",),
}
"""Where each dimension stands in the request of one provider or another; `a.b` is a key within a key."""

PENALTIES = (
    "presence_penalty",
    "frequency_penalty",
    "repeat_penalty",
    "repetition_penalty",
    "presencePenalty",
    "frequencyPenalty",
    "do_sample",
    "num_beams",
)
"""What else decides about the next token; the last two only engines inside the process have."""

HOLDERS = ("", "options.", "pipeline_kwargs.", "generationConfig.")
"""Where penalties stand."""

OBJECTS = ("logit_bias",)
"""Paths whose value is an object; at all others an object holds something else."""

UNDESCRIBED = ("model_id", "model_kwargs", "pipeline_kwargs")
"""Parameters of a local pipeline, which has settings of its own beside them."""

APIS: Mapping[str, str] = {
    "/chat/completions": "openai.chat",
    "/completions": "openai.completions",
    "/responses": "openai.responses",
    "/messages": "anthropic.messages",
    "/api/chat": "ollama.chat",
    "/api/generate": "ollama.generate",
    ":generateContent": "google.generate",
    ":streamGenerateContent": "google.generate",
    "/converse": "bedrock.converse",
    "/converse-stream": "bedrock.converse",
}
"""The end of a request's path to the name of the API."""


@dataclass(frozen=True, slots=True)
class Source:
    """One place where settings are read."""

    name: str
    voice: Voice
    values: Mapping[str, JSON]
    is_complete: bool = False
    """Whether what it does not name is unset; otherwise it is unknown."""
    tells_unset: bool = False
    """Whether what it names without a value is unset."""


def read_settings(call: ModelCall) -> tuple[dict[str, SettingValue], tuple[str, ...]]:
    """Every dimension of D7 that is known of this call, and what was asked for and dropped on the way."""
    sources = tuple(_sources(call))
    asked, notes = _asked(sources)
    settings = {**asked, **dict(_identity(call, sources)), **prompt_settings(call), **agent_limits(call)}
    if call.is_replayed:
        settings["replay"] = SettingValue(value=True, voice="served", source="recording")
    names = asked["tools.names"].value if "tools.names" in asked else None
    known = implementations(str(name) for name in names) if isinstance(names, list) else {}
    if known:
        settings["tools.implementation"] = SettingValue(value=known, voice="requested", source="model object")
    return settings, notes


_known: dict[bytes, tuple[dict[str, SettingValue], tuple[str, ...]]] = {}
KNOWN_REQUESTS = 256
"""How many requests' settings are remembered: an agent asks in the same few ways again and again."""


def _asked(sources: tuple[Source, ...]) -> tuple[dict[str, SettingValue], tuple[str, ...]]:
    """What was asked for, as far as it does not change from call to call. Read once for the same sources."""
    key = orjson.dumps([(source.name, source.values, source.is_complete) for source in sources])
    known = _known.get(key)
    if known is None:
        settings: dict[str, SettingValue] = {}
        for dimension, paths in PATHS.items():
            found = _first(sources, paths)
            if found is not None:
                settings[dimension] = found
        settings |= _penalties(sources)
        settings |= _output(sources)
        settings |= tool_settings(_tools(sources))
        if len(_known) >= KNOWN_REQUESTS:
            _known.clear()
        known = _known[key] = settings, tuple(_not_sent(sources))
    return known


def _not_sent(sources: Sequence[Source]) -> Iterator[str]:
    """What was requested and is not in the request: frameworks drop what they think that a model does not take."""
    if not sources or sources[0].voice != "sent" or not sources[0].is_complete:
        return
    for dimension, paths in PATHS.items():
        requested = _first(sources[1:], paths)
        sent = _first(sources[:1], paths)
        if requested is not None and requested.value is not None and sent is not None and sent.value is None:
            yield f"{dimension} was requested ({requested.value}, {requested.source}) and not sent"


def _sources(call: ModelCall) -> Iterator[Source]:
    sent = call.attempts[-1].sent_settings if call.attempts else {}
    if sent:
        # Of a request of a kind that is not known, what it does not name may stand where nobody looked.
        yield Source("wire", "sent", sent, is_complete=_api(call.attempts[-1].path) is not None)
    if call.params:
        # Models that do not describe themselves name their type, stop words and tools, and nothing else.
        blind = set(call.params) <= {
            "_type",
            "stop",
            "tools",
            "tool_choice",
            "model",
            "model_name",
            "format",
            *UNDESCRIBED,
        }
        yield Source("invocation_params", "requested", call.params, is_complete=not blind)
    metadata = {key.removeprefix("ls_"): value for key, value in call.metadata.items() if key.startswith("ls_")}
    yield Source("metadata", "requested", metadata)
    if call.watched:
        yield Source("model object", "requested", call.watched, tells_unset=True)
    constructor, text = call.serialized.get("kwargs"), call.serialized.get("repr")
    if isinstance(constructor, Mapping):
        yield Source("serialized", "requested", constructor)
    if isinstance(text, str):
        yield Source("repr", "requested", settings_of_repr(text))


def _first(sources: Sequence[Source], paths: Sequence[str]) -> SettingValue | None:
    """The value at the first of `paths` in the first source that has one; unset if a source that would know has none."""
    for source in sources:
        for path in paths:
            value = _at(source.values, path)
            if value is not None and (not isinstance(value, Mapping) or path in OBJECTS):
                return SettingValue(value=value, voice=source.voice, source=source.name)
        if source.is_complete or (source.tells_unset and any(path in source.values for path in paths)):
            return SettingValue(value=None, voice=source.voice, source=source.name)
    return None


def _at(values: Mapping[str, JSON], path: str) -> JSON:
    if "." not in path:
        return values.get(path)
    value: JSON = values
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _identity(call: ModelCall, sources: Sequence[Source]) -> Iterator[tuple[str, SettingValue]]:
    """Which model, of whom, through which API, and how it was delivered."""
    # After `.bind(model=…)` the parameters hold the new name under `model` and the old one under `model_name`.
    asked = {
        "wire": ("model",),
        "metadata": ("model_name",),
        "invocation_params": ("model", "model_name", "model_id"),
        "serialized": ("model", "model_name"),
    }
    by_name = {source.name: source for source in sources}
    for source, key in ((by_name[name], key) for name, keys in asked.items() if name in by_name for key in keys):
        name = source.values.get(key)
        if isinstance(name, str) and name:
            yield "model.requested", SettingValue(value=name, voice=source.voice, source=source.name)
            break
    yield from _served(call)
    provider = call.metadata.get("ls_provider")
    if isinstance(provider, str):
        yield "provider", SettingValue(value=provider, voice="requested", source="metadata")
    if call.attempts:
        attempt = call.attempts[-1]
        api = _api(attempt.path)
        if api:
            yield "api", SettingValue(value=api, voice="sent", source="wire")
        yield "endpoint", SettingValue(value=_endpoint(attempt.host), voice="sent", source="wire")
        # Ollama streams unless told not to; Google and Bedrock have a path of its own for it; the others stream when told to.
        by_path = "streamGenerateContent" in attempt.path or attempt.path.endswith("/converse-stream")
        streamed = attempt.sent_settings.get("stream", by_path or (api is not None and api.startswith("ollama")))
        if attempt.sent_settings:
            yield "delivery.streamed", SettingValue(value=bool(streamed), voice="sent", source="wire")
    elif call.is_streamed:
        yield "delivery.streamed", SettingValue(value=True, voice="served", source="callbacks")


def _api(path: str) -> str | None:
    return next((name for end, name in APIS.items() if path.split("?")[0].endswith(end)), None)


def _endpoint(host: str) -> str:
    """The host that answers; on this machine without its port, which is another one at each start."""
    name, _, port = host.rpartition(":")
    return name if port.isdecimal() and name in ("127.0.0.1", "localhost", "[::1]") else host


def _served(call: ModelCall) -> Iterator[tuple[str, SettingValue]]:
    report = call.attempts[-1].report if call.attempts else {}
    asked = {call.params.get("model"), call.params.get("model_name"), call.metadata.get("ls_model_name")}
    for source, values in (("wire", report), ("response", call.response)):
        name = next((values[key] for key in ("model", "modelVersion", "model_name") if values.get(key)), None)
        # Integrations fill in the name that was asked for where the server says none: that is an echo, and no answer.
        if isinstance(name, str) and (source == "wire" or name not in asked):
            yield "model.served", SettingValue(value=name, voice="served", source=source)
            break
    fingerprint = report.get("system_fingerprint") or call.response.get("system_fingerprint")
    if isinstance(fingerprint, str):
        yield "model.fingerprint", SettingValue(value=fingerprint, voice="served", source="response")


def _penalties(sources: Sequence[Source]) -> dict[str, SettingValue]:
    for source in sources:
        found = {
            key: value
            for key in PENALTIES
            if (
                value := next(
                    (found for place in HOLDERS if (found := _at(source.values, place + key)) is not None), None
                )
            )
            is not None
        }
        if found or source.is_complete:
            return {"sampling.penalties": SettingValue(value=found or None, voice=source.voice, source=source.name)}
    return {}


def _output(sources: Sequence[Source]) -> dict[str, SettingValue]:
    """The format that was asked for and the schema it must follow."""
    for source in sources:
        asked = _asked_format(source.values)
        if asked is not None:
            kind, schema = _format(asked)
            return {
                "output.format": SettingValue(value=kind, voice=source.voice, source=source.name),
                "output.schema": SettingValue(value=schema, voice=source.voice, source=source.name),
            }
        if source.is_complete:
            unset = SettingValue(value=None, voice=source.voice, source=source.name)
            return {"output.format": unset, "output.schema": unset}
    return {}


def _asked_format(values: Mapping[str, JSON]) -> JSON:
    for path in ("response_format", "format", "text.format", "output_config.format"):
        if _at(values, path):
            return _at(values, path)
    kind = _at(values, "generationConfig.responseMimeType")
    schema = _at(values, "generationConfig.responseJsonSchema") or _at(values, "generationConfig.responseSchema")
    return {"type": kind, "schema": schema} if kind or schema else None


def _format(asked: JSON) -> tuple[str, JSON]:
    if isinstance(asked, str):
        return asked, None
    if isinstance(asked, Mapping):
        schema = asked.get("json_schema") or asked.get("schema")
        if schema is None and "type" in asked and "properties" in asked:
            return "json_schema", asked  # Ollama takes the schema itself
        return str(asked.get("type", "json_schema")), schema
    return type(asked).__name__, None


def _tools(sources: Sequence[Source]) -> tuple[Source, JSON] | None:
    for source in sources:
        tools = source.values.get("tools") or _at(source.values, "toolConfig.tools")
        if tools is not None or source.is_complete:
            return source, tools
    return None
