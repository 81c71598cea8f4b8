"""What a comparison reads of a run is what was recorded, without its inputs and outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenttrace.errors import RunNotFound
from agenttrace.judging import load_contracts, load_evidence
from agenttrace.pricing import Prices, priced_model
from agenttrace.records import AttemptRecord, CaptureCounters, Marks, PhaseTiming, SettingValue, SpanRecord, Usage
from agenttrace.settings.contract import fold
from agenttrace.store.importing import import_records
from agenttrace.store.journal import Journal
from agenttrace.store.layout import Layout
from agenttrace.store.reading import open_store
from agenttrace.store.results import ResultRecord, import_results
from agenttrace.store.rows import counters_row
from agenttrace.store.stored_settings import VARIED, Cuts
from tests.builders import NOON, SECOND, a_model_call, a_run, a_span
from tests.store.test_merge import lines


def ended(**fields: Any) -> Any:
    return a_run(**{"end_ns": NOON + 1000 * SECOND, **fields})


def a_trace(number: int, *calls: SpanRecord, **root: Any) -> list[SpanRecord]:
    trace_id, start = f"{number:032x}", NOON + number * 10 * SECOND
    fields = {"trace_id": trace_id, "start_ns": start, "end_ns": start + 4 * SECOND, "metadata": {"case": f"q{number}"}}
    return [a_span(number * 100, **{**fields, **root}), *calls]


def a_call(trace: int, place: int, **fields: Any) -> SpanRecord:
    start = NOON + trace * 10 * SECOND + place * SECOND
    return a_model_call(
        trace * 100 + place,
        **{
            "trace_id": f"{trace:032x}",
            "parent_id": f"{trace * 100:016x}",
            "start_ns": start,
            "end_ns": start + SECOND,
            "call_site": "planner",
            **fields,
        },
    )


def an_attempt() -> AttemptRecord:
    return AttemptRecord(start_ns=NOON, end_ns=NOON + SECOND, status=200, host="h")


def settings(**values: Any) -> dict[str, SettingValue]:
    return {
        name.replace("__", "."): SettingValue(value=value, voice="sent", source="wire")
        for name, value in values.items()
    }


def test_a_trace_is_a_repetition_of_its_case(store: Path) -> None:
    """Its duration, the time and tokens of its model calls, and every phase that is known of all of them."""
    import_records(store, [ended()], a_trace(1, a_call(1, 1), a_call(1, 2)))
    [repetition] = load_evidence(open_store(store), "nightly").repetitions
    assert (repetition.case, repetition.number, repetition.outcome) == ("q1", 1, "scored")
    assert repetition.metrics == {
        "latency_s": 4.0, "model_s": 2.0, "input_tokens": 80.0, "output_tokens": 20.0, "decode_s": 1.0,
        "tool_calls": 0.0, "step_errors": 0.0, "retries": 0.0,
    }  # fmt: skip


def test_unknown_parts_are_left_out_rather_than_zero(store: Path) -> None:
    """A phase or a count that one call does not tell has no sum; one that does not apply adds nothing."""
    told = a_call(1, 1, phases=(
        PhaseTiming(name="prefill", ns=SECOND), PhaseTiming(name="decode", ns=SECOND), PhaseTiming(name="connect", ns=5),
    ))  # fmt: skip
    silent = a_call(1, 2, usage=Usage(output=5), phases=(
        PhaseTiming(name="prefill", ns=None), PhaseTiming(name="decode", ns=SECOND),
        PhaseTiming(name="connect", ns=None, source="not-applicable"),
    ))  # fmt: skip
    import_records(store, [ended()], a_trace(1, told, silent))
    [repetition] = load_evidence(open_store(store), "nightly").repetitions
    counts = {"tool_calls", "step_errors", "retries"}
    assert repetition.metrics.keys() == {"latency_s", "model_s", "output_tokens", "decode_s", "connect_s", *counts}
    assert repetition.metrics["decode_s"] == 2.0


def test_what_is_measured_of_a_trace(store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """First token and inter-token latency by their definitions, tokens by kind, cost, tools, errors, retries, stops by length."""
    (tmp_path / "pyproject.toml").write_text("[tool.agenttrace.prices.m]\ninput = 2.0\noutput = 10.0\ncached = 1.0\n")
    monkeypatch.chdir(tmp_path)
    known = settings(model__served="m")
    first = a_call(1, 1, settings=known, marks=Marks(first_content_ns=SECOND // 5, chunks=9), finish_reason="stop",
                   usage=Usage(input=100, output=11, cached=60, reasoning=4))  # fmt: skip
    second = a_call(1, 2, settings=known, marks=Marks(first_tool_ns=SECOND // 10, chunks=9), finish_reason="MAX_TOKENS",
                    usage=Usage(input=200, output=21, cached=0, reasoning=0), call_site="writer", attempt=2,
                    attempts=(an_attempt(), an_attempt(), an_attempt()))  # fmt: skip
    tool = a_call(1, 3, kind="tool", usage=None, marks=None, state="error", call_site=None)
    import_records(store, [ended()], a_trace(1, first, second, tool))
    [repetition] = load_evidence(open_store(store), "nightly").repetitions
    told = repetition.metrics
    assert told["first_token_s"] == pytest.approx(0.15)
    assert told["inter_token_s"] == pytest.approx((0.8 + 0.9) / (10 + 20))
    assert [told[f"{name}_tokens"] for name in ("input", "output", "cached", "reasoning")] == [300, 32, 60, 4]
    assert told["cost_usd"] == pytest.approx((40 * 2 + 60 * 1 + 11 * 10 + 200 * 2 + 21 * 10) / 1e6)
    assert (told["tool_calls"], told["step_errors"], told["retries"], told["stopped_by_length"]) == (1, 1, 1 + 2, 0.5)
    assert told["first_token_s:writer"] == pytest.approx(0.1)
    assert told["inter_token_s:planner"] == pytest.approx(0.08)
    assert (told["model_s:planner"], told["output_tokens:writer"]) == (1.0, 21)


def test_cost_is_unknown_where_one_call_has_no_price(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A sum over the others would be another number; where no model has a price, there is none either."""
    (tmp_path / "pyproject.toml").write_text("[tool.agenttrace.prices.m]\ninput = 2.0\noutput = 10.0\n")
    monkeypatch.chdir(tmp_path)
    known, other = settings(model__served="m"), settings(model__served="elsewhere")
    import_records(store, [ended()], a_trace(1, a_call(1, 1, settings=known), a_call(1, 2, settings=other)))
    [repetition] = load_evidence(open_store(store), "nightly").repetitions
    assert "cost_usd" not in repetition.metrics


