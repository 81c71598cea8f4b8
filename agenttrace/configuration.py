"""`[tool.agenttrace]` of the nearest pyproject.toml, and the only reader of it. What is wrong is an error, never ignored.

```toml
[tool.agenttrace]
primary = ["correct"]            # metrics that decide; none: every score
margins = {correct = 0.05, latency_s = 0.2}
alpha = 0.05
min_cases = 5
on_inconclusive = "fail"         # or "warn"
allow_missing = false
baselines = "baselines"          # the folder of accepted baselines, beside this file
baseline_max_age = "30d"         # older ones are compared with a warning
keep = "30d"                     # of the store: how long, and how much
max_bytes = "5GB"

[tool.agenttrace.severity]       # what an undeclared difference does
"code.packages" = "blocks"
"prompt.label" = "warns"

[tool.agenttrace.prices."my-model"]   # US dollars per million tokens
input = 0.2
output = 0.6
```
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from agenttrace.amounts import duration_ns, size_bytes
from agenttrace.comparison.dimensions import DIMENSIONS, SEVERITIES, Severity, unknown_dimension
from agenttrace.comparison.policy import OnInconclusive, Policy
from agenttrace.errors import InvalidConfiguration
from agenttrace.pricing import Price

RULES: Final = tuple(Policy.__dataclass_fields__)

FILE: Final = "pyproject.toml"

BASELINES: Final = "baselines"
"""The folder of accepted baselines, where the project names no other: beside its pyproject.toml, under version control."""

VARIABLE: Final = "AGENTTRACE_CONFIG"
"""Names another file that has the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What a project sets. None, or empty, where it sets nothing: then the default of whoever asks holds."""

    file: Path | None = None
    """Where it was read; None where there is no table."""
    severity: Mapping[str, Severity] = field(default_factory=dict)
    """By dimension: what an undeclared difference does, to scores and to times and cost."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By model, as it was served or asked for."""
    keep_ns: int | None = None
    """How old a trace may become before it is taken out of the store."""
    max_bytes: int | None = None
    """How large the database may become."""
    baselines: Path = Path(BASELINES)
    """The folder of accepted baselines."""
    baseline_max_age_ns: int | None = None
    """Older baselines are compared with a warning."""
    primary: tuple[str, ...] = ()
    """Metrics that decide a comparison."""
    margins: Mapping[str, float] = field(default_factory=dict)
    """By metric: how much worse still passes."""
    alpha: float | None = None
    min_cases: int | None = None
    on_inconclusive: OnInconclusive | None = None
    allow_missing: bool | None = None

    def policy(self, told: Mapping[str, Any] = MappingProxyType({})) -> Policy:
        """The rules of a comparison: what is `told`, before what the project sets."""
        rules = {name: getattr(self, name) for name in RULES} | {
            name: told[name] for name in RULES if told.get(name) not in (None, ())
        }
        rules["margins"] = {**self.margins, **dict(told.get("margins") or ())}
        return Policy(**{name: value for name, value in rules.items() if value not in (None, ())})


def read_configuration(folder: Path | None = None) -> Configuration:
    """What the project in `folder` (the current one) sets: in the file that `AGENTTRACE_CONFIG` names, else in the
    `pyproject.toml` of the folder or the nearest one above it.

    Raises:
        InvalidConfiguration: the file cannot be read, or keys or values are not right: all of them are named.
    """
    file = _file(folder or Path.cwd())
    table = _table(file) if file is not None else None
    if file is None or table is None:
        return Configuration(baselines=(file.parent if file else folder or Path.cwd()) / BASELINES)
    values: dict[str, Any] = {"file": file, "baselines": file.parent / BASELINES}
    problems = []
    for key, given in table.items():
        try:
            _named(key, READERS)
            name, reader = READERS[key]
            values[name] = reader(given)
        except _WrongError as wrong:
            problems.append(str(wrong))
    if problems:
        raise InvalidConfiguration(
            f"[tool.agenttrace] of {file}: {'; '.join(problems)}. Correct it and try again; nothing was done."
        )
    values["baselines"] = file.parent / values["baselines"]
    return Configuration(**values)


def _file(folder: Path) -> Path | None:
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    return next((file for place in (folder, *folder.parents) if (file := place / FILE).is_file()), None)


