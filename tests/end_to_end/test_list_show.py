"""`list`, `show`, `import` and `export` as a user types them, with the six-second request as the known answer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace.store.importing import import_records
from tests.builders import a_model_call, a_run, a_span

SIX_SECONDS = Path(__file__).parents[2] / "fixtures" / "six_second_request.jsonl"
TRACE = "5152e0d6a81d4b6c9f60000000000001"


def agenttrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "agenttrace", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def imported(store: Path) -> Path:
    result = agenttrace("import", str(SIX_SECONDS))
    assert result.returncode == 0, result.stderr
    assert "Imported 1 run and 2 spans" in result.stdout
    return store


def test_show_divides_the_six_second_request(imported: Path) -> None:
    """Shares, times to first token, prefill rate and both inter-token latencies are those of the worked example."""
    shown = agenttrace("show", TRACE).stdout
    for phase, time, share in (
        ("queue", "1.2 s", "20 %"), ("prefill", "0.9 s", "15 %"), ("decode", "3.6 s", "60 %"), ("delivery", "0.3 s", "5 %")
    ):  # fmt: skip
        assert re.search(rf"{phase}\s+{time}\s+{share}", shown), phase
    assert "2.1 s at the server (client: 2.1 to 2.4 s)" in shown
    assert "4,444 tokens/s" in shown
    assert "20 ms (decode / N), 20.1 ms (decode / (N − 1)), N = 180" in shown
    assert "\x1b" not in shown


def test_show_prints_json_in_its_agreed_shape(imported: Path) -> None:
    """Machines get seconds or null, with source and bounds."""
    shown = json.loads(agenttrace("show", "last", "--json").stdout)
    assert set(shown) == {"trace_id", "run_id", "resumes", "spans"}
    model = next(span for span in shown["spans"] if span["kind"] == "model")
    assert model["phases"]["queue"]["seconds"] == 1.2
    assert model["phases"]["queue"]["source"] == "server-reported"
    assert model["usage"] == {
        "input": 4000,
        "output": 180,
        "cached": None,
        "cache_written": None,
        "reasoning": None,
        "total": 4180,
    }
    keys = (
        "span_id parent_id kind name state start_ns end_ns call_site attempt input output finish_reason settings usage metadata "
        "tags phases marks attempts events error"
    )
    assert set(keys.split()) <= set(model)


def test_list_shows_traces_and_runs(imported: Path) -> None:
    """People get a table, machines an array, newest first."""
    assert TRACE[:8] in agenttrace("list").stdout
    [trace] = json.loads(agenttrace("list", "--json").stdout)
    assert (trace["trace_id"], trace["run"], trace["spans"]) == (TRACE, "six_second_request", 2)
    [run] = json.loads(agenttrace("list", "--runs", "--json").stdout)
    assert run["name"] == "six_second_request"


def test_an_export_imports_into_another_store(imported: Path, tmp_path: Path) -> None:
    """What is exported is what is imported; importing twice changes nothing."""
    path = str(tmp_path / "out.jsonl")
    assert agenttrace("export", "--to", "jsonl", "-o", path).returncode == 0
    other = str(tmp_path / "other")
    assert agenttrace("import", path, "--store", other).returncode == 0
    again = agenttrace("import", path, "--store", other)
    assert "2 spans were there already" in again.stdout
    first, second = (agenttrace("show", "last", "--json", "--store", place).stdout for place in (str(imported), other))
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["show", "f" * 32], "There is no trace"),
        (["show", ""], "There is no trace"),
        (["export", "--to", "jsonl", "--run", "weekly"], "There is no run 'weekly'"),
    ],
)
def test_an_unknown_id_is_a_sentence(imported: Path, arguments: list[str], text: str) -> None:
    """Exit code 3, what was found, where to look, no traceback."""
    result = agenttrace(*arguments)
    assert result.returncode == 3
    assert text in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments", [["list"], ["show", "last"], ["export", "--to", "jsonl"], ["settings", "x"], ["compare", "a", "b"]]
)
def test_reading_never_creates_a_store(store: Path, arguments: list[str]) -> None:
    """A command that reads says that there is no store, and leaves none behind."""
    result = agenttrace(*arguments)
    assert result.returncode == 3
    assert "There is no store at" in result.stderr
    assert "docs/messages.md#store-not-found" in result.stderr
    assert not store.exists()


def test_a_broken_file_imports_nothing(store: Path, tmp_path: Path) -> None:
    """A broken line is named with its place, and no line of the file is stored."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(SIX_SECONDS.read_bytes() + b"{broken\n")
    result = agenttrace("import", str(path))
    assert result.returncode == 3
    assert "bad.jsonl" in result.stderr
    assert "4" in result.stderr
    assert not store.exists()


def test_hostile_names_reach_no_terminal(store: Path) -> None:
    """Markup and control characters in what was recorded are drawn as text."""
    evil = "[red]x[/red]\x1b]0;owned\x07\u202egnp"
    import_records(store, [a_run(name=evil)], [a_span(1, name=evil), a_model_call(2, name=evil, finish_reason=evil)])
    for arguments in (["list"], ["list", "--runs"], ["show", "last"]):
        result = agenttrace(*arguments)
        assert result.returncode == 0, result.stderr
        assert "[red]x[/red]" in result.stdout
        assert not set("\x1b\x07\u202e") & set(result.stdout)


def test_a_closed_pipe_ends_quietly(store: Path) -> None:
    """`agenttrace list | head` is no error."""
    import_records(store, [a_run()], [a_span(n, trace_id=f"{n:032x}") for n in range(1, 3000)])
    command = f"{sys.executable} -m agenttrace list --json --limit 3000 | head -c 10"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_a_sentence(imported: Path) -> None:
    """Output that cannot be written is exit code 3, without a traceback."""
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "agenttrace", "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 3
    assert "cannot be written" in result.stderr
    assert "Traceback" not in result.stderr


def test_list_narrows_and_pages(imported: Path) -> None:
    """Conditions are given as options; what nothing fits is said, and runs take none."""
    import_records(imported, [a_run(run_id="later")], [a_span(1, run_id="later", name="second")])
    first = json.loads(agenttrace("list", "--json", "--limit", "1").stdout)
    rest = json.loads(agenttrace("list", "--json", "--offset", "1").stdout)
    assert [trace["trace_id"] for trace in [*first, *rest]] == [TRACE, "a" * 32]
    [found] = json.loads(
        agenttrace("list", "--json", "--run", "later", "--max-duration", "2s", "--text", "SECOND").stdout
    )
    assert found["name"] == "second"
    assert "No trace is so" in agenttrace("list", "--min-duration", "1d").stderr
    assert agenttrace("list", "--runs", "--state", "ok").returncode == 2
