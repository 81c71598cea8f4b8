"""Which calls an inference may rest on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenttrace.phases.prefill_fit import FirstTokens
from agenttrace.records import AttemptRecord, Marks, PhaseTiming, SettingValue, SpanRecord, Usage
from agenttrace.store.first_tokens import DAY_NS, read_first_tokens
from agenttrace.store.importing import import_records
from agenttrace.store.reading import open_store
from agenttrace.store.timings import Selection
from tests.builders import NOON, SECOND, a_model_call, a_run

MS = 10**6


def attempt(start_ns: int, **fields: Any) -> AttemptRecord:
    return AttemptRecord(
        **{
            "start_ns": start_ns + 30 * MS,
            "end_ns": start_ns + SECOND,
            "status": 200,
            "host": "api.example.com",
            "sent_ns": 20 * MS,
            **fields,
        }
    )


def a_call(number: int, **fields: object) -> SpanRecord:
    start = NOON + number * SECOND
    told = {"model.served": "m1", "provider": "house", "service_tier": "default"}
    return a_model_call(number, **{
        "trace_id": f"{number:032x}", "parent_id": None, "start_ns": start, "end_ns": start + SECOND,
        "settings": {name: SettingValue(value=value, voice="sent", source="wire") for name, value in told.items()},
        "usage": Usage(input=1_000, cached=200, output=10),
        "marks": Marks(first_content_ns=350 * MS, chunks=9), "phases": (),
        "attempts": (attempt(start),), **fields,
    })  # fmt: skip


def read(store: Path, calls: list[SpanRecord]) -> list[FirstTokens]:
    import_records(store, [a_run()], calls)
    with open_store(store).connection() as connection:
        return list(read_first_tokens(connection, Selection()))


def test_time_to_first_token_counts_from_the_requests_leaving(store: Path) -> None:
    """What the client did before, and the connection, are no waiting; cached tokens are no prefill. A server's own numbers
    come along, and nothing stands for those that are not told."""
    told = (PhaseTiming(name="prefill", ns=90 * MS, source="server-reported"),)
    [found] = read(store, [a_call(1), a_call(2, phases=told)])
    assert found.name == "m1 at api.example.com, tier default"
    assert list(found.uncached) == [800, 800]
    assert list(found.first_token_ns) == [300 * MS] * 2
    assert found.prefill_ns[1] == 90 * MS
    assert found.prefill_ns[0] != found.prefill_ns[0]
    assert all(number != number for number in found.queue_ns)


START = NOON + 2 * SECOND


@pytest.mark.parametrize(
    "fields",
    [
        {"attempts": ()},
        {"attempts": (attempt(START, status=429), attempt(START))},
        {"marks": Marks(first_content_ns=350 * MS)},
        {"marks": Marks(chunks=9)},
        {"usage": Usage(input=1_000, output=10)},
        {"usage": Usage(input=1_000, cached=2_000, output=10)},
        {"usage": Usage(input=1_000, cached=0, output=10, reasoning=5)},
        {"state": "error"},
        {"start_ns": START - 2 * DAY_NS},
    ],
    ids=["attempts-unseen", "retried", "not-streamed", "no-token-seen", "cached-unknown", "cached-impossible",
         "hidden-reasoning", "failed", "yesterday"],
)  # fmt: skip
def test_a_call_that_would_mislead_is_left_out(store: Path, fields: dict[str, object]) -> None:
    """Retries, unknown caches, hidden reasoning, calls of another day: each would be taken for queue or prefill."""
    [found] = read(store, [a_call(1), a_call(2, **fields)])
    assert len(found.uncached) == 1


def test_other_conditions_are_other_servers(store: Path) -> None:
    """Hosts and new connections are apart: their fixed costs differ."""
    calls = [a_call(1), a_call(2), a_call(3, attempts=(attempt(NOON + 3 * SECOND, connect_ns=9 * MS),)),
             a_call(4, attempts=(attempt(NOON + 4 * SECOND, host="eu.example.com"),))]  # fmt: skip
    found = read(store, calls)
    assert [(server.name, len(server.uncached)) for server in found] == [
        ("m1 at api.example.com, tier default", 2),
        ("m1 at api.example.com, tier default, new connections", 1),
        ("m1 at eu.example.com, tier default", 1),
    ]
    assert read(store / "empty", []) == []
