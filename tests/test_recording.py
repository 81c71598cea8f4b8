"""Which run a step belongs to, and what a process leaves behind."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

import agenttrace
from agenttrace import AgentTraceHandler, install, open_store, record, recording
from agenttrace.comparison.recorded_suite import RecordedSuite, suite_metadata
from agenttrace.judging import load_evidence
from agenttrace.recording import flush
from agenttrace.store.layout import Layout
from agenttrace.store.results import ResultRecord, read_results
from agenttrace.writer import Writer
from tests.langchain.models import FakeModel


@pytest.fixture
def installed(store: Path) -> Iterator[None]:
    install()
    yield
    recording._installed.clear()


def test_public_names_are_sorted_and_resolve() -> None:
    """What is public is in `__all__`, and is there."""
    assert agenttrace.__all__ == sorted(agenttrace.__all__)
    for name in agenttrace.__all__:
        assert getattr(agenttrace, name)


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import agenttrace` costs nothing until a name is used."""
    heavy = "langchain_core duckdb rich opentelemetry orjson click".split()
    code = f"import agenttrace, sys; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_record_needs_no_handler(store: Path) -> None:
    """Every LangChain call inside the block is in the named run; calls outside are not."""
    with record("nightly", tags={"branch": "main"}, session="s1") as run:
        FakeModel(replies=["ok"]).invoke("inside")
    FakeModel(replies=["ok"]).invoke("outside")
    flush()
    [stored] = open_store().runs()
    assert (stored.run_id, stored.name, stored.tags, stored.session) == (
        run.run_id,
        "nightly",
        {"branch": "main"},
        "s1",
    )
    assert stored.end_ns is not None
    assert [span.input for span in open_store().run_spans(run.run_id)] == [[{"role": "user", "content": "inside"}]]


def test_a_handler_inside_record_doubles_nothing(store: Path) -> None:
    """A handler that is given too records the same steps once, into the same run."""
    with record("nightly") as run:
        FakeModel(replies=["one two"]).invoke("x", config={"callbacks": [AgentTraceHandler()]})
        list(FakeModel(replies=["one two"]).stream("x", config={"callbacks": [AgentTraceHandler()]}))
    spans = open_store().run_spans(run.run_id)
    assert len(spans) == 2
    assert spans[1].marks is not None
    assert spans[1].marks.chunks == 2


def test_record_keeps_what_failed(store: Path) -> None:
    """An exception passes through the block, and what was recorded is there."""
    with pytest.raises(ValueError, match="boom"), record("failing"):
        FakeModel(replies=[ValueError("boom")]).invoke("x")
    [span] = open_store().run_spans(open_store().run("failing").run_id)
    assert span.state == "error"


def test_two_stores_get_the_same_step(store: Path, tmp_path: Path) -> None:
    """A handler with a store of its own records there as well as into the surrounding run's."""
    other = tmp_path / "other"
    with record("both"):
        FakeModel(replies=["ok"]).invoke("x", config={"callbacks": [AgentTraceHandler(store=other)]})
    flush()
    assert [trace.spans for trace in open_store().traces()] == [1]
    assert [trace.spans for trace in open_store(other).traces()] == [1]
    assert open_store(other).runs()[0].name == "both"


def test_install_records_threads_and_tasks(installed: None, store: Path) -> None:
    """After `install()` every call of the process is recorded, in threads and in tasks too."""
    model = FakeModel(replies=["ok"])
    thread = threading.Thread(target=model.invoke, args=("thread",))
    thread.start()
    thread.join()
    asyncio.run(model.ainvoke("task"))
    model.invoke("main")
    flush()
    assert len(open_store().traces()) == 3
    assert len({trace.run_id for trace in open_store().traces()}) == 1


def test_a_forked_child_records_its_own(installed: None, store: Path) -> None:
    """A child gets a segment and a run of its own and writes nothing of its parent's twice."""
    model = FakeModel(replies=["ok"])
    model.invoke("parent before")
    child = os.fork()
    if child == 0:
        model.invoke("child")
        flush()
        os._exit(0)
    os.waitpid(child, 0)
    model.invoke("parent after")
    flush()
    traces = open_store().traces()
    assert len(traces) == 3
    assert len({trace.trace_id for trace in traces}) == 3
    assert len({trace.run_id for trace in traces}) == 2


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise ValueError('x')"])
def test_a_process_that_ends_has_written_all(store: Path, ending: str) -> None:
    """Returning, exiting and raising all leave complete records and an ended run."""
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from agenttrace import AgentTraceHandler
from tests.langchain.models import FakeModel
for number in range(50):
    FakeModel(replies=["ok"]).invoke(str(number), config={{"callbacks": [AgentTraceHandler()]}})
{ending}
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    traces = open_store().traces()
    assert [trace.state for trace in traces] == ["ok"] * 50
    assert open_store().runs()[0].end_ns is not None
    assert not list((store / "journal").iterdir())


