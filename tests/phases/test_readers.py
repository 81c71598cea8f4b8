"""Each server's semantics, in shapes that the published payloads do not have."""

from __future__ import annotations

from typing import Any

import pytest

from agenttrace.phases.explain import Explanation, explain_response
from tests.phases.builders import by_name

MS = 1_000_000


def explained(payload: dict[str, Any] | None = None, *, streamed: bool | None = None, **headers: str) -> Explanation:
    """Headers by keyword, with `_` for `-`."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    client = {} if streamed is None else {"streamed": streamed}
    return explain_response({"payload": payload or {}, "headers": named, "client": client})


def ms(found: Explanation) -> dict[str, float | None]:
    """Phases by name, in milliseconds."""
    return {phase.name: None if phase.ns is None else phase.ns / MS for phase in found.phases}


def test_llamacpp_without_cache_count() -> None:
    """Builds without `cache_n` leave the cached tokens to what `usage` counts beyond the computed ones."""
    timings = {"prompt_n": 10, "prompt_ms": 50.0, "predicted_n": 5, "predicted_ms": 100.0}
    found = explained({"timings": timings, "usage": {"prompt_tokens": 40, "completion_tokens": 5}})
    assert (found.tokens.prompt, found.tokens.cached, found.tokens.uncached) == (40, 30, 10)


def test_llamacpp_half_a_report() -> None:
    """A response that broke off before its first token has a prefill and no decode, and not a decode of zero."""
    assert ms(explained({"timings": {"prompt_n": 10, "prompt_ms": 50.0}}))["decode"] is None


def test_ollama_cached_prompt_without_evaluation() -> None:
    """Without `prompt_eval_duration` the prefill is somewhere in what is left of the total, and that is not unattributed."""
    found = explained({"total_duration": 1000 * MS, "load_duration": 100 * MS, "eval_duration": 600 * MS})
    phases = by_name(found.phases)
    holder = phases["prefill"].included_in
    assert holder is not None
    assert phases[holder].ns == 300 * MS
    assert "unattributed_server" not in phases


def test_ollama_total_alone() -> None:
    """A total without parts is all of the server's, undivided."""
    found = ms(explained({"total_duration": 1000 * MS}))
    assert (found["server_all"], found["prefill"], found["decode"]) == (1000, None, None)


def test_ollama_parts_beyond_the_total() -> None:
    """A total smaller than its parts is rejected; the parts stay."""
    found = explained({"total_duration": 100 * MS, "prompt_eval_duration": 80 * MS, "eval_duration": 90 * MS})
    assert set(found.rejected) == {"total_duration"}
    assert found.server_total_ns is None
    assert ms(found)["decode"] == 90


@pytest.mark.parametrize("at", ["usage", "token_usage", "x_groq"])
def test_groq_wherever_its_usage_is(at: str) -> None:
    """Groq's times are read from the body, from a stream's `x_groq`, and from where LangChain keeps them."""
    usage = {
        "queue_time": 0.01,
        "prompt_time": 0.02,
        "completion_time": 0.03,
        "total_time": 0.05,
        "completion_tokens": 3,
    }
    found = explained({at: {"usage": usage} if at == "x_groq" else usage})
    assert found.server_total_ns == 60 * MS
    assert found.tokens.output == 3


def test_groq_total_of_another_meaning() -> None:
    """A `total_time` that is no longer prompt and completion is told, and nothing is computed from it."""
    found = explained({"usage": {"queue_time": 0.01, "prompt_time": 0.02, "completion_time": 0.03, "total_time": 0.5}})
    assert any("total_time" in note for note in found.notes)
    assert found.server_total_ns == 60 * MS


def test_vllm_null_times() -> None:
    """vLLM writes null for several choices at once: unknown."""
    found = explained({"metrics": {"time_to_first_token_ms": None, "generation_time_ms": None, "queue_time_ms": None}})
    assert [ms(found)[name] for name in ("queue", "prefill", "decode")] == [None, None, None]


