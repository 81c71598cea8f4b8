"""Token counts of every server's words, brought to one meaning."""

from __future__ import annotations

from typing import Any

import pytest

from agenttrace.phases.tokens import read_tokens

ANTHROPIC = {"input_tokens": 10, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 20, "output_tokens": 5}
CONVERSE = {"inputTokens": 10, "outputTokens": 5, "cacheReadInputTokens": 70, "cacheWriteInputTokens": 20}
XAI = {
    "prompt_tokens": 32,
    "completion_tokens": 9,
    "total_tokens": 135,
    "completion_tokens_details": {"reasoning_tokens": 94},
}
OPENAI = {
    "prompt_tokens": 100,
    "completion_tokens": 50,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 30},
}
RESPONSES = {
    "input_tokens": 100,
    "output_tokens": 50,
    "input_tokens_details": {"cached_tokens": 64},
    "output_tokens_details": {"reasoning_tokens": 30},
}
GEMINI = {
    "promptTokenCount": 100,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 30,
    "cachedContentTokenCount": 40,
}


@pytest.mark.parametrize(
    ("payload", "prompt", "cached", "uncached", "output", "reasoning"),
    [
        ({"usage": OPENAI}, 100, 64, 36, 50, 30),
        ({"usage": RESPONSES}, 100, 64, 36, 50, 30),
        ({"usage": ANTHROPIC}, 100, 70, 30, 5, None),
        ({"usage": {"input_tokens": 10, "output_tokens": 5}}, 10, None, None, 5, None),
        ({"usage": CONVERSE | {"totalTokens": 105}}, 100, 70, 30, 5, None),
        ({"usage": {"inputTokens": 25, "outputTokens": 11, "totalTokens": 36}}, 25, None, None, 11, None),
        ({"usageMetadata": GEMINI}, 100, 40, 60, 50, 30),
        ({"usage": XAI}, 32, None, None, 103, 94),
        ({"usage": OPENAI | {"cache_read_input_tokens": 64}}, 100, 64, 36, 50, 30),
        ({"x_groq": {"usage": {"prompt_tokens": 14, "completion_tokens": 26}}}, 14, None, None, 26, None),
        ({"usage": {"prompt_tokens": True, "completion_tokens": 2.5}}, None, None, None, None, None),
        ({"usage": [1]}, None, None, None, None, None),
    ],
)
def test_counts(payload: dict[str, Any], prompt: Any, cached: Any, uncached: Any, output: Any, reasoning: Any) -> None:
    """The prompt holds cached tokens, the output reasoning ones, whatever the server's fields hold."""
    tokens, _ = read_tokens(payload, {})
    found = (tokens.prompt, tokens.cached, tokens.uncached, tokens.output, tokens.reasoning)
    assert found == (prompt, cached, uncached, output, reasoning)


def test_more_cached_than_prompt() -> None:
    """Cached tokens that exceed the prompt are unknown, and that is told."""
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 64}}
    tokens, notes = read_tokens({"usage": usage}, {})
    assert (tokens.prompt, tokens.cached, tokens.uncached) == (10, None, None)
    assert len(notes) == 1
