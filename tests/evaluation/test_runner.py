"""What a run of a suite records: each attempt a trace, its outcome whose doing it was, and nothing paid twice."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from opentelemetry import trace as opentelemetry_trace
from opentelemetry.sdk.trace import TracerProvider

from agenttrace import Case, Suite, open_store
from agenttrace.errors import RunUnderWay, SuiteChanged, UsageError
from agenttrace.evaluation import attempt as attempt_module
from agenttrace.evaluation.budgets import Budget, Limits
from agenttrace.evaluation.evaluators import Exact
from agenttrace.evaluation.resume import begin, held
from agenttrace.evaluation.runner import Arm, RunOptions, run_suite
from agenttrace.evaluation.trace import Trace
from agenttrace.evaluation.trajectory import ToolTrajectory
from agenttrace.judging import compare, load_evidence
from agenttrace.store.results import ResultRecord, read_results
from tests.evaluation.builders import Counted, a_suite, some_cases, weather_agent
from tests.langchain.models import FakeModel


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between tries and for what will not let go are not what is tested."""
    monkeypatch.setattr(attempt_module, "BACKOFF_S", 0.01)
    monkeypatch.setattr(attempt_module, "GRACE_S", 0.2)


async def interrupted() -> str:
    """What Ctrl-C does to a task under way."""
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(60)
    return "too late"


def results_of(store: Path, run_id: str) -> dict[str, ResultRecord]:
    return {result.case: result for result in read_results(store, run_id)}


def test_each_attempt_of_a_real_agent_is_a_trace(store: Path) -> None:
    """Results refer to traces, which hold the agent's tools; evaluators see them; settings and phases are the trace's."""
    agent = weather_agent("Rome", "Oslo")
    question = {"messages": [("human", "Where is it sunny?")]}
    suite = a_suite(
        agent,
        cases=[
            Case(
                id="q",
                input=question,
                metadata={"tools": [{"name": "weather", "arguments": {"city": "Rome"}}, "weather"]},
            )
        ],
        evaluators=[ToolTrajectory(), lambda trace: len(trace.model_calls)],
    )
    run = suite.run("nightly")
    [result] = read_results(store, run.run_id)
    assert (result.outcome, result.scores) == ("scored", {"trajectory": 1.0, "<lambda>": 3.0})
    spans = open_store().trace(result.trace_id or "")
    assert [span.kind for span in spans if span.kind in ("model", "tool")] == [
        "model",
        "tool",
        "model",
        "tool",
        "model",
    ]
    assert spans[0].metadata["case"] == "q"
    [repetition] = load_evidence(open_store(), "nightly").repetitions
    assert repetition.metrics["latency_s"] > 0


@pytest.mark.parametrize("is_async", [True, False])
def test_a_function_is_one_trace_with_what_it_calls(store: Path, is_async: bool) -> None:
    """A callable is a step itself, so that two model calls inside it are one attempt; sync ones run in threads."""
    model, threads = FakeModel(replies=["a", "b"]), set()

    async def slow(given: str) -> str:
        return f"{(await model.ainvoke(given)).content}{(await model.ainvoke(given)).content}"

    def plain(given: str) -> str:
        threads.add(threading.current_thread())
        return f"{model.invoke(given).content}{model.invoke(given).content}"

    run = a_suite(slow if is_async else plain, cases=[Case(id="q", input="hi", expected="ab")]).run()
    [result] = read_results(store, run.run_id)
    assert result.scores == {"exact": 1.0}
    assert len(open_store().traces()) == 1
    assert [span.kind for span in open_store().trace(result.trace_id or "")] == ["chain", "model", "model"]
    assert threading.main_thread() not in threads


def test_outcomes_say_whose_doing_it_was(store: Path) -> None:
    """An agent's exception, its time, a limit, a refusal, the network: each by its name, and only scored ones have scores."""

    async def task(given: str) -> Any:
        if given == "late":
            await asyncio.sleep(60)
        if given == "refused":
            return AIMessage("", response_metadata={"finish_reason": "content_filter"})
        raise {"wrong": ValueError("no such key"), "network": httpx.ConnectError("refused")}[given]

    names = ("late", "wrong", "network")
    suite = a_suite(task, cases=[Case(id=name, input=name) for name in names], timeout_s=0.3)
    run = suite.run()
    results = results_of(store, run.run_id)
    assert {name: results[name].outcome for name in names} == {
        "late": "timeout",
        "wrong": "agent_error",
        "network": "infra_error",
    }
    assert all(not result.scores for result in results.values())
    assert results["wrong"].detail["tries"] == [
        {"outcome": "agent_error", "error": "ValueError: no such key", "trace_id": results["wrong"].trace_id}
    ]
    assert run.mean("exact") == 0.0


