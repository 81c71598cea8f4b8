"""What docs/insight.md shows and says is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from agenttrace.phases.advice import RULES
from tests.end_to_end.test_list_show import agenttrace
from tests.end_to_end.test_phases import two_runs

__all__ = ["two_runs"]

PAGE = (Path(__file__).parents[2] / "docs" / "insight.md").read_text()
COMMANDS = [
    line.partition("#")[0].strip()
    for block in re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_works(
    command: str, two_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command runs as it stands, on a store with the runs that the page names."""
    monkeypatch.chdir(tmp_path)
    result = agenttrace(*shlex.split(command)[1:])
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr


def test_the_table_of_rules_is_the_rules() -> None:
    """The page's table of advice holds each rule with its numbers."""
    rows = re.findall(r"^\| (\w+) \| (\d+) % \| (\d+) % \|", PAGE, re.MULTILINE)
    assert rows == [(rule.phase, f"{rule.share:.0%}"[:-1], f"{rule.calls:.0%}"[:-1]) for rule in RULES]
