"""Servers whose report is a table of fields, and the little arithmetic that some of them need.

Each row of `SHAPES` says where the object is, which fields make it this server's, and what each field means. The meanings are
per server: Cerebras' total exceeds its parts, Dynamo's first token includes the wait, NIM does not say whether it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from agenttrace.phases.draft import ReportDraft, Unit, count, mapping
from agenttrace.phases.readers.vllm import span_tokens
from agenttrace.phases.server_report import ServerReport, TokenCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One server's object: where it stands and what its fields mean."""

    server: str
    at: tuple[str, ...]
    """Paths at which the object may stand; `header:` for the response's headers, "" for the body itself."""
    marks: tuple[str, ...]
    """Fields of which one must be there."""
    unit: Unit
    phases: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Phase to field and definition."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Our name of a part that is no phase to its field."""
    total: str | None = None
    """The field of a total that the server measured by itself."""
    ttft: str | None = None
    finish: Callable[[ReportDraft], None] | None = None
    """What must be reckoned from several fields."""


def read_shape(shape: Shape, payload: Mapping[str, object], headers: Mapping[str, str]) -> ServerReport | None:
    """Read one server's object; None where it is not there."""
    for at in shape.at:
        fields = headers if at == "header:" else object_at(payload, at)
        if fields and any(name in fields for name in shape.marks):
            draft = ReportDraft(
                shape.server,
                fields,
                at=at if at in ("", "header:") else at + ".",
                method=f"{shape.server}.{at or 'body'}".rstrip(":."),
            )
            for phase, (name, definition) in shape.phases.items():
                draft.reported(phase, name, shape.unit, definition)
            for part, name in shape.parts.items():
                draft.part(part, name, shape.unit)
            if shape.ttft is not None:
                draft.ttft(shape.ttft, shape.unit)
            if shape.total is not None:
                draft.total(draft.duration(shape.total, shape.unit), is_independent=True, raw=shape.total)
            if shape.finish is not None:
                shape.finish(draft)
            return draft.done()
    return None


def object_at(payload: Mapping[str, object], path: str) -> Mapping[str, object]:
    """The object at a dotted path; a number in it picks from a list. Empty where there is none."""
    if path and path not in payload and path.partition(".")[0] not in payload:
        return {}
    held: object = payload
    for step in path.split(".") if path else ():
        if type(held) is dict:
            held = held.get(step)
        elif isinstance(held, list) and step.isdecimal():
            held = held[int(step)] if int(step) < len(held) else None
        else:
            held = mapping(held).get(step)
    return mapping(held)


def _sglang(draft: ReportDraft) -> None:
    """Stamps of the API server and of the scheduler are compared only within each, whatever clocks the build uses."""
    total = draft.total(draft.duration("e2e_latency", "s"), is_independent=True, raw="e2e_latency")
    queue = draft.reported("queue", "queue_time", "s", "waiting in the scheduler (queue_time)")
    draft.derived(
        "tokenize",
        draft.between("request_received_ts", "api_server_dispatch_finish_ts"),
        "received until handed to the scheduler (api_server_dispatch_finish_ts - request_received_ts)",
    )
    prefill = draft.between("forward_entry_time", "prefill_finished_time")
    first = draft.ttft_ns = _sglang_first_token(draft, total)
    if prefill is not None:
        draft.derived("prefill", prefill, "first forward pass until prefill finished, on the scheduler's clock")
    elif first is not None:
        draft.unknown("prefill")
        _before_decode(draft, first, queue)
    draft.unknown("decode")
    decode = draft.between("prefill_finished_ts", "decode_finished_ts")
    if decode is None and first is not None and total is not None:
        decode = total - first
        draft.from_total.add("decode")
    draft.derived("decode", decode, "first token until finished")