def test_a_model_that_declines_is_a_refusal(store: Path) -> None:
    """The last model call's finish reason says so, whatever text came with it."""
    refusing = FakeModel(replies=[AIMessage("I can't.", response_metadata={"finish_reason": "content_filter"})])
    run = a_suite(refusing, cases=[Case(id="q", input="hi", expected="x")]).run()
    assert [result.outcome for result in read_results(store, run.run_id)] == ["refusal"]


def test_only_the_infrastructures_failures_are_tried_again(store: Path) -> None:
    """A lost connection is tried again and every try kept; a wrong answer and an agent's exception are not."""

    def fails(given: str, call: int) -> str:
        if given == "in 1" and call < 3:
            raise httpx.ReadError("cut")
        if given == "in 2":
            raise ValueError("bug")
        return "wrong" if given == "in 3" else given

    task = Counted(fails)
    run = a_suite(task, retries=2).run()
    results = results_of(store, run.run_id)
    assert task.calls == {"in 1": 3, "in 2": 1, "in 3": 1}
    tries: Any = results["c1"].detail["tries"]
    assert [one["outcome"] for one in tries] == ["infra_error", "infra_error", "scored"]
    assert (results["c1"].scores, results["c1"].metrics) == ({"exact": 1.0}, {"tries": 3.0})
    assert (results["c2"].outcome, results["c3"].scores) == ("agent_error", {"exact": 0.0})


def test_an_evaluator_that_raises_is_a_grader_error(store: Path) -> None:
    """No zero; what the others found is kept, and who failed with what."""

    def broken(output: str) -> bool:
        raise KeyError("verdict")

    run = a_suite(evaluators=[Exact(), broken], cases=some_cases(1)).run()
    [result] = read_results(store, run.run_id)
    assert (result.outcome, result.scores) == ("grader_error", {"exact": 1.0})
    assert result.detail["errors"] == {"broken": "KeyError: 'verdict'"}
    assert run.mean("exact") is None


def test_a_judge_is_a_call_site_of_its_own(store: Path) -> None:
    """A model that an evaluator calls is traced and in the contract, apart from the agent; it is no repetition."""
    judge = FakeListChatModel(responses=["yes"])

    def polite(output: str) -> bool:
        return judge.invoke(f"Is this polite? {output}").content == "yes"

    async def politely(output: str) -> bool:
        return (await (RunnableLambda(lambda text: text) | judge).ainvoke(output)).content == "yes"

    agent = FakeModel(replies=["hello"]) | StrOutputParser()
    run = a_suite(agent, evaluators=[polite, politely], cases=some_cases(1)).run()
    evidence = load_evidence(open_store(), run.run_id)
    assert set(evidence.contract.sites) == {
        "RunnableSequence",
        "evaluator:polite",
        "evaluator:politely/RunnableSequence",
    }
    assert [repetition.scores for repetition in evidence.repetitions] == [{"polite": 1.0, "politely": 1.0}]


@pytest.mark.parametrize("kind", ["sync", "stubborn", "blocking"])
def test_a_task_that_never_returns_is_a_timeout(store: Path, kind: str) -> None:
    """In a thread, deaf to cancellation, or holding the event loop: the run goes on, and says what was left behind."""

    def sync(given: str) -> str:
        if given == "in 1":
            threading.Event().wait()
        return given

    async def stubborn(given: str) -> str:
        while given == "in 1":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue
        return given

    async def blocking(given: str) -> str:
        if given == "in 1":
            time.sleep(3600)
        return given

    run = a_suite(locals()[kind], timeout_s=0.3).run()
    outcomes = {case: result.outcome for case, result in results_of(store, run.run_id).items()}
    assert outcomes == {"c1": "timeout", "c2": "scored", "c3": "scored"}
    assert run.left_behind == (kind == "stubborn")


def test_no_more_attempts_at_a_time_than_asked_for(store: Path) -> None:
    """Bounded by `concurrency`, and as many as that."""
    task = Counted(lambda given, _call: asyncio.sleep(0.05, given))
    a_suite(task, cases=some_cases(12), concurrency=3).run()
    assert task.most_at_once == 3


