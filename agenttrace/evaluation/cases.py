"""A case: one input with what is expected of it. Ids are stable and contents hashed, so that runs can be paired."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agenttrace.digest import digest
from agenttrace.errors import InvalidCases
from agenttrace.langchain.messages import plain
from agenttrace.settings.canonical import canonical
from agenttrace.steps import JSON

SHOWN_PROBLEMS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One input with its expectation."""

    input: Any
    """What the task is given."""
    expected: Any = None
    """What evaluators compare with."""
    id: str = ""
    """The same for the same case, for ever: runs are paired by it. Made of the input where none is given."""
    cluster: str | None = None
    """Cases with one source share it: they are not independent of one another."""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    """Whatever else evaluators want to know."""

    @property
    def input_hash(self) -> str:
        return content_hash(self.input)

    @property
    def expected_hash(self) -> str:
        """Of all that a judgement may depend on: what is expected, and the metadata."""
        return content_hash([self.expected, dict(self.metadata)])


def content_hash(value: Any) -> str:
    """Equal for equal content, on every machine and in every process."""
    return digest(canonical(_json(value)))


def _json(value: Any) -> JSON:
    """A value as JSON. What only has an address to tell it by has no stable hash, and is refused."""
    told = plain(value)
    if " object at 0x" in json.dumps(told, default=str):
        raise TypeError(f"a {type(value).__name__} has no stable content")
    return told


def checked(cases: Iterable[Case], places: Mapping[int, str] | None = None) -> tuple[Case, ...]:
    """The cases with their ids, if they may be run.

    Args:
        cases: In the suite's order.
        places: Where each was read, by its number from 0, for messages.

    Raises:
        InvalidCases: there are none, or two with one id, or one without a stable content; all of it is told at once.
    """
    named = []
    problems = []
    for number, case in enumerate(cases):
        place = (places or {}).get(number, f"case {number + 1}")
        try:
            digest = case.input_hash
            case.expected_hash  # noqa: B018  # computed to know that it can be
        except (TypeError, ValueError) as error:
            problems.append(f"{place}: its content cannot be hashed: {error}")
            continue
        named.append(case if case.id else replace(case, id=digest))
    problems += _duplicates(named)
    if not named and not problems:
        raise InvalidCases("The suite has no case. Give it at least one.")
    if problems:
        raise InvalidCases(all_problems("The cases cannot be used", problems))
    return tuple(named)


def _duplicates(cases: Sequence[Case]) -> Iterator[str]:
    for name, count in Counter(case.id for case in cases).items():
        if count > 1:
            yield f"{count} cases have the id '{name}', and results are paired by it"


def all_problems(heading: str, problems: Sequence[str]) -> str:
    """A message that lists what is wrong."""
    if len(problems) == 1:
        return f"{heading}: {problems[0]}. Put it right; nothing was run."
    shown = "".join(f"\n  {problem}" for problem in problems[:SHOWN_PROBLEMS])
    more = f"\n  and {len(problems) - SHOWN_PROBLEMS} more" if len(problems) > SHOWN_PROBLEMS else ""
    return f"{heading}:{shown}{more}\nPut them right; nothing was run."
