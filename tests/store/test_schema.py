"""The schema's page, and the views that people ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttrace.records import Marks, SettingValue, SpanRecord
from agenttrace.store.importing import import_records
from agenttrace.store.reading import open_store
from agenttrace.store.results import ResultRecord, import_results
from tests.builders import NOON, SECOND, a_model_call, a_run, a_span
from tests.store.schema_page import PAGE, page


def test_the_page_is_the_schema() -> None:
    """docs/schema.md says what the SQL says; `make docs` writes it anew."""
    assert PAGE.read_text() == page()


def ask(store: Path, query: str) -> list[tuple[object, ...]]:
    with open_store(store).connection() as connection:
        return connection.execute(query).fetchall()


def test_model_calls_are_in_seconds(store: Path) -> None:
    """A call has its run's name, seconds, and NULL for what nobody told."""
    seen = a_model_call(2, marks=Marks(first_byte_ns=SECOND // 10, first_content_ns=SECOND // 4))
    import_records(store, [a_run()], [a_span(1), seen, a_model_call(3)])
    rows = ask(
        store, "SELECT run, seconds, first_token_s, input_tokens, cached_tokens FROM model_calls ORDER BY span_id"
    )
    assert rows == [("nightly", 1.0, 0.25, 40, None), ("nightly", 1.0, None, 40, None)]


def test_phases_are_in_seconds(store: Path) -> None:
    """A phase is a row that names its run."""
    import_records(store, [a_run()], [a_span(1), a_model_call(2)])
    assert ask(store, "SELECT run, phase, seconds, low_s FROM phase_seconds") == [("nightly", "decode", 0.5, None)]


def test_contracts_and_scores_are_rows(store: Path) -> None:
    """What each call site was set to, with how many calls; each score of each attempt."""
    settings = {
        "model.served": SettingValue(value="small", voice="served", source="response"),
        "sampling.temperature": SettingValue(value=0.2, voice="sent", source="body"),
    }
    import_records(
        store, [a_run()], [a_span(1), *(a_model_call(n, settings=settings, call_site="app.py:3") for n in (2, 3))]
    )
    result = ResultRecord(case="q1", repetition=1, outcome="scored", scores={"correct": 1.0, "short": 0.5})
    import_results(store, a_run(run_id="judged", name="suite"), [result])
    assert ask(store, "SELECT run, call_site, dimension, value, voice, calls FROM contracts ORDER BY dimension") == [
        ("nightly", "app.py:3", "model.served", "small", "served", 2),
        ("nightly", "app.py:3", "sampling.temperature", "0.2", "sent", 2),
    ]
    assert ask(store, "SELECT run, case_id, name, value FROM scores ORDER BY name") == [
        ("suite", "q1", "correct", 1.0),
        ("suite", "q1", "short", 0.5),
    ]


def within(number: int, name: str, parent: int | None, start: int, end: int) -> SpanRecord:
    times = {"start_ns": NOON + start * SECOND, "end_ns": NOON + end * SECOND}
    return a_span(number, name=name, parent_id=f"{parent:016x}" if parent else None, **times)


@pytest.mark.parametrize(
    ("spans", "path"),
    [
        pytest.param([], [("root", 0, 100)], id="alone"),
        pytest.param(
            [(2, "a", 1, 10, 40), (3, "b", 1, 20, 60), (4, "c", 1, 70, 90), (5, "d", 4, 75, 85)],
            [("root", 0, 10), ("a", 10, 10), ("b", 20, 40), ("root", 60, 10), ("c", 70, 5), ("d", 75, 10), ("c", 85, 5),
             ("root", 90, 10)],
            id="the-last-to-end-counts",
        ),
        pytest.param([(2, "a", 1, 50, 300)], [("root", 0, 50), ("a", 50, 50)], id="outlives-its-root"),
        pytest.param([(2, "a", 1, -50, 30)], [("a", 0, 30), ("root", 30, 70)], id="began-before-its-root"),
        pytest.param(
            [(2, "a", 1, 0, 100), (3, "b", 2, 0, 100), (4, "c", 1, 40, 40)], [("b", 0, 100)], id="same-times"
        ),
    ],
)  # fmt: skip
def test_the_critical_path_adds_up(
    store: Path, spans: list[tuple[int, str, int, int, int]], path: list[tuple[str, int, int]]
) -> None:
    """Each moment of the root's time belongs to one step: the one that the rest waited for."""
    import_records(store, [a_run()], [within(1, "root", None, 0, 100), *(within(*span) for span in spans)])
    found = ask(store, "SELECT name, from_s, seconds FROM critical_path ORDER BY from_s")
    assert found == [(name, float(start), float(seconds)) for name, start, seconds in path]
    assert sum(seconds for _, _, seconds in path) == 100
