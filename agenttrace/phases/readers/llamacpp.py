"""llama.cpp server's `timings`, in milliseconds, on the last chunk or the whole response.

`prompt_ms` runs from the slot's start until the first token is sampled, `predicted_ms` from then to the last token. Waiting
for a slot, the chat template, tokenisation and HTTP are not counted at all, so the server states no total.
`prompt_n` counts computed tokens only; builds that report no `cache_n` leave the rest of the prompt to `usage`.
Source: llama.cpp tools/server/server-context.cpp, README "Timings and context usage".
"""

from __future__ import annotations

from collections.abc import Mapping

from agenttrace.phases.draft import NS, ReportDraft, count, mapping
from agenttrace.phases.server_report import ServerReport, Speculation, TokenCounts

QUEUE = "waiting for a slot; not reported"
PREFILL = "slot start until the first token is sampled, over tokens that were not in the cache (prompt_ms)"
DECODE = "first sampled token until the last one (predicted_ms)"


def read(payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None) -> ServerReport | None:
    """Read `timings`; None where it states no milliseconds (MLX servers send a `timings` of rates only)."""
    timings = mapping(payload.get("timings"))
    if "prompt_ms" not in timings and "predicted_ms" not in timings:
        return None
    draft = ReportDraft("llama.cpp", timings, at="timings.", method="llama.cpp.timings")
    draft.unknown("queue", definition=QUEUE)
    draft.reported("prefill", "prompt_ms", "ms", PREFILL)
    decode_ns = draft.reported("decode", "predicted_ms", "ms", DECODE)
    tokens = _tokens(timings, mapping(payload.get("usage")))
    # Some builds round the per-token value to two digits, so it is taken from its own numerator and denominator (N, not N-1).
    if decode_ns and tokens.output and "predicted_per_token_ms" in timings:
        draft.rates["itl_reported_s"] = decode_ns / tokens.output / NS["s"]
    drafted, accepted = count(timings.get("draft_n")), count(timings.get("draft_n_accepted"))
    speculation = None
    if drafted:
        speculation = Speculation(drafted=drafted, accepted=accepted)
        draft.notes.append("speculative decoding: tokens come in bursts, a gap between tokens is no step time")
    return draft.done(tokens=tokens, speculation=speculation)


def _tokens(timings: Mapping[str, object], usage: Mapping[str, object]) -> TokenCounts:
    computed, cached = count(timings.get("prompt_n")), count(timings.get("cache_n"))
    prompt = count(usage.get("prompt_tokens"))
    if computed is not None and cached is not None:
        prompt = computed + cached
    elif computed is not None and prompt is not None and prompt >= computed:
        cached = prompt - computed
    output = count(timings.get("predicted_n"))
    if output is None:
        output = count(usage.get("completion_tokens"))
    return TokenCounts(prompt=prompt, cached=cached, uncached=computed, output=output)