def test_calls_of_a_provider_are_paced(store: Path) -> None:
    """So many a minute begin, evenly; another provider's are not held up."""
    began: dict[str, list[float]] = {"slow": [], "fast": []}

    class Model(FakeListChatModel):
        provider: str

        def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
            return {**super()._get_ls_params(stop, **kwargs), "ls_provider": self.provider}

        def _call(self, *args: Any, **kwargs: Any) -> str:
            began[self.provider].append(time.monotonic())
            return "x"

    models = {name: Model(responses=["x"], provider=name) for name in began}
    suite = a_suite(lambda given: models["fast" if given == "in 4" else "slow"].invoke(given), cases=some_cases(4))
    suite.calls_per_minute = {"slow": 300}
    suite.run()
    gaps = [later - earlier for earlier, later in zip(began["slow"], began["slow"][1:], strict=False)]
    assert (len(began["slow"]), len(began["fast"])) == (3, 1)
    assert min(gaps) > 0.1


def test_two_tasks_take_turns_over_the_same_cases(store: Path) -> None:
    """Attempts of both are interleaved in an order that the seed decides; each is a run of its own, and they compare."""
    order: list[tuple[str, str]] = []

    def named(name: str) -> Any:
        def task(given: str) -> str:
            order.append((name, given))
            return given

        return task

    suite = a_suite({"old": named("old"), "new": named("new")}, cases=some_cases(8), concurrency=1)
    arms = [Arm(task="old", run_name="r-old"), Arm(task="new", run_name="r-new")]
    old, new = run_suite(suite, arms, RunOptions(store=store, seed=3))
    assert [given for _, given in order[::2]] == [given for _, given in order[1::2]] == [f"in {n}" for n in range(1, 9)]
    assert 0 < [name for name, _ in order[::2]].count("old") < 8
    assert (old.outcomes, new.outcomes) == ({"scored": 8}, {"scored": 8})
    comparison = compare(open_store(), "r-old", "r-new")
    assert [(metric.name, metric.n) for metric in comparison.metrics if metric.kind == "score"] == [("exact", 8)]
    kept: Any = open_store().run("r-old").metadata["evaluation"]
    assert kept["interleaved"] is True


def test_a_run_says_under_what_it_was_made(store: Path) -> None:
    """Hashes of cases and evaluators, packages, machine, load; nothing of it changes between equal runs but the load."""
    suite = a_suite(cases=some_cases(2))
    first, second = suite.run("a"), suite.run("b")
    kept: list[Any] = [open_store().run(run.run_id).metadata["evaluation"] for run in (first, second)]
    settings = [one["settings"] for one in kept]
    assert all(span.metadata.keys() == {"case", "repetition"} for span in open_store().run_spans(first.run_id))
    assert settings[0] == settings[1]
    assert set(settings[0]) >= {
        "data.cases",
        "data.expected",
        "evaluator.code",
        "evaluator.judge",
        "code.packages",
        "load",
    }
    assert "langchain-core" in settings[0]["code.packages"]


def test_a_run_that_was_broken_off_goes_on(store: Path) -> None:
    """What it has is not tried again; the run keeps its id, and a whole run of the same name is followed by a new one."""
    task = Counted()
    suite = a_suite(task, cases=some_cases(6), concurrency=1)
    first = run_suite(suite, [Arm(task="main", run_name="n")], RunOptions(store=store, limits=Limits(tokens=1)))[0]
    assert (first.stopped, first.missing) == (None, None)  # no tokens are used, so the limit is kept

    def stops(given: str, call: int) -> Any:
        if given == "in 3" and call == 1:
            return interrupted()
        return given

    task = Counted(stops)
    suite = a_suite(task, cases=some_cases(6), concurrency=1)
    with pytest.raises(KeyboardInterrupt):
        suite.run("k")
    assert load_evidence(open_store(), "k").missing == "4 of 6 attempts have no result"
    again = suite.run("k")
    assert task.calls == {"in 3": 2, **{f"in {n}": 1 for n in (1, 2, 4, 5, 6)}}
    assert (again.already_there, again.outcomes, again.missing) == (2, {"scored": 6}, None)
    assert len({run.run_id for run in open_store().runs() if run.name == "k"}) == 1
    assert load_evidence(open_store(), "k").missing is None
    assert suite.run("k").run_id != again.run_id


