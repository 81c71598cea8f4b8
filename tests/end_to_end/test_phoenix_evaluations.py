"""What was judged, in the real Phoenix: scores at the spans, the suite as a dataset, its runs side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttrace import Case, Score, Suite, open_store
from agenttrace.errors import CasesUnreachable
from agenttrace.evaluation.loading import phoenix_dataset
from agenttrace.evaluation.runner import Arm, RunOptions, run_suite
from agenttrace.export.phoenix import Phoenix, call
from tests.browser import open_page, take_picture
from tests.end_to_end.test_export import export
from tests.phoenix import a_phoenix


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phoenix]:
    with a_phoenix(tmp_path_factory.mktemp("phoenix")) as phoenix:
        yield phoenix


def exact(output: Any, expected: Any) -> Score:
    return Score(value=output == expected, reason=f"{output!r} against {expected!r}")


def tone(output: Any) -> str:
    return "dry"


def letters(name: str, task: Callable[[str], str] = str.upper) -> Suite:
    """Letters that are to be written large, by a task that does."""
    cases = [Case(id=letter, input=letter, expected=letter.upper()) for letter in "abcd"]
    return Suite(name=name, cases=cases, task=task, evaluators=[exact, tone], repetitions=2, retries=0)


def worse(letter: str) -> str:
    if letter == "d":
        raise ValueError("no idea")
    return letter if letter == "c" else letter.upper()


def get(phoenix: Phoenix, path: str) -> Any:
    return json.loads(call(phoenix.address, "GET", path))


def data(phoenix: Phoenix, path: str) -> Any:
    return get(phoenix, path)["data"]


def all_of(phoenix: Phoenix, suite: str) -> tuple[Any, dict[str, Any]]:
    """What Phoenix has of a suite: its dataset, and by name the attempts of each experiment."""
    [dataset] = data(phoenix, f"/v1/datasets?name={suite}")
    dataset["versions"] = data(phoenix, f"/v1/datasets/{dataset['id']}/versions")
    dataset["examples"] = data(phoenix, f"/v1/datasets/{dataset['id']}/examples")["examples"]
    experiments = data(phoenix, f"/v1/datasets/{dataset['id']}/experiments")
    return dataset, {one["name"]: get(phoenix, f"/v1/experiments/{one['id']}/json") for one in experiments}


def sent(*arguments: str) -> Any:
    result = export("--to", "phoenix", "--json", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["judged"]


def test_runs_of_a_suite_are_experiments_on_its_dataset(phoenix: Phoenix, store: Path) -> None:
    """Every case is an example, every attempt a run with its trace, its output and its scores; twice is once."""
    letters("twice").run("base")
    letters("twice", worse).run("candidate")
    first = sent()
    assert (first["scores"], first["experiments"]) == (2 * 8 * 2 - 2, 2)
    dataset, experiments = all_of(phoenix, "twice")
    assert {one["id"]: one["input"] for one in dataset["examples"]} == {letter: {"input": letter} for letter in "abcd"}
    traces = {summary.trace_id for summary in open_store().traces()}
    for attempts in experiments.values():
        assert len(attempts) == 8
        assert {attempt["trace_id"] for attempt in attempts} <= traces
    by_input = {(one["input"]["input"], one["repetition_number"]): one for one in experiments["candidate"]}
    assert by_input["a", 2]["output"] == "A"
    assert by_input["d", 1]["error"] == "agent_error: ValueError: no idea"
    found = {told["name"]: told for told in by_input["c", 1]["annotations"]}
    assert (found["exact"]["score"], found["exact"]["explanation"]) == (0.0, "'c' against 'C'")
    assert (found["tone"]["label"], found["tone"]["annotator_kind"]) == ("dry", "CODE")
    again = sent("--resume")
    assert again == first
    assert all_of(phoenix, "twice") == (dataset, experiments)


def test_an_attempt_that_failed_counts_as_zero(phoenix: Phoenix, store: Path) -> None:
    """As in `compare`: else a version that fails would look better for it."""
    letters("failing", worse).run("failing")
    sent()
    _, experiments = all_of(phoenix, "failing")
    scores = [told["score"] for one in experiments["failing"] for told in one["annotations"] if told["name"] == "exact"]
    assert sorted(scores) == [0, 0, 0, 0, 1, 1, 1, 1]


def test_scores_stand_at_the_first_span_of_each_attempt(phoenix: Phoenix, store: Path) -> None:
    """With what the evaluator said, once, however often they are sent."""
    letters("annotated").run("annotated")
    sent()
    sent()
    root = next(span for span in open_store().trace("last") if span.parent_id is None)
    told = data(phoenix, f"/v1/projects/annotated/span_annotations?span_ids={root.span_id}")
    assert {one["name"]: one["result"]["score"] for one in told} == {"exact": 1.0, "tone": None}
    assert len(told) == 2
    [exact_one] = [one for one in told if one["name"] == "exact"]
    assert exact_one["result"]["explanation"].endswith("'")
    assert exact_one["identifier"] == "agenttrace"


def test_a_run_that_is_not_complete_is_no_experiment_yet(phoenix: Phoenix, store: Path) -> None:
    """Its scores go along; when it has been gone on with, it is one."""
    suite = letters("half")
    run_suite(suite, [Arm(task="main", run_name="half")], RunOptions(shard=(1, 2)))
    first = sent()
    assert (first["scores"], first["experiments"]) == (8, 0)
    assert "not all that its suite planned" in first["left_out"][0]
    run_suite(suite, [Arm(task="main", run_name="half")], RunOptions(shard=(2, 2)))
    assert sent()["experiments"] == 1


def test_a_part_of_a_run_is_no_experiment(phoenix: Phoenix, store: Path) -> None:
    """An experiment whose traces Phoenix does not have would lead nowhere."""
    letters("part").run("part")
    told = sent("--trace", "last")
    assert (told["scores"], told["experiments"]) == (2, 0)
    assert "--run part" in told["left_out"][0]


def test_what_others_put_into_a_dataset_stays(phoenix: Phoenix, store: Path) -> None:
    """A dataset of the suite's name that people keep in Phoenix gains what it lacks, and loses nothing."""
    theirs = {
        "action": "create", "name": "theirs", "inputs": [{"letter": "a"}], "outputs": [{"large": "A"}],
        "metadata": [{}], "example_ids": ["a"],
    }  # fmt: skip
    call(phoenix.address, "POST", "/v1/datasets/upload?sync=true", json.dumps(theirs).encode())
    letters("theirs").run("theirs")
    sent()
    dataset, experiments = all_of(phoenix, "theirs")
    examples = {one["id"]: one for one in dataset["examples"]}
    assert (examples["a"]["input"], examples["a"]["output"]) == ({"letter": "a"}, {"large": "A"})
    assert set(examples) == set("abcd")
    assert len(experiments["theirs"]) == 8


