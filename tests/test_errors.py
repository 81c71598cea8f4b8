"""Every error can be looked up, and ends a command with the right code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttrace import errors
from agenttrace.cli.output import OutputUnwritable
from agenttrace.errors import AgentTraceError
from agenttrace.report.compare_report import SLUGS

MESSAGES = (Path(__file__).parents[1] / "docs" / "messages.md").read_text()
SECTIONS = {title.lower().replace(" ", "-") for title in re.findall(r"^## (.+)$", MESSAGES, re.MULTILINE)}


def tree(kind: type[AgentTraceError]) -> Iterator[type[AgentTraceError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from tree(below)


@pytest.mark.parametrize("kind", tree(AgentTraceError), ids=lambda kind: kind.__name__)
def test_every_error_has_a_section_and_a_place_in_the_tree(kind: type[AgentTraceError]) -> None:
    """A slug is a section of docs/messages.md, and the drawn tree is complete."""
    assert kind.slug in SECTIONS
    assert kind.__name__ in (errors.__doc__ or "")


def test_every_section_belongs_to_an_error() -> None:
    """No section outlives its error."""
    slugs = {kind.slug for kind in tree(AgentTraceError)} | {OutputUnwritable.slug} | set(SLUGS.values())
    assert slugs == SECTIONS
