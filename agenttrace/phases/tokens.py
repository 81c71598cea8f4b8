"""Token counts of a response, whichever server's words it uses, brought to one meaning.

`prompt` holds everything the model read, cached tokens included; `uncached` is what had to be computed, cache writes included;
`output` holds everything that was generated, reasoning included. Servers differ in what their fields include, so each shape
is read for itself. Source: the providers' API references.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from agenttrace.phases.draft import count, mapping
from agenttrace.phases.server_report import TokenCounts

Fields = Mapping[str, object]

NO_COUNTS = TokenCounts()

HEADER_COUNTS: tuple[tuple[str, str, str | None], ...] = (
    ("x-prompt-tokens", "x-generated-tokens", None),
    ("x-amzn-bedrock-input-token-count", "x-amzn-bedrock-output-token-count", None),
    ("fireworks-prompt-tokens", "", "fireworks-cached-prompt-tokens"),
    ("prompt-tokens", "", "cached-prompt-tokens"),
)
"""Headers with prompt, output and cached counts: TGI, Bedrock, Fireworks (with and without its prefix)."""


def read_tokens(payload: Fields, headers: Mapping[str, str]) -> tuple[TokenCounts, tuple[str, ...]]:
    """The counts, and notes on what was contradictory. A count that is not there is None."""
    for where, read in _SHAPES if payload else ():
        fields = _at(payload, where)
        if fields and (tokens := read(fields)) != NO_COUNTS:
            return _consistent(tokens)
    return _consistent(_from_headers(headers))


def merged(first: TokenCounts, other: TokenCounts) -> TokenCounts:
    """The first's counts; the other's where the first has none."""
    return _consistent(
        TokenCounts(
            prompt=_either(first.prompt, other.prompt),
            cached=_either(first.cached, other.cached),
            uncached=_either(first.uncached, other.uncached if first.prompt in (None, other.prompt) else None),
            cache_written=_either(first.cache_written, other.cache_written),
            output=_either(first.output, other.output),
            reasoning=_either(first.reasoning, other.reasoning),
        )
    )[0]


def _consistent(tokens: TokenCounts) -> tuple[TokenCounts, tuple[str, ...]]:
    notes = []
    prompt, cached, output, reasoning = tokens.prompt, tokens.cached, tokens.output, tokens.reasoning
    if prompt is not None and cached is not None:
        if cached > prompt:
            notes.append(f"{cached} cached tokens exceed the prompt's {prompt}: cached unknown")
            tokens = replace(tokens, cached=None, uncached=None)
        elif tokens.uncached is None:
            tokens = replace(tokens, uncached=prompt - cached)
    if prompt is not None and tokens.uncached is not None and tokens.uncached > prompt:
        notes.append(f"{tokens.uncached} uncached tokens exceed the prompt's {prompt}: uncached unknown")
        tokens = replace(tokens, uncached=None)
    if output is not None and reasoning is not None and reasoning > output:
        notes.append(f"{reasoning} reasoning tokens exceed the output's {output}: reasoning unknown")
        tokens = replace(tokens, reasoning=None)
    return tokens, tuple(notes)


def _usage(usage: Fields) -> TokenCounts:
    """`usage` of everybody but Bedrock: OpenAI's two APIs and their relatives, Anthropic."""
    if "prompt_tokens" not in usage and _has(usage, "cache_read_input_tokens", "cache_creation_input_tokens"):
        return _anthropic(usage)
    if _has(usage, "inputTokens", "outputTokens"):
        return _bedrock_converse(usage)
    prompt = _first(usage, "prompt_tokens", "input_tokens")
    details = _first_mapping(usage, "prompt_tokens_details", "input_tokens_details")
    cached = _first(details, "cached_tokens")
    if cached is None:
        cached = _first(usage, "prompt_cache_hit_tokens", "cached_tokens")  # DeepSeek; Moonshot
    reasoning = _first(_first_mapping(usage, "completion_tokens_details", "output_tokens_details"), "reasoning_tokens")
    output = _first(usage, "completion_tokens", "output_tokens")
    total = count(usage.get("total_tokens"))
    # xAI counts reasoning beside the completion, everybody else inside it; the total tells which.
    if reasoning and prompt is not None and output is not None and total == prompt + output + reasoning:
        output += reasoning
    return TokenCounts(
        prompt=prompt,
        cached=cached,
        uncached=count(usage.get("prompt_cache_miss_tokens")),
        cache_written=_first(details, "cache_write_tokens", "cache_creation_tokens"),
        output=output,
        reasoning=reasoning,
    )


