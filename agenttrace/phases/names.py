"""The words for phases (D6) and the grammar of sums: which phases an entry's name stands for, and in which order they happen.

A sum is named by its members joined with `_plus_`; `server_all` stands for everything that happens in the server.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from agenttrace.records import PhaseTiming

CLIENT = ("client_prep", "connect", "retry_backoff")
BEFORE_DECODE = ("queue", "load", "tokenize", "prefill")
SERVER = (*BEFORE_DECODE, "decode")
ORDER = (*CLIENT, *SERVER, "delivery", "unattributed_server", "residual")
"""Every phase of a model call in the order in which it happens."""

SERVER_ALL = "server_all"
JOIN = "_plus_"


def members(name: str) -> tuple[str, ...]:
    """The phases that an entry of this name holds; a plain phase holds itself."""
    held: list[str] = []
    for part in name.split(JOIN):
        held.extend(SERVER if part == SERVER_ALL else (part,))
    return tuple(held)


def joined(names: Collection[str]) -> str:
    """The name of the sum of these phases, members in the order in which they happen."""
    ordered = [name for name in ORDER if name in names]
    if set(SERVER) <= set(names):
        ordered = [SERVER_ALL, *(name for name in ordered if name not in SERVER)]
    return JOIN.join(ordered)


def is_before_decode(name: str) -> bool:
    """Whether everything that an entry holds happens before the first token."""
    return all(member in BEFORE_DECODE for member in members(name))


def in_order(phases: Iterable[PhaseTiming]) -> tuple[PhaseTiming, ...]:
    """Sorted by what begins first; a sum stands before its members."""

    def place(phase: PhaseTiming) -> tuple[int, int]:
        held = members(phase.name)
        return ORDER.index(held[0]) if held[0] in ORDER else len(ORDER), -len(held)

    return tuple(sorted(phases, key=place))


def counted(phases: Iterable[PhaseTiming]) -> tuple[PhaseTiming, ...]:
    """The entries that add up to the whole: those with a number that are in no other entry."""
    return tuple(phase for phase in phases if phase.ns is not None and phase.included_in is None)
