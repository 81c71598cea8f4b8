"""vLLM's three reports: `metrics` in the response (0.33 on), attributes of its OpenTelemetry span, `metrics` of old engines.

The same words mean different things in them. In the response, `time_to_first_token_ms` runs from being scheduled to the first
token: it is the prefill, and the queue is not inside. In the span, `time_to_first_token` runs from arrival on the wall clock,
so tokenisation, queue and prefill are inside. Source: vllm/v1/metrics, vllm/v1/engine/output_processor.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from agenttrace.phases.draft import NS, ReportDraft, count, mapping, number
from agenttrace.phases.server_report import ServerReport, Speculation, TokenCounts

RESPONSE_FIELDS = ("time_to_first_token_ms", "generation_time_ms", "queue_time_ms")
OLD_FIELDS = ("first_scheduled_time", "first_token_time")
SPAN = "gen_ai.latency."
SPAN_NAME = "llm_request"

QUEUE = "queued until first scheduled, on the engine's clock"
PREFILL = "first scheduled until the first token, preemption included, on the engine's clock"
DECODE = "first token until the last one, on the engine's clock"
TOKENIZE = "arrival until queued: template, tokenisation, hand-over (time_to_first_token - queue - prefill; two clocks)"


def read_response(
    payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None
) -> ServerReport | None:
    """Read the response's `metrics`; None where they are no per-request metrics of vLLM's."""
    metrics = mapping(payload.get("metrics"))
    speculation = _speculation(mapping(metrics.get("speculative_decoding")))
    if speculation is None and not any(name in metrics for name in RESPONSE_FIELDS):
        return None
    draft = ReportDraft("vllm", metrics, at="metrics.", method="vllm.metrics")
    draft.reported("queue", "queue_time_ms", "ms", QUEUE)
    draft.reported("prefill", "time_to_first_token_ms", "ms", PREFILL)
    draft.reported("decode", "generation_time_ms", "ms", DECODE)
    draft.total(draft.sum_of("queue", "prefill", "decode"))
    draft.rate("itl_reported_s", "mean_itl_ms", scale=1e-3)
    draft.rate("output_tok_s_reported", "tokens_per_second")
    return draft.done(speculation=speculation)


def read_span(payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None) -> ServerReport | None:
    """Read the attributes of an `llm_request` span; None for SGLang's, which has the same words and never a queue time."""
    attributes = span_attributes(payload)
    is_named = SPAN_NAME in (payload.get("span"), payload.get("name"))
    if SPAN + "time_in_queue" not in attributes and not (is_named and SPAN + "time_in_model_prefill" in attributes):
        return None
    draft = ReportDraft("vllm", attributes, at="attributes.", method="vllm.otel")
    queue = draft.reported("queue", SPAN + "time_in_queue", "s", QUEUE)
    prefill = draft.reported("prefill", SPAN + "time_in_model_prefill", "s", PREFILL)
    draft.reported("decode", SPAN + "time_in_model_decode", "s", DECODE)
    ttft = draft.ttft(SPAN + "time_to_first_token", "s")
    if ttft is not None and queue is not None and prefill is not None:
        before = ttft - queue - prefill
        if -NS["ms"] <= before < 0:  # arrival is on the wall clock, the rest is monotonic
            draft.derived("tokenize", 0, TOKENIZE, high_ns=NS["ms"])
        else:
            draft.derived("tokenize", before, TOKENIZE)
            if before < 0:
                draft.notes.append("time_to_first_token is shorter than queue and prefill: tokenisation unknown")
    draft.total(draft.duration(SPAN + "e2e", "s"), is_independent=True, raw=SPAN + "e2e")
    return draft.done(tokens=span_tokens(attributes))


def span_attributes(payload: Mapping[str, object]) -> Mapping[str, object]:
    """A span's attributes by key: a plain object, OTLP's list of key and typed value, or the payload itself."""
    held = payload.get("attributes")
    if isinstance(held, list):
        pairs = [mapping(one) for one in held]
        return {str(one.get("key")): _typed(mapping(one.get("value"))) for one in pairs}
    return mapping(held) if held is not None else payload


def _typed(value: Mapping[str, object]) -> object:
    """OTLP's JSON writes 64-bit integers as text."""
    whole = value.get("intValue")
    if isinstance(whole, str) and whole.isascii() and whole.isdecimal() and len(whole) < 20:
        return int(whole)
    return next(iter(value.values()), None)


def span_tokens(attributes: Mapping[str, object]) -> TokenCounts:
    """Token counts of a server's span, by the convention's old names and its present ones."""
    prompt, output = (
        next(
            (value for value in (count(attributes.get(f"gen_ai.usage.{name}")) for name in names) if value is not None),
            None,
        )
        for names in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
    )
    return TokenCounts(prompt=prompt, cached=count(attributes.get("gen_ai.usage.cached_tokens")), output=output)


def read_old(payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None) -> ServerReport | None:
    """Read `RequestMetrics` of V0 engines: time stamps, some of which are known to come from another clock or to be copies."""
    metrics = mapping(payload.get("metrics"))
    if not any(name in metrics for name in OLD_FIELDS):
        return None
    draft = ReportDraft("vllm", metrics, at="metrics.", method="vllm.request_metrics")
    queue = draft.reported("queue", "time_in_queue", "s", QUEUE)
    arrival, scheduled = draft.moment("arrival_time"), draft.moment("first_scheduled_time")
    if arrival is not None and scheduled is not None and draft.between("arrival_time", "first_scheduled_time") is None:
        # The engine's stamps agree with each other, so it is the arrival that stands on another clock.
        draft.rejected["arrival_time"] = "on another clock than first_scheduled_time"
        draft.rejected.pop("first_scheduled_time", None)
        if queue is not None:
            draft.rejected["time_in_queue"] = "computed from times of two clocks"
            draft.unknown("queue", definition=QUEUE)
    draft.derived("prefill", draft.between("first_scheduled_time", "first_token_time"), PREFILL)
    draft.derived("decode", _old_decode(draft), DECODE)
    draft.total(draft.sum_of("queue", "prefill", "decode"))
    return draft.done()


def _old_decode(draft: ReportDraft) -> int | None:
    """To the last token; engines that left `last_token_time` at the arrival have the end in `finished_time`."""
    to_last = draft.between("first_token_time", "last_token_time")
    return draft.between("first_token_time", "finished_time") if to_last is None else to_last


def _speculation(fields: Mapping[str, object]) -> Speculation | None:
    if not fields:
        return None
    return Speculation(
        steps=count(fields.get("num_spec_steps")),
        drafted=count(fields.get("num_draft_tokens")),
        accepted=count(fields.get("num_accepted_draft_tokens")),
        mean_tokens_per_step=number(fields.get("mean_acceptance_length")),
    )