def test_a_suite_takes_its_cases_from_a_dataset(phoenix: Phoenix, store: Path) -> None:
    """By its name, which others only begin with too; ids, inputs, expected outputs and metadata are the examples'."""
    for name, inputs in (("capitals", ["France", "Peru"]), ("capitals of old", ["Persia"])):
        given = {
            "action": "create", "name": name, "inputs": [{"country": country} for country in inputs],
            "outputs": [{"capital": country[0]} for country in inputs], "metadata": [{"hard": True}] * len(inputs),
        }  # fmt: skip
        call(phoenix.address, "POST", "/v1/datasets/upload?sync=true", json.dumps(given).encode())
    cases = phoenix_dataset("capitals", url=phoenix.address)
    assert {case.id for case in cases} == {one["id"] for one in all_of(phoenix, "capitals")[0]["examples"]}
    assert sorted((case.input["country"], case.expected["capital"]) for case in cases) == [
        ("France", "F"),
        ("Peru", "P"),
    ]
    assert all(case.metadata["hard"] for case in cases)
    run = Suite(
        name="capitals", cases=cases, task=lambda given: {"capital": given["country"][0]}, evaluators=[exact]
    ).run()
    assert run.mean("exact") == 1
    with pytest.raises(CasesUnreachable, match="no dataset 'capital'"):
        phoenix_dataset("capital", url=phoenix.address)


def test_phoenix_compares_the_runs_on_its_own_page(phoenix: Phoenix, store: Path) -> None:
    """The page that is named shows both runs, their scores, and what the worse one failed with."""
    letters("compared").run("before")
    letters("compared", worse).run("after")
    [address] = sent()["pages"]
    assert address.startswith(f"{phoenix.address}/datasets/")
    with open_page() as page:
        page.goto(address)
        page.get_by_text("agent_error: ValueError: no idea").first.wait_for()
        text = page.locator("body").inner_text()
        take_picture(page.locator("body"), "phoenix-comparison.png")
    for part in ("before", "after", "exact\n1.00", "exact\n0.00", "tone\ndry"):
        assert part in text
