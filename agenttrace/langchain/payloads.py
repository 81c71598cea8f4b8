"""Builds a complete step from what the handler kept of its callbacks. Runs off the agent's thread.

`Any` ends here: what callbacks bring is read once, and what leaves is a `Step`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from agenttrace.langchain.asking import ASKED, WATCHED, Asked, prompt_label, prompt_template, without_ours
from agenttrace.langchain.chunks import stream_usage
from agenttrace.langchain.messages import generations, plain
from agenttrace.langchain.partial import Partial
from agenttrace.langchain.tools import TOOL, described
from agenttrace.steps import JSON, TOOL_CALL_ID, ChainStep, ModelCall, OpenStep, Retrieval, State, Step, ToolCall

MAX_ERROR_TEXT = 20_000

RETRY_TAG = "retry:attempt:"
IN_PROCESS = ("HuggingFacePipeline", "LlamaCpp", "ChatLlamaCpp", "MLXPipeline", "ChatMLX")
"""Classes of models whose engine runs inside this process."""

HOLDS_ENGINE = re.compile(r"\bllm=(?:HuggingFacePipeline|MLXPipeline)\(")
"""In the text of a chat model that serves any engine: one of these."""


class StartFacts(NamedTuple):
    """What a start callback brought, by reference; lists and dicts are copied one level deep, since agents change them."""

    serialized: Mapping[str, Any] | None
    payload: Any
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    extra: Mapping[str, Any]
    """The remaining keyword arguments: `invocation_params`, `options`, `tool_call_id`, …"""
    contents: Sequence[Any] = ()
    """What the last of the messages held; empty where it is none of a model."""


class EndFacts(NamedTuple):
    """How a step ended, by reference."""

    at: int
    """Monotonic nanoseconds."""
    state: State
    payload: Any = None
    error_type: str | None = None
    error_message: str | None = None
    """As text: the exception itself would keep the frames of the call alive, and with them what tells that it is gone."""
    events: tuple[tuple[str, int, Any], ...] = ()
    partial: Partial | None = None
    """What a stream had brought that did not end well."""
    contents: Sequence[Any] = ()
    """What the messages of a model's answer held."""


def snapshot(value: Any) -> Any:
    """A copy of the outer two levels: what an agent's own code is most likely to change under us."""
    if type(value) is dict:
        return {key: list(item) if type(item) is list else item for key, item in value.items()}
    return list(value) if type(value) is list else value


WATCHED_MESSAGES = 8
"""How many of the last messages are recorded as they were when seen, whatever is assigned to them before they are read."""


def contents_of(messages: Sequence[Any]) -> Sequence[Any]:
    """What the last messages hold now, by reference; lists are copied one level deep."""
    return [
        list(content) if type(content := getattr(one, "content", None)) is list else content
        for one in messages[-WATCHED_MESSAGES:]
    ]


def as_seen(messages: Any, contents: Sequence[Any]) -> Any:
    """The messages with what they held when they were seen."""
    if not contents:
        return messages
    start = len(messages) - len(contents)
    changed = {
        start + number: content
        for number, content in enumerate(contents)
        if (now := getattr(messages[start + number], "content", None)) is not content and now != content
    }
    if not changed:
        return messages
    return [
        one.model_copy(update={"content": changed[number]}) if number in changed else one
        for number, one in enumerate(messages)
    ]


def build_start(step: OpenStep, start: StartFacts) -> Step | None:
    """The step as it started; None if it has ended by now: then its end follows, and says all of this."""
    if not step.is_open:
        return None
    rendered = _rendered(step, start)
    step.seen_input = (rendered["input"],)
    return Step(**rendered)


def build(step: OpenStep, start: StartFacts, end: EndFacts) -> Step:
    """The step as it ended."""
    common = _common(step, start, end)
    step.seen_input = None
    if step.kind in ("model", "embedding"):
        return _model_call(step, start, end, common)
    if step.kind == "tool":
        asked = None if step.asked_at is None else step.anchor.at(step.asked_at)
        call_id = start.extra.get("tool_call_id")
        tool = start.extra.get(TOOL)
        return ToolCall(
            **common,
            tool_call_id=None if call_id is None else str(call_id),
            asked_ns=asked,
            definition={} if tool is None else described(tool),
        )
    if step.kind == "retriever":
        return Retrieval(**common)
    return ChainStep(**common)


