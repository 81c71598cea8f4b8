"""What a trace's time hangs on."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.phases.critical_path import OWN_CODE, UNDIVIDED, critical_path
from agenttrace.records import PhaseTiming, SpanRecord
from agenttrace.store.importing import import_records
from agenttrace.store.reading import open_store
from tests.builders import NOON, SECOND, a_run, a_span


def within(number: int, name: str, parent: int | None, start: int, end: int | None, **fields: object) -> SpanRecord:
    return a_span(
        number,
        name=name,
        parent_id=None if parent is None else f"{parent:016x}",
        start_ns=NOON + start * SECOND,
        end_ns=None if end is None else NOON + end * SECOND,
        **fields,
    )


def path(spans: list[SpanRecord]) -> list[tuple[str, int, int]]:
    return [
        (stretch.span.name, (stretch.from_ns - NOON) // SECOND, (stretch.until_ns - NOON) // SECOND)
        for stretch in critical_path(spans).stretches
    ]


def parts(spans: list[SpanRecord]) -> dict[str, tuple[int, int]]:
    """Seconds on the path, and seconds saved by half."""
    found = critical_path(spans).parts
    return {part.name: (round(part.ns / SECOND), round(part.saved_ns / SECOND)) for part in found}


def an_agent() -> list[SpanRecord]:
    """A model call that asks for two tools at once, the slower of which a second call waits for."""
    phases = tuple(PhaseTiming(name=name, ns=4 * SECOND, source="server-reported") for name in ("queue", "decode"))
    return [
        within(1, "agent", None, 0, 50, kind="agent"),
        within(2, "asks", 1, 2, 12, kind="model", phases=phases),
        within(3, "slow", 1, 12, 32, kind="tool"),
        within(4, "quick", 1, 12, 26, kind="tool"),
        within(5, "answers", 1, 34, 48, kind="model"),
    ]


def test_the_slower_of_two_tools_at_once_is_on_the_path() -> None:
    """The path goes through what ended last; the agent's own code is what is between."""
    assert path(an_agent()) == [
        ("agent", 0, 2), ("asks", 2, 12), ("slow", 12, 32), ("agent", 32, 34), ("answers", 34, 48), ("agent", 48, 50)
    ]  # fmt: skip


def test_half_of_a_tool_saves_no_more_than_until_the_next_one_ends() -> None:
    """Twenty seconds halved save six: then the other tool is waited for. What is alone saves half of its time."""
    assert parts(an_agent()) == {
        "slow": (20, 6), UNDIVIDED: (16, 8), "queue": (4, 2), "decode": (4, 2), OWN_CODE: (6, 3),
    }  # fmt: skip


def test_a_step_that_waited_for_another_follows_it_on_the_path() -> None:
    """With two places for three tools the third begins when one ends: that one is on the path, not the other, still running."""
    spans = [
        within(1, "root", None, 0, 5),
        within(2, "a", 1, 0, 3, kind="tool"),
        within(3, "b", 1, 2, 5, kind="tool"),
        within(4, "c", 1, 0, 2, kind="tool"),
    ]
    assert path(spans) == [("c", 0, 2), ("b", 2, 5)]


def test_a_trace_without_root_hangs_on_its_topmost_steps() -> None:
    """Steps whose root was lost are walked as if one stood above them; what is between them belongs to nobody."""
    spans = [within(2, "a", 1, 0, 3), within(3, "b", 1, 5, 9), within(4, "below", 3, 6, 9)]
    assert path(spans) == [("a", 0, 3), ("b", 5, 6), ("below", 6, 9)]
    assert not critical_path(spans).has_ended
    assert critical_path([]).stretches == ()


def test_clocks_that_jumped_never_make_negative_time() -> None:
    """An end before its beginning takes no time; what lies outside of its parent is cut."""
    spans = [within(1, "root", None, 0, 10), within(2, "back", 1, 5, 3), within(3, "early", 1, -5, 2),
             within(4, "late", 1, 8, 20)]  # fmt: skip
    assert path(spans) == [("early", 0, 2), ("root", 2, 8), ("late", 8, 10)]
    assert sum(part.ns for part in critical_path(spans).parts) == 10 * SECOND


def test_an_unfinished_trace_leads_to_the_latest_known_moment() -> None:
    """Of a trace under way the open steps are on the path; an open step of a finished one was not waited for."""
    spans = [within(1, "root", None, 0, None), within(2, "a", 1, 0, 4), within(3, "open", 1, 5, None)]
    assert path(spans) == [("a", 0, 4), ("root", 4, 5)]
    assert not critical_path(spans).has_ended
    assert path([within(1, "root", None, 0, 9), within(2, "a", 1, 0, 4), within(3, "open", 1, 5, None)]) == [
        ("a", 0, 4),
        ("root", 4, 9),
    ]


def test_steps_that_are_each_others_parents_are_left_out() -> None:
    """A circle hangs on nothing, and is no endless walk."""
    spans = [within(1, "root", None, 0, 10), within(2, "a", 3, 0, 4), within(3, "b", 2, 0, 4)]
    assert path(spans) == [("root", 0, 10)]


TREES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(0, 9)), max_size=12)


@given(TREES)
def test_a_path_adds_up_and_halves_never_save_more_than_half(tree: list[tuple[int, int, int]]) -> None:
    """Stretches fill the root's time without gap or overlap; half of a part saves at most half of its time everywhere."""
    spans = [within(1, "root", None, 0, 30, kind="agent")]
    for number, (start, took, parent) in enumerate(tree, 2):
        spans.append(within(number, f"step{number % 3}", 1 + parent % (number - 1), start, start + took, kind="tool"))
    found = critical_path(spans)
    reached = NOON
    for stretch in found.stretches:
        assert stretch.from_ns == reached < stretch.until_ns
        reached = stretch.until_ns
    assert reached == NOON + 30 * SECOND
    assert sum(part.ns for part in found.parts) == 30 * SECOND
    assert all(0 <= part.saved_ns <= 15 * SECOND for part in found.parts)


@settings(deadline=None, max_examples=40)  # a database each
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(0, 9)), min_size=1, max_size=8))
def test_the_view_says_the_same(tree: list[tuple[int, int, int]]) -> None:
    """The store's view critical_path and this walk agree on every stretch."""
    spans = [within(1, "root", None, 0, 30)]
    for number, (start, took, parent) in enumerate(tree, 2):
        above = spans[parent % (number - 1)]
        assert above.end_ns is not None
        first = min((above.start_ns - NOON) // SECOND + start, (above.end_ns - NOON) // SECOND)
        end = min(first + took, (above.end_ns - NOON) // SECOND)
        spans.append(within(number, f"step{number}", 1 + parent % (number - 1), first, end))
    assert path(spans) == _in_sql(spans)


def _in_sql(spans: list[SpanRecord]) -> list[tuple[str, int, int]]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        import_records(store, [a_run()], spans)
        with open_store(store).connection() as connection:
            rows = connection.execute("SELECT name, from_s, seconds FROM critical_path ORDER BY from_s").fetchall()
    return [(name, round(start), round(start + seconds)) for name, start, seconds in rows]
