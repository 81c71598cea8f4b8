"""Tool definitions of a model call, told apart into names, parameters, descriptions and order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from agenttrace.records import SettingValue, Voice
from agenttrace.settings.implementations import implementations
from agenttrace.steps import JSON, ToolCall

SCHEMAS = ("parameters", "parametersJsonSchema", "parameters_json_schema", "input_schema", "inputSchema", "args_schema")
"""Where the schema of a tool's parameters stands, in one provider's shape or another."""


DEFINITIONS = ("$defs", "definitions")
"""Where a schema keeps what it refers to."""


class Spoken(Protocol):
    """Who said it: a voice and the place it was read."""

    @property
    def voice(self) -> Voice: ...
    @property
    def name(self) -> str: ...


def tool_settings(found: tuple[Spoken, JSON] | None) -> dict[str, SettingValue]:
    """`tools.*` from a request's tool definitions; empty when no source would have named them."""
    if found is None:
        return {}
    source, definitions = found
    tools = list(_tools(definitions))
    values: dict[str, JSON] = {
        "tools.names": sorted(name for name, _, _ in tools) or None,
        "tools.parameters": {name: canonical_schema(schema) for name, _, schema in tools} or None,
        "tools.descriptions": {name: description for name, description, _ in tools} or None,
        "tools.order": [name for name, _, _ in tools] or None,
    }
    return {key: SettingValue(value=value, voice=source.voice, source=source.name) for key, value in values.items()}


def run_tool_settings(call: ToolCall) -> dict[str, SettingValue]:
    """`tools.*` of the one tool that ran; what `watch` was told of its implementation wins."""
    watched = implementations([call.name]).get(call.name)
    told = {**call.definition, **({} if watched is None else {"implementation": watched})}
    return {
        f"tools.{dimension}": SettingValue(value={call.name: told[key]}, voice="requested", source="tool object")
        for dimension, key in RUN_TOOL.items()
        if told.get(key) is not None
    }


RUN_TOOL = {"parameters": "parameters", "descriptions": "description", "implementation": "implementation"}


def _tools(definitions: JSON) -> Iterator[tuple[str, JSON, JSON]]:
    """(name, description, parameter schema) of each definition: the shape of one provider or another, or a bare name."""
    for definition in definitions if isinstance(definitions, (list, tuple)) else ():
        declared = definition.get("functionDeclarations") if isinstance(definition, Mapping) else None
        if isinstance(declared, list):  # Google's: several functions in one
            yield from _tools(declared)
        elif isinstance(definition, Mapping) and definition.get("type") == "mcp":
            # A server that the provider calls: its tools are its own, so which server it is stands for them.
            place = {key: definition[key] for key in ("server_url", "allowed_tools") if key in definition}
            yield f"mcp:{definition.get('server_label', definition.get('server_url'))}", None, place
        elif isinstance(definition, Mapping):
            inner = definition.get("function", definition.get("toolSpec"))
            function = inner if isinstance(inner, Mapping) else definition
            schema = next((function[key] for key in SCHEMAS if function.get(key) is not None), None)
            if isinstance(schema, Mapping) and isinstance(schema.get("json"), Mapping):  # Bedrock's
                schema = schema["json"]
            name = function.get("name", definition.get("type", "unnamed"))
            yield str(name), function.get("description"), schema
        else:
            yield str(definition), None, None


def canonical_schema(schema: JSON) -> JSON:
    """A JSON schema without what does not change its meaning: generated titles, the order of `required`, and the names of the
    definitions that it refers to, which stand where they are referred to.
    """
    return _canonical(schema, _definitions(schema), ())


def _definitions(schema: JSON) -> dict[str, JSON]:
    """What `$ref` may name, by the name it uses."""
    if not isinstance(schema, Mapping):
        return {}
    held = {key: schema[key] for key in DEFINITIONS if isinstance(schema.get(key), Mapping)}
    return {f"#/{key}/{name}": value for key, group in held.items() for name, value in dict(group).items()}  # type: ignore[arg-type]


def _canonical(schema: JSON, definitions: Mapping[str, JSON], inside: tuple[str, ...]) -> JSON:
    """`inside`: the definitions that are being written out; one that refers to itself stays a reference."""
    if isinstance(schema, (list, tuple)):
        return [_canonical(item, definitions, inside) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    name = schema.get("$ref")
    if isinstance(name, str) and name in definitions and name not in inside:
        target = definitions[name]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        whole = {**target, **beside} if isinstance(target, Mapping) else target
        return _canonical(whole, definitions, (*inside, name))
    kept = {
        key: value for key, value in schema.items() if not _is_title(key, value) and not _is_inlined(key, definitions)
    }
    result = {key: _canonical(value, definitions, inside) for key, value in kept.items()}
    required = result.get("required")
    if isinstance(required, list) and all(isinstance(item, str) for item in required):
        result["required"] = sorted(str(item) for item in required)
    return dict(sorted(result.items()))


def _is_inlined(key: str, definitions: Mapping[str, JSON]) -> bool:
    return key in DEFINITIONS and any(name.startswith(f"#/{key}/") for name in definitions)


def _is_title(key: str, value: JSON) -> bool:
    """A schema's own title is a text; a property that is called `title` is an object."""
    return key == "title" and isinstance(value, str)
