"""Case files of each kind, and what is told of broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttrace import Case
from agenttrace.errors import CasesUnreachable, InvalidCases
from agenttrace.evaluation.loading import load_cases, phoenix_dataset, selected
from tests.model_server import Exchange, serve

JSON_LINES = """
{"id": "a", "input": {"question": "why?"}, "expected": "because", "cluster": "doc-1", "tags": ["smoke"], "metadata": {"k": 1}}

{"id": 7, "input": "how?"}
"""
YAML = """
- id: a
  input: {question: "why?"}
  expected: because
  cluster: doc-1
  tags: [smoke]
  metadata: {k: 1}
- {id: 7, input: "how?"}
"""
TWO = (
    Case(id="a", input={"question": "why?"}, expected="because", cluster="doc-1", tags=("smoke",), metadata={"k": 1}),
    Case(id="7", input="how?"),
)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"), [("c.jsonl", JSON_LINES), ("c.yaml", YAML), ("c.jsonl", f"\ufeff{JSON_LINES}")]
)
def test_json_lines_and_yaml_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    """All keys of a case arrive, blank lines and a byte order mark do not matter, a number as id is its text."""
    assert load_cases(written(tmp_path, name, text)) == TWO


def test_csv_has_columns_for_keys(tmp_path: Path) -> None:
    """`input.x` is a key within the input, unknown columns are metadata, empty optional fields are absent."""
    text = 'id,input.question,input.lang,expected,cluster,tags,source\na,"why, so?",en,because,,smoke slow,faq\n'
    [case] = load_cases(written(tmp_path, "c.csv", text))
    assert case == Case(
        id="a",
        input={"question": "why, so?", "lang": "en"},
        expected="because",
        tags=("smoke", "slow"),
        metadata={"source": "faq"},
    )


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "c.jsonl",
            '{"input": 1}\n{"input": \n{"inptu": 1}\n{"id": "x"}\n[1]',
            ["line 2", "line 3", "'inptu'", "line 4", "line 5"],
        ),
        ("c.jsonl", '{"id": "a", "input": 1}\n{"id": "a", "input": 2}', ["2 cases have the id 'a'"]),
        (
            "c.jsonl",
            '{"input": 1, "tags": "smoke"}\n{"input": 1, "metadata": 3}\n{"input": 1, "id": [2]}',
            ["'tags'", "'metadata'", "'id'"],
        ),
        ("c.jsonl", "\n", ["no case"]),
        ("c.csv", "id,input\na,b,c\nd\n", ["line 2", "line 3"]),
        ("c.csv", 'id,input\na,"b\n', ["no CSV"]),
        ("c.yaml", "- input: [1\n", ["no YAML"]),
        ("c.yaml", "input: 1\n", ["no list"]),
        ("c.txt", "x", ["no file of cases"]),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, name: str, text: str, told: list[str]) -> None:
    """Every problem with its place, at once; nothing of the file is taken."""
    with pytest.raises(InvalidCases) as caught:
        load_cases(written(tmp_path, name, text))
    for words in told:
        assert words in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """No file, and one that is no text."""
    with pytest.raises(InvalidCases, match="cannot be read"):
        load_cases(tmp_path / "none.jsonl")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidCases, match="UTF-8"):
        load_cases(tmp_path / "bytes.jsonl")


def test_cases_are_chosen_by_id_or_tag() -> None:
    """In the suite's order; a wrong name is told with the nearest right one."""
    assert selected(TWO, ["7", "tag:smoke"]) == TWO
    assert selected(TWO, ["tag:smoke"]) == TWO[:1]
    assert selected(TWO, []) == TWO
    with pytest.raises(InvalidCases, match=r"no case '77'\. Did you mean '7'"):
        selected(TWO, ["77"])


def test_a_dataset_of_phoenix_becomes_cases() -> None:
    """Phoenix's own answers: an example's output is what is expected."""
    asked = []

    def datasets(exchange: Exchange) -> None:
        asked.append(exchange.path)
        exchange.send({"data": [{"id": "RGF0YXNldDox", "name": "my set"}], "next_cursor": None})

    def examples(exchange: Exchange) -> None:
        asked.append(exchange.path)
        example = {"id": "e1", "input": {"q": 1}, "output": {"a": 2}, "metadata": {"m": 3}, "updated_at": "2026-01-01"}
        exchange.send({"data": {"dataset_id": "RGF0YXNldDox", "version_id": "v", "examples": [example]}})

    with serve(datasets, examples) as server:
        [case] = phoenix_dataset("my set", url=server.url)
    assert case == Case(id="e1", input={"q": 1}, expected={"a": 2}, metadata={"m": 3})
    assert asked == ["/v1/datasets?name=my%20set", "/v1/datasets/RGF0YXNldDox/examples"]


def test_a_phoenix_that_does_not_answer_is_told() -> None:
    """Nobody there, another server, and no such dataset are three different sentences."""
    with pytest.raises(CasesUnreachable, match="Check that it runs"):
        phoenix_dataset("x", url="http://127.0.0.1:1")
    with serve(lambda exchange: exchange.send({}, status=404)) as server, pytest.raises(CasesUnreachable, match="404"):
        phoenix_dataset("x", url=server.url)
    with (
        serve(lambda exchange: exchange.send({"data": []})) as server,
        pytest.raises(CasesUnreachable, match="no dataset"),
    ):
        phoenix_dataset("x", url=server.url)
