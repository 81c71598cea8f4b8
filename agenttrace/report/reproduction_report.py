"""Draws what repeating a recorded call or task came to."""

from __future__ import annotations

from collections.abc import Iterator

from agenttrace.evaluation.reproduction import NotReproduced, Reproduction
from agenttrace.report.escaping import visible
from agenttrace.settings.canonical import canonical
from agenttrace.steps import JSON

SHOWN = 80


def reproduction_lines(one: Reproduction) -> Iterator[str]:
    """Agreement first, then where it ends, then what was not the same."""
    place = f" at {one.call_site}" if one.call_site else ""
    yield visible(f"{one.name}{place} ({one.what} {one.span_id})")
    outputs = "one output" if one.distinct == 1 else f"{one.distinct} different outputs"
    yield f"  {one.agreed} of {one.answered} repetitions agree with what was recorded ({outputs})"
    if one.first_difference is not None:
        first = one.first_difference
        yield f"  first difference: repetition {first.repetition}, after {first.at} characters"
        yield visible(f"    recorded {first.recorded}")
        yield visible(f"    repeated {first.repeated}")
    if not one.not_reproduced:
        yield "  every setting that was recorded was reproduced"
        return
    yield "  not reproduced:"
    for item in one.not_reproduced:
        yield visible(f"    {item.dimension}{_place(one, item)}: {_sides(item)}")


def _place(one: Reproduction, item: NotReproduced) -> str:
    return f" at {item.call_site}" if item.call_site and item.call_site != one.call_site else ""


def _sides(item: NotReproduced) -> str:
    recorded, repeated = _text(item.recorded, item.recorded_state), _text(item.repeated, item.repeated_state)
    return f"recorded {recorded}, repeated {repeated}"


def _text(value: JSON, state: str) -> str:
    if state in ("unset", "unknown"):
        return state
    text = canonical(value).decode()
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
