"""`agenttrace.watch`: has a model or a tool tell what LangChain's callbacks do not.

Models that do not describe themselves name their type and stop words, and nothing else; a tool's code is in no callback.
No import of LangChain: what is watched brings it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from agenttrace.errors import UsageError
from agenttrace.langchain.asking import WATCHED
from agenttrace.langchain.messages import plain
from agenttrace.langchain.tools import implementation
from agenttrace.settings.implementations import remember_implementation
from agenttrace.settings.model_object import LIMITS, OBJECT_KEYS
from agenttrace.steps import JSON

Watched = TypeVar("Watched")

GENERATION: Final = (
    "do_sample",
    "num_beams",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "max_new_tokens",
)
"""What the generation config of an engine inside the process decides."""


def watch(thing: Watched, *, version: str | None = None) -> Watched:
    """Have a model's settings, or a tool's implementation, recorded with every call from now on. Returns what it was given.

    Args:
        thing: A chat or text model of LangChain, whose settings are read once, now; or a tool, whose code is.
        version: What to call the tool's implementation, instead of a digest of its code: `"notes-server 1.4.2"` for a tool of
            an MCP server, whose code is elsewhere.

    Raises:
        UsageError: it is neither.
    """
    if hasattr(thing, "_get_invocation_params") or hasattr(thing, "_llm_type"):
        _watch_model(thing)
    elif hasattr(thing, "args_schema") and hasattr(thing, "name"):
        remember_implementation(str(thing.name), version or implementation(thing))
    else:
        raise UsageError(f"watch() was given a {type(thing).__name__}. Give it a model or a tool of LangChain.")
    return thing


def _watch_model(model: Any) -> None:
    model.metadata = {**(getattr(model, "metadata", None) or {}), WATCHED: _settings(model)}


def _settings(model: Any) -> Mapping[str, JSON]:
    """The model's own fields, as far as they are settings; one that is None is known to be unset."""
    fields = getattr(type(model), "model_fields", {})
    told = {key: getattr(model, key, None) for key in (*OBJECT_KEYS, *LIMITS) if key in fields}
    engine = getattr(model, "pipeline", None) or getattr(getattr(model, "llm", None), "pipeline", None)
    config = getattr(engine, "generation_config", None) or getattr(
        getattr(engine, "model", None), "generation_config", None
    )
    for key in GENERATION:
        value = getattr(config, key, None)
        if value is not None:
            told[key] = value
    values = plain({key: value for key, value in told.items() if not callable(value)})
    return values if isinstance(values, Mapping) else {}