def test_vllm_span_as_otlp_sends_it() -> None:
    """OTLP's JSON lists attributes with typed values, whole numbers as text."""
    values = {"time_in_queue": 0.1, "time_in_model_prefill": 0.2, "time_in_model_decode": 0.5, "e2e": 0.9}
    values["time_to_first_token"] = 0.35
    attributes: list[dict[str, Any]] = [
        {"key": f"gen_ai.latency.{name}", "value": {"doubleValue": value}} for name, value in values.items()
    ]
    attributes.append({"key": "gen_ai.usage.completion_tokens", "value": {"intValue": "11"}})
    found = explained({"name": "llm_request", "attributes": attributes})
    assert ms(found)["tokenize"] == pytest.approx(50)
    assert ms(found)["unattributed_server"] == pytest.approx(50)
    assert found.tokens.output == 11
    assert found.server_ttft_ns == 350 * MS


def test_vllm_span_of_two_clocks() -> None:
    """A wall-clock first token a little before the monotonic parts is rounding; far before it, tokenisation is unknown."""
    latency = {"time_in_queue": 0.1, "time_in_model_prefill": 0.2, "time_in_model_decode": 0.5, "e2e": 0.9}

    def tokenize(ttft: float) -> int | None:
        named = {f"gen_ai.latency.{name}": value for name, value in (latency | {"time_to_first_token": ttft}).items()}
        return by_name(explained({"attributes": named}).phases)["tokenize"].ns

    assert tokenize(0.2995) == 0
    assert tokenize(0.2) is None


def test_sglang_span_prefill_holds_the_queue() -> None:
    """The same attribute that is vLLM's prefill is dispatch to first token at SGLang: queue and prefill."""
    latency = {"time_in_model_prefill": 0.3, "time_in_model_decode": 0.5, "e2e": 0.9, "time_to_first_token": 0.35}
    found = ms(explained({"attributes": {f"gen_ai.latency.{name}": value for name, value in latency.items()}}))
    assert (found["queue_plus_prefill"], found["prefill"], found["queue"]) == (300, None, None)


def test_span_of_neither_engine() -> None:
    """Without a queue time and a first token nobody can tell what the prefill attribute holds: it is an upper bound."""
    attributes = {"gen_ai.latency.time_in_model_prefill": 0.3, "gen_ai.latency.time_in_model_decode": 0.5}
    prefill = by_name(explained({"attributes": attributes}).phases)["prefill"]
    assert (prefill.ns, prefill.high_ns) == (None, 300 * MS)


def test_sglang_stamps_of_one_clock() -> None:
    """Current SGLang states its queue and stamps around prefill; what comes after the first token is decode."""
    meta = {
        "e2e_latency": 2.0,
        "queue_time": 0.25,
        "request_received_ts": 100.0,
        "api_server_dispatch_finish_ts": 100.1,
        "forward_entry_time": 100.35,
        "prefill_finished_time": 100.55,
        "request_finished_ts": 102.0,
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "cached_tokens": 20,
    }
    found = explained({"choices": [{"meta_info": meta}]})
    assert [ms(found)[name] for name in ("tokenize", "queue", "prefill", "decode")] == [100, 250, 200, 1450]
    assert found.server_ttft_ns == 550 * MS


def test_sglang_stamps_of_two_clocks() -> None:
    """Scheduler stamps on another clock than the API server's are only compared with each other."""
    meta = {
        "e2e_latency": 2.0,
        "queue_time": 0.25,
        "request_received_ts": 1_764_590_400.0,
        "forward_entry_time": 2000.0,
        "prefill_finished_time": 2000.5,
    }
    found = ms(explained({"meta_info": meta}))
    assert found["prefill"] == 500
    assert found["decode"] is None
    assert found["tokenize_plus_decode_plus_unattributed_server"] == 1250


