"""Model calls and tool calls to phases."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from agenttrace.phases.split import _split, split_phases, split_tool_phases
from agenttrace.steps import State
from tests.phases.builders import (
    LLAMACPP,
    OLLAMA,
    SECOND,
    a_call,
    a_tool,
    an_attempt,
    by_name,
    counted_ns,
)

MS = SECOND // 1000
REST = "queue_plus_tokenize_plus_delivery"
STREAM: dict[str, Any] = {"is_streamed": True, "chunks": 180, "first_content_s": 2.3, "last_content_s": 5.9}


def test_llamacpp_rest_is_one_sum() -> None:
    """llama.cpp reports no queue: what is left of the call is one sum, and its members are unknown inside it."""
    phases = by_name(split_phases(a_call(response=LLAMACPP)).phases)
    assert (phases["prefill"].ns, phases["decode"].ns) == (900 * MS, 3600 * MS)
    assert phases["prefill"].source == "server-reported"
    assert (phases[REST].ns, phases[REST].source) == (1500 * MS, "derived")
    for member in ("queue", "tokenize", "delivery"):
        assert phases[member].ns is None
        assert phases[member].source == "unknown"
        assert phases[member].included_in == REST
        assert (phases[member].low_ns, phases[member].high_ns) == (0, 1500 * MS)


def test_first_token_bounds_the_queue() -> None:
    """A streamed call's queue is over before its first token: the request's start to that, less the server's prefill."""
    attempt = an_attempt(0.1, 5.95, sent_s=0.2, report=LLAMACPP)
    phases = by_name(split_phases(a_call(attempts=(attempt,), **STREAM)).phases)
    assert phases["queue"].high_ns == 1300 * MS
    assert phases["delivery"].high_ns == phases[REST].ns


def test_ollama_remainder_is_unattributed() -> None:
    """What Ollama's total holds beyond its parts bounds the queue; what the total leaves of the exchange is delivery."""
    split = split_phases(a_call(attempts=(an_attempt(0.0, 6.0, report=OLLAMA),), **STREAM))
    phases = by_name(split.phases)
    assert split.server_total_ns == 5700 * MS
    assert phases["unattributed_server"].ns == 1000 * MS
    assert (phases["queue"].ns, phases["queue"].high_ns) == (None, 1000 * MS)
    assert (phases["delivery"].ns, phases["delivery"].low_ns) == (300 * MS, 0)


def test_stretches_before_the_exchange() -> None:
    """Preparation, connecting and retries are what the client's own marks say, and the sum is exact."""
    attempts = (
        an_attempt(0.25, 0.5, status=429, connect_start_s=0.25, connect_end_s=0.375),
        an_attempt(1.0, 5.75, connect_start_s=1.0, connect_end_s=1.125, report=LLAMACPP),
    )
    split = split_phases(a_call(attempts=attempts))
    phases = by_name(split.phases)
    assert phases["client_prep"].ns == 250 * MS
    assert phases["retry_backoff"].ns == 750 * MS
    assert phases["connect"].ns == 125 * MS
    assert (phases[REST].ns, phases["residual"].ns) == (125 * MS, 250 * MS)
    assert counted_ns(split.phases) == 6 * SECOND


def test_connection_opened_before_the_request() -> None:
    """A transport that connects before it begins the request has the connecting taken out of the preparation."""
    attempt = an_attempt(1.0, 6.0, connect_start_s=0.5, connect_end_s=0.75)
    phases = by_name(split_phases(a_call(attempts=(attempt,))).phases)
    assert (phases["client_prep"].ns, phases["connect"].ns) == (750 * MS, 250 * MS)
    assert phases["server_all_plus_delivery"].ns == 5 * SECOND


def test_reused_connection_is_not_applicable() -> None:
    """A connection that was open already took no connecting: there is nothing to measure, which is not zero."""
    phases = by_name(split_phases(a_call(attempts=(an_attempt(0.0, 6.0),))).phases)
    assert (phases["connect"].ns, phases["connect"].source) == (None, "not-applicable")


