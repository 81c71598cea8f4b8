"""A run of LangSmith as a step of ours."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import orjson

from agenttrace.export.tracer_steps import (
    Facts,
    fields_of,
    moment,
    plain_content,
    start_moment,
    text_or_none,
    token_count,
)
from agenttrace.steps import JSON, Kind

KINDS: Mapping[str, Kind] = {
    "llm": "model",
    "tool": "tool",
    "retriever": "retriever",
    "embedding": "embedding",
    "prompt": "prompt",
    "parser": "parser",
}


def langsmith_step(run: dict[str, Any]) -> Facts:
    extra = run.get("extra") or {}
    kind = KINDS.get(run["run_type"], "chain")
    metadata = {key: value for key, value in (extra.get("metadata") or {}).items() if key != "usage_metadata"}
    facts = Facts(
        id=str(run["id"]),
        trace=str(run["trace_id"]),
        parent=text_or_none(run.get("parent_run_id")),
        kind=kind,
        name=str(run.get("name") or run["run_type"]),
        start_ns=start_moment(run["start_time"]),
        end_ns=moment(run.get("end_time")),
        input=plain_content(run.get("inputs")),
        output=plain_content(run.get("outputs")),
        metadata=metadata,
        tags=tuple(map(str, run.get("tags") or ())),
        error=text_or_none(run.get("error")),
    )
    if kind == "model":
        _langsmith_call(facts, run, extra)
    elif kind == "tool":
        inputs = run.get("inputs") or {}
        facts.input = _tool_input(inputs["input"]) if set(inputs) == {"input"} else facts.input
        output = (run.get("outputs") or {}).get("output")
        facts.output = plain_content(output) if output is not None else facts.output
        facts.call_id = text_or_none(output.get("tool_call_id")) if isinstance(output, dict) else None
    elif kind == "retriever" and isinstance((run.get("outputs") or {}).get("documents"), list):
        facts.output = plain_content(run["outputs"]["documents"])
    return facts


def _langsmith_call(facts: Facts, run: dict[str, Any], extra: dict[str, Any]) -> None:
    inputs, outputs = run.get("inputs") or {}, run.get("outputs") or {}
    messages = inputs.get("messages")
    if isinstance(messages, list):
        facts.input = plain_content(messages[0] if messages and isinstance(messages[0], list) else messages)
    generation = _first_generation(outputs)
    told = fields_of(generation.get("message")) if generation else {}
    if generation:
        facts.output = plain_content(generation.get("message") or generation.get("text"))
    facts.params = {**(extra.get("invocation_params") or {})}
    facts.response = {**(told.get("response_metadata") or {})}
    facts.tokens = _langchain_tokens(
        told.get("usage_metadata") or (extra.get("metadata") or {}).get("usage_metadata")
    ) or {
        "input": token_count(run.get("prompt_tokens")),
        "output": token_count(run.get("completion_tokens")),
        "total": token_count(run.get("total_tokens")),
    }
    events = run.get("events") or ()
    token = next(
        (event.get("time") for event in events if isinstance(event, dict) and event.get("name") == "new_token"), None
    )
    facts.first_token_ns = moment(run.get("first_token_time") or token)
    prompt = (extra.get("metadata") or {}).get("lc_hub_commit_hash")
    facts.prompt_label = text_or_none(prompt)


def _first_generation(outputs: Mapping[str, Any]) -> dict[str, Any] | None:
    generations = outputs.get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    return generations if isinstance(generations, dict) else None


def _langchain_tokens(usage: Any) -> dict[str, int | None] | None:
    if not isinstance(usage, dict):
        return None
    inputs, outputs = usage.get("input_token_details") or {}, usage.get("output_token_details") or {}
    return {
        "input": token_count(usage.get("input_tokens")),
        "output": token_count(usage.get("output_tokens")),
        "total": token_count(usage.get("total_tokens")),
        "cached": token_count(inputs.get("cache_read")),
        "cache_written": token_count(inputs.get("cache_creation")),
        "reasoning": token_count(outputs.get("reasoning")),
    }


def _tool_input(value: Any) -> JSON:
    """Arguments as an object: LangSmith keeps them as the text that Python makes of a dict, or of JSON."""
    if isinstance(value, str):
        with suppress(ValueError):
            return cast(JSON, orjson.loads(value))
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            literal = literal_eval(value)
            if isinstance(literal, dict):
                return plain_content(literal)
    return plain_content(value)