def _sglang_first_token(draft: ReportDraft, total_ns: int | None) -> int | None:
    """Received until the first token: stated, or between stamps where their clocks prove to be one."""
    stated = draft.duration("first_token_latency", "s")
    if stated is not None:
        return stated
    received = draft.moment("request_received_ts")
    for name in ("prefill_finished_ts", "prefill_finished_time"):
        finished = draft.moment(name)
        if received is not None and finished is not None and 0 <= finished - received <= (total_ns or 0):
            return finished - received
    return None


def _before_decode(draft: ReportDraft, first_ns: int, queue_ns: int | None) -> None:
    """What is before the first token when nobody says how it divides."""
    known = sum(timing.ns or 0 for timing in draft.phases.values() if timing.ns is not None)
    definition = "received until the first token, less what is reported of it"
    if queue_ns is None:
        draft.derived("queue_plus_prefill", first_ns - known, definition)
    else:
        draft.derived("prefill", first_ns - known, definition)


SGLANG_SPAN = "gen_ai.latency."


def _sglang_span(draft: ReportDraft) -> None:
    first = draft.ttft(SGLANG_SPAN + "time_to_first_token", "s")
    before = draft.phases.get("queue_plus_prefill")
    if before is not None and before.ns is not None:
        # Another engine with these words may leave the queue out of its prefill; from arrival on, it is inside. SGLang never
        # states one without the other.
        if first is None:
            del draft.phases["queue_plus_prefill"]
            draft.unknown("prefill", high_ns=before.ns)
            draft.notes.append("whether time_in_model_prefill holds the queue cannot be told")
        else:
            draft.phases["queue_plus_prefill"] = replace(before, high_ns=max(before.ns, first))
    draft.total(draft.duration(SGLANG_SPAN + "e2e", "s"), is_independent=True, raw=SGLANG_SPAN + "e2e")
    draft.tokens = span_tokens(draft.fields)


def _nim(draft: ReportDraft) -> None:
    """Whether 'processing start' comes before the queue is not documented, so both readings bound the rest."""
    whole = draft.reported(
        "server_all", "generation_time_in_ms", "ms", "'total time for LLM processing'; may or may not hold the queue"
    )
    queue = draft.reported(
        "queue",
        "time_in_queue_in_ms",
        "ms",
        "waiting (vLLM backend only)",
        included_in="server_all" if whole is not None else None,
    )
    draft.total(whole, raw="generation_time_in_ms")
    inner = ReportDraft("nim", mapping(draft.fields.get("response_tokens")), at=draft.at + "response_tokens.")
    first = inner.duration("time_to_first_token_in_ms", "ms")
    inner.rate("itl_reported_s", "token_to_token_time_in_ms", scale=1e-3)
    inner.rate("output_tok_s_reported", "tokens_per_second")
    draft.rates.update(inner.rates)
    draft.rejected.update(inner.rejected)
    draft.unknown("prefill")
    draft.unknown("decode")
    if first is not None:
        low = 0 if queue is None else max(first - queue, 0)
        draft.unknown("prefill", low_ns=low, high_ns=first)
        if whole is not None and whole >= first:
            draft.unknown("decode", low_ns=whole - first, high_ns=min(whole - first + (queue or 0), whole))


def _dynamo(draft: ReportDraft) -> None:
    """`ttft_ms` is wait and prefill together; decoding is what the total leaves after it."""
    queue, prefill = draft.sum_of("queue"), draft.sum_of("prefill")
    first, total = draft.ttft_ns, draft.total_ns
    if first is not None and queue is None and prefill is not None:
        draft.derived("queue", first - prefill, "ttft_ms - prefill_time_ms")
    elif first is not None and prefill is None and queue is not None:
        draft.derived("prefill", first - queue, "ttft_ms - prefill_wait_time_ms")
    elif first is not None and prefill is None:
        draft.reported("queue_plus_prefill", "ttft_ms", "ms", "received until the first token (ttft_ms)")
    if first is None:
        first = draft.sum_of("queue", "prefill")
    draft.unknown("decode")
    if first is not None and total is not None:
        draft.derived("decode", total - first, "first token until the end (total_time_ms - ttft_ms)", from_total=True)
        if draft.sum_of("decode") is not None:
            draft.total_is_independent = False
    draft.rate("itl_reported_s", "avg_itl_ms", scale=1e-3)


