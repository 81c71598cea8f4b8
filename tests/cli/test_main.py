"""The command line itself: help for every command, quick to start, and wrong input in one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agenttrace.cli.main import COMMANDS


def agenttrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "agenttrace", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    """`--help` of each command says what it does."""
    result = agenttrace(command, "--help")
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) > 3


def test_starting_loads_nothing_heavy() -> None:
    """The command line loads a library when a command uses it."""
    heavy = ["langchain_core", "duckdb", "rich", "opentelemetry"]
    code = f"import agenttrace.cli.main, sys; print([name for name in {heavy} if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["lst"], "Did you mean 'list'?"), (["show"], "Missing argument"), (["list", "--nope"], "No such option")],
)
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str], text: str) -> None:
    """Usage errors say what is wrong and how it is used."""
    result = agenttrace(*arguments)
    assert result.returncode == 2
    assert text in result.stderr
    assert "Traceback" not in result.stderr
