"""`agenttrace eval` as it is typed: recorded, refused, killed and gone on with, in processes of their own."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agenttrace import open_store
from agenttrace.judging import load_evidence

AGENTTRACE = [sys.executable, "-m", "agenttrace"]

SLOW = """
import asyncio, pathlib
from agenttrace import Case, Suite
from agenttrace.evaluation.evaluators import Exact

paid = pathlib.Path(__file__).with_name("paid")

async def task(given):
    await asyncio.sleep({seconds})
    with paid.open("a") as file:
        file.write(f"{{given}}\\n")
    return given

suite = Suite(name="slow", cases=[Case(id=f"c{{n}}", input=n, expected=n) for n in range({cases})], task=task,
              evaluators=[Exact()], concurrency=2)
"""


def slow_suite(folder: Path, *, cases: int = 30, seconds: float = 0.1) -> Path:
    path = folder / "slow.py"
    path.write_text(SLOW.format(cases=cases, seconds=seconds))
    return path


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [*AGENTTRACE, "eval", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def begin_and_wait(suite: Path, *, paid: int) -> subprocess.Popen[str]:
    """Start the suite, and return when so many of its attempts have been paid for."""
    process = subprocess.Popen(
        [*AGENTTRACE, "eval", "run", str(suite)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while len(paid_for(suite)) < paid:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def paid_for(suite: Path) -> list[str]:
    file = suite.with_name("paid")
    return file.read_text().split() if file.exists() else []


def test_what_init_writes_runs(store: Path, tmp_path: Path) -> None:
    """The starter is a whole suite; its run is recorded, its failed case told; an existing file is left alone."""
    assert run("init", cwd=tmp_path).returncode == 0
    result = run("run", "suite.py", "--json", "--tag", "branch=main", "--tag", "ci", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    told: dict[str, Any] = json.loads(result.stdout)
    assert told["scores"] == {"contains": 0.5, "short": 1.0}
    assert [failure["case"] for failure in told["failures"]] == ["peru"]
    assert open_store().run("capitals").tags == {"branch": "main", "ci": True}
    again = run("init", cwd=tmp_path)
    assert again.returncode == 2
    assert "is left as it is" in again.stderr
    drawn = run("run", "suite.py", "--cases", "peru", cwd=tmp_path)
    assert "peru: contains: 'I do not know.' lacks 'Lima'" in drawn.stdout


def on_a_terminal(*arguments: object, cwd: Path) -> str:
    """What a terminal of 120 columns is sent until the command ends."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 120))
    process = subprocess.Popen(
        [*AGENTTRACE, "eval", *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd,
        env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # Linux tells the end of the other side so
        while more := os.read(ours, 65_536):
            seen += more
    os.close(ours)
    assert process.wait() == 0, seen.decode()
    return seen.decode()


def test_a_terminal_shows_a_bar(store: Path, tmp_path: Path) -> None:
    """It moves on one line with count, rate, tokens and time left, and leaves the cursor as it was."""
    seen = on_a_terminal("run", slow_suite(tmp_path), cwd=tmp_path)
    assert re.search(r"slow.*━.*\d+/30.*\d/s, 0 tokens.*\d:\d\d:\d\d", seen)
    assert "30/30" in seen
    assert seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l") >= 0
    assert "30 attempts" in seen


def test_elsewhere_are_plain_lines(store: Path, tmp_path: Path) -> None:
    """Without a terminal each line is whole, and none is sent over another."""
    result = run("run", slow_suite(tmp_path))
    assert "slow: 30 attempts\n" in result.stderr
    assert re.search(r"slow: 30/30, .*/s, 0 tokens\n", result.stderr)
    assert "\r" not in result.stderr
    assert "\x1b" not in result.stderr


def test_a_killed_run_goes_on_without_paying_again(store: Path, tmp_path: Path) -> None:
    """After kill -9 the same command makes what has no result: at most what was under way is paid twice."""
    suite = slow_suite(tmp_path)
    process = begin_and_wait(suite, paid=8)
    process.kill()
    process.communicate()
    before = paid_for(suite)
    assert load_evidence(open_store(), "slow").missing is not None
    result = run("run", suite, "--json")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["outcomes"] == {"scored": 30}
    assert told["already_there"] >= len(before) - 4  # two were under way, and two may not have reached the disk
    paid = paid_for(suite)
    assert set(paid) == {str(number) for number in range(30)}
    assert len(paid) - 30 == len(before) - told["already_there"]
    evidence = load_evidence(open_store(), "slow")
    assert (evidence.missing, len(evidence.repetitions)) == (None, 30)


def test_an_interrupted_run_ends_in_order_and_goes_on(store: Path, tmp_path: Path) -> None:
    """Ctrl-C keeps all that was made, says how to go on, and leaves nothing to be paid twice but what was under way."""
    suite = slow_suite(tmp_path)
    process = begin_and_wait(suite, paid=6)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "The same command goes on where it stopped" in errors
    assert "Traceback" not in errors
    before = paid_for(suite)
    told = json.loads(run("run", suite, "--json").stdout)
    assert told["already_there"] == len(before)
    assert len(paid_for(suite)) == 30


def test_a_changed_suite_is_refused_before_anything_is_paid(store: Path, tmp_path: Path) -> None:
    """The run that was broken off is of another suite: exit 2, what changed, and --new begins another."""
    suite = slow_suite(tmp_path)
    process = begin_and_wait(suite, paid=3)
    process.kill()
    process.communicate()
    before = paid_for(suite)
    slow_suite(tmp_path, cases=5, seconds=0.01)
    result = run("run", suite)
    assert (result.returncode, paid_for(suite)) == (2, before)
    assert "data.cases removed: c5, c6, c7, c8, c9 and 20 more" in result.stderr
    assert run("run", suite, "--new").returncode == 0


def test_two_runs_at_a_time_are_not_one(store: Path, tmp_path: Path) -> None:
    """A second process is refused while the first is at it, or goes its own way under another name."""
    suite = slow_suite(tmp_path, seconds=2)
    process = begin_and_wait(suite, paid=2)
    try:
        result = run("run", suite)
        assert result.returncode == 3
        assert "Another process is at run slow" in result.stderr
    finally:
        process.kill()
        process.communicate()


def test_shards_of_processes_gather(store: Path, tmp_path: Path) -> None:
    """Two processes at a time, one run; the one that is missing is named by `compare`."""
    suite = slow_suite(tmp_path, cases=9, seconds=0.01)
    first = run("run", suite, "--shard", "1/3", "--name", "n")
    assert "missing: shards 2/3, 3/3" in first.stderr
    shards = [
        subprocess.Popen(
            [*AGENTTRACE, "eval", "run", str(suite), "--shard", f"{number}/3", "--name", "n"],
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for number in (2, 3)
    ]
    assert [shard.wait(60) for shard in shards] == [0, 0]
    evidence = load_evidence(open_store(), "n")
    assert (evidence.missing, len(evidence.repetitions)) == (None, 9)
    assert len(paid_for(suite)) == 9


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import nowhere_to_be_found", "does not import: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("x = 1 +", "does not import: SyntaxError"),
        ("raise SystemExit(4)", "does not import: SystemExit"),
        ("x = 1", "holds no suite"),
        ("{suite}(name='a'); b = {suite}(name='b')", "holds 2 suites"),
        ("{suite}(task=3)", "Give a Runnable, a graph or a callable"),
        ("{suite}(cases=[])", "no case"),
        ("{suite}(cases=[Case(id='x', input=1), Case(id='x', input=2)])", "2 cases have the id 'x'"),
        ("{suite}(evaluators=[])", "no evaluator"),
        ("{suite}(evaluators=[lambda a, b, c, d: 1])", "takes (a, b, c, d)"),
        ("{suite}(cases='missing.jsonl')", "cannot be read"),
        ("{suite}(repetitions=0)", "'repetitions'"),
        ("{suite}(timeout_s=-1)", "'timeout_s'"),
    ],
)
def test_a_suite_that_is_not_right_is_told(store: Path, tmp_path: Path, text: str, told: str) -> None:
    """One sentence, exit 2, no traceback, nothing run, no store made."""
    make = "import functools; from agenttrace import Case, Suite\nmade = functools.partial(Suite, **{'name': 's', 'cases': [Case(input=1)], 'task': str, 'evaluators': [lambda output: True]})\n"
    (tmp_path / "bad.py").write_text(
        make + text.replace("{suite}(", "a = made(", 1).replace("{suite}", "made") if "{suite}" in text else text
    )
    result = run("run", "bad.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert told in result.stderr
    assert "Traceback" not in result.stderr
    assert "See docs/messages.md#" in result.stderr
    assert not store.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "none.py"],
        ["run", "no.such.module"],
        ["run", "slow.py:other"],
        ["run", "slow.py", "--cases", "c99"],
        ["run", "slow.py", "--task", "other"],
        ["run", "slow.py", "--shard", "3/2"],
        ["run", "slow.py", "--shard", "x"],
        ["run", "slow.py", "--max-cost", "-1"],
        ["run", "slow.py", "--max-time", "soon"],
        ["run", "slow.py", "--tag", "=x"],
        ["run", "slow.py", "--shard", "1/2", "--new"],
        ["ab", "slow.py", "--baseline", "main", "--candidate", "main"],
        ["ab", "slow.py", "--baseline", "main", "--candidate", "other"],
    ],
)
def test_a_wrong_command_line_is_told(store: Path, tmp_path: Path, arguments: list[str]) -> None:
    """Exit 2, with what is wrong, before anything is paid."""
    suite = slow_suite(tmp_path)
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("agenttrace: ")
    assert "Traceback" not in result.stderr
    assert paid_for(suite) == []