def test_failed_connection_is_all_connect() -> None:
    """A request that fails while connecting never reached the server."""
    attempt = an_attempt(0.5, 2.0, status=None, error="ConnectError", connect_start_s=0.5)
    split = split_phases(a_call(2.0, state="error", attempts=(attempt,)))
    phases = by_name(split.phases)
    assert phases["connect"].ns == 1500 * MS
    assert phases["queue"].ns is None
    assert phases["queue"].source == "not-applicable"
    assert counted_ns(split.phases) == 2 * SECOND


def test_request_that_prepares_is_no_retry() -> None:
    """A request that succeeded elsewhere, like fetching a token, is preparation of the call, not a retry of it."""
    attempts = (an_attempt(0.5, 1.0, path="/token"), an_attempt(2.0, 6.0))
    phases = by_name(split_phases(a_call(attempts=attempts)).phases)
    assert (phases["client_prep"].ns, phases["retry_backoff"].ns) == (2 * SECOND, 0)


def test_no_report_streamed() -> None:
    """Without a report, decode is what the client observed and the rest one sum, bounded by the first token."""
    split = split_phases(a_call(attempts=(an_attempt(0.0, 6.0),), **STREAM))
    phases = by_name(split.phases)
    assert (phases["decode"].ns, phases["decode"].source) == (3600 * MS, "client-observed")
    assert phases["queue_plus_load_plus_tokenize_plus_prefill_plus_delivery"].ns == 2400 * MS
    assert phases["prefill"].high_ns == 2300 * MS
    assert counted_ns(split.phases) == 6 * SECOND


def test_no_report_not_streamed() -> None:
    """Without a report and without a stream nothing divides the exchange: it is one sum of all the server's and delivery."""
    phases = by_name(split_phases(a_call()).phases)
    assert phases["server_all_plus_delivery"].ns == 6 * SECOND
    for name in ("queue", "load", "tokenize", "prefill", "decode", "delivery", "retry_backoff"):
        assert phases[name].ns is None
        assert phases[name].included_in == "server_all_plus_delivery"


@pytest.mark.parametrize(
    "fields",
    [{"chunks": 1, "last_content_s": 2.3}, {"chunks": 90, "tokens": {"reasoning": 300, "output": 480}}],
    ids=["all at once", "hidden reasoning"],
)
def test_unseen_decode_is_unknown(fields: dict[str, Any]) -> None:
    """Tokens that came in one piece, or after thinking that nobody saw, say nothing about how long decoding took."""
    split = split_phases(a_call(**{**STREAM, **fields}))
    phases = by_name(split.phases)
    assert phases["decode"].ns is None
    assert phases["server_all_plus_delivery"].ns == 6 * SECOND


def test_token_of_a_failed_request_bounds_nothing() -> None:
    """A first token from a request that broke off before the last one began is no mark of the last one's exchange."""
    attempts = (an_attempt(0.0, 3.0, error="ReadError"), an_attempt(4.0, 6.0, report=LLAMACPP))
    phases = by_name(split_phases(a_call(attempts=attempts, **STREAM)).phases)
    assert phases["queue"].high_ns != 0


def test_local_engine() -> None:
    """In an engine inside this process there is no queue and no network: time to first token is prefill."""
    split = split_phases(a_call(is_local=True, **STREAM))
    phases = by_name(split.phases)
    assert (phases["prefill"].ns, phases["decode"].ns, phases["residual"].ns) == (2300 * MS, 3600 * MS, 100 * MS)
    for name in ("queue", "delivery", "connect", "retry_backoff"):
        assert phases[name].source == "not-applicable"
        assert phases[name].ns is None


def test_unfinished_call_has_no_numbers() -> None:
    """A call without an end has unknown phases only."""
    split = split_phases(a_call(None, is_streamed=True, first_content_s=1.0, attempts=(an_attempt(0.1, None),)))
    assert all(phase.ns is None for phase in split.phases)
    assert any("unfinished" in note for note in split.notes)


