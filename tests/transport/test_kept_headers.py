"""Which response headers are kept."""

from __future__ import annotations

import pytest

from agenttrace.transport.kept_headers import is_kept, kept_headers


@pytest.mark.parametrize(
    "name",
    """
    x-request-id request-id apim-request-id retry-after server-timing openai-processing-ms openai-version
    x-ratelimit-remaining-tokens anthropic-ratelimit-requests-limit x-envoy-upstream-service-time x-metrics-ttft-ms
    fireworks-server-processing-time x-litellm-response-duration-ms x-queue-time x-time-per-token
    llm_provider-openai-processing-ms llm_provider-x-ratelimit-limit-requests
    """.split(),
)
def test_what_servers_say_about_a_request_is_kept(name: str) -> None:
    """Request ids, limits and times are kept, also where a gateway relays them."""
    assert is_kept(name)


@pytest.mark.parametrize(
    "name",
    """
    set-cookie cookie authorization x-api-key cf-ray server date x-unknown
    llm_provider-set-cookie llm_provider-authorization llm_provider-cf-ray
    x-litellm-api-key fireworks-set-cookie x-envoy-peer-metadata
    """.split(),
)
def test_everything_else_is_let_go(name: str) -> None:
    """A cookie or a key is not kept, whatever its prefix and whoever relays it."""
    assert not is_kept(name)


def test_names_are_lowered_and_repetitions_joined() -> None:
    """HTTP allows a header in any case and more than once."""
    headers = [("Server-Timing", "a;dur=1"), ("server-timing", "b;dur=2"), ("Content-Type", "Application/JSON; a=b")]
    assert kept_headers(headers) == ("application/json", "", {"server-timing": "a;dur=1, b;dur=2"})


def test_identity_is_no_encoding() -> None:
    """A body that is sent as it is may say so."""
    assert kept_headers([("content-encoding", "identity")])[1] == ""