def test_two_tasks_are_run_in_turn_and_told_how_to_compare(store: Path, tmp_path: Path) -> None:
    """`eval ab` records two runs, and its last line is the command that compares them."""
    (tmp_path / "two.py").write_text(
        "from agenttrace import Case, Suite\nfrom agenttrace.evaluation.evaluators import Exact\n"
        "suite = Suite(name='two', cases=[Case(id=str(n), input=n, expected=n) for n in range(4)], evaluators=[Exact()],\n"
        "              task={'old': lambda n: n, 'new': lambda n: n % 3})\n"
    )
    result = run("ab", "two.py", "--baseline", "old", "--candidate", "new", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    command = result.stdout.strip().splitlines()[-1].split()
    assert command[:2] == ["agenttrace", "compare"]
    compared = subprocess.run(
        [*AGENTTRACE, *command[1:], "--json"], capture_output=True, text=True, check=False, env=os.environ
    )
    metrics = {metric["name"]: metric for metric in json.loads(compared.stdout)["metrics"]}
    assert (metrics["exact"]["baseline"], metrics["exact"]["candidate"]) == (1.0, 0.75)


def test_a_module_is_a_suite_too(store: Path, tmp_path: Path) -> None:
    """By its dotted name, from where it can be imported."""
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").touch()
    slow_suite(package, cases=2, seconds=0)
    assert run("run", "mine.slow", cwd=tmp_path).returncode == 0


def test_the_progress_is_plain_lines_outside_a_terminal(store: Path, tmp_path: Path) -> None:
    """On standard error, with how many, how fast and what was used; standard output stays for the result."""
    result = run("run", slow_suite(tmp_path, cases=3, seconds=0), "--json")
    assert json.loads(result.stdout)["attempts"] == 3
    lines = result.stderr.splitlines()
    assert lines[0] == "slow: 3 attempts"
    assert lines[-1].startswith("slow: 3/3, ")
    assert "tokens" in lines[-1]
