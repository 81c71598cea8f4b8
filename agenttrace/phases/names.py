"""The words for phases (D6) and the grammar of sums: which phases an entry's name stands for, and in which order they happen.

A sum is named by its members joined with `_plus_`; `server_all` stands for everything that happens in the server.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from agenttrace.records import PhaseTiming

CLIENT = ("client_prep", "connect", "retry_backoff")
BEFORE_DECODE = ("queue", "load", "tokenize", "prefill")
SERVER = (*BEFORE_DECODE, "decode")
HOSTED = tuple(name for name in SERVER if name != "load")
"""What takes place in a server whose model is there already."""

ORDER = (*CLIENT, *SERVER, "delivery", "unattributed_server", "residual")
"""Every phase of a model call in the order in which it happens."""

MEANING: Mapping[str, str] = {
    "queue": "waiting in the server until work on the request begins",
    "load": "loading the model",
    "tokenize": "template, tokenisation and checks before the engine takes the request",
    "prefill": "computing the prompt until the first token",
    "decode": "first generated token until the last one",
    "delivery": "what the server does not count: the network both ways, buffering, and its HTTP layer where it leaves that out",
}
"""What a phase means where no server defines it in its own terms."""

SERVER_ALL = "server_all"
JOIN = "_plus_"


@lru_cache(maxsize=512)
def members(name: str) -> tuple[str, ...]:
    """The phases that an entry of this name holds; a plain phase holds itself."""
    held: list[str] = []
    for part in name.split(JOIN):
        held.extend(SERVER if part == SERVER_ALL else (part,))
    return tuple(held)


def joined(names: Collection[str]) -> str:
    """The name of the sum of these phases, members in the order in which they happen.

    With queue, prefill and decode among them they are all that the server does: a server without `load` has no other word.
    """
    ordered = [name for name in ORDER if name in names]
    if {"queue", "prefill", "decode"} <= set(names):
        ordered = [SERVER_ALL, *(name for name in ordered if name not in SERVER)]
    return JOIN.join(ordered)


@lru_cache(maxsize=512)
def is_before_decode(name: str) -> bool:
    """Whether everything that an entry holds happens before the first token."""
    return all(member in BEFORE_DECODE for member in members(name))


def in_order(phases: Iterable[PhaseTiming]) -> tuple[PhaseTiming, ...]:
    """Sorted by what begins first; a sum stands before its members."""
    return tuple(sorted(phases, key=lambda phase: _place(phase.name)))


@lru_cache(maxsize=512)
def _place(name: str) -> tuple[int, int]:
    held = members(name)
    return ORDER.index(held[0]) if held[0] in ORDER else len(ORDER), -len(held)


def counted(phases: Iterable[PhaseTiming]) -> tuple[PhaseTiming, ...]:
    """The entries that add up to the whole: those with a number that are in no other entry."""
    return tuple(phase for phase in phases if phase.ns is not None and phase.included_in is None)


def server_ttft_ns(phases: Iterable[PhaseTiming]) -> int | None:
    """The server's time to first token: its phases before decoding, when queue and prefill are among those with a number."""
    before = [phase for phase in counted(phases) if is_before_decode(phase.name)]
    held = {member for phase in before for member in members(phase.name)}
    if not {"queue", "prefill"} <= held:
        return None
    return sum(phase.ns or 0 for phase in before)