def test_a_changed_suite_does_not_go_on(store: Path) -> None:
    """Other cases, expectations, evaluators, repetitions or task: all that changed is told, and nothing is run."""

    async def broken(given: str) -> str:
        return await interrupted()

    with pytest.raises(KeyboardInterrupt):
        a_suite(broken, cases=some_cases(3)).run("n")
    task = Counted()
    cases = [*some_cases(2), Case(id="c9", input=9)]
    cases[0] = Case(id="c1", input="in 1", expected="other")
    with pytest.raises(SuiteChanged) as caught:
        a_suite(task, cases=cases, evaluators={"same": Exact()}, repetitions=2).run("n")
    for told in (
        "data.cases added: c9",
        "removed: c3",
        "data.expected changed: c1",
        "evaluator.code added: same",
        "repetitions 2",
    ):
        assert told in str(caught.value)
    with pytest.raises(SuiteChanged, match="the task's code changed"):
        a_suite(lambda given: given, cases=some_cases(3)).run("n")
    assert task.calls == {}


def test_shards_gather_in_one_run(store: Path) -> None:
    """Parts of one suite under one name are one run, whoever runs them and in what order; a missing one is named."""
    suite = a_suite(cases=some_cases(7), repetitions=2)

    def shard(number: int) -> Any:
        [result] = run_suite(suite, [Arm(task="main", run_name="n")], RunOptions(store=store, shard=(number, 3)))
        return result

    first, third = shard(1), shard(3)
    assert first.run_id == third.run_id
    assert load_evidence(open_store(), "n").missing == "4 of 14 attempts have no result (missing: shard 2/3)"
    assert third.other_shards == "4 of 14 attempts have no result (missing: shard 2/3)"
    second = shard(2)
    assert (first.planned, second.planned, third.planned) == (6, 4, 4)
    assert (load_evidence(open_store(), "n").missing, second.other_shards) == (None, None)
    assert shard(2).already_there == 4
    with pytest.raises(UsageError, match="no shard 4/3"):
        shard(4)


def test_two_processes_do_not_make_the_same_attempts(store: Path) -> None:
    """Who is second is told so, and has run nothing."""
    task = Counted(lambda given, call: given if call > 1 else interrupted())
    suite = a_suite(task, cases=some_cases(2), concurrency=1)
    with pytest.raises(KeyboardInterrupt):
        suite.run("n")
    recorded = load_evidence(open_store(), "n").suite
    assert recorded is not None
    with held(begin(recorded, "n", store=store, tags={}, is_new=False), 1, store), pytest.raises(RunUnderWay):
        suite.run("n")
    assert task.calls == {"in 1": 1}


def test_a_limit_of_time_stops_in_order(store: Path) -> None:
    """Nothing is begun after it; what is under way ends; the run can be gone on with."""
    task = Counted(lambda given, _call: asyncio.sleep(0.2, given))
    suite = a_suite(task, cases=some_cases(8), concurrency=1)
    [run] = run_suite(suite, [Arm(task="main", run_name="n")], RunOptions(store=store, limits=Limits(seconds=0.5)))
    assert run.stopped == "the time of 0.5 s is used up"
    assert sum(run.outcomes.values()) == len(task.calls) < 8
    assert suite.run("n").missing is None
    assert all(count == 1 for count in task.calls.values())


def test_a_limit_of_tokens_stops_before_it_is_passed(store: Path) -> None:
    """The first attempt goes alone and says what one costs; what is under way is counted as if it cost the same."""
    usage = {"input_tokens": 60, "output_tokens": 40, "total_tokens": 100}
    model = FakeModel(replies=[AIMessage("x", usage_metadata=usage)])
    suite = a_suite(model, cases=some_cases(20), concurrency=8)
    [run] = run_suite(suite, [Arm(task="main", run_name="n")], RunOptions(store=store, limits=Limits(tokens=550)))
    assert run.tokens <= 550
    assert run.tokens >= 400
    assert "of 550 tokens are used" in (run.stopped or "")


def test_what_costs_an_unknown_amount_cannot_be_limited(store: Path) -> None:
    """A limit of money stops after the first attempt where prices are not known, and says so."""
    suite = a_suite(FakeModel(replies=["x"]), cases=some_cases(5))
    [run] = run_suite(suite, [Arm(task="main", run_name="n")], RunOptions(store=store, limits=Limits(cost_usd=1)))
    assert sum(run.outcomes.values()) == 1
    assert "cost is not known" in (run.stopped or "")


PAID: UsageMetadata = {"input_tokens": 600_000, "output_tokens": 400_000, "total_tokens": 1_000_000}


