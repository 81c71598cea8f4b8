"""Distributions as the store adds them up."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttrace.phases.distributions import Distribution, GroupTimings
from agenttrace.records import Marks, PhaseTiming, SettingValue, SpanRecord, Usage
from agenttrace.store import timings as timings_module
from agenttrace.store.importing import import_records
from agenttrace.store.reading import open_store
from agenttrace.store.timings import Selection, Timings, read_timings
from tests.builders import NOON, SECOND, a_model_call, a_run

MS = 10**6


def said(value: str) -> SettingValue:
    return SettingValue(value=value, voice="sent", source="wire")


def a_call(number: int, ms: int = 1_000, **fields: object) -> SpanRecord:
    start = NOON + number * 10 * SECOND
    return a_model_call(
        number,
        **{
            "trace_id": f"{number:032x}",
            "parent_id": None,
            "start_ns": start,
            "end_ns": start + ms * MS,
            "call_site": "outer/planner",
            "settings": {"model.served": said("m1"), "provider": said("house")},
            "usage": Usage(input=100, cached=50, output=11),
            "marks": Marks(first_content_ns=ms * MS // 2),
            "phases": (phase("queue", number * MS), phase("decode", None)),
            **fields,
        },
    )


def phase(name: str, ns: int | None, **fields: object) -> PhaseTiming:
    source = "server-reported" if ns is not None else "unknown"
    return PhaseTiming(**{"name": name, "ns": ns, "source": source, **fields})  # type: ignore[arg-type]  # fields of it


def read(store: Path, calls: list[SpanRecord], by: str = "model", selection: Selection | None = None) -> Timings:
    import_records(store, [a_run()], calls)
    with open_store(store).connection() as connection:
        return read_timings(connection, selection or Selection(), by)  # type: ignore[arg-type]  # one of the literals


def only(found: Timings) -> GroupTimings:
    [group] = found.groups
    return group


def of(group: GroupTimings, name: str) -> Distribution:
    return next(item for item in group.distributions if item.name == name)


def test_quantiles_are_values_that_were_measured(store: Path) -> None:
    """Of queues of 1 to 100 ms the median is 50 ms, and p99 is not estimable; the largest is told."""
    queue = of(only(read(store, [a_call(n) for n in range(1, 101)])), "queue")
    assert (queue.known, queue.applicable, queue.sources) == (100, 100, {"server-reported": 100})
    median = queue.quantiles["p50"]
    assert median is not None
    assert (median.low, median.value, median.high) == (40 * MS, 50 * MS, 61 * MS)
    assert queue.quantiles["p99"] is None
    assert queue.maximum == 100 * MS
    assert sum(queue.bins.values()) == 100


def test_what_nobody_knows_is_named_and_never_zero(store: Path) -> None:
    """A phase without a number is unknown; one that exists nowhere is neither known nor unknown."""
    absent = phase("queue", None, source="not-applicable")
    held = phase("prefill", None, included_in="queue_plus_prefill")
    calls = [
        a_call(1, phases=(absent, phase("decode", None))),
        a_call(2, phases=(phase("queue", 5 * MS), held, phase("load", None, source="not-applicable"))),
        a_call(3, phases=(phase("queue", None), phase("decode", None))),
    ]
    group = only(read(store, calls))
    queue = of(group, "queue")
    assert (queue.known, queue.applicable, queue.known_share) == (1, 2, 0.5)
    assert queue.quantiles["p50"] is None
    assert group.unknown_phases == ("decode",)


def test_what_is_known_within_a_sum_is_not_unknown(store: Path) -> None:
    """The sum has a line; neither it nor its members are listed as unknown."""
    whole = "queue_plus_prefill"
    parts = tuple(phase(name, None, included_in=whole) for name in ("queue", "prefill"))
    group = only(read(store, [a_call(1, phases=(phase(whole, 5 * MS, source="derived"), *parts))]))
    assert of(group, whole).maximum == 5 * MS
    assert group.unknown_phases == ()


def test_first_token_and_inter_token_follow_nvidias_definitions(store: Path) -> None:
    """(end to end - time to first token) / (N - 1), output tokens / end to end; hidden reasoning leaves no such number."""
    hidden = Usage(input=100, output=11, reasoning=5)
    group = only(read(store, [*(a_call(n) for n in range(1, 7)), a_call(7, usage=hidden)]))
    inter_token, per_user = of(group, "inter_token"), of(group, "tokens_per_second_user")
    assert inter_token.known == 6
    assert inter_token.maximum == 500 * MS / 10
    assert per_user.maximum == 11
    assert of(group, "first_token").maximum == 500 * MS


def test_throughput_and_load_are_over_first_start_to_last_end(store: Path) -> None:
    """Requests and tokens a second are over Ty - Tx; a missing count makes the system's tokens unknown."""
    group = only(read(store, [a_call(1), a_call(2, start_ns=NOON + 10 * SECOND + SECOND // 2)]))
    assert group.load.window_ns == 11 * SECOND
    assert group.requests_per_second == pytest.approx(2 / 11)
    assert group.system_tokens_per_second == pytest.approx(22 / 11)
    assert group.load.in_flight["max"] == 2
    assert group.load.output_tokens_in_flight["max"] == 22
    assert group.load.busy_ns == 11 * SECOND
    assert (group.cache_hit_rate, group.cache_hits, group.cached_known) == (0.5, 2, 2)
    more = only(read(store, [a_call(3, usage=Usage())]))
    assert more.system_tokens_per_second is None


def test_calls_that_did_not_end_well_are_left_out_and_counted(store: Path) -> None:
    """Failed calls are none of the distribution; neither is one whose clock was set back."""
    calls = [a_call(1), a_call(2, state="error"), a_call(3, ms=-5_000)]
    group = only(read(store, calls))
    assert (group.calls, group.left_out) == (1, {"clock": 1, "error": 1})
    assert of(group, "duration").known == 1


def test_groups(store: Path) -> None:
    """By model, call site, node or provider; what tells none is a group of its own."""
    calls = [a_call(1), a_call(2, call_site=None, settings={})]
    names = {
        by: {group.name for group in read(store, calls, by).groups} for by in ("model", "call-site", "node", "provider")
    }
    assert names == {
        "model": {"m1", "(unknown model)"},
        "call-site": {"outer/planner", "(no call site)"},
        "node": {"planner", "(no node)"},
        "provider": {"house", "(unknown provider)"},
    }


def test_a_selection_narrows(store: Path) -> None:
    """By run and by time; nothing selected is no group."""
    calls = [a_call(n) for n in range(1, 4)]
    assert only(read(store, calls, selection=Selection(since_ns=NOON + 20 * SECOND))).calls == 2
    assert read(store, calls, selection=Selection(run_id="another")).groups == ()


def test_of_very_many_calls_a_sample_is_looked_at(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and tokens are of all calls; distributions of a part, the same one each time, and the answer says so."""
    calls = [a_call(n) for n in range(1, 401)]
    monkeypatch.setattr(timings_module, "MOST", 100)
    first, second = read(store, calls), read(store, calls)
    assert first.sampled == 0.25
    group = only(first)
    assert group.calls == 400
    assert 40 < of(group, "queue").known < 200
    assert of(group, "queue").known == of(group, "queue").applicable == of(only(second), "queue").known
    assert group.load.busy_ns is None