def _common(step: OpenStep, start: StartFacts, end: EndFacts) -> dict[str, Any]:
    at = step.anchor.at
    return _rendered(step, start) | {
        "state": end.state,
        "end_ns": at(end.at),
        "output": plain(end.payload) if step.kind != "model" else None,
        "error_type": end.error_type,
        "error_message": end.error_message,
        "events": tuple((name, at(moment), plain(data)) for name, moment, data in end.events),
        "paused_at": step.paused_at,
        "resumed_from": step.resumed_from,
    }


def _rendered(step: OpenStep, start: StartFacts) -> dict[str, Any]:
    return {
        "trace_id": step.trace_id,
        "span_id": step.span_id,
        "parent_id": step.parent_id,
        "run_id": step.run_id,
        "kind": step.kind,
        "name": step.name,
        "start_ns": step.anchor.at(step.start),
        "call_site": step.call_site,
        "attempt": _tagged_attempt(start.tags) or step.attempt,
        "input": plain(as_seen(start.payload, start.contents)) if step.seen_input is None else step.seen_input[0],
        "metadata": _metadata(step, start),
        "tags": tuple(str(tag) for tag in start.tags),
        "is_root": step.parent is None,
    }


def _metadata(step: OpenStep, start: StartFacts) -> JSON:
    """The metadata, with a tool call's id, the batch's size where a call is one of several prompts, and a root's session and user."""
    batch_size = start.extra.get("batch_size")
    more: dict[str, JSON] = {"batch_size": batch_size} if isinstance(batch_size, int) and batch_size > 1 else {}
    call_id = start.extra.get("tool_call_id")
    if call_id is not None:
        more[TOOL_CALL_ID] = str(call_id)
    return plain({**(step.labels or {}), **without_ours(start.metadata), **more})


def error_text(error: BaseException) -> str:
    """What an exception says of itself; an exception may raise when asked."""
    try:
        return str(error)[:MAX_ERROR_TEXT].encode("utf-8", "backslashreplace").decode()
    except Exception:
        return "the error's own text could not be read"


def _tagged_attempt(tags: Sequence[str]) -> int | None:
    """What `with_retry` says."""
    for tag in tags:
        if isinstance(tag, str) and tag.startswith(RETRY_TAG) and tag[len(RETRY_TAG) :].isdecimal():
            return int(tag[len(RETRY_TAG) :])
    return None


def _model_call(step: OpenStep, start: StartFacts, end: EndFacts, common: dict[str, Any]) -> ModelCall:
    def moment(mark: int | None) -> int | None:
        return None if mark is None else step.anchor.at(mark)

    asked = start.extra.get(ASKED) or NOT_ASKED
    result = end.payload if isinstance(end.payload, LLMResult) else None
    last = _last_message(result)
    response = dict(_response(last, result))
    if step.served_models:
        response |= {key: step.served_models[-1] for key in ("model_name", "model") if key in response}
    if common["output"] is None and result is not None:
        common["output"] = generations(as_seen([_held(choice) for choice in _choices(result)], end.contents))
    if common["output"] is None and end.partial is not None:
        common["output"] = end.partial.message()
    return ModelCall(
        **common,
        params=_mapping(plain(start.extra.get("invocation_params"))),
        options=_mapping(plain(start.extra.get("options"))),
        serialized=_serialized(start.serialized or {}),
        watched=_mapping(plain(start.metadata.get(WATCHED))),
        prompt_label=prompt_label(start.metadata, asked),
        prompt_template=prompt_template(asked),
        recursion_limit=asked.recursion_limit,
        response=response,
        tokens=_tokens(step, last, result),
        finish_reason=_finish_reason(response, result),
        served_models=tuple(step.served_models or ()),
        is_streamed=step.chunks > 0,
        is_replayed=step.is_replayed,
        is_local=_runs_here(start.serialized or {}),
        first_byte_ns=moment(step.first_byte),
        first_reasoning_ns=moment(step.first_reasoning),
        first_content_ns=moment(step.first_content),
        first_tool_ns=moment(step.first_tool),
        last_content_ns=moment(step.last_content),
        loop_lag_ns=step.loop_lag,
        own_ns=step.own_ns,
        chunks=step.chunks or None,
        arrivals_ns=[at - step.start for at in step.arrivals or ()],
        seen_attempts=tuple(step.attempts or ()),
        anchor=step.anchor,
    )