def test_a_price_by_the_length_of_the_prompt_is_that_of_each_call(store: Path) -> None:
    """As the pricing of one call has it, whichever of the table's models it is."""
    model = settings(model__served="gemini-2.5-pro", provider="google")
    calls = [
        a_call(1, place, settings=model, usage=Usage(input=tokens, output=50, cached=7, reasoning=9))
        for place, tokens in ((1, 1_000), (2, 300_000))
    ]
    import_records(store, [ended()], a_trace(1, *calls))
    [repetition] = load_evidence(open_store(store), "nightly").repetitions
    costs = [Prices().cost(call.usage or Usage(), priced_model(call.settings), call.start_ns) for call in calls]
    assert all(cost is not None for cost in costs)
    assert repetition.metrics["cost_usd"] == pytest.approx(sum(cost.total for cost in costs if cost))
    rates = [
        cost.uncached / (call.usage.input or 1) for cost, call in zip(costs, calls, strict=True) if cost and call.usage
    ]
    assert rates[1] > 1.5 * rates[0]


def test_phases_of_tools_have_their_own_names(store: Path) -> None:
    """What a tool waited and ran is not mixed with what a model did."""
    tool = a_call(1, 1, kind="tool", usage=None, marks=None, phases=(PhaseTiming(name="run", ns=SECOND),))
    import_records(store, [ended()], a_trace(1, tool, a_call(1, 2)))
    [repetition] = load_evidence(open_store(store), "nightly").repetitions
    assert repetition.metrics["tool_run_s"] == 1.0


@pytest.mark.parametrize(
    ("state", "outcome"),
    [("ok", "scored"), ("handed_off", "scored"), ("error", "agent_error"), ("timed_out", "timeout"),
     ("cancelled", "cancelled"), ("abandoned", "cancelled"), ("interrupted", "cancelled")],
)  # fmt: skip
def test_how_a_trace_ended_is_its_outcome(store: Path, state: Any, outcome: str) -> None:
    """A failure is the agent's, a broken off trace is not."""
    import_records(store, [ended()], a_trace(1, a_call(1, 1), state=state))
    assert [r.outcome for r in load_evidence(open_store(store), "nightly").repetitions] == [outcome]


def test_traces_of_one_case_are_numbered(store: Path) -> None:
    """In the order of time; traces that name no case are no repetitions, and their settings count all the same."""
    spans = [*a_trace(1, a_call(1, 1)), *a_trace(2, a_call(2, 1), metadata={"case": "q1"}),
             *a_trace(3, a_call(3, 1), metadata={})]  # fmt: skip
    import_records(store, [ended()], spans)
    evidence = load_evidence(open_store(store), "nightly")
    assert [(r.case, r.number) for r in evidence.repetitions] == [("q1", 1), ("q1", 2)]
    assert evidence.contract.calls == 3


