"""Joins a server's report with the client's view: phases that add up to the call exactly, what was rejected, and why.

The order: reject what the client's own clock refutes; take the server's phases; give what is left over to what can fill it:
`unattributed_server` inside the server's total, `delivery` or a named sum outside it, `residual` for contradictions.
Server and client times are compared as durations only, never as moments.
"""

from __future__ import annotations

from dataclasses import replace

from agenttrace.phases.client_view import METHOD, ClientView
from agenttrace.phases.draft import NS
from agenttrace.phases.ledger import REMAINDER, Attribution, Ledger, bounded, exactly, lower, unknown
from agenttrace.phases.local_engine import fill_local
from agenttrace.phases.names import BEFORE_DECODE, CLIENT, MEANING, SERVER, is_before_decode, joined, members
from agenttrace.phases.plausibility import tolerance_ns, without_impossible
from agenttrace.phases.server_report import ServerReport
from agenttrace.records import PhaseTiming

UNATTRIBUTED = "what the server's own total holds beyond its reported parts"
TOTAL = "everything the server counts; it does not say how it divides"
OBSERVED_DECODE = "first to last visible token as they arrived at the client"
RESIDUAL = "client time after the last byte (parsing, callbacks), less what the server counts beyond the client's clock"

NO_REPORT = ServerReport(server="", members=SERVER)


def attribute(report: ServerReport | None, view: ClientView) -> Attribution:
    """Divide a call. What has a number and is in no other entry adds up to `view.e2e_ns` exactly, where that is known."""
    believed, notes = without_impossible(report or NO_REPORT, view)
    ledger = Ledger(view=view, report=believed, notes=[*view.notes, *notes])
    for phase in (*view.before, *believed.phases):
        ledger.put(phase)
    for phase in believed.phases:
        if phase.ns is not None and len(members(phase.name)) > 1:
            for member in members(phase.name):
                if member in ledger.entries or member in believed.members:
                    ledger.include(member, phase.name)
        elif phase.ns is None and phase.included_in in ledger.entries:
            ledger.put(replace(phase, high_ns=lower(phase.high_ns, ledger.entries[phase.included_in].high_ns)))
    if view.is_local:
        fill_local(ledger)
        return ledger.closed()
    _fill_total(ledger)
    if view.exchange_ns is None:
        ledger.put(unknown("delivery"))
    else:
        _fill_exchange(ledger, view.exchange_ns)
    for name in believed.members:
        if name not in ledger.entries:
            ledger.put(unknown(name))
    _bound_by_first_token(ledger)
    return ledger.closed()


def _fill_total(ledger: Ledger) -> None:
    """What the server's own total holds beyond its parts."""
    report = ledger.report
    if report.total_ns is None or not report.total_is_independent:
        return
    parts, missing = ledger.taken(), ledger.missing()
    left = max(report.total_ns - sum(phase.ns or 0 for phase in parts), 0)
    low, high = sum(phase.low_ns or 0 for phase in parts), sum(phase.high_ns or 0 for phase in parts)
    name = "unattributed_server"
    if not parts:
        name = "server_all"
    elif {"prefill", "decode"} & set(missing):
        name = joined({*missing, name})
    ledger.put(
        PhaseTiming(
            name=name,
            ns=left,
            low_ns=min(max(report.total_ns - high, 0), left),
            high_ns=max(report.total_ns + max(report.resolution_ns - 1, 0) - low, left),
            source="derived" if parts else "server-reported",
            method=REMAINDER if parts else f"{report.server}.total",
            definition=UNATTRIBUTED if parts else TOTAL,
        )
    )
    for member in missing:
        ledger.include(member, name)