def test_trtllm_to_the_last_token() -> None:
    """With a last token the parts add up to the total."""
    stamps = {
        "server_arrival_time": 1.0,
        "arrival_time": 1.1,
        "first_scheduled_time": 1.3,
        "first_token_time": 1.6,
        "last_token_time": 2.6,
    }
    found = explained({"timing_metrics": stamps})
    assert found.server_total_ns == 1600 * MS
    assert ms(found)["decode"] == 1000


def test_trtllm_reversed_stamps() -> None:
    """A first token before it was scheduled is rejected, not a negative prefill."""
    found = explained({"timing_metrics": {"arrival_time": 1.0, "first_scheduled_time": 2.0, "first_token_time": 1.5}})
    assert ms(found)["prefill"] is None
    assert set(found.rejected) == {"first_token_time"}


def test_dynamo_inside_nvext() -> None:
    """Dynamo answers under `nvext.timing`; a part that is not stated follows from the time to first token."""
    found = explained({"nvext": {"timing": {"prefill_time_ms": 70.0, "ttft_ms": 82.0, "total_time_ms": 1000.0}}})
    assert [ms(found)[name] for name in ("queue", "prefill", "decode")] == [12, 70, 918]


def test_dynamo_first_token_alone() -> None:
    """A time to first token that nobody divides is one sum."""
    found = ms(explained({"nvext": {"timing": {"ttft_ms": 82.0, "total_time_ms": 1000.0}}}))
    assert (found["queue_plus_prefill"], found["queue"], found["prefill"]) == (82, None, None)


def test_nim_without_a_queue() -> None:
    """Only the vLLM backend states a queue: without it, prefill may be all of the time to first token or none of it."""
    stats = {"generation_time_in_ms": 800.0, "response_tokens": {"time_to_first_token_in_ms": 110.0}}
    prefill = by_name(explained({"stats": stats}).phases)["prefill"]
    assert (prefill.ns, prefill.low_ns, prefill.high_ns) == (None, 0, 110 * MS)


def test_fireworks_dedicated_states_all() -> None:
    """A dedicated deployment states every part, as numbers or text; the body's object is read like the headers."""
    metrics = {
        "tokenizer-duration": 0.01,
        "prefill-queue-duration": "0.2",
        "prefill-duration": 0.1,
        "generation-queue-duration": 0.05,
        "generation-duration": 1.0,
        "server-time-to-first-token": "0.32",
        "server-processing-time": 1.4,
    }
    found = explained({"perf_metrics": metrics})
    assert [ms(found)[name] for name in ("queue", "tokenize", "prefill", "decode")] == [200, 10, 100, 1000]
    assert ms(found)["unattributed_server"] == pytest.approx(90)
    assert found.server_parts_ns["generation_queue"] == 50 * MS


def test_lmstudio_states_loading() -> None:
    """LM Studio's newer interface states the loading of the model and names its units in the fields."""
    stats = {"model_load_time_seconds": 2.0, "time_to_first_token_seconds": 0.5, "total_output_tokens": 7}
    found = explained({"stats": stats})
    assert (ms(found)["load"], ms(found)["queue_plus_prefill"]) == (2000, 500)
    assert found.tokens.output == 7


def test_mlx_decode_bounds() -> None:
    """A decode had from a rate may cover N or N - 1 tokens."""
    timings = {"prompt_per_second": 100.0, "predicted_per_second": 10.0, "prompt_n": 50, "predicted_n": 20}
    decode = by_name(explained({"timings": timings}).phases)["decode"]
    assert (decode.ns, decode.low_ns, decode.high_ns, decode.source) == (2000 * MS, 1900 * MS, 2000 * MS, "derived")


def test_bedrock_latency_in_a_list() -> None:
    """langchain-aws puts the latency into a list of one; a list of several calls' latencies is no latency of one."""
    assert ms(explained({"metrics": {"latencyMs": [609]}}))["server_all"] == 609
    several = explained({"metrics": {"latencyMs": [609, 700]}})
    assert set(several.rejected) == {"latencyMs"}


