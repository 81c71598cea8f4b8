"""Reports with damage in them: a note or a rejection, never an exception, never a wrong phase."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agenttrace.phases.explain import explain_response, explanation_json
from agenttrace.phases.names import members
from agenttrace.phases.split import split_phases
from tests.phases.builders import a_call, an_attempt, by_name
from tests.phases.test_oracles import ORACLES
from tests.phases.test_sums_hold import check_split

NAMES = sorted(ORACLES)


def nested(depth: int) -> Any:
    value: Any = 1.0
    for _ in range(depth):
        value = [{"usage": value}]
    return value


NONSENSE = st.sampled_from(
    [None, "12 s", "", "abc", float("nan"), float("inf"), -1, -0.5, True, [], [1, 2], {}, {"a": 1}, 10**400, 1e308]
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document, itself excluded."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in items:
        yield (*at, key)
        yield from paths(held, (*at, key))


def damaged(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    if value == "GONE":
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return changed


@st.composite
def damages(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An oracle's name, and its document with one to three places damaged."""
    name = draw(st.sampled_from(NAMES))
    document = {key: ORACLES[name][key] for key in ("provider", "payload", "headers", "client") if key in ORACLES[name]}
    for _ in range(draw(st.integers(1, 3))):
        places = list(paths(document))
        if places:
            document = damaged(document, draw(st.sampled_from(places)), draw(NONSENSE | st.just("GONE")))
    return name, document


@given(damages(), st.none() | st.floats(0.0001, 200))
@settings(max_examples=1200, deadline=None)
@example(("groq_stream_x_groq", {"payload": [], "headers": [["a", 1]], "client": "x", "provider": 7}), None)
def test_damage_never_makes_a_phase(damage: tuple[str, dict[str, Any]], e2e: float | None) -> None:
    """A damaged report states what the whole one states, or nothing; sums stay exact and what is printed is plain JSON."""
    name, document = damage
    if e2e is not None and isinstance(document.get("client", {}), dict):
        document = {**document, "client": {**document.get("client", {}), "e2e_s": e2e}}
    found = explain_response(document)
    json.dumps(explanation_json(found), allow_nan=False)
    whole = by_name(explain_response(ORACLES[name]).phases)
    for phase in found.phases:
        if phase.name == "server_all":
            continue  # the next outer clock: an edge where the service itself is silent
        if phase.source == "server-reported" and phase.name in whole:
            assert phase.ns == whole[phase.name].ns, phase
        elif phase.source == "server-reported":
            # A sum that the whole report divides: its bounds hold what the parts add up to.
            parts = [whole[member].ns or 0 for member in members(phase.name)]
            assert (phase.low_ns or 0) <= sum(parts) <= (phase.high_ns or 0), phase
        if phase.ns is not None:
            assert phase.low_ns is not None
            assert phase.high_ns is not None
            assert phase.low_ns <= phase.ns <= phase.high_ns, phase


@given(damages(), st.integers(1, 10**11), st.booleans(), st.none() | st.integers(0, 10**10))
@settings(max_examples=1200, deadline=None)
def test_damaged_reports_divide_exactly(
    damage: tuple[str, dict[str, Any]], end_ns: int, streamed: bool, first_ns: int | None
) -> None:
    """Whatever report a response carries, the call it belongs to divides exactly."""
    _, document = damage
    payload, headers = document.get("payload"), document.get("headers")
    start = a_call(None).start_ns
    call = a_call(
        None,
        end_ns=start + end_ns,
        state="ok",
        is_streamed=streamed,
        first_content_ns=None if first_ns is None else start + first_ns,
        last_content_ns=start + end_ns,
        attempts=(
            an_attempt(
                0.0,
                None,
                report=payload if isinstance(payload, dict) else {},
                headers={str(k): str(v)[:50] for k, v in headers.items() if not isinstance(v, list)}
                if isinstance(headers, dict)
                else {},
            ),
        ),
    )
    check_split(split_phases(call), end_ns)


def test_numbers_too_long_to_print() -> None:
    """An integer of more digits than Python will print is no number and no crash, in a body and in a header."""
    huge = 10**5000
    document = {"payload": {"timings": {"prompt_ms": huge}, "usage": {"prompt_tokens": huge}}, "headers": {"a": huge}}
    found = explain_response(document)
    assert set(found.rejected) == {"prompt_ms"}


def test_text_in_a_body_is_no_number() -> None:
    """A server that writes numbers does not write text: a number in quotes is not believed."""
    found = explain_response({"payload": {"metrics": {"queue_time_ms": "12", "time_to_first_token_ms": 85.2}}})
    assert set(found.rejected) == {"queue_time_ms"}
    assert by_name(found.phases)["queue"].ns is None


@pytest.mark.parametrize("name", NAMES)
def test_deep_nesting(name: str) -> None:
    """A value nested thousands deep, wherever it stands, is no number and no crash."""
    document = copy.deepcopy({key: ORACLES[name].get(key, {}) for key in ("payload", "headers", "client")})
    deep = nested(3000)
    for path in list(paths(document)):
        holder: Any = document
        for key in path[:-1]:
            holder = holder[key]
        kept, holder[path[-1]] = holder[path[-1]], deep
        json.dumps(explanation_json(explain_response(document)), allow_nan=False)
        holder[path[-1]] = kept


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("e2e", [0.001, 0.05, 0.5, 1.3379, 3.0, 60.0, 120.0])
def test_oracles_divide_any_call_exactly(name: str, e2e: float) -> None:
    """Each published report, put into calls too short, just right and long, divides the call exactly."""
    oracle = ORACLES[name]
    for streamed in (False, True):
        marks = {"first_content_s": e2e / 3, "last_content_s": e2e * 0.9, "chunks": 9} if streamed else {}
        attempt = an_attempt(0.0, e2e * 0.95, report=oracle.get("payload", {}), headers=oracle.get("headers", {}))
        call = a_call(e2e, is_streamed=streamed, attempts=(attempt,), **marks)
        assert call.end_ns is not None
        check_split(split_phases(call), call.end_ns - call.start_ns)
