"""Evaluators of what the agent answered: text, numbers and JSON. They compare with what the case expects."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from agenttrace.errors import InvalidSuite, MissingExtra
from agenttrace.evaluation.cases import Case
from agenttrace.evaluation.score import Score
from agenttrace.evaluation.trace import Trace

SHOWN = 200
"""Characters of an answer that a reason quotes."""

NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Whether the output is what is expected. Texts are stripped first."""

    name: str = "exact"
    ignore_case: bool = False
    is_quick: ClassVar[bool] = True

    def __call__(self, case: Case, output: Any, trace: Trace) -> Score:
        given, expected = _folded(output, self.ignore_case), _folded(case.expected, self.ignore_case)
        return Score(value=given == expected, reason=_unlike(output, case.expected, given == expected))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contains:
    """Whether the output's text contains what is expected: a text, or each of several."""

    name: str = "contains"
    key: str | None = None
    """The key of the output, an object, whose text counts; None: all of it."""
    ignore_case: bool = True
    is_quick: ClassVar[bool] = True

    def __call__(self, case: Case, output: Any, trace: Trace) -> Score:
        wanted = [case.expected] if isinstance(case.expected, (str, int, float)) else list(case.expected or ())
        if not wanted:
            raise ValueError(f"case '{case.id}' expects nothing that could be contained")
        given = output if self.key is None else _at(output, self.key)
        text = _folded(text_of(given), self.ignore_case)
        missing = [item for item in wanted if _folded(str(item), self.ignore_case) not in text]
        reason = f"{_quoted(given)} lacks {', '.join(map(repr, missing))}" if missing else None
        return Score(value=not missing, reason=reason)


@dataclass(frozen=True, slots=True)
class Regex:
    """Whether a pattern is found in the output's text."""

    pattern: str
    name: str = "regex"
    is_quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise InvalidSuite(f"'{self.pattern}' is no regular expression: {error}. Put it right.") from error

    def __call__(self, case: Case, output: Any, trace: Trace) -> Score:
        found = re.search(self.pattern, text_of(output)) is not None
        return Score(value=found, reason=None if found else f"{_quoted(output)} does not match {self.pattern!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberWithin:
    """Whether the output's last number is as expected, within `relative` of it or `absolute`, whichever allows more."""

    name: str = "number"
    relative: float = 0.0
    absolute: float = 0.0
    is_quick: ClassVar[bool] = True

    def __call__(self, case: Case, output: Any, trace: Trace) -> Score:
        given = _last_number(output)
        expected = _last_number(case.expected)
        if expected is None:
            raise ValueError(f"case '{case.id}' expects no number")
        if given is None:
            return Score(value=False, reason=f"{_quoted(output)} holds no number")
        is_near = math.isclose(given, expected, rel_tol=self.relative, abs_tol=self.absolute)
        return Score(value=is_near, reason=None if is_near else f"{given:g} instead of {expected:g}")


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """Whether the output is JSON that a JSON Schema allows."""

    schema: Mapping[str, Any]
    name: str = "schema"
    is_quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        schemas = _jsonschema()
        try:
            schemas.validators.validator_for(self.schema).check_schema(self.schema)
        except schemas.exceptions.SchemaError as error:
            raise InvalidSuite(f"This is no JSON Schema: {error.message}. Put it right; nothing was run.") from error

    def __call__(self, case: Case, output: Any, trace: Trace) -> Score:
        try:
            value = json_of(output)
        except ValueError as error:
            return Score(value=False, reason=f"{_quoted(output)} is no JSON: {error}")
        validator = _jsonschema().validators.validator_for(self.schema)(self.schema)
        problems = [f"{problem.json_path}: {problem.message}" for problem in validator.iter_errors(value)]
        return Score(value=not problems, reason="; ".join(problems[:3]) or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFields:
    """Which share of the expected fields the output, an object or its JSON, has as expected. Nested ones by `a.b`."""

    fields: Sequence[str] = ()
    """Those that count; by default all that the case expects."""
    name: str = "fields"
    ignore_case: bool = True
    is_quick: ClassVar[bool] = True

    def __call__(self, case: Case, output: Any, trace: Trace) -> Score:
        if not isinstance(case.expected, Mapping):
            raise ValueError(f"case '{case.id}' expects no object")
        fields = self.fields or tuple(case.expected)
        try:
            given = json_of(output)
        except ValueError as error:
            return Score(value=0.0, reason=f"{_quoted(output)} is no JSON: {error}")
        wrong = [
            f"{field}: {_at(given, field)!r} instead of {_at(case.expected, field)!r}"
            for field in fields
            if _folded(_at(given, field), self.ignore_case) != _folded(_at(case.expected, field), self.ignore_case)
        ]
        return Score(value=1 - len(wrong) / len(fields), reason="; ".join(wrong) or None)


def text_of(output: Any) -> str:
    """The text of an output: of a message its content, of a graph's state its last message's, of anything else its JSON."""
    if isinstance(output, str):
        return output
    messages = output.get("messages") if isinstance(output, Mapping) else None
    if messages:
        return text_of(messages[-1])
    text = getattr(output, "text", None)
    if callable(text):  # a method in older releases of LangChain
        text = text()
    if isinstance(text, str):
        return text
    return output if isinstance(output, str) else json.dumps(output, default=str, ensure_ascii=False)


def json_of(output: Any) -> Any:
    """The output as JSON values: parsed where it is a text or a message. Raises `ValueError` where that cannot be."""
    if isinstance(output, Mapping) and "messages" not in output:
        return output
    if isinstance(output, (list, tuple, int, float, bool, type(None))):
        return output
    if hasattr(output, "model_dump") and not hasattr(output, "content"):
        return output.model_dump(mode="json")
    return json.loads(text_of(output))


def _jsonschema() -> Any:
    try:
        import jsonschema
    except ModuleNotFoundError as error:
        raise MissingExtra("eval", "Checking JSON against a schema") from error
    return jsonschema


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _folded(value: Any, ignore_case: bool) -> Any:
    if isinstance(value, str):
        return value.strip().casefold() if ignore_case else value.strip()
    return value


def _last_number(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    found = NUMBER.findall(text_of(value)) if value is not None else []
    return float(found[-1].replace(",", "")) if found else None


def _unlike(output: Any, expected: Any, is_like: bool) -> str | None:
    return None if is_like else f"{_quoted(output)} instead of {_quoted(expected)}"


def _quoted(value: Any) -> str:
    text = text_of(value)
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