def _trtllm(draft: ReportDraft) -> None:
    """Stamps of one steady clock. `server_` ones are the HTTP server's, the others the engine's."""
    draft.derived(
        "tokenize",
        draft.between("server_arrival_time", "arrival_time"),
        "server arrival until the engine has the request: parsing, tokenisation",
    )
    draft.derived(
        "queue", draft.between("arrival_time", "first_scheduled_time"), "engine arrival until first scheduled"
    )
    draft.derived(
        "prefill", draft.between("first_scheduled_time", "first_token_time"), "first scheduled until the first token"
    )
    draft.derived("decode", draft.between("first_token_time", "last_token_time"), "first token until the last one")
    post = draft.between("first_token_time", "server_first_token_time")
    if post is not None:
        draft.parts["first_token_postprocess"] = post
    first = draft.between("server_arrival_time", "server_first_token_time")
    draft.ttft_ns = draft.sum_of("tokenize", "queue", "prefill") if first is None else first
    draft.total(draft.sum_of("tokenize", "queue", "prefill", "decode"))


def _lmstudio(draft: ReportDraft) -> None:
    draft.total(draft.sum_of("queue_plus_prefill", "decode"))
    draft.rate("output_tok_s_reported", "tokens_per_second")


def _mlx(draft: ReportDraft) -> None:
    """Only rates: time is tokens over rate. The decode window begins at the first token, so one token more or less is open."""
    usage = "prompt_tps" in draft.fields
    prompt = count(draft.fields.get("input_tokens" if usage else "prompt_n"))
    output = count(draft.fields.get("output_tokens" if usage else "predicted_n"))
    prefill_rate = _rate(draft, "prompt_tps" if usage else "prompt_per_second")
    decode_rate = _rate(draft, "generation_tps" if usage else "predicted_per_second")
    draft.tokens = TokenCounts(uncached=prompt, output=output)
    draft.unknown("queue")
    draft.unknown("prefill")
    draft.unknown("decode")
    if prompt and prefill_rate:
        draft.derived("prefill", _ns(prompt / prefill_rate), "prompt tokens over the stated prompt rate")
    if output and decode_rate:
        draft.derived(
            "decode",
            _ns(output / decode_rate),
            "generated tokens over the stated rate; N or N-1 is open",
            low_ns=_ns((output - 1) / decode_rate),
        )


def _rate(draft: ReportDraft, name: str) -> float | None:
    stated = draft.rate(name, name)
    draft.rates.pop(name, None)
    return stated


def _ns(seconds: float) -> int | None:
    return round(seconds * 1e9) if seconds < 86_400 else None


def _openrouter(draft: ReportDraft) -> None:
    draft.elapsed(
        False,
        "latency",
        "ms",
        "OpenRouter's total latency; whether generation_time holds the upstream's queue is not documented",
    )


def _worked(draft: ReportDraft) -> None:
    draft.total(draft.sum_of("queue", "prefill", "decode"))


_CEREBRAS = {
    "queue": ("queue_time", "waiting until work begins (queue_time)"),
    "prefill": ("prompt_time", "processing the prompt (prompt_time)"),
    "decode": ("completion_time", "generating the completion (completion_time)"),
}

