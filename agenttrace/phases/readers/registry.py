"""Finds the reader that understands a response: the named server's own first, then every other by its shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from agenttrace.phases.names import HOSTED, SERVER
from agenttrace.phases.readers import (
    anthropic,
    bedrock,
    gemini,
    groq,
    litellm,
    llamacpp,
    ollama,
    openai,
    response_headers,
    server_timing,
    vllm,
)
from agenttrace.phases.readers.other_servers import SHAPES, Shape, read_shape, with_absorbed
from agenttrace.phases.server_report import Reader, ServerReport, TokenCounts
from agenttrace.phases.tokens import merged, read_tokens


def _reader(shape: Shape) -> Reader:
    return lambda payload, headers, streamed: read_shape(shape, payload, headers)


_BODIES: tuple[tuple[str, Reader], ...] = (
    ("ollama", ollama.read),
    ("llama.cpp", llamacpp.read),
    ("groq", groq.read),
    ("vllm", vllm.read_response),
    ("vllm", vllm.read_old),
    ("vllm", vllm.read_span),
    ("fireworks", response_headers.read_fireworks),
    ("bedrock", bedrock.read),
    *((shape.server, _reader(shape)) for shape in SHAPES),
)
_HEADERS: tuple[tuple[str, Reader], ...] = (
    ("tgi", response_headers.read_tgi),
    ("xai", response_headers.read_xai),
    ("openai", openai.read),
    ("anthropic", anthropic.read),
    ("gemini", gemini.read),
    ("proxy", server_timing.read),
)
"""A proxy's headers say least and come last: any server may stand behind one."""


def _upstream() -> Sequence[Reader]:
    return [reader for _, reader in (*_BODIES, *_HEADERS)]


_PROXY: tuple[tuple[str, Reader], ...] = (("litellm", litellm.reader_over(_upstream)),)

ALIASES: Mapping[str, str] = {
    "azure": "openai",
    "openai-sdk": "openai",
    "google": "gemini",
    "google_genai": "gemini",
    "google_vertexai": "gemini",
    "amazon_bedrock": "bedrock",
    "bedrock_converse": "bedrock",
    "llamacpp": "llama.cpp",
    "mlx": "mlx-lm",
    "trtllm": "tensorrt-llm",
    "huggingface": "tgi",
}
"""Other names of servers, LangChain's `ls_provider` among them."""


def read_report(
    payload: Mapping[str, object],
    headers: Mapping[str, str],
    *,
    server: str | None = None,
    streamed: bool | None = None,
) -> ServerReport | None:
    """The report of whoever answered; None where nobody is known to write like this and no tokens are counted.

    `server` is a hint that decides who is asked first. It is not believed further: an OpenAI client may talk to any server.
    """
    lower_case = {str(name).lower(): str(value) for name, value in headers.items()}
    hint = ALIASES.get((server or "").lower(), (server or "").lower())
    tokens, notes = read_tokens(payload, lower_case)
    silent: ServerReport | None = None
    for reader in _asked(hint):
        report = reader(payload, lower_case, streamed)
        if report is None:
            continue
        if report.says_time:
            report = replace(report, tokens=merged(report.tokens, tokens), notes=(*report.notes, *notes))
            return with_absorbed(_of_any_server(report))
        silent = silent or report
    if silent is not None:
        silent = replace(silent, tokens=merged(silent.tokens, tokens), notes=(*silent.notes, *notes))
        return _of_any_server(silent)
    if tokens != TokenCounts() or notes:
        return _of_any_server(ServerReport(server=hint or "unknown", tokens=tokens, notes=notes))
    return None


@lru_cache(maxsize=64)
def _asked(hint: str) -> tuple[Reader, ...]:
    """Readers in the order in which they are tried: the hinted one first among bodies, and first among headers.

    What a body says is never passed over for a header, whatever the hint.
    """
    groups = [sorted(group, key=lambda entry: entry[0] != hint) for group in (_BODIES, _PROXY, _HEADERS)]
    return tuple(reader for _, reader in chain.from_iterable(groups))


def _of_any_server(report: ServerReport) -> ServerReport:
    """A server that says nothing of how its time divides may have loaded a model too."""
    says_nothing = report.total_ns is None and all(phase.ns is None for phase in report.phases)
    return replace(report, members=SERVER) if says_nothing and report.members == HOSTED else report
