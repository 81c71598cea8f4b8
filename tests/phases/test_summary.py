"""Totals over a run say over how many calls they are known."""

from __future__ import annotations

from agenttrace.phases.summary import summarise
from agenttrace.records import Usage
from tests.builders import a_model_call, a_run


def test_cached_tokens_and_cached_requests_are_two_shares() -> None:
    """One long prompt from the cache among short ones: many tokens, few requests; an unknown count is no miss."""
    calls = [
        a_model_call(1, usage=Usage(input=1000, cached=900)),
        a_model_call(2, usage=Usage(input=10, cached=0)),
        a_model_call(3, usage=Usage(input=10)),
    ]
    cached = summarise([a_run()], calls).cached
    assert (cached.total, cached.known_calls, cached.some_calls) == (900, 2, 1)