SHAPES: tuple[Shape, ...] = (
    Shape(
        server="cerebras",
        at=("time_info",),
        marks=("prompt_time", "completion_time", "total_time"),
        unit="s",
        phases=_CEREBRAS,
        total="total_time",
    ),
    Shape(
        server="sglang",
        at=("meta_info", "choices.0.meta_info"),
        marks=("e2e_latency", "queue_time", "first_token_latency", "prefill_finished_ts", "prefill_finished_time"),
        unit="s",
        finish=_sglang,
    ),
    Shape(
        server="sglang",
        at=("attributes", ""),
        marks=(SGLANG_SPAN + "time_in_model_prefill", SGLANG_SPAN + "time_in_model_decode"),
        unit="s",
        phases={
            "queue_plus_prefill": (
                SGLANG_SPAN + "time_in_model_prefill",
                "dispatched until the first token; the scheduler's queue is inside",
            ),
            "decode": (SGLANG_SPAN + "time_in_model_decode", "first token until the last one"),
        },
        finish=_sglang_span,
    ),
    Shape(
        server="nim",
        at=("stats",),
        marks=("generation_time_in_ms", "time_in_queue_in_ms", "response_tokens"),
        unit="ms",
        finish=_nim,
    ),
    Shape(
        server="dynamo",
        at=("nvext.timing", "timing", "request", ""),
        marks=("prefill_wait_time_ms", "prefill_time_ms", "ttft_ms"),
        unit="ms",
        phases={
            "queue": ("prefill_wait_time_ms", "received until prefill starts (prefill_wait_time_ms)"),
            "prefill": ("prefill_time_ms", "prefill start until the first token (prefill_time_ms)"),
        },
        parts={"kv_transfer_estimated": "kv_transfer_estimated_latency_ms"},
        total="total_time_ms",
        ttft="ttft_ms",
        finish=_dynamo,
    ),
    Shape(
        server="tensorrt-llm",
        at=("perf_metrics.timing_metrics", "timing_metrics", "ctx_perf_metrics.perf_metrics.timing_metrics"),
        marks=("arrival_time", "first_scheduled_time", "first_token_time"),
        unit="s",
        finish=_trtllm,
    ),
    Shape(
        server="lmstudio",
        at=("stats",),
        marks=("time_to_first_token", "generation_time"),
        unit="s",
        phases={
            "queue_plus_prefill": ("time_to_first_token", "until the first token (time_to_first_token)"),
            "decode": ("generation_time", "generating, without the time to first token (generation_time)"),
        },
        finish=_lmstudio,
    ),
    Shape(
        server="lmstudio",
        at=("stats",),
        marks=("time_to_first_token_seconds", "model_load_time_seconds"),
        unit="s",
        phases={
            "load": ("model_load_time_seconds", "loading the model (model_load_time_seconds)"),
            "queue_plus_prefill": (
                "time_to_first_token_seconds",
                "until the first token (time_to_first_token_seconds)",
            ),
        },
        finish=_lmstudio,
    ),
    Shape(server="mlx-lm", at=("timings",), marks=("prompt_per_second", "predicted_per_second"), unit="s", finish=_mlx),
    Shape(server="mlx-lm", at=("usage",), marks=("prompt_tps", "generation_tps"), unit="s", finish=_mlx),
    Shape(
        server="openrouter",
        at=("data", ""),
        marks=("generation_time", "moderation_latency"),
        unit="ms",
        parts={"moderation": "moderation_latency", "generation": "generation_time"},
        finish=_openrouter,
    ),
    Shape(
        server="generic",
        at=("",),
        marks=("queue_s", "prefill_s", "decode_s"),
        unit="s",
        phases={name: (name + "_s", f"as stated in `{name}_s`") for name in ("queue", "prefill", "decode")},
        finish=_worked,
    ),
)
"""Bodies first by how particular their marks are; the body itself last."""


def with_absorbed(report: ServerReport) -> ServerReport:
    """Say where tokenisation is when a server only states the time until its first token: inside it."""
    names = {phase.name for phase in report.phases if phase.ns is not None}
    if "queue_plus_prefill" not in names or "tokenize" in names:
        return report
    absorbed = ReportDraft(report.server, {})
    absorbed.unknown("tokenize", included_in="queue_plus_prefill")
    kept = (phase for phase in report.phases if phase.name != "tokenize")
    return replace(report, phases=(*kept, absorbed.phases["tokenize"]))
