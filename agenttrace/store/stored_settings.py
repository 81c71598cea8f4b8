"""Reads the settings of thousands of model calls, which are mostly the same: each value is parsed once, and shared.

Settings are stored whole under their hash. Where one dimension varies from call to call (a seed, a prompt that is rendered
with the input), every call's text is another, with the same tool schemas in it. So a text is cut at its dimensions, and
only a cut that was not met before is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import orjson

from agenttrace.records import SettingValue

TEXTS = """
SELECT settings FROM spans WHERE run_id = $run_id AND kind = 'model' AND settings IS NOT NULL
UNION
SELECT settings FROM results WHERE run_id = $run_id AND settings IS NOT NULL
"""

PLACES = "SELECT rowid FROM contents WHERE hash IN (SELECT unnest($hashes)) ORDER BY rowid"

# Between two places, so that each batch reads its own part of the table.
CONTENTS = """
SELECT hash, body
FROM contents
WHERE rowid BETWEEN $first AND $last AND hash IN (SELECT unnest($hashes))
"""

BATCH = 2000
"""Texts that are in memory at a time, some 10 KB each: a query's whole answer is."""

VARIED = 64
"""From so many values on, a dimension is kept apart from the settings that calls share."""

END = re.compile(r'"source":"[^"\\]*"\},')
"""Where one dimension of a stored text ends and another one begins."""

SETTING_KEYS = SettingValue.__dataclass_fields__.keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSettings:
    """What some calls were set to. Calls that share an object have the same."""

    shared: Mapping[str, SettingValue]
    own: Mapping[str, SettingValue]
    """The dimensions that vary from call to call in this run."""


NO_SETTINGS = StoredSettings(shared={}, own={})


def read_settings(connection: duckdb.DuckDBPyConnection, run_id: str) -> dict[str | None, StoredSettings]:
    """Each distinct settings of the run, by the text that stands in its rows: a reference, or the settings themselves."""
    cuts = _Cuts()
    referred: dict[str, str] = {}
    for (text,) in connection.execute(TEXTS, {"run_id": run_id}).fetchall():
        values = orjson.loads(text)
        if "@content" in values:
            referred[values["@content"]] = text
        else:
            cuts.add(text, text)
    for digest, body in _contents(connection, list(referred)):
        cuts.add(referred[digest], body)
    return cuts.settings()


def _contents(connection: duckdb.DuckDBPyConnection, hashes: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not hashes:
        return
    places = [place for (place,) in connection.execute(PLACES, {"hashes": hashes}).fetchall()]
    for start in range(0, len(places), BATCH):
        batch = places[start : start + BATCH]
        bounds = {"first": batch[0], "last": batch[-1], "hashes": hashes}
        yield from connection.execute(CONTENTS, bounds).fetchall()


@dataclass(slots=True)
class _Cuts:
    """The texts that were read, each as the numbers of its cuts."""

    texts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[str | bytes, int] = field(default_factory=dict)
    values: list[tuple[str, SettingValue]] = field(default_factory=list)
    """By number: a dimension with a value."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many values each dimension has."""

    def add(self, name: str, body: str) -> None:
        """Read one text."""
        ends = [match.end() - 1 for match in END.finditer(body)]
        starts = (1, *(end + 1 for end in ends))
        try:
            numbers = [self._number(body[start:end]) for start, end in zip(starts, (*ends, len(body) - 1), strict=True)]
        except ValueError:  # cut in the middle of a value that looks like an end
            numbers = [self._known(orjson.dumps([key, value]), key, value) for key, value in orjson.loads(body).items()]
        self.texts[name] = tuple(numbers)

    def _number(self, cut: str) -> int:
        number = self.numbers.get(cut)
        if number is None:
            [(dimension, value)] = orjson.loads(f"{{{cut}}}").items()
            if not isinstance(value, dict) or value.keys() != SETTING_KEYS:
                raise ValueError(cut)
            number = self._known(cut, dimension, value)
        return number

    def _known(self, cut: str | bytes, dimension: str, value: Mapping[str, Any]) -> int:
        number = self.numbers.get(cut)
        if number is None:
            number = self.numbers[cut] = len(self.values)
            self.values.append((dimension, SettingValue(**value)))
            self.counts[dimension] = self.counts.get(dimension, 0) + 1
        return number

    def settings(self) -> dict[str | None, StoredSettings]:
        """What was read, with what most calls have in common shared."""
        varied = {dimension for dimension, count in self.counts.items() if count > VARIED}
        is_varied = [dimension in varied for dimension, _ in self.values]
        shared: dict[tuple[int, ...], Mapping[str, SettingValue]] = {}
        settings: dict[str | None, StoredSettings] = {}
        for name, numbers in self.texts.items():
            common = tuple([number for number in numbers if not is_varied[number]])
            if common not in shared:
                shared[common] = dict(self.values[number] for number in common)
            own = dict([self.values[number] for number in numbers if is_varied[number]]) if varied else {}
            settings[name] = StoredSettings(shared=shared[common], own=own)
        return settings