def _table(file: Path) -> Mapping[str, Any] | None:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfiguration(f"{file} cannot be read: {error}. Correct it, or name another file.") from error
    for key in ("tool", "agenttrace"):
        if key not in table:
            if os.environ.get(VARIABLE):
                raise InvalidConfiguration(
                    f"{file}, which {VARIABLE} names, has no table [tool.agenttrace]. Add it, or unset {VARIABLE}."
                )
            return None
        table = table[key]
        if not isinstance(table, dict):
            raise InvalidConfiguration(f"'{key}' in {file} is no table. Write '[tool.agenttrace]' above its keys.")
    return table


class _WrongError(ValueError):
    """A key or value that is not right."""


def _named(key: str, known: Mapping[str, Any], where: str = "") -> None:
    """Raise unless the key is known, with the nearest one that is."""
    if key not in known:
        near = get_close_matches(key, known, n=1, cutoff=0.5)
        advice = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}"
        raise _WrongError(f"there is no key '{key}'{where}, {advice}")


def _wrong(key: str, value: Any, expected: str) -> _WrongError:
    return _WrongError(f"'{key}' is {str(value)[:60]!r}, expected {expected}")


def _number(key: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < float("inf"):
        raise _wrong(key, value, "a number")
    return value


def _mapping(key: str, value: Any, expected: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(key, value, expected)
    return value


def _severity(value: Any) -> Mapping[str, Severity]:
    severities = _mapping("severity", value, "a table from a dimension's name to a word")
    wrong = []
    for name, word in severities.items():
        if name not in DIMENSIONS:
            wrong.append(f"in 'severity': {unknown_dimension(name).rstrip('.?')}")
        elif DIMENSIONS[name].instead is not None:
            wrong.append(f"'severity.{name}' cannot be set: it decides what is measured")
        elif word not in SEVERITIES:
            wrong.append(str(_wrong(f"severity.{name}", word, f"one of {', '.join(SEVERITIES)}")))
    if wrong:
        raise _WrongError("; ".join(wrong))
    return cast(Mapping[str, Severity], severities)


def _prices(value: Any) -> Mapping[str, Price]:
    return {
        model: _price(model, price)
        for model, price in _mapping("prices", value, "a table from a model's name to its prices").items()
    }


def _price(model: str, value: Any) -> Price:
    place = f"prices.{model}"
    given = _mapping(place, value, "a table of prices per million tokens")
    for key in given:
        _named(key, Price.__dataclass_fields__, f" in '{place}'")
    for key in ("input", "output"):
        if key not in given:
            raise _WrongError(f"'{place}' does not say '{key}'")
    for key, price in given.items():
        if _number(f"{place}.{key}", price) < 0:
            raise _wrong(f"{place}.{key}", price, "US dollars per million tokens, from 0 up")
    return Price(**given)


def _age(key: str, value: Any) -> int:
    ns = duration_ns(value) if isinstance(value, str) else None
    if not ns:
        raise _wrong(key, value, "an age like '30d'")
    return ns


def _folder(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong("baselines", value, "a folder's path")
    return value


def _size(value: Any) -> int:
    size = size_bytes(value) if isinstance(value, str) else value
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        raise _wrong("max_bytes", value, "bytes, or a size like '5GB'")
    return size


def _names(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _wrong("primary", value, "a metric's name or a list of them")
    return tuple(names)


def _margins(value: Any) -> Mapping[str, float]:
    margins = _mapping("margins", value, "a table from a metric's name to a number")
    return {name: _number(f"margins.{name}", margin) for name, margin in margins.items()}


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong("min_cases", value, "a whole number")
    return value


def _on_inconclusive(value: Any) -> OnInconclusive:
    if value not in ("fail", "warn"):
        raise _wrong("on_inconclusive", value, "'fail' or 'warn'")
    return cast(OnInconclusive, value)


def _allow_missing(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong("allow_missing", value, "true or false")
    return value


READERS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "severity": ("severity", _severity),
    "prices": ("prices", _prices),
    "keep": ("keep_ns", lambda value: _age("keep", value)),
    "baselines": ("baselines", _folder),
    "baseline_max_age": ("baseline_max_age_ns", lambda value: _age("baseline_max_age", value)),
    "max_bytes": ("max_bytes", _size),
    "primary": ("primary", _names),
    "margins": ("margins", _margins),
    "alpha": ("alpha", lambda value: _number("alpha", value)),
    "min_cases": ("min_cases", _whole),
    "on_inconclusive": ("on_inconclusive", _on_inconclusive),
    "allow_missing": ("allow_missing", _allow_missing),
}
"""By key: the field that it sets, and what reads its value."""