def _anthropic(usage: Fields) -> TokenCounts:
    """Anthropic's `input_tokens` leaves out what was read from the cache and what was written to it."""
    fresh, read, written = (
        count(usage.get(name)) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    prompt = None if fresh is None else fresh + (read or 0) + (written or 0)
    return TokenCounts(
        prompt=prompt,
        cached=read,
        uncached=None if fresh is None or read is None else fresh + (written or 0),
        cache_written=written,
        output=count(usage.get("output_tokens")),
    )


def _bedrock_converse(usage: Fields) -> TokenCounts:
    """Converse leaves cache reads and writes out of `inputTokens`; its total tells where it does not."""
    fresh, output, total = (count(usage.get(name)) for name in ("inputTokens", "outputTokens", "totalTokens"))
    read, written = count(usage.get("cacheReadInputTokens")), count(usage.get("cacheWriteInputTokens"))
    prompt = fresh
    if fresh is not None and total != fresh + (output or 0):
        prompt = fresh + (read or 0) + (written or 0)
    return TokenCounts(prompt=prompt, cached=read, cache_written=written, output=output)


def _gemini(usage: Fields) -> TokenCounts:
    """Thoughts stand beside the candidates; the prompt holds the cached content."""
    candidates, thoughts = count(usage.get("candidatesTokenCount")), count(usage.get("thoughtsTokenCount"))
    output = candidates if candidates is None or thoughts is None else candidates + thoughts
    return TokenCounts(
        prompt=count(usage.get("promptTokenCount")),
        cached=count(usage.get("cachedContentTokenCount")),
        output=output,
        reasoning=thoughts,
    )


def _openrouter(data: Fields) -> TokenCounts:
    """The model's own counts; `tokens_prompt` and its like are normalised for billing."""
    return TokenCounts(
        prompt=_first(data, "native_tokens_prompt"),
        cached=_first(data, "native_tokens_cached"),
        output=_first(data, "native_tokens_completion"),
        reasoning=_first(data, "native_tokens_reasoning"),
    )


def _flat(
    *prompt: str, output: tuple[str, ...], cached: str = "", reasoning: str = ""
) -> Callable[[Fields], TokenCounts]:
    def read(fields: Fields) -> TokenCounts:
        return TokenCounts(
            prompt=_first(fields, *prompt),
            cached=_first(fields, cached),
            output=_first(fields, *output),
            reasoning=_first(fields, reasoning),
        )

    return read


_SHAPES: tuple[tuple[str, Callable[[Fields], TokenCounts]], ...] = (
    ("usage", _usage),
    ("x_groq.usage", _usage),
    ("token_usage", _usage),
    ("usageMetadata", _gemini),
    (
        "amazon-bedrock-invocationMetrics",
        _flat("inputTokenCount", output=("outputTokenCount",), cached="cacheReadInputTokenCount"),
    ),
    (
        "meta_info",
        _flat("prompt_tokens", output=("completion_tokens",), cached="cached_tokens", reasoning="reasoning_tokens"),
    ),
    ("request", _flat("input_tokens", output=("output_tokens",), cached="cached_tokens")),
    ("data", _openrouter),
    (
        "stats",
        _flat(
            "llm_input_token_length",
            "input_tokens",
            output=("llm_output_token_length", "total_output_tokens"),
            reasoning="reasoning_output_tokens",
        ),
    ),
    (
        "",
        _flat(
            "prompt_tokens", output=("generated_tokens", "completion_tokens", "output_tokens"), cached="cached_tokens"
        ),
    ),
)
"""Where counts stand, in the order in which they are believed, and who reads them."""


def _from_headers(headers: Mapping[str, str]) -> TokenCounts:
    for prompt, output, cached in HEADER_COUNTS:
        if prompt in headers or output in headers:
            return TokenCounts(
                prompt=_text_count(headers, prompt),
                cached=None if cached is None else _text_count(headers, cached),
                output=_text_count(headers, output),
            )
    return TokenCounts()


def _text_count(headers: Mapping[str, str], name: str) -> int | None:
    text = headers.get(name, "").strip()
    return count(int(text)) if text.isascii() and text.isdecimal() and len(text) < 12 else None


def _at(payload: Fields, path: str) -> Fields:
    held = payload
    for step in path.split(".") if path and held else ():
        held = mapping(held.get(step))
    return held


def _first(fields: Fields, *names: str) -> int | None:
    return next((value for value in (count(fields.get(name)) for name in names) if value is not None), None)


def _first_mapping(fields: Fields, *names: str) -> Fields:
    return next((held for held in (mapping(fields.get(name)) for name in names) if held), {})


def _has(fields: Fields, *names: str) -> bool:
    return any(name in fields for name in names)


def _either(first: int | None, other: int | None) -> int | None:
    return other if first is None else first
