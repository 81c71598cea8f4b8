"""An observation of Langfuse as a step of ours."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from agenttrace.export.tracer_steps import Facts, moment, plain_content, start_moment, text_or_none, token_count
from agenttrace.steps import Kind

KINDS: Mapping[str, Kind] = {
    "GENERATION": "model",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
    "EMBEDDING": "embedding",
    "AGENT": "agent",
}


def langfuse_step(observation: dict[str, Any]) -> Facts:
    kind = KINDS.get(str(observation["type"]).upper(), "chain")
    metadata = observation.get("metadata")
    labels = {
        ours: observation[theirs]
        for theirs, ours in (("sessionId", "session_id"), ("userId", "user_id"))
        if observation.get(theirs) is not None
    }
    is_error = observation.get("level") == "ERROR"
    facts = Facts(
        id=str(observation["id"]),
        trace=str(observation["traceId"]),
        parent=text_or_none(observation.get("parentObservationId")),
        kind=kind,
        name=str(observation.get("name") or observation["type"]),
        start_ns=start_moment(observation["startTime"]),
        end_ns=moment(observation.get("endTime")),
        input=plain_content(_json_text(observation.get("input"))),
        output=plain_content(_json_text(observation.get("output"))),
        metadata={**(metadata if isinstance(metadata, dict) else {"metadata": metadata} if metadata else {}), **labels},
        tags=tuple(map(str, observation.get("tags") or ())),
        error=str(observation.get("statusMessage") or "Error") if is_error else None,
    )
    if kind == "model":
        asked = _json_text(observation.get("modelParameters"))
        model = observation.get("providedModelName") or observation.get("model")
        facts.params = {**(asked if isinstance(asked, dict) else {}), **({"model": model} if model else {})}
        facts.tells_all = False
        facts.tokens = _langfuse_tokens(observation)
        facts.first_token_ns = moment(observation.get("completionStartTime"))
        if observation.get("promptName"):
            version = observation.get("promptVersion")
            facts.prompt_label = str(observation["promptName"]) + (f"@{version}" if version is not None else "")
    return facts


def _langfuse_tokens(observation: Mapping[str, Any]) -> dict[str, int | None]:
    """Langfuse's `input` is what no cache had, and its `output` what was no reasoning, where it tells these apart."""
    details = observation.get("usageDetails") or observation.get("usage") or {}
    cached = token_count(details.get("input_cached_tokens", details.get("cache_read_input_tokens")))
    written = token_count(details.get("input_cache_creation", details.get("cache_creation_input_tokens")))
    reasoning = token_count(details.get("output_reasoning_tokens", details.get("output_reasoning")))
    prompt, output = token_count(details.get("input")), token_count(details.get("output"))
    return {
        "input": None if prompt is None else prompt + (cached or 0) + (written or 0),
        "output": None if output is None else output + (reasoning or 0),
        "total": token_count(details.get("total")),
        "cached": cached,
        "cache_written": written,
        "reasoning": reasoning,
    }


def _json_text(value: Any) -> Any:
    """Exports keep objects as JSON text."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            return orjson.loads(value)
    return value
