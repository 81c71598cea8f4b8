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


@lru_cache(maxsize=1024)
def _known(given: str | bytes) -> str | None:
    """A header's name in lower case, if it says something that is wanted; most do not, and their values are not looked at."""
    name = (given if isinstance(given, str) else given.decode("latin-1")).lower()
    return name if name in ("content-type", "content-encoding") or is_kept(name) else None


def kept_headers(headers: Iterable[tuple[str | bytes, str | bytes]]) -> tuple[str, str, dict[str, str]]:
    """Content type (without parameters), content encoding, and the headers that are kept, names in lower case.

    Repeated headers are joined, as HTTP allows.
    """
    content_type = encoding = ""
    kept: dict[str, str] = {}
    for given, value in headers:
        name = _known(given)
        if name is None:
            continue
        text = value if isinstance(value, str) else value.decode("latin-1")
        if name == "content-type":
            content_type = text.partition(";")[0].strip().lower()
        elif name == "content-encoding":
            encoding = text.strip().lower()
        else:
            kept[name] = f"{kept[name]}, {text}" if name in kept else text
    return content_type, "" if encoding == "identity" else encoding, kept
