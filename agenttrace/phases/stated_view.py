"""The client's view of a response as a document states it, for `explain-response`: seconds and milliseconds to `ClientView`.

Nobody measured it here, so every number is checked; what cannot be true is rejected with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agenttrace.phases.client_view import ClientView, cut, offset
from agenttrace.phases.draft import LONGEST_NS, ReportDraft, count, mapping
from agenttrace.steps import Attempt

FIRST_MARKS = ("ttft_s", "first_reasoning_s", "first_content_s", "first_tool_s")
LAST_MARKS = ("last_content_s", "last_token_s")
MOST_ITEMS = 100_000
"""Attempts or arrivals that are read of one document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedClient:
    """What the client says, and what of it cannot be."""

    view: ClientView
    ttft_ns: int | None = None
    """Call start to first token."""
    arrivals_ns: tuple[int, ...] = ()
    """Arrivals of chunks, in order."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def stated_client(client: Mapping[str, object], payload: Mapping[str, object]) -> StatedClient:
    """Read the client's view. Worked examples have theirs in the payload, which counts where `client` is silent."""
    draft = ReportDraft("client", {**_known(payload), **client}, at="client.")
    e2e = draft.duration("e2e_s", "s")
    first = min((ns for ns in (draft.duration(name, "s") for name in FIRST_MARKS) if ns is not None), default=None)
    last = max((ns for ns in (draft.duration(name, "s") for name in LAST_MARKS) if ns is not None), default=None)
    notes = []
    for name, mark in (("first token", first), ("last token", last)):
        if e2e is not None and mark is not None and mark > e2e:
            notes.append(f"the {name} is stated after the end: ignored")
    if e2e is not None:
        first, last = (None if mark is None or mark > e2e else mark for mark in (first, last))
    arrivals = _arrivals(draft.fields, draft.rejected)
    chunks = count(draft.fields.get("chunks"))
    view = _with_attempts(
        ClientView(
            e2e_ns=e2e,
            exchange_ns=e2e,
            first_token_ns=first,
            last_token_ns=last,
            is_streamed=_streamed(draft.fields, first),
            can_observe_decode=chunks is None or chunks > 1,
        ),
        _attempts(draft.fields.get("attempts")),
    )
    return StatedClient(view=view, ttft_ns=first, arrivals_ns=arrivals, rejected=draft.rejected, notes=tuple(notes))


def _known(payload: Mapping[str, object]) -> dict[str, object]:
    names = ("e2e_s", "chunk_arrivals_ms", "chunk_arrivals_s", "attempts")
    return {name: payload[name] for name in names if name in payload}


def _streamed(fields: Mapping[str, object], first: int | None) -> bool | None:
    """As stated; a client that saw a first token by itself saw a stream."""
    for name in ("streamed", "stream", "is_streamed"):
        held = fields.get(name)
        if isinstance(held, bool):
            return held
    return None if first is None else True


def _arrivals(fields: Mapping[str, object], rejected: dict[str, str]) -> tuple[int, ...]:
    for name, unit in (("chunk_arrivals_ms", "ms"), ("chunk_arrivals_s", "s")):
        held = fields.get(name)
        if isinstance(held, list) and len(held) <= MOST_ITEMS:
            reading = ReportDraft("client", {str(index): one for index, one in enumerate(held)})
            moments = [reading.moment(index, "ms" if unit == "ms" else "s") for index in reading.fields]
            known = [moment for moment in moments if moment is not None]
            if len(known) == len(held) and known == sorted(known):
                return tuple(known)
            rejected[name] = "not a list of times in order"
    return ()


def _attempts(held: object) -> tuple[Attempt, ...]:
    """Requests by when they began after the call: `start_s`, or `start_after_callback_ms`; `end_s` and `status` if known."""
    found: list[Attempt] = []
    for one in held[:MOST_ITEMS] if isinstance(held, list) else ():
        fields = ReportDraft("client", mapping(one))
        start = fields.duration("start_s", "s")
        if start is None:
            start = fields.duration("start_after_callback_ms", "ms")
        if start is None:
            return ()
        status = count(fields.fields.get("status"))
        found.append(Attempt(start_ns=start, end_ns=fields.duration("end_s", "s"), host="", status=status))
    return tuple(found)


def _with_attempts(view: ClientView, attempts: tuple[Attempt, ...]) -> ClientView:
    """The view with what came before the last request cut off; offsets then count from that request's start."""
    if not attempts:
        return view
    began, finished, before = cut(0, LONGEST_NS if view.e2e_ns is None else view.e2e_ns, attempts)
    # Connecting was not stated, which does not make the connection one that was open already.
    before = tuple(phase for phase in before if phase.name != "connect")

    return ClientView(
        e2e_ns=view.e2e_ns,
        before=before,
        exchange_ns=None if view.e2e_ns is None else finished - began,
        after_ns=0 if view.e2e_ns is None else view.e2e_ns - finished,
        first_token_ns=offset(view.first_token_ns, began, finished),
        last_token_ns=offset(view.last_token_ns, began, finished),
        is_streamed=view.is_streamed,
        can_observe_decode=view.can_observe_decode,
    )
