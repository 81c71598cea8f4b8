"""What prompts are made of, and where their common beginning ends."""

from __future__ import annotations

import pytest

from agenttrace.settings.prompt_parts import Message, PrefixBreak, SentPrompt, SitePrompts, describe_prompts

MESSAGES = {
    "s": Message("system", "s" * 400),
    "s1": Message("system", "Today is 2026-12-01. " + "s" * 379),
    "s2": Message("system", "Today is 2026-12-02. " + "s" * 379),
    "u": Message("user", "u" * 100),
    "a": Message("assistant", "a" * 100),
    "t": Message("tool", "t" * 200),
    "u2": Message("user", "v" * 100),
    "d": Message("user", "Use this: " + "d" * 90),
}


def described(*prompts: SentPrompt, documents: tuple[str, ...] = ()) -> SitePrompts:
    [site] = describe_prompts(prompts, MESSAGES, {"t1": documents}).values()
    return site


def prompt(*messages: str, **fields: object) -> SentPrompt:
    values: dict[str, object] = {"call_site": "agent", "trace_id": "t1", "model": "m", "messages": messages}
    return SentPrompt(**{**values, **fields})  # type: ignore[arg-type]  # a table of fields


def test_a_prompt_is_divided_into_its_parts() -> None:
    """System text, tools, history, results of tools and the last words of the user: together all of it."""
    shares = described(prompt("s", "u", "a", "t", "u2", tools="x" * 100, tokens=500)).shares
    assert shares == {"system": 0.4, "tools": 0.1, "history": 0.2, "tool_results": 0.2, "documents": 0.0, "user": 0.1}


def test_retrieved_text_is_told_from_what_carries_it() -> None:
    """A document that a retriever brought is one wherever it was pasted."""
    shares = described(prompt("s", "d", tokens=100), documents=("d" * 90,)).shares
    assert shares["documents"] == pytest.approx(0.18)
    assert shares["user"] == pytest.approx(0.02)


def test_growth_is_told_by_turn() -> None:
    """Within a trace each prompt is longer than the one before; what other traces have is no growth."""
    site = described(prompt("u", tokens=100), prompt("u", "a", "u2", tokens=300), prompt("u", tokens=90, trace_id="t2"))
    assert site.tokens_per_turn == 200
    assert described(prompt("u", tokens=100)).tokens_per_turn is None


def test_a_growing_conversation_can_be_reused_whole() -> None:
    """Everything that was sent before is a prefix of the next turn; nothing breaks."""
    site = described(prompt("s", "u", tokens=500), prompt("s", "u", "a", "t", tokens=800, cached=450))
    assert (site.tokens, site.reusable, site.cached, site.breaks) == (1300, 500, 450, ())


def test_a_date_in_the_system_text_breaks_the_prefix() -> None:
    """Only what stands before the date can be reused, and it is said where and what it is."""
    site = described(prompt("s1", "u", tokens=500), prompt("s2", "u", tokens=500))
    assert site.breaks == (PrefixBreak(message=1, role="system", what="a date", calls=1),)
    assert site.reusable == len("Today is 2026-12-0")


def test_other_tools_break_it_before_the_first_message() -> None:
    """Tool definitions stand before the messages, so another one leaves nothing to reuse."""
    site = described(prompt("s", tools="x" * 100, tokens=500), prompt("s", tools="y" * 100, tokens=500))
    assert site.breaks == (PrefixBreak(message=0, role="tools", what="text", calls=1),)
    assert site.reusable == 0


def test_another_model_has_a_cache_of_its_own() -> None:
    """What one model has seen, another has not."""
    assert described(prompt("s", tokens=400), prompt("s", tokens=400, model="n")).reusable == 0


def test_what_is_not_known_is_not_counted() -> None:
    """Without reported tokens there are shares and no numbers; without texts there are no shares."""
    site = described(prompt("s", "u"))
    assert (site.tokens, site.reusable, site.cached) == (None, None, None)
    assert described(prompt("lost", tokens=7)).shares == {}