def test_longer_than_the_call_is_rejected() -> None:
    """A report of phases longer than the whole call, such as a replayed response, is rejected with its reason."""
    split = split_phases(a_call(0.004, response=LLAMACPP))
    assert set(split.rejected) == {"prompt_ms", "predicted_ms"}
    assert by_name(split.phases)["server_all_plus_delivery"].ns == 4 * MS


def test_contradiction_is_kept_and_told() -> None:
    """Parts that fit one by one and not together are neither clipped nor rescaled: the residual is negative, a note says so."""
    split = split_phases(a_call(4.0, response=LLAMACPP))
    phases = by_name(split.phases)
    assert (phases["prefill"].ns, phases["decode"].ns) == (900 * MS, 3600 * MS)
    assert phases["residual"].ns == -500 * MS
    assert phases["delivery"].ns is None
    assert any("inconsistent" in note for note in split.notes)
    assert counted_ns(split.phases) == 4 * SECOND


def test_rounding_goes_to_the_residual() -> None:
    """A server that counts a little more than the client, within tolerance, leaves no delivery and a tiny residual."""
    split = split_phases(a_call(5.6998, response=OLLAMA))
    phases = by_name(split.phases)
    assert phases["delivery"].ns == 0
    assert phases["residual"].ns == -200_000
    assert not any("inconsistent" in note for note in split.notes)


def test_cancelled_call_says_so() -> None:
    """A call that was cancelled keeps what was observed and is marked as truncated."""
    split = split_phases(a_call(state="cancelled", **STREAM))
    assert any(note.startswith("truncated") for note in split.notes)
    assert by_name(split.phases)["decode"].source == "client-observed"


def test_tool_phases() -> None:
    """A tool waits from the end of the call that asked, then runs."""
    wait, run = split_tool_phases(a_tool(asked=1.0, start=1.5, end=4.0))
    assert (wait.name, wait.ns, run.name, run.ns) == ("wait", 500 * MS, "run", 2500 * MS)


def test_tool_phases_unknown() -> None:
    """A tool that nobody asked for, or that has not ended, has unknown phases, not zero."""
    wait, run = split_tool_phases(a_tool(asked=None, start=1.5, end=None))
    assert (wait.ns, wait.source, run.ns, run.source) == (None, "unknown", None, "unknown")


def test_framework_keeps_what_the_tap_did_not_see() -> None:
    """Where no request was observed, the response metadata and the headers that the framework kept are read."""
    response = {"headers": {"openai-processing-ms": "2000"}, "model_name": "gpt"}
    phases = by_name(split_phases(a_call(response=response)).phases)
    assert (phases["server_all"].ns, phases["delivery"].ns) == (2 * SECOND, 4 * SECOND)
    response = {"ResponseMetadata": {"HTTPHeaders": {"x-amzn-bedrock-invocation-latency": "2000"}}}
    assert by_name(split_phases(a_call(response=response)).phases)["server_all"].ns == 2 * SECOND


def test_stream_without_a_token_is_still_a_stream() -> None:
    """A streamed response that broke off before its first token has headers that bound nothing from above."""
    attempt = an_attempt(0.0, 6.0, headers={"openai-processing-ms": "81"}, sent_settings={"stream": True})
    split = split_phases(a_call(state="error", attempts=(attempt,)))
    assert split.server_total_ns is None
    assert split.server_parts_ns == {"server_until_headers": 81 * MS}


def test_several_answers_in_one_call() -> None:
    """A call with more than one answered request says that the report is the last one's."""
    split = split_phases(a_call(attempts=(an_attempt(0.0, 1.0), an_attempt(1.0, 6.0, report=LLAMACPP))))
    assert any("2 requests were answered" in note for note in split.notes)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("state", get_args(State))
@pytest.mark.parametrize("e2e", [1e-9, 0.25, 6.0])
def test_a_call_of_known_length_only(state: State, is_streamed: bool, e2e: float) -> None:
    """A call of which only the length is known divides as the whole algorithm divides it, at every length and end."""
    call = a_call(e2e, state=state, is_streamed=is_streamed)
    assert split_phases(call) == _split(call, None)
    assert counted_ns(split_phases(call).phases) == round(e2e * SECOND)
