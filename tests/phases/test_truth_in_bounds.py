"""A server whose truth is known: whatever it reports, the truth lies within the bounds and the sum is exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.phases.split import split_phases
from agenttrace.steps import Attempt, ModelCall
from tests.phases.builders import NOON, a_call
from tests.phases.test_sums_hold import check_split

STRETCH = st.integers(0, 3 * 10**9)
SERVERS = ("none", "llama.cpp", "ollama", "vllm", "groq", "groq without queue", "total in a header")
SLACK_NS = 2_000
"""Reports in float milliseconds and seconds are rounded to a nanosecond or so; their sums to a few."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What really happened, in nanoseconds, in this order."""

    client_prep: int
    connect: int
    uplink: int
    queue: int
    load: int
    tokenize: int
    prefill: int
    decode: int
    downlink: int
    held_back_first: int
    """How long the first token was buffered, or its reader was slow."""
    held_back_last: int
    after: int

    @property
    def before_decode(self) -> int:
        return self.queue + self.load + self.tokenize + self.prefill

    @property
    def last_token(self) -> int:
        """From the request's beginning until the last token was read; never before the first one was."""
        first = self.before_decode + self.held_back_first
        return self.uplink + max(first, self.before_decode + self.decode + self.held_back_last) + self.downlink

    @property
    def delivery(self) -> int:
        return self.last_token - self.before_decode - self.decode


@st.composite
def truths(draw: st.DrawFn) -> tuple[str, Truth]:
    server = draw(st.sampled_from(SERVERS))
    names = Truth.__dataclass_fields__
    values = {name: draw(STRETCH) for name in names}
    if server not in ("ollama", "none"):
        values["load"] = 0
    return server, Truth(**values)


def report(server: str, truth: Truth) -> dict[str, Any]:
    if server == "llama.cpp":
        return {"timings": {"prompt_ms": truth.prefill / 1e6, "predicted_ms": truth.decode / 1e6}}
    if server == "ollama":
        total = truth.before_decode + truth.decode
        parts = {"load_duration": truth.load, "prompt_eval_duration": truth.prefill, "eval_duration": truth.decode}
        return {"total_duration": total, **parts}
    if server == "vllm":
        names = {
            "queue_time_ms": truth.queue,
            "time_to_first_token_ms": truth.prefill,
            "generation_time_ms": truth.decode,
        }
        return {"metrics": {name: ns / 1e6 for name, ns in names.items()}}
    if server.startswith("groq"):
        queue = None if "without" in server else truth.queue / 1e9
        return {
            "usage": {"queue_time": queue, "prompt_time": truth.prefill / 1e9, "completion_time": truth.decode / 1e9}
        }
    return {}


def observed(server: str, truth: Truth, streamed: bool) -> ModelCall:
    """The call as the handler and the tap would have seen it."""
    begun = NOON + truth.client_prep
    sent = begun + truth.connect
    first = sent + truth.uplink + truth.before_decode + truth.downlink + truth.held_back_first
    last = sent + truth.last_token
    headers = {}
    if server == "total in a header" and not streamed:
        headers = {"openai-processing-ms": str((truth.before_decode + truth.decode) // 10**6)}
    attempt = Attempt(
        start_ns=begun,
        end_ns=last,
        host="server",
        status=200,
        connect_start_ns=begun,
        connect_end_ns=sent,
        sent_ns=sent,
        headers=headers,
        report=report(server, truth),
    )
    marks = {"first_content_ns": first, "last_content_ns": last, "chunks": 50} if streamed else {}
    return a_call(None, end_ns=last + truth.after, state="ok", is_streamed=streamed, attempts=(attempt,), **marks)


@given(truths(), st.booleans())
@settings(max_examples=2000, deadline=None)
def test_truth_lies_within_bounds(case: tuple[str, Truth], streamed: bool) -> None:
    """Every phase's true length lies within its bounds; one that the server reports is right."""
    server, truth = case
    call = observed(server, truth, streamed)
    assert call.end_ns is not None
    split = split_phases(call)
    check_split(split, call.end_ns - call.start_ns)
    assert not split.rejected
    for phase in split.phases:
        true_ns = getattr(truth, phase.name, None)
        if true_ns is None or phase.source == "not-applicable":
            continue
        assert phase.low_ns is not None
        assert phase.low_ns - SLACK_NS <= true_ns, (server, phase, true_ns)
        assert phase.high_ns is None or true_ns <= phase.high_ns + SLACK_NS, (server, phase, true_ns)
        if phase.source == "server-reported":
            assert phase.ns is not None
            assert abs(phase.ns - true_ns) <= SLACK_NS, (server, phase, true_ns)
