"""The numbers that people compare model calls by. Known answers: the six-second request of the source article."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from agenttrace.phases.metrics import DEFINITION_IDS, CallMetrics, call_metrics
from agenttrace.phases.rates import DEFINITIONS
from agenttrace.records import Marks, PhaseTiming, SpanRecord, Usage
from tests.phases.builders import NOON, SECOND

MS = SECOND // 1000


def known(name: str, seconds: float, **more: Any) -> PhaseTiming:
    ns = round(seconds * SECOND)
    return PhaseTiming(name=name, ns=ns, low_ns=ns, high_ns=ns, source="server-reported", method="test", **more)


SIX_SECONDS = SpanRecord(
    trace_id="a" * 32,
    span_id="b" * 16,
    parent_id=None,
    run_id="run1",
    kind="model",
    name="ChatModel",
    state="ok",
    start_ns=NOON,
    end_ns=NOON + 6 * SECOND,
    usage=Usage(input=4000, output=180, cached=0),
    phases=(known("queue", 1.2), known("prefill", 0.9), known("decode", 3.6), known("delivery", 0.3)),
    marks=Marks(),
)


def test_six_second_request() -> None:
    """The article's request: 4,444 tok/s, 20 ms over N, 20.1 ms over N - 1, 2.1 s at the server, 2.1 to 2.4 s at the client."""
    found = call_metrics(SIX_SECONDS)
    assert found.prefill_tok_s == pytest.approx(4444.444, rel=1e-6)
    assert found.decode_tok_s == pytest.approx(50)
    assert found.tpot_n_ns == pytest.approx(20 * MS)
    assert found.itl_n1_ns == pytest.approx(20_111_732, abs=1)
    assert found.server_ttft_ns == 2100 * MS
    assert found.client_ttft_ns is None
    assert (found.client_ttft_low_ns, found.client_ttft_high_ns) == (2100 * MS, 2400 * MS)
    assert found.itl_client_n1_ns is None
    assert found.itl_client_n1_low_ns == pytest.approx(20_111_732, abs=1)
    assert found.itl_client_n1_high_ns == pytest.approx(21_787_709, abs=1)


def test_client_saw_the_first_token() -> None:
    """A first token that the client saw is exact, and so is the client's inter-token latency."""
    marks = Marks(first_content_ns=2300 * MS, last_content_ns=5900 * MS, chunks=91)
    found = call_metrics(replace(SIX_SECONDS, marks=marks))
    assert found.client_ttft_ns == found.client_ttft_low_ns == found.client_ttft_high_ns == 2300 * MS
    assert found.itl_client_n1_ns == pytest.approx(3700 * MS / 179)
    assert found.icl_mean_ns == pytest.approx(40 * MS)


@pytest.mark.parametrize(("tokens", "cached"), [(63, 0), (4000, 3937)])
def test_prefill_rate_of_little_work(tokens: int, cached: int) -> None:
    """Below 64 computed tokens a prefill rate shows fixed costs: there is none, and a reason."""
    found = call_metrics(replace(SIX_SECONDS, usage=Usage(input=tokens, cached=cached)))
    assert found.prefill_tok_s is None
    assert "fixed costs" in found.reasons["prefill_tok_s"]


def test_prefill_rate_without_cached_count() -> None:
    """Where the cached tokens are unknown the rate is over the whole prompt, and says so."""
    found = call_metrics(replace(SIX_SECONDS, usage=Usage(input=4000)))
    assert found.prefill_tok_s == pytest.approx(4444.444, rel=1e-6)
    assert found.cache_hit_rate is None
    assert any("cached tokens unknown" in note for note in found.notes)


def test_unknown_queue_leaves_server_ttft_unknown() -> None:
    """A server that does not state its queue has no time to first token, not one without the wait."""
    phases = tuple(phase for phase in SIX_SECONDS.phases if phase.name != "queue")
    queue = PhaseTiming(name="queue", ns=None, low_ns=0)
    found = call_metrics(replace(SIX_SECONDS, phases=(queue, *phases)))
    assert found.server_ttft_ns is None
    assert found.client_ttft_low_ns is None
    assert "server_ttft_ns" in found.reasons


def test_local_engine_first_token_is_prefill() -> None:
    """In an engine inside the process there is no queue, so the server's time to first token is the prefill."""
    queue = PhaseTiming(name="queue", ns=None, source="not-applicable")
    found = call_metrics(replace(SIX_SECONDS, phases=(queue, known("prefill", 0.9), known("decode", 3.6))))
    assert found.server_ttft_ns == 900 * MS


@pytest.mark.parametrize("output", [None, 0, 1])
def test_too_few_tokens(output: int | None) -> None:
    """One token has no gap after it, and none has no rate; neither divides by zero."""
    found = call_metrics(replace(SIX_SECONDS, usage=Usage(input=4000, output=output)))
    assert found.itl_n1_ns is None
    assert found.itl_client_n1_high_ns is None


def test_cache_hit_rate() -> None:
    """Cached over prompt tokens; a cached count above the prompt's is none."""
    assert call_metrics(replace(SIX_SECONDS, usage=Usage(input=4000, cached=1000))).cache_hit_rate == 0.25
    assert call_metrics(replace(SIX_SECONDS, usage=Usage(input=10, cached=1000))).cache_hit_rate is None


def test_nothing_known() -> None:
    """A span that is no model call, or knows nothing, has no metrics and raises nothing."""
    found = call_metrics(replace(SIX_SECONDS, phases=(), usage=None, marks=None, end_ns=None))
    told = {field.name for field in fields(CallMetrics)} - {"reasons", "notes"}
    assert all(getattr(found, name) is None for name in told)


def test_every_metric_has_a_definition() -> None:
    """Each number names the definition it follows, and each definition is used."""
    told = {field.name for field in fields(CallMetrics)} - {"reasons", "notes"}
    assert set(DEFINITION_IDS) == told
    assert set(DEFINITION_IDS.values()) == set(DEFINITIONS)