def test_openai_header_without_streaming() -> None:
    """Of a whole response the header is the server's total, cut to milliseconds."""
    found = explained(streamed=False, openai_processing_ms="256")
    whole = by_name(found.phases)["server_all"]
    assert (whole.ns, whole.high_ns) == (256 * MS, 257 * MS - 1)
    assert found.server_total_ns == 256 * MS


@pytest.mark.parametrize(
    "headers",
    [
        {"openai-processing-ms": "81"},
        {"request-id": "req_1", "x-envoy-upstream-service-time": "81"},
        {"server-timing": "gfet4t7; dur=81"},
        {"x-amzn-bedrock-invocation-latency": "81"},
        {"llm_provider-openai-processing-ms": "81"},
        {"x-litellm-response-duration-ms": "81"},
        {"x-kong-upstream-latency": "81"},
    ],
    ids=lambda headers: next(reversed(headers)),
)
def test_headers_of_a_stream_end_at_the_headers(headers: dict[str, str]) -> None:
    """Headers leave before a streamed body, so what they state is no total of it."""
    found = explain_response({"headers": headers, "client": {"streamed": True}})
    assert found.server_total_ns is None
    assert "server_all" not in ms(found)
    assert found.server_parts_ns["server_until_headers"] == 81 * MS


def test_litellm_total_around_its_upstream() -> None:
    """The proxy's duration holds the upstream's; what it adds is unattributed."""
    headers = {"llm_provider-openai-processing-ms": "256", "x-litellm-response-duration-ms": "300.5"}
    found = explain_response({"headers": {**headers, "x-litellm-overhead-duration-ms": "2.5"}})
    assert found.server_total_ns == 300_500_000
    assert ms(found)["unattributed_server"] == pytest.approx(44.5)
    assert found.server_parts_ns["litellm_overhead"] == 2_500_000


def test_server_timing_syntax() -> None:
    """Quoted descriptions may hold commas and semicolons; entries without a duration state none."""
    header = 'cache;desc="hit, or; miss", db;dur=53.2;desc="a\\"b", total;DUR="100", bad;dur=x, neg;dur=-1'
    found = explained(server_timing=header)
    assert found.server_parts_ns == {"db": 53_200_000, "total": 100 * MS}
    assert all(phase.ns is None for phase in found.phases)


def test_body_knows_more_than_a_proxy() -> None:
    """A server's own report in the body comes before the headers of a proxy in front of it."""
    timings = {"prompt_ms": 50.0, "predicted_ms": 100.0}
    found = explained({"timings": timings}, x_envoy_upstream_service_time="160")
    assert ms(found)["prefill"] == 50


def test_raw_values_are_kept() -> None:
    """Each number keeps its path, value and unit as the server wrote them."""
    raw = explained({"metrics": {"queue_time_ms": 12.3, "time_to_first_token_ms": 85.2}}).raw["queue"]
    assert (raw.path, raw.value, raw.unit) == ("metrics.queue_time_ms", 12.3, "ms")


def test_hint_never_hides_a_body() -> None:
    """An OpenAI client may talk to llama.cpp: the body's own words come before a header, whatever the provider is called."""
    document = {
        "provider": "openai",
        "payload": {"timings": {"prompt_ms": 50.0, "predicted_ms": 100.0}},
        "headers": {"openai-processing-ms": "160"},
    }
    assert ms(explain_response(document))["prefill"] == 50


def test_unknown_shape_is_unknown() -> None:
    """A body that nobody is known to write states nothing: no phase has a number."""
    found = explained({"latency": 3.2, "timing": {"queue": 1, "prefill": 2}, "usage": {"prompt_tokens": 5}})
    assert all(phase.ns is None for phase in found.phases)
    assert found.tokens.prompt == 5
