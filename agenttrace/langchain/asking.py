"""With which prompt, and within which limits, a model is called: what its own callback does not say.

A prompt is a step of its own, rendered right before the call under the same parent. LangGraph's recursion limit is in the
config that runs. Both are noted on the agent's thread by reference, and read off it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agenttrace.steps import OpenStep, current_prompt

ASKED: Final = "agenttrace_asked"

LABELS: Final = ("agenttrace_prompt", "prompt_label", "prompt_version")
"""Metadata keys of one's own that name a prompt's version."""

IN_A_GRAPH: Final = "langgraph_node"


class Asked(NamedTuple):
    """By reference."""

    prompt: tuple[Mapping[str, Any] | None, Mapping[str, Any], Any] | None
    label: str | None
    recursion_limit: int | None


def asked_with(parent: OpenStep | None, metadata: Mapping[str, Any], payload: Any) -> Asked:
    """What is known when a model call starts below `parent` with these messages."""
    limit = _recursion_limit() if IN_A_GRAPH in metadata else None
    step = parent
    prompt: Any = None
    for _ in range(LEVELS):  # fallbacks and retries stand between a sequence and its model
        if step is None or prompt is not None:
            break
        prompt = step.prompt if step.prompt is not None and _is_rendering(step.prompt[2], payload) else None
        step = step.parent
    return Asked(prompt, current_prompt.get(), limit)


LEVELS: Final = 3


def _is_rendering(rendered: Any, payload: Any) -> bool:
    """Whether what a model is given ends as what a prompt became: another model may be called after the one it was for."""
    text, messages = getattr(rendered, "text", None), getattr(rendered, "messages", None)
    if isinstance(payload, str) or not payload:
        return bool(payload) and text == payload
    if not messages:
        return text is not None and text == getattr(payload[-1], "content", None)
    return payload[-1] is messages[-1] or bool(payload[-1] == messages[-1])


def _recursion_limit() -> int | None:
    config_module = sys.modules.get("langchain_core.runnables.config")
    config = None if config_module is None else config_module.var_child_runnable_config.get()
    limit = config.get("recursion_limit") if config else None
    return limit if isinstance(limit, int) else None


def prompt_label(metadata: Mapping[str, Any], asked: Asked) -> str | None:
    """The label that was given: with the call, around it, or with the template (its own, LangChain hub's, Langfuse's)."""
    template = asked.prompt[1] if asked.prompt else {}
    return _own(metadata) or asked.label or _own(template) or _hub(template) or _hub(metadata)


def _own(metadata: Mapping[str, Any]) -> str | None:
    named = next((metadata[key] for key in LABELS if metadata.get(key) is not None), None)
    return None if named is None else str(named)


def _hub(metadata: Mapping[str, Any]) -> str | None:
    """A prompt of a registry: LangChain's hub tells owner, repository and commit, Langfuse an object with name and version."""
    commit = metadata.get("lc_hub_commit_hash")
    if commit:
        place = "/".join(str(metadata[key]) for key in ("lc_hub_owner", "lc_hub_repo") if metadata.get(key))
        return f"{place}@{commit}" if place else str(commit)
    held = metadata.get("langfuse_prompt")
    parts = held if isinstance(held, Mapping) else {key: getattr(held, key, None) for key in ("name", "version")}
    told = [str(parts[key]) for key in ("name", "version") if parts.get(key) is not None]
    return "@".join(told) or None


def prompt_template(asked: Asked) -> str | None:
    """The template as text: its messages one after the other, then what was filled in beforehand. None where there is none."""
    serialized = asked.prompt[0] if asked.prompt else None
    if not serialized:
        return None
    kwargs = serialized.get("kwargs")
    if not isinstance(kwargs, Mapping):
        held = serialized.get("repr")
        return str(held) if held else None
    parts = [_message(message) for message in kwargs.get("messages") or ()] or [_text(kwargs)]
    filled = kwargs.get("partial_variables") or {}
    parts += [f"{name} = {value}" for name, value in sorted(filled.items()) if isinstance(value, (str, int, float))]
    return "\n\n".join(parts)


ROLES: Final = {"SystemMessagePromptTemplate": "system", "HumanMessagePromptTemplate": "user", "AIMessagePromptTemplate": "assistant",
                "SystemMessage": "system", "HumanMessage": "user", "AIMessage": "assistant"}  # fmt: skip


def _message(message: Any) -> str:
    if not isinstance(message, Mapping):
        return str(message)
    kind = str((message.get("id") or ["message"])[-1])
    kwargs = message.get("kwargs")
    if not isinstance(kwargs, Mapping):
        return f"{kind}: {message.get('repr', '')}"
    if kind == "MessagesPlaceholder":
        return f"(messages: {kwargs.get('variable_name')})"
    role = ROLES.get(kind) or kwargs.get("role") or kind
    prompt = kwargs.get("prompt")
    if isinstance(prompt, list):  # of texts and images
        return f"{role}: " + "\n".join(_text(_kwargs(item)) for item in prompt)
    return f"{role}: {kwargs['content'] if 'content' in kwargs else _text(_kwargs(prompt))}"


def _kwargs(serialized: Any) -> Mapping[str, Any]:
    held = serialized.get("kwargs") if isinstance(serialized, Mapping) else None
    return held if isinstance(held, Mapping) else {}


def _text(kwargs: Mapping[str, Any]) -> str:
    """A template, with its format where that is not the usual one: the same braces mean another thing."""
    template, kind = kwargs.get("template"), kwargs.get("template_format", "f-string")
    return str(template) if kind == "f-string" else f"({kind}) {template}"


def without_ours(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata without what `watch` put there: it is a setting, and recorded as one."""
    return {key: value for key, value in metadata.items() if key != WATCHED}


WATCHED: Final = "agenttrace_model"
"""Metadata key of a model under which `watch` keeps what it read."""
