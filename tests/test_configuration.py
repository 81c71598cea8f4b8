"""`[tool.agenttrace]` of pyproject.toml."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agenttrace.configuration import READERS, Configuration, read_configuration
from agenttrace.errors import InvalidConfiguration
from agenttrace.pricing import Price

DAY_NS = 86_400 * 10**9
PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"


def written(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_no_file_sets_nothing(tmp_path: Path) -> None:
    """Where no project says anything, the defaults hold."""
    assert read_configuration(tmp_path) == Configuration(baselines=tmp_path / "baselines")
    written(tmp_path, "[project]\nname = 'x'\n")
    assert read_configuration(tmp_path) == Configuration(baselines=tmp_path / "baselines")


def test_the_page_shows_every_key_and_each_is_read(tmp_path: Path) -> None:
    """The table on the page of the docs is right, and leaves no key out."""
    [text] = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    file = written(tmp_path, text)
    assert read_configuration(tmp_path) == Configuration(
        file=file,
        severity={"code.packages": "blocks", "prompt.label": "warns"},
        prices={"my-model": Price(input=0.2, output=0.6, cached=0.02, cache_written=0.25)},
        keep_ns=30 * DAY_NS,
        max_bytes=5 * 10**9,
        baselines=tmp_path / "baselines",
        baseline_max_age_ns=30 * 86_400 * 10**9,
        primary=("correct",),
        margins={"correct": 0.05, "latency_s": 0.2},
        alpha=0.05,
        min_cases=5,
        on_inconclusive="fail",
        allow_missing=False,
    )
    assert all(re.search(rf"^(\[tool.agenttrace.)?{key}\b", text, re.MULTILINE) for key in READERS)


def test_the_nearest_file_above_counts(tmp_path: Path) -> None:
    """A command in a folder of the project finds the project's file; a nearer file hides it."""
    written(tmp_path, "[tool.agenttrace]\nmin_cases = 7\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert read_configuration(inner).min_cases == 7
    written(tmp_path / "a", "[project]\nname = 'another'\n")
    assert read_configuration(inner).min_cases is None


def test_a_file_that_is_named_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`AGENTTRACE_CONFIG` names the file; one that is not there, or has no table, is an error."""
    written(tmp_path, "[tool.agenttrace]\nmin_cases = 7\n")
    other = written(tmp_path, "[tool.agenttrace]\nmin_cases = 9\n", "other.toml")
    monkeypatch.setenv("AGENTTRACE_CONFIG", str(other))
    assert read_configuration(tmp_path).min_cases == 9
    written(tmp_path, "", "other.toml")
    with pytest.raises(InvalidConfiguration, match=r"has no table \[tool.agenttrace\]"):
        read_configuration(tmp_path)
    monkeypatch.setenv("AGENTTRACE_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(InvalidConfiguration, match=r"none.toml cannot be read"):
        read_configuration(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("min_case = 5", "no key 'min_case', did you mean 'min_cases'?"),
        ("wholly_other = 5", "no key 'wholly_other', there are: severity, prices"),
        ("alpha = '5 %'", "'alpha' is '5 %', expected a number"),
        ("alpha = true", "'alpha' is 'True', expected a number"),
        ("alpha = nan", "'alpha' is 'nan', expected a number"),
        ("min_cases = 5.5", "'min_cases' is '5.5', expected a whole number"),
        ("primary = [1]", "'primary' is '[1]', expected a metric's name or a list of them"),
        ("margins = 0.05", "'margins' is '0.05', expected a table"),
        ("margins = {correct = 'x'}", "'margins.correct' is 'x', expected a number"),
        ("on_inconclusive = 'ignore'", "expected 'fail' or 'warn'"),
        ("allow_missing = 1", "expected true or false"),
        ("keep = 30", "'keep' is '30', expected an age like '30d'"),
        ("keep = '0d'", "'keep' is '0d', expected an age like '30d'"),
        ("max_bytes = '5 potatoes'", "expected bytes, or a size like '5GB'"),
        ("severity = 'blocks'", "'severity' is 'blocks', expected a table"),
        ("severity = {'temperature' = 'warns'}", "Did you mean 'sampling.temperature'"),
        ("severity = {'sampling.temperature' = 'warn'}", "expected one of blocks, warns, informs"),
        ("severity = {'data.cases' = 'warns'}", "'severity.data.cases' cannot be set: it decides what is measured"),
        ("prices = {m = {input = 1}}", "'prices.m' does not say 'output'"),
        ("prices = {m = {input = 1, output = -2}}", "'prices.m.output' is '-2', expected US dollars"),
        ("prices = {m = {input = 1, output = 2, cache = 3}}", "no key 'cache' in 'prices.m', did you mean 'cached'?"),
        ("prices = {m = 1}", "'prices.m' is '1', expected a table of prices"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str, tmp_path: Path) -> None:
    """A wrong key is told with the nearest right one, a wrong value with what was expected, and both with the file."""
    file = written(tmp_path, f"[tool.agenttrace]\n{text}\n")
    with pytest.raises(InvalidConfiguration, match=re.escape(said)) as caught:
        read_configuration(tmp_path)
    assert str(file) in str(caught.value)


def test_all_that_is_wrong_is_named_at_once(tmp_path: Path) -> None:
    """Whoever mends a file mends it once."""
    written(tmp_path, "[tool.agenttrace]\nalhpa = 1\nmin_cases = 'x'\nseverity = {nothing = 'blocks', replay = 'x'}\n")
    with pytest.raises(InvalidConfiguration) as caught:
        read_configuration(tmp_path)
    assert all(word in str(caught.value) for word in ("alhpa", "min_cases", "nothing", "replay"))


@pytest.mark.parametrize("text", ["[tool.agenttrace", "tool = 1", "[tool]\nagenttrace = 1"])
def test_a_file_that_is_no_table_is_an_error(text: str, tmp_path: Path) -> None:
    """What is no TOML, or no table, is told with the file."""
    file = written(tmp_path, text)
    with pytest.raises(InvalidConfiguration, match=re.escape(str(file))):
        read_configuration(tmp_path)
