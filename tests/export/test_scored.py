"""A scored file comes in whole or not at all, and what is wrong with it is told with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from agenttrace.errors import InvalidRecord, RunNotFound
from agenttrace.export.json_fields import BadRecords
from agenttrace.export.scored import import_scored, is_scored_file, looks_scored, read_scored
from agenttrace.judging import load_evidence
from agenttrace.store.reading import open_store

LINE: dict[str, Any] = {
    "case": "q17",
    "repetition": 1,
    "cluster": "doc-3",
    "outcome": "scored",
    "scores": {"correct": 1.0},
    "metrics": {"latency_s": 1.2},
    "settings": {"model.served": "gpt-5-mini"},
}


def written(folder: Path, *lines: Any) -> Path:
    file = folder / "scores.jsonl"
    file.write_bytes(b"".join(line if isinstance(line, bytes) else orjson.dumps(line) + b"\n" for line in lines))
    return file


def test_the_shape_of_the_design_is_read(store: Path, tmp_path: Path) -> None:
    """Every key of the design's line arrives: the result by case, the settings in the contract at no call site."""
    imported = import_scored(None, written(tmp_path, LINE), "nightly")
    assert (imported.run, imported.cases, imported.repetitions, imported.already_there) == ("nightly", 1, 1, False)
    evidence = load_evidence(open_store(store), "nightly")
    [repetition] = evidence.repetitions
    assert (repetition.case, repetition.number, repetition.cluster, repetition.outcome) == ("q17", 1, "doc-3", "scored")
    assert (repetition.scores, repetition.metrics) == ({"correct": 1.0}, {"latency_s": 1.2})
    [seen] = evidence.contract.sites[""].get("model.served").observed
    assert (seen.value, seen.count, seen.voices, seen.sources) == ("gpt-5-mini", 1, ("served",), ("import",))
    assert not evidence.is_unfinished


def test_only_a_case_and_a_result_must_be_there() -> None:
    """The rest is optional; true and false are scores; repetitions that are not numbered are counted."""
    [one, two] = read_scored(
        b'{"case": "q1", "scores": {"a": true}}\n\n{"case": "q1", "metrics": {"steps": 3}}', BadRecords("f")
    )
    assert (one.repetition, one.outcome, one.scores, one.settings) == (1, "scored", {"a": 1.0}, {})
    assert (two.repetition, two.metrics) == (2, {"steps": 3.0})


def test_null_is_known_to_be_unset(store: Path, tmp_path: Path) -> None:
    """A setting of null is told; one that is missing is unknown."""
    import_scored(None, written(tmp_path, {**LINE, "settings": {"sampling.top_p": None}}), "n")
    site = load_evidence(open_store(store), "n").contract.sites[""]
    assert [seen.value for seen in site.get("sampling.top_p").observed] == [None]
    assert site.get("sampling.top_k").is_unknown


def test_a_run_without_settings_has_one_call_site(store: Path, tmp_path: Path) -> None:
    """Results without settings still stand for model calls, of which nothing is known."""
    import_scored(None, written(tmp_path, {"case": "q1", "scores": {"a": 1}}), "n")
    contract = load_evidence(open_store(store), "n").contract
    assert (list(contract.sites), contract.calls) == ([""], 1)


def test_importing_twice_changes_nothing(store: Path, tmp_path: Path) -> None:
    """The same file under the same name is the same run; under another name it is another one."""
    file = written(tmp_path, LINE)
    first, again, other = (import_scored(None, file, name) for name in ("a", "a", "b"))
    assert (first.already_there, again.already_there, other.already_there) == (False, True, False)
    assert first.run_id == again.run_id != other.run_id
    assert len(open_store(store).runs()) == 2


