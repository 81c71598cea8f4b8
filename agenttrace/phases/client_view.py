"""What the client saw of a model call, cut into consecutive stretches that add up to the call exactly.

    start ── client_prep ── retry_backoff ── connect ── exchange ── after ── end

Each stretch is measured on one clock. Without observed attempts the whole call is the exchange, and what came before it is
unknown. Stretches outside the call, overlapping or out of order are clamped: the sum holds whatever the marks say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agenttrace.phases.chunks import BUFFERED, burst_index
from agenttrace.phases.names import CLIENT
from agenttrace.records import PhaseTiming
from agenttrace.steps import Attempt, ModelCall

METHOD = "client.marks"

CLIENT_PREP = (
    "call start until its first request begins: prompt assembly, serialisation, rate limiter, waiting for a connection"
)
CONNECT = "opening the last request's connection, TLS included"
CONNECT_REUSED = "the last request's connection was open already"
RETRY = "first request's start until the last one's: failed requests and the waits between them"
UNSEEN = "HTTP requests were not observed"

LAG_TOLD_NS = 5_000_000
"""Below this an event loop's lag widens the bounds and is not worth a note."""

EXCHANGE_FAILED = ("error", "timed_out", "cancelled", "abandoned")
"""States in which the response may not have been read to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientView:
    """The client's side of one model call. Durations in nanoseconds; offsets count from the exchange's start."""

    e2e_ns: int | None
    """Call start to call end; None while the call is unfinished, or where nobody measured it."""
    before: tuple[PhaseTiming, ...] = ()
    """`client_prep`, `connect`, `retry_backoff`."""
    exchange_ns: int | None = None
    """The last request, from where sending could begin until its last byte: what the server and the network share.

    Not from where it had been sent: on a busy machine a server begins before the client gets to note that.
    """
    after_ns: int = 0
    """Last byte to call end: parsing, callbacks."""
    spoiled_ns: int = 0
    """By how much moments may have been noted late: the event loop's lag and our own callbacks."""
    first_token_ns: int | None = None
    """Offset of the first reasoning, content or tool-call token."""
    last_token_ns: int | None = None
    is_streamed: bool | None = None
    """None where it is not known."""
    is_local: bool = False
    can_observe_decode: bool = True
    """False where tokens that nobody saw were generated before the first visible one, or all came at once."""
    notes: tuple[str, ...] = ()

    @property
    def decode_ns(self) -> int | None:
        """First to last visible token; None where their distance says nothing about decoding."""
        if self.first_token_ns is None or self.last_token_ns is None or not self.can_observe_decode:
            return None
        seen = self.last_token_ns - self.first_token_ns
        return seen if seen > 0 else None


def view_of(call: ModelCall, *, reasoning_tokens: int | None) -> ClientView:
    """The client's view of a call. `reasoning_tokens`: as reported, to tell a hidden thinking time from waiting."""
    unseen = tuple(PhaseTiming(name=name, ns=None, low_ns=0, definition=UNSEEN) for name in CLIENT)
    if call.end_ns is None or call.end_ns < call.start_ns:
        why = "unfinished" if call.end_ns is None else "the call ended before it began"
        note = f"{why}: no phase can be told"
        return ClientView(
            e2e_ns=None, before=unseen, is_streamed=call.is_streamed, is_local=call.is_local, notes=(note,)
        )
    notes = _notes(call)
    spoiled = max(call.loop_lag_ns, 0) + max(call.own_ns, 0)
    tries = _tries(call.attempts)
    began, finished, before = call.start_ns, call.end_ns, unseen
    if tries and not call.is_local:
        began, finished, before = cut(call.start_ns, call.end_ns, tries)
        before = tuple(_loosened(phase, spoiled) for phase in before)
    elif not call.is_local:
        notes.append("attempts_unobserved: preparation, connecting and retries cannot be told from the network")
    moments = (call.first_reasoning_ns, call.first_content_ns, call.first_tool_ns)
    firsts = [at for at in (offset(moment, began, finished) for moment in moments) if at is not None]
    first = min(firsts, default=None)
    is_hidden = call.first_reasoning_ns is None and bool(reasoning_tokens)
    if is_hidden and firsts:
        notes.append(f"{reasoning_tokens} reasoning tokens came before the first visible one: decoding began unseen")
    return ClientView(
        e2e_ns=call.end_ns - call.start_ns,
        before=before,
        exchange_ns=finished - began,
        after_ns=call.end_ns - finished,
        spoiled_ns=spoiled,
        first_token_ns=first,
        last_token_ns=offset(call.last_content_ns, began, finished),
        is_streamed=call.is_streamed,
        is_local=call.is_local,
        can_observe_decode=not is_hidden and (call.chunks is None or call.chunks > 1),
        notes=tuple(notes),
    )