def test_the_contract_is_that_of_the_spans(store: Path) -> None:
    """Read without inputs and outputs it says the same as folded from whole spans."""
    told = [settings(x=1, prompt__content=f"Answer {number}", sampling__seed=number) for number in range(1, 4)]
    spans = [
        span
        for n, s in enumerate(told, 1)
        for span in a_trace(n, a_call(n, 1, settings=s), a_call(n, 2, call_site="b"))
    ]
    import_records(store, [ended()], spans)
    [(run, contract)] = load_contracts(open_store(store), ["nightly"])
    assert run == ended()
    assert contract == fold(spans) == fold(open_store(store).run_spans("run1"))


def test_settings_that_vary_from_call_to_call_are_read_alike(store: Path) -> None:
    """Thousands of texts that begin and end alike are cut where they differ, and say what they would say parsed whole."""
    tools = {"search": {"type": "object", "properties": {"source": {"type": "string"}, 'q"},{': {"source": "x"}}}}
    spans = []
    for number in range(1, VARIED * 2 + 1):
        for place, site in enumerate(("planner", "writer"), 1):
            told = settings(
                a=None, sampling__seed=number, tools__parameters=tools, prompt__content=f'{site} "source":"x"}}, {number}',
                z=[True, 1, {"voice": "sent", "source": "wire"}],
            )  # fmt: skip
            spans.append(a_call(number, place, settings=told if number % 7 else settings(a=1), call_site=site))
    import_records(store, [ended()], spans)
    [(_, contract)] = load_contracts(open_store(store), ["nightly"])
    assert contract == fold(spans)


def test_settings_that_stand_in_their_rows_are_read_too() -> None:
    """A text in another spelling is read whole."""
    cuts = Cuts()
    cuts.add(
        "one",
        '{"a": {"source": "wire", "voice": "sent", "value": 1}, "b": {"value": 2, "voice": "sent", "source": "x"}}',
    )
    cuts.add("none", "{}")
    read = cuts.settings()
    assert {name: setting.value for name, setting in read["one"].shared.items()} == {"a": 1, "b": 2}
    assert read["none"].shared == {}


def test_results_take_the_times_of_their_traces(store: Path) -> None:
    """A judged trace is one repetition with its scores and its times; settings come from its own calls."""
    import_records(store, [ended()], a_trace(1, a_call(1, 1, settings=settings(x=1))))
    judged = ResultRecord(case="q1", repetition=4, outcome="scored", scores={"correct": 1.0}, trace_id=f"{1:032x}")
    other = ended(run_id="run2", name="other")
    assert import_results(store, other, [judged])
    with open_store(store).connection() as connection:
        connection.execute("UPDATE results SET run_id = 'run1'")
    evidence = load_evidence(open_store(store), "run1")
    [repetition] = evidence.repetitions
    assert (repetition.number, repetition.scores, repetition.metrics["latency_s"]) == (4, {"correct": 1.0}, 4.0)
    assert list(evidence.contract.sites) == ["planner"]


def test_an_unfinished_run_is_told(store: Path) -> None:
    """A run without an end is unfinished; a step without one is counted."""
    import_records(store, [a_run()], [*a_trace(1, a_call(1, 1)), a_call(2, 1, state="unfinished", end_ns=None)])
    evidence = load_evidence(open_store(store), "nightly")
    assert (evidence.is_unfinished, evidence.unfinished_traces, evidence.contract.calls) == (True, 1, 1)


def test_the_counters_are_those_of_the_runs_process(store: Path) -> None:
    """Another process's errors are another run's."""
    import_records(store, [ended(process="host:1:a"), ended(run_id="run2", name="other", process="host:2:b")], [])
    layout = Layout(store)
    journal = Journal(layout.journal, "host:1:a")
    journal.append(lines(counters_row(CaptureCounters(process="host:1:a", capture_errors=2), NOON)))
    journal.seal()
    assert load_evidence(open_store(store), "nightly").counters == CaptureCounters(process="host:1:a", capture_errors=2)
    assert load_evidence(open_store(store), "other").counters is None


def test_an_unknown_run_lists_what_there_is(store: Path) -> None:
    """As everywhere."""
    import_records(store, [ended()], [])
    with pytest.raises(RunNotFound, match="There are: nightly"):
        load_evidence(open_store(store), "weekly")