def _runs_here(serialized: Mapping[str, Any]) -> bool:
    """Whether the model's engine runs inside this process, by its class, or by what a chat model says that it holds."""
    path = serialized.get("id")
    if isinstance(path, list) and path and path[-1] in IN_PROCESS:
        return True
    return HOLDS_ENGINE.search(str(serialized.get("repr", ""))[:REPR_READ]) is not None


REPR_READ = 2_000


def _serialized(serialized: Mapping[str, Any]) -> Mapping[str, JSON]:
    text = serialized.get("repr")
    return {"kwargs": plain(serialized.get("kwargs")), "repr": text[:REPR_READ] if isinstance(text, str) else None}


NOT_ASKED = Asked(None, None, None)


def _choices(result: LLMResult) -> Sequence[Any]:
    return result.generations[0] if result.generations else ()


def _held(choice: Any) -> Any:
    """The message of one of the answers; the text of a model that knows no messages."""
    return getattr(choice, "message", None) or str(getattr(choice, "text", ""))


def answers_of(response: Any) -> Sequence[Any]:
    """What the messages of a model's answer hold now."""
    return contents_of([_held(choice) for choice in _choices(response)]) if isinstance(response, LLMResult) else ()


def _last_message(result: LLMResult | None) -> BaseMessage | None:
    for choices in result.generations if result is not None else ():
        for choice in choices:
            held = getattr(choice, "message", None)
            if isinstance(held, BaseMessage):
                return held
    return None


def _mapping(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _response(last: BaseMessage | None, result: LLMResult | None) -> Mapping[str, JSON]:
    """The response metadata. A stream's is merged by joining texts, so what each chunk repeated is folded to one."""
    response = _mapping(plain(last.response_metadata)) if last is not None else {}
    if not response and result is not None:
        response = _mapping(plain(result.llm_output))
    return {key: folded(value) if isinstance(value, str) else value for key, value in response.items()}


def folded(text: str) -> str:
    """`text` without its repetitions, if it is one text of at least three characters several times over."""
    period = (text + text).find(text, 1)
    return text[:period] if 2 < period < len(text) else text


def _tokens(step: OpenStep, last: BaseMessage | None, result: LLMResult | None) -> dict[str, int | None]:
    """Token counts by the names of `records.Usage`; an absent count stays unknown."""
    usage = stream_usage(step.usages) if step.usages else getattr(last, "usage_metadata", None)
    if isinstance(usage, Mapping) and (usage.get("input_tokens") or usage.get("output_tokens")):
        inputs = usage.get("input_token_details") or {}
        outputs = usage.get("output_token_details") or {}
        return {
            "input": _number(usage.get("input_tokens")),
            "output": _number(usage.get("output_tokens")),
            "total": _number(usage.get("total_tokens")),
            "cached": _number(inputs.get("cache_read")),
            "cache_written": _number(inputs.get("cache_creation")),
            "reasoning": _number(outputs.get("reasoning")),
        }
    output = (result.llm_output if result is not None else None) or {}
    usage = output.get("token_usage") or output.get("usage") or {}
    if not isinstance(usage, Mapping):
        return {}
    return {
        "input": _number(usage.get("prompt_tokens", usage.get("input_tokens"))),
        "output": _number(usage.get("completion_tokens", usage.get("output_tokens"))),
        "total": _number(usage.get("total_tokens")),
    }


def _finish_reason(response: Mapping[str, JSON], result: LLMResult | None) -> str | None:
    for key in ("finish_reason", "stop_reason", "done_reason", "stopReason"):
        if isinstance(response.get(key), str):
            return str(response[key])
    for choices in result.generations if result is not None else ():
        for choice in choices:
            reason = (choice.generation_info or {}).get("finish_reason") if hasattr(choice, "generation_info") else None
            if isinstance(reason, str):
                return reason
    return None


def chat_messages(batch: Sequence[Sequence[BaseMessage]]) -> list[BaseMessage]:
    """The one conversation of a start callback: LangChain sends one event a prompt."""
    return list(batch[0]) if batch else []