def offset(moment: int | None, began: int, finished: int) -> int | None:
    """A moment counted from the exchange's start. What came before it came from a request that failed half-way: None."""
    return None if moment is None or moment < began else min(moment, finished) - began


def _tries(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """The attempts at the call itself: a request that succeeded on another path (a token, an upload) prepared it."""
    if not attempts:
        return ()
    last = attempts[-1]
    return tuple(
        one for one in attempts if one is last or one.path == last.path or one.status is None or one.status >= 400
    )


def cut(start: int, end: int, tries: Sequence[Attempt]) -> tuple[int, int, tuple[PhaseTiming, ...]]:
    """Where the exchange begins and ends, and the stretches before it."""
    last = tries[-1]
    began = min(max(last.start_ns, start), end)
    first = min(max(tries[0].start_ns, start), began)
    finished = end if last.end_ns is None else min(max(last.end_ns, began), end)
    prep, retry = first - start, began - first
    connect = PhaseTiming(name="connect", ns=None, source="not-applicable", definition=CONNECT_REUSED)
    opening = _connecting(last)
    if opening is not None:
        opened, open_ = (min(max(at, start), finished) for at in opening)
        # Usually inside the request; a transport that connects first has it in what came before.
        prep -= _overlap(opened, open_, start, first)
        retry -= _overlap(opened, open_, first, began)
        prep += max(min(opened, open_) - began, 0)  # a request that waits for the pool is not under way yet
        connect = _seen("connect", open_ - opened, CONNECT)
        began = max(began, open_)
    elif last.send_start_ns is not None:  # before an open connection was free, nothing was under way
        sending = min(max(last.send_start_ns, began), finished)
        prep += sending - began
        began = sending
    return began, finished, (_seen("client_prep", prep, CLIENT_PREP), connect, _seen("retry_backoff", retry, RETRY))


def _loosened(phase: PhaseTiming, spoiled_ns: int) -> PhaseTiming:
    """A stretch whose ends may have been noted late: the one at its end, and the one at its beginning."""
    if phase.ns is None or not spoiled_ns:
        return phase
    return replace(phase, low_ns=max(phase.ns - spoiled_ns, 0), high_ns=phase.ns + spoiled_ns)


def _overlap(start: int, end: int, other_start: int, other_end: int) -> int:
    return max(min(end, other_end) - max(start, other_start), 0)


def _connecting(attempt: Attempt) -> tuple[int, int] | None:
    start, end = attempt.connect_start_ns, attempt.connect_end_ns
    if start is not None and end is None and attempt.sent_ns is None and attempt.error is not None:
        end = attempt.end_ns  # it failed while connecting
    return None if start is None or end is None or end < start else (start, end)


def _seen(name: str, ns: int, definition: str) -> PhaseTiming:
    return PhaseTiming(
        name=name, ns=ns, low_ns=ns, high_ns=ns, source="client-observed", method=METHOD, definition=definition
    )


def _notes(call: ModelCall) -> list[str]:
    notes = []
    if call.state in EXCHANGE_FAILED:
        notes.append(f"truncated: the call ended as {call.state}, so the server may have worked on unseen")
    answered = sum(one.status is not None and one.status < 400 for one in _tries(call.attempts))
    if answered > 1:
        notes.append(f"{answered} requests were answered in this call: the server's report is the last one's")
    output = call.tokens.get("output")
    if call.loop_lag_ns > LAG_TOLD_NS:
        notes.append(
            f"the event loop was late by up to {call.loop_lag_ns / 1e6:.0f} ms: what the client saw may be late by as much"
        )
    bursts = burst_index(call.chunks or 0, output or 0)
    if call.is_streamed and call.chunks and bursts is not None and bursts > BUFFERED:
        notes.append(
            f"buffered: {output} tokens came in {call.chunks} chunks, so gaps between chunks are no token times"
        )
    return notes