def _fill_exchange(ledger: Ledger, exchange_ns: int) -> None:
    """What the exchange holds beyond what the server counts: delivery, or the sum of it and all that is not known."""
    view = ledger.view
    if "decode" in ledger.missing() and view.decode_ns is not None and view.last_token_ns is not None:
        # Arrivals are no generation times: buffers and slow readers stretch or squeeze them, so nothing bounds it below.
        ledger.put(
            PhaseTiming(
                name="decode",
                ns=view.decode_ns,
                low_ns=0,
                high_ns=max(view.last_token_ns, view.decode_ns),
                source="client-observed",
                method=METHOD,
                definition=OBSERVED_DECODE,
            )
        )
    left = exchange_ns - sum(phase.ns or 0 for phase in ledger.taken())
    if left < -tolerance_ns(ledger.report, exchange_ns):
        _contradict(ledger, left, exchange_ns)
    else:
        _put_rest(ledger, left, exchange_ns)
    residual = view.after_ns + min(left, 0)
    if residual:
        ledger.put(exactly("residual", residual, RESIDUAL))


def _put_rest(ledger: Ledger, left: int, exchange_ns: int) -> None:
    """Name what is left. `left` below zero is within rounding: it goes to the residual, and nothing is left."""
    missing = ledger.missing() if ledger.report.total_ns is None else []
    # A server that reports all but tokenisation has it outside its count, with the rest of its HTTP layer.
    name = joined({*missing, "delivery"}) if set(missing) - {"tokenize"} else "delivery"
    taken = ledger.taken()
    if not taken and exchange_ns == 0:  # the request never left: no time, and nothing to give a number to
        for member in (*missing, "delivery"):
            ledger.put(PhaseTiming(name=member, ns=None, source="not-applicable", definition="the request never left"))
        return
    # The total is measured as one, so its parts' bounds do not widen it.
    total_ns = ledger.report.total_ns
    low = sum(phase.low_ns or 0 for phase in taken) if total_ns is None else min(total_ns, exchange_ns)
    high = sum(phase.high_ns or 0 for phase in taken)
    ns, spoiled = max(left, 0), ledger.view.spoiled_ns
    ledger.put(
        PhaseTiming(
            name=name,
            ns=ns,
            low_ns=0 if name == "delivery" else min(max(exchange_ns - high - spoiled, 0), ns),
            high_ns=(exchange_ns - low if left >= 0 else tolerance_ns(ledger.report, exchange_ns)) + spoiled,
            source="derived",
            method=REMAINDER,
            definition=MEANING[name]
            if name == "delivery"
            else "what is left of the exchange when all that is known is taken away",
        )
    )
    unseen = [phase.name for phase in ledger.view.before if phase.source == "unknown"]
    for member in (*missing, *ledger.missing(), *unseen, "delivery"):
        if member != name:
            ledger.include(member, name)


def _contradict(ledger: Ledger, left: int, exchange_ns: int) -> None:
    """The server counts more than the client waited: keep its numbers, bound them loosely, and say so."""
    for phase in ledger.taken():
        ledger.put(replace(phase, low_ns=0, high_ns=max(phase.high_ns or 0, exchange_ns)))
    ledger.put(unknown("delivery", exchange_ns))
    ledger.notes.append(
        f"inconsistent: the server's phases are {-left / NS['s']:g} s longer than the client waited; perhaps a wrong unit, "
        "a replayed response, a report on another generation, or a client that stopped reading"
    )


def _bound_by_first_token(ledger: Ledger) -> None:
    """What comes before the first token cannot be longer than the client waited for that token."""
    if ledger.view.first_token_ns is None:
        return
    first = ledger.view.first_token_ns
    before = [phase for phase in ledger.taken() if is_before_decode(phase.name)]
    known = sum(phase.low_ns or 0 for phase in before)
    if known > first + tolerance_ns(ledger.report, first):
        ledger.notes.append("the first token arrived before the server says it was generated: it bounds nothing")
        return
    for name in (*CLIENT, *BEFORE_DECODE):
        phase = ledger.entries.get(name)
        if phase is None or phase.ns is not None or phase.source != "unknown":
            continue
        # A sum that holds the phase does not shorten it.
        others = known - sum(sum_.low_ns or 0 for sum_ in before if name in members(sum_.name))
        bound = max(first - others, 0, phase.low_ns or 0)
        if phase.high_ns is None or bound < phase.high_ns:
            ledger.put(bounded(phase, phase.low_ns, bound, included_in=phase.included_in))
