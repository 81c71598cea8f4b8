"""Which headers of a response are kept: request ids, rate limits, and what servers and gateways say about time.

Everything else is let go. A cookie or a key is never kept, whatever it is called or whoever relays it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

EXACT = frozenset(
    """
    retry-after retry-after-ms x-should-retry server-timing
    request-id x-request-id x-correlation-id apim-request-id nvcf-reqid mistral-correlation-id
    openai-processing-ms openai-version x-ms-region x-groq-region
    x-compute-time x-compute-type x-compute-characters x-total-time x-validation-time x-queue-time x-inference-time
    x-time-per-token x-prompt-tokens x-generated-tokens
    x-amzn-requestid x-amzn-bedrock-invocation-latency x-amzn-bedrock-input-token-count
    x-amzn-bedrock-output-token-count
    """.split()
)

PREFIXES = (
    *("x-ratelimit-", "anthropic-ratelimit-", "x-metrics-", "fireworks-"),
    *("x-envoy-", "x-kong-", "x-litellm-"),  # gateways
)

RELAYED = "llm_provider-"
"""LiteLLM passes on all headers of the provider behind it under this prefix, cookies among them."""

NEVER = ("cookie", "authorization", "api-key", "secret", "peer-metadata")
"""Words that no kept header has, not even one with a kept prefix. The last is Envoy's map of somebody's network."""


@lru_cache(maxsize=1024)
def is_kept(name: str) -> bool:
    """Whether a header of this name, in lower case, is kept. Servers send the same names again and again."""
    name = name.removeprefix(RELAYED)
    return name in EXACT or (name.startswith(PREFIXES) and not any(word in name for word in NEVER))


def kept_headers(headers: Iterable[tuple[str, str]]) -> tuple[str, str, dict[str, str]]:
    """Content type (without parameters), content encoding, and the headers that are kept, names in lower case.

    Repeated headers are joined, as HTTP allows.
    """
    content_type = encoding = ""
    kept: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        if name == "content-type":
            content_type = value.partition(";")[0].strip().lower()
        elif name == "content-encoding":
            encoding = value.strip().lower()
        elif is_kept(name):
            kept[name] = f"{kept[name]}, {value}" if name in kept else value
    return content_type, "" if encoding == "identity" else encoding, kept