def test_the_files_name_is_the_runs(store: Path, tmp_path: Path) -> None:
    """Where no name is given."""
    assert import_scored(None, written(tmp_path, LINE)).run == "scores"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{nonsense\n", "this is no JSON"),
        (b'{"case": "q1", "scores": {"a": NaN}}\n', "this is no JSON"),
        (b"[1]\n", "expected an object"),
        (b"\xff\xfe{}\n", "this is no JSON"),
        ({}, "'case' is missing"),
        ({**LINE, "case": ""}, "'case' is empty"),
        ({**LINE, "case": 17}, "'case' is 17, expected a string"),
        ({**LINE, "repetition": 0}, "'repetition' is 0, expected a whole number from 1"),
        ({**LINE, "repetition": 1.5}, "'repetition' is 1.5"),
        ({**LINE, "repetition": True}, "'repetition' is True"),
        ({**LINE, "outcome": "fine"}, "'outcome' is 'fine', expected one of scored, agent_error"),
        ({**LINE, "scores": {"a": "high"}}, "'scores.a' is 'high', expected a number"),
        ({**LINE, "scores": {"a": None}}, "'scores.a' is null, expected a number"),
        ({**LINE, "scores": [1]}, "'scores' is [1], expected an object"),
        ({**LINE, "metrics": {"latency_s": {}}}, "'metrics.latency_s' is {}, expected a number"),
        ({**LINE, "scores": {}, "metrics": {}}, "both empty, and the outcome is 'scored'"),
        ({**LINE, "settings": {"model.serve": "m"}}, "'settings.model.serve' cannot be compared"),
        ({**LINE, "settings": {"temperature": 1}}, "Did you mean 'sampling.temperature'"),
        ({**LINE, "setings": {}}, "'setings' is no key of a result"),
        ({**LINE, "cluster": 3}, "'cluster' is 3, expected a string"),
        (b'{"case": "q1", "scores": ' + b"[" * 500 + b"]" * 500 + b"}\n", "nested more than 100 deep"),
    ],
)
def test_a_broken_line_is_refused_with_its_place(store: Path, tmp_path: Path, line: Any, reason: str) -> None:
    """The file, the line, the reason; nothing is imported of the good lines around it."""
    file = written(tmp_path, {**LINE, "case": "a"}, line, {**LINE, "case": "b"})
    with pytest.raises(InvalidRecord) as caught:
        import_scored(None, file, "nightly")
    assert "scores.jsonl, line 2: " in str(caught.value)
    assert reason in str(caught.value)
    assert "nothing was imported" in str(caught.value)
    assert caught.value.exit_code == 3
    assert not store.exists()


def test_all_broken_lines_are_told(tmp_path: Path) -> None:
    """Up to a handful; then how many more there are."""
    with pytest.raises(InvalidRecord) as caught:
        import_scored(None, written(tmp_path, LINE, *({} for _ in range(8))), "n")
    message = str(caught.value)
    assert message.startswith("8 places of scores.jsonl hold no results:\n  line 2: ")
    assert "and 3 more" in message


def test_an_attempt_told_twice_is_refused(tmp_path: Path) -> None:
    """The same repetition of a case twice is a mistake, and both places are told."""
    with pytest.raises(InvalidRecord, match="line 3: repetition 1 of case 'q17' is there already, in line 1"):
        import_scored(None, written(tmp_path, LINE, {**LINE, "repetition": 2}, LINE), "n")


def test_an_empty_file_holds_no_result(tmp_path: Path) -> None:
    """A run without results is none."""
    with pytest.raises(InvalidRecord, match="holds no result"):
        import_scored(None, written(tmp_path, b"\n \n"), "n")


def test_a_refused_file_leaves_a_store_alone(store: Path, tmp_path: Path) -> None:
    """A store that is there keeps what it had."""
    import_scored(None, written(tmp_path, LINE), "good")
    with pytest.raises(InvalidRecord):
        import_scored(None, written(tmp_path, b"broken\n"), "bad")
    assert [run.name for run in open_store(store).runs()] == ["good"]
    with pytest.raises(RunNotFound):
        open_store(store).run("bad")


def test_a_byte_order_mark_and_windows_lines_are_fine() -> None:
    """What Excel and Windows add says nothing."""
    assert len(read_scored(b"\xef\xbb\xbf" + orjson.dumps(LINE) + b"\r\n", BadRecords("f"))) == 1


@pytest.mark.parametrize(
    ("line", "is_scored"),
    [(LINE, True), ({"record": "run"}, False), ({"record": "span", "case": 1}, False), ({}, False)],
)
def test_a_scored_file_is_told_by_its_first_line(line: dict[str, Any], is_scored: bool) -> None:
    """`agenttrace import` takes two kinds of files."""
    assert looks_scored(line) is is_scored


@pytest.mark.parametrize(
    ("lines", "is_scored"),
    [((b"{broken\n", LINE), True), ((b"\n", b"[1]\n", LINE), True), (({"record": "run"}, LINE), False), ((), False)],
)
def test_a_broken_first_line_does_not_hide_the_kind_of_file(tmp_path: Path, lines: Any, is_scored: bool) -> None:
    """The first object decides, so that the line before it is told as a broken result."""
    assert is_scored_file(written(tmp_path, *lines)) is is_scored
