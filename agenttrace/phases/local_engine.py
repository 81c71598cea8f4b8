"""Divides a call of an engine that runs inside this process: no queue, no network, time to first token is prefill."""

from __future__ import annotations

from agenttrace.phases.client_view import METHOD
from agenttrace.phases.ledger import Ledger, exactly, unknown
from agenttrace.phases.names import members
from agenttrace.records import PhaseTiming

PREFILL = "call start until the first token: an engine in this process has no queue and no network"
DECODE = "first to last visible token"
BOTH = "call start until the last token: the first one was not seen by itself"
RESIDUAL = "what is left of the call: our side of the engine, parsing, callbacks"
NOT_HERE = "the engine runs in this process"
NOT_APPLICABLE = ("connect", "retry_backoff", "queue", "delivery")


def fill_local(ledger: Ledger) -> None:
    """Give the whole call to prefill and decode as far as the report or the marks allow; the rest is residual."""
    for name in NOT_APPLICABLE:
        ledger.put(PhaseTiming(name=name, ns=None, source="not-applicable", definition=NOT_HERE))
    view = ledger.view
    missing: list[str] = [name for name in ("prefill", "decode") if name in ledger.missing()]
    if view.e2e_ns is None:
        for name in missing:
            ledger.put(unknown(name))
        return
    if missing:
        _fill_missing(ledger, missing, view.e2e_ns)
    left = view.e2e_ns - sum(phase.ns or 0 for phase in ledger.taken())
    if left:
        ledger.put(exactly("residual", left, RESIDUAL))
    holder = next((phase for phase in ledger.taken() if "prefill" in members(phase.name)), None)
    if holder is not None:
        for name in ("client_prep", "tokenize"):  # both are over when the first token comes
            ledger.include(name, holder.name if holder.source == "client-observed" or left <= 0 else "residual")


def _fill_missing(ledger: Ledger, missing: list[str], e2e_ns: int) -> None:
    view = ledger.view
    left = max(e2e_ns - sum(phase.ns or 0 for phase in ledger.taken()), 0)
    first, decode = view.first_token_ns, view.decode_ns
    if missing == ["prefill", "decode"] and (first is None or decode is None):
        _observe(ledger, "prefill_plus_decode", left, e2e_ns, BOTH)
        for name in missing:
            ledger.include(name, "prefill_plus_decode")
    elif missing == ["prefill", "decode"]:
        assert first is not None
        assert decode is not None
        _observe(ledger, "prefill", first, first, PREFILL)
        _observe(ledger, "decode", decode, first + decode, DECODE)
    elif missing == ["prefill"]:
        _observe(ledger, "prefill", left if first is None else min(first, left), left, PREFILL)
    else:
        _observe(ledger, "decode", left if decode is None else min(decode, left), left, DECODE)


def _observe(ledger: Ledger, name: str, ns: int, high_ns: int, definition: str) -> None:
    ledger.put(
        PhaseTiming(
            name=name,
            ns=ns,
            low_ns=0,
            high_ns=high_ns,
            source="client-observed",
            method=METHOD,
            definition=definition,
        )
    )
