"""Reads one JSON object key by key, each with a check: what is wrong is said once, with what was expected.

JSON from outside is not ours. What has passed here has the types that the records promise and fits the store's columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from agenttrace.errors import InvalidRecord
from agenttrace.steps import JSON

MAX_INTEGER = 2**63 - 1
"""What a BIGINT column holds."""

MAX_SMALL = 2**31 - 1
"""What an INTEGER column holds."""

SHOWN_PROBLEMS = 5
"""Of a file's bad records, how many are told."""

SHOWN_CHARACTERS = 60
"""How much of a wrong value a message repeats."""

T = TypeVar("T")


class Fields:
    """An object's keys by type. A key that is missing reads as null where null is allowed; else it is an error."""

    def __init__(self, value: object, where: str = "") -> None:
        if not isinstance(value, dict):
            raise _wrong(where or "the line", value, "an object")
        self._values: Mapping[str, Any] = value
        self._where = where

    def text(self, key: str) -> str:
        return _typed(self._path(key), self._required(key), str, "a string")

    def text_or_none(self, key: str) -> str | None:
        return self._or_none(key, self.text)

    def matching(self, key: str, form: re.Pattern[str], expected: str) -> str:
        """A string of a fixed form, such as an id."""
        value = self._required(key)
        if not isinstance(value, str) or not form.fullmatch(value):
            raise _wrong(self._path(key), value, expected)
        return value

    def matching_or_none(self, key: str, form: re.Pattern[str], expected: str) -> str | None:
        return self._or_none(key, lambda name: self.matching(name, form, expected))

    def one_of(self, key: str, allowed: Sequence[str]) -> str:
        value = self._required(key)
        if value not in allowed:
            raise _wrong(self._path(key), value, f"one of {', '.join(allowed)}")
        return str(value)

    def integer(self, key: str, *, low: int = 0, high: int = MAX_INTEGER) -> int:
        value = self._required(key)
        # `type`, since True is an int to isinstance.
        if type(value) is not int or not low <= value <= high:
            raise _wrong(self._path(key), value, f"a whole number from {low} to {high}")
        return value

    def integer_or_none(self, key: str, *, high: int = MAX_INTEGER) -> int | None:
        return self._or_none(key, lambda name: self.integer(name, high=high))

    def integer_or(self, key: str, default: int, *, low: int = 0, high: int = MAX_INTEGER) -> int:
        return default if self._values.get(key) is None else self.integer(key, low=low, high=high)

    def number(self, key: str) -> float:
        value: object = self._required(key)
        if type(value) is not int and type(value) is not float:  # `type`, since True is an int to isinstance
            raise _wrong(self._path(key), value, "a number")
        return float(value)

    def nanoseconds(self, key: str) -> int:
        """Seconds as integer nanoseconds."""
        value: object = self._required(key)
        # orjson reads no infinity and no NaN; `type`, since True is an int to isinstance.
        if (type(value) is not int and type(value) is not float) or abs(value) * 1e9 >= MAX_INTEGER:
            raise _wrong(self._path(key), value, "a number of seconds")
        return round(value * 1e9)

    def nanoseconds_or_none(self, key: str) -> int | None:
        return self._or_none(key, self.nanoseconds)

    def json(self, key: str) -> JSON:
        value: JSON = self._values.get(key)
        return value

    def objects(self, key: str) -> Iterator[Fields]:
        """The objects of a list; none where the key is missing."""
        for number, value in enumerate(self._list(key)):
            yield Fields(value, f"{self._path(key)}[{number}]")

    def texts(self, key: str) -> tuple[str, ...]:
        """The strings of a list; none where the key is missing."""
        path = self._path(key)
        return tuple(_typed(f"{path}[{n}]", value, str, "a string") for n, value in enumerate(self._list(key)))

    def object(self, key: str) -> Fields:
        """The object under a key; an empty one where the key is missing."""
        return Fields({} if self._values.get(key) is None else self._values[key], self._path(key))

    def made_of(self, key: str, make: Callable[[Fields], T]) -> T | None:
        """What `make` makes of the object under a key; None where there is none."""
        return self._or_none(key, lambda name: make(self.object(name)))

    def items(self, read: Callable[[Fields, str], T]) -> dict[str, T]:
        """What `read` makes of each key, for objects whose keys are names rather than ours."""
        return {key: read(self, key) for key in self._values}

    def _or_none(self, key: str, read: Callable[[str], T]) -> T | None:
        return None if self._values.get(key) is None else read(key)

    def _required(self, key: str) -> Any:
        if key not in self._values:
            raise InvalidRecord(f"'{self._path(key)}' is missing")
        return self._values[key]

    def _list(self, key: str) -> list[Any]:
        value = self._values.get(key)
        if value is not None and not isinstance(value, list):
            raise _wrong(self._path(key), value, "a list")
        return value or []

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key


def _typed(path: str, value: object, kind: type[T], expected: str) -> T:
    if not isinstance(value, kind):
        raise _wrong(path, value, expected)
    return value


def _wrong(path: str, value: object, expected: str) -> InvalidRecord:
    shown = "null" if value is None else repr(value)
    if len(shown) > SHOWN_CHARACTERS:
        shown = f"{shown[:SHOWN_CHARACTERS]}…"
    return InvalidRecord(f"'{path}' is {shown}, expected {expected}")


def is_nested_deeper(value: object, levels: int) -> bool:
    """Whether lists and objects stand inside each other more than `levels` deep."""
    level: list[Any] = [value]
    for _ in range(levels):
        level = [child for parent in level for child in _children(parent) if isinstance(child, (dict, list))]
        if not level:
            return False
    return True


def _children(value: object) -> Sequence[object]:
    if isinstance(value, dict):
        return tuple(value.values())
    return value if isinstance(value, list) else ()


class BadRecords:
    """The places of a file that hold no record, with what is wrong: an error, unless they are to be skipped."""

    def __init__(self, file: str, *, are_skipped: bool = False) -> None:
        self.file = file
        self.problems: list[str] = []
        self._are_skipped = are_skipped

    def add(self, place: str, what: object) -> None:
        self.problems.append(f"{place}: {what}")

    def require_none(self, thing: str) -> None:
        """`thing`: what the places should hold, in the plural. Raises `InvalidRecord` with the first of them."""
        if not self.problems or self._are_skipped:
            return
        what = "Correct it and import the file again, or leave it out with --skip-bad; nothing was imported."
        if len(self.problems) == 1:
            raise InvalidRecord(f"{self.file}, {self.problems[0]}. {what}")
        raise InvalidRecord(
            f"{len(self.problems)} places of {self.file} hold no {thing}:{self.told()}\n{what.replace(' it', ' them')}"
        )

    def told(self) -> str:
        """The first of them, each on a line of its own."""
        shown = "".join(f"\n  {problem}" for problem in self.problems[:SHOWN_PROBLEMS])
        more = len(self.problems) - SHOWN_PROBLEMS
        return shown + (f"\n  and {more} more" if more > 0 else "")