def test_what_garbage_collection_queues_ends_no_writer(store: Path) -> None:
    """A step that vanishes while the writer takes its batch is written, and so are those before it."""
    writer, written = Writer(Layout(store), {}), list[int]()
    vanishing = list(range(200))

    def vanish(phase: str, _: object) -> None:
        if phase == "start" and vanishing:
            writer.put_unnoticed(partial(written.append, vanishing.pop(0)))

    writer.put_unnoticed(partial(written.append, -1))
    thresholds = gc.get_threshold()
    gc.callbacks.append(vanish)
    gc.set_threshold(1)
    try:
        writer.close()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(vanish)
    writer.close()
    assert written == list(range(-1, 200 - len(vanishing)))
    assert len(written) > 1


def test_an_unwritable_store_does_not_touch_the_agent(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where nothing can be written the agent runs on, the loss is counted, and one line is logged."""
    store.write_text("a file is in the way")
    handler = AgentTraceHandler()
    for _ in range(3):
        assert FakeModel(replies=["ok"]).invoke("x", config={"callbacks": [handler]}).content == "ok"
        flush()
    assert len([entry for entry in caplog.records if entry.name == "agenttrace"]) == 1
    store.unlink()
    FakeModel(replies=["ok"]).invoke("x", config={"callbacks": [handler]})
    flush()
    [counters] = open_store().counters()
    assert counters.dropped > 0
    assert counters.last_error is not None
    assert [trace.state for trace in open_store().traces()] == ["ok"]


def test_a_result_is_stored_with_its_trace(store: Path) -> None:
    """How an attempt ended and what it scored lies in the journal beside its steps, and comes back whole."""
    langchain_run = uuid4()
    judged = ResultRecord(
        case="q1",
        repetition=1,
        outcome="scored",
        scores={"correct": 1.0},
        detail={"reasons": {"correct": "as expected"}},
    )
    with record("nightly") as run:
        FakeModel(replies=["ok"]).invoke("hello", config={"run_id": langchain_run})
        trace_id = recording.trace_of(langchain_run)
        run.add_result(replace(judged, trace_id=trace_id))
        run.add_metadata({"note": "late"})
    assert read_results(store, run.run_id) == (replace(judged, trace_id=trace_id),)
    assert open_store().trace(trace_id or "")[0].run_id == run.run_id
    assert open_store().run("nightly").metadata["note"] == "late"


def test_a_suites_broken_off_attempt_is_no_repetition(store: Path) -> None:
    """Of a run that a suite made, what counts is its results: a trace without one was broken off, and made again."""
    suite = RecordedSuite(name="qa", cases=("q1",), repetitions=1, settings={"data.cases": {"q1": "1"}})
    with record("nightly", metadata=suite_metadata(suite)) as run:
        for _ in range(2):
            FakeModel(replies=["ok"]).invoke("hello", config={"metadata": {"case": "q1"}})
        flush()
        assert load_evidence(open_store(), "nightly").missing == "1 of 1 attempts have no result"
        run.add_result(ResultRecord(case="q1", repetition=1, outcome="scored", scores={"correct": 1.0}))
    evidence = load_evidence(open_store(), "nightly")
    assert [repetition.scores for repetition in evidence.repetitions] == [{"correct": 1.0}]
    assert evidence.missing is None
    assert evidence.contract.calls == 2


def test_a_model_that_judges_has_a_call_site_of_its_own(store: Path) -> None:
    """A call inside an evaluator is the evaluator's, whatever chain makes it."""
    with record("nightly"):
        FakeModel(replies=["ok"]).invoke("hello", config={"metadata": {"agenttrace_evaluator": "polite"}})
    assert [span.call_site for span in open_store().run_spans(open_store().run("nightly").run_id)] == [
        "evaluator:polite"
    ]


def test_a_watcher_is_told_of_finished_steps(store: Path) -> None:
    """Whoever watches sees the steps of the run once they are in the journal, and none after it stopped watching."""
    seen: list[str] = []
    with record("nightly") as run:
        with run.watched(lambda span: seen.append(span.name)):
            FakeModel(replies=["ok"]).invoke("hello")
            flush()
        FakeModel(replies=["ok"]).invoke("hello")
    assert seen == ["FakeModel"]