@pytest.fixture
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that pays a dollar for a million tokens of the model `paid`."""
    (tmp_path / "pyproject.toml").write_text('[tool.agenttrace.prices."paid"]\ninput = 1.0\noutput = 1.0\n')
    monkeypatch.chdir(tmp_path)


def paid_reply(usage: UsageMetadata | None = PAID) -> AIMessage:
    return AIMessage("x", usage_metadata=usage, response_metadata={"model_name": "paid"})


@pytest.mark.usefixtures("prices")
def test_a_limit_of_money_stops_before_it_is_passed(store: Path) -> None:
    """By the project's own prices; what was spent is told, and a budget of one attempt judges by it."""
    suite = a_suite(
        FakeModel(replies=[paid_reply()]), cases=some_cases(20), evaluators=[Budget(cost_usd=0.5)], concurrency=4
    )
    [run] = run_suite(suite, [Arm(task="main", run_name="n")], RunOptions(store=store, limits=Limits(cost_usd=5.5)))
    assert run.cost_usd is not None
    assert 4 <= run.cost_usd <= 5.5
    assert "of 5.5 USD are spent" in (run.stopped or "")
    assert run.mean("budget.cost") == 0
    assert run.failures[0].reason == "budget.cost: 1 of 0.5 USD"


@pytest.mark.usefixtures("prices")
def test_an_attempt_that_does_not_tell_counts_as_the_dearest(store: Path) -> None:
    """One answer without a count of tokens does not end a run whose limit can still be kept; the cost is then unknown."""
    replies = [paid_reply(), paid_reply(None), paid_reply()]
    suite = a_suite(FakeModel(replies=replies), cases=some_cases(3), concurrency=1)
    [run] = run_suite(suite, [Arm(task="main", run_name="n")], RunOptions(store=store, limits=Limits(cost_usd=9)))
    assert run.stopped is None
    assert run.cost_usd is None
    assert run.spending.cost_usd.known == 2


@pytest.mark.usefixtures("prices")
def test_a_judge_costs_too(store: Path) -> None:
    """What evaluators ask of a model is part of what the run cost, and no part of what its attempts cost."""

    async def judge(output: str) -> bool:
        await FakeModel(replies=[paid_reply()]).ainvoke("Is it right?")
        return True

    suite = a_suite(
        FakeModel(replies=[paid_reply()]), cases=some_cases(3), evaluators=[judge, Budget(cost_usd=1)], concurrency=1
    )
    run = suite.run("n")
    assert run.cost_usd == 6
    assert run.mean("budget.cost") == 1


def test_a_surrounding_span_does_not_join_the_attempts(store: Path) -> None:
    """Each attempt is a trace of its own, also where the runner is called inside a span of the user's."""
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("mine"):
        run = a_suite(cases=some_cases(3)).run()
        assert opentelemetry_trace.get_current_span().get_span_context().is_valid
    assert len({result.trace_id for result in read_results(store, run.run_id)}) == 3


async def test_a_suite_runs_where_a_loop_runs_already(store: Path) -> None:
    """As in a notebook."""
    assert a_suite().run().outcomes == {"scored": 3}


def test_evaluators_see_the_whole_trace(store: Path) -> None:
    """Every attempt's trace is there when it is judged, many at a time."""
    seen: list[Trace] = []
    model = FakeModel(replies=["x"])

    def see(trace: Trace) -> bool:
        seen.append(trace)
        return True

    a_suite(model, cases=some_cases(40), evaluators=[see], concurrency=16).run()
    assert len(seen) == 40
    assert all(trace.is_whole and len(trace.spans) == 1 and trace.latency_ns for trace in seen)


def test_what_a_task_needs_is_there_while_the_suite_runs(store: Path) -> None:
    """`around` is entered before the first attempt, left after the last, and not entered when nothing is to be done."""
    from contextlib import contextmanager

    told: list[str] = []

    @contextmanager
    def around() -> Any:
        told.append("up")
        yield
        told.append("down")

    def task(given: str) -> str:
        assert told == ["up"]
        return given

    suite = Suite(name="s", cases=some_cases(2), task=task, evaluators=[Exact()], around=around)
    options = RunOptions(store=store, shard=(1, 2))
    assert run_suite(suite, [Arm(task="main", run_name="n")], options)[0].outcomes == {"scored": 1}
    assert told == ["up", "down"]
    run_suite(suite, [Arm(task="main", run_name="n")], options)
    assert told == ["up", "down"]
