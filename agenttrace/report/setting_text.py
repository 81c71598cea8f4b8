"""Setting values and their differences as lines of text: prompts as a diff, tools property by property.

Everything that leaves is safe for a terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff

from agenttrace.comparison.differences import SettingDifference, Side
from agenttrace.report.escaping import visible, visible_lines
from agenttrace.report.numbers import quantity
from agenttrace.settings.contract import Observed
from agenttrace.steps import JSON

SHORT_VALUE = 60
"""Characters of a value that are shown whole within a line."""

CONTEXT = 14
"""Characters shown around the place where two long texts differ."""

EXCERPT = 44
"""Characters shown of the part of a long text that differs."""

SHOWN_LINES = 4
"""Lines of one difference within a refusal, which is one screen."""

SHOWN_CASES = 6
SHOWN_VALUES = 3

AMBIGUOUS = re.compile(r"-?\d.*|true|false|null|unset|unknown|.*[\s,\"'].*|", re.DOTALL)
"""Texts that would be read as something else without quotes."""

ARROW = "→"


def spell(value: JSON, limit: int = SHORT_VALUE) -> str:
    """A value on one line: a text as it is where that is clear, everything else as JSON."""
    if value is None:
        return "unset"
    if isinstance(value, str) and _is_clear(value):
        return visible(value, limit=limit)
    if isinstance(value, (list, tuple)) and value and all(_is_clear(item) for item in value):
        return visible(", ".join(str(item) for item in value), limit=limit)
    return visible(json.dumps(value, ensure_ascii=False), limit=limit)


def _is_clear(value: JSON) -> bool:
    return isinstance(value, str) and not AMBIGUOUS.fullmatch(value)


def side_text(side: Side, limit: int = SHORT_VALUE) -> str:
    """What one run has of a dimension."""
    if side.state == "unknown":
        return "unknown"
    if len(side.observed) <= 1:
        return spell(side.value, limit)
    shown = side.observed[:SHOWN_VALUES]
    more = f" and {len(side.observed) - len(shown)} more" if len(side.observed) > len(shown) else ""
    if side.state == "varies":
        return ", ".join(f"{spell(seen.value, limit)} ({quantity(seen.count, 'call')})" for seen in shown) + more
    first, *rest = shown
    return (
        spell(first.value, limit) + "".join(f", then {spell(seen.value, limit)}{_since(seen)}" for seen in rest) + more
    )


def _since(seen: Observed) -> str:
    return "" if seen.first_case is None else f" from case {visible(seen.first_case, limit=40)}"


def short_lines(difference: SettingDifference) -> list[str]:
    """A difference within a list of differences: both values readable, a few lines at most."""
    lines = list(_short_lines(difference))
    if len(lines) > SHOWN_LINES:
        lines[SHOWN_LINES - 1 :] = [f"and {len(lines) - SHOWN_LINES + 1} more changes"]
    if difference.note is not None:
        lines.append(f"({difference.note})")
    return [*lines, *_affected(difference)]


def _short_lines(difference: SettingDifference) -> Iterator[str]:
    sides = difference.baseline, difference.candidate
    if difference.dimension == "data.cases":
        yield from _case_lines(difference)
    elif all(side.state in ("set", "unset") for side in sides):
        yield from _change_lines(difference.dimension, sides[0].value, sides[1].value)
    else:
        yield from _both(side_text(sides[0]), side_text(sides[1]))


def _case_lines(difference: SettingDifference) -> Iterator[str]:
    for name, side in (("baseline", difference.baseline), ("candidate", difference.candidate)):
        if side.state == "unknown":
            yield f"the {name} names no cases"
        elif isinstance(side.value, list) and side.value:
            yield f"only in the {name}: {cases_text([str(case) for case in side.value])}"


def cases_text(cases: Sequence[str]) -> str:
    """The first of some cases, and how many more there are."""
    shown = ", ".join(visible(case, limit=40) for case in cases[:SHOWN_CASES])
    return f"{shown} and {len(cases) - SHOWN_CASES} more" if len(cases) > SHOWN_CASES else shown


def _affected(difference: SettingDifference) -> Iterator[str]:
    """Of a setting that changed while a run went on: the cases that had another value than the first."""
    for name, side in (("baseline", difference.baseline), ("candidate", difference.candidate)):
        if side.state == "changes":
            cases = dict.fromkeys(case for seen in side.observed[1:] for case in seen.cases)
            if cases:
                yield f"affected cases of the {name}: {cases_text(tuple(cases))}"


def _both(baseline: str, candidate: str) -> Iterator[str]:
    if len(baseline) + len(candidate) <= SHORT_VALUE:
        yield f"baseline {baseline}   candidate {candidate}"
    else:
        yield f"baseline  {baseline}"
        yield f"candidate {candidate}"


def _change_lines(dimension: str, before: JSON, after: JSON) -> Iterator[str]:
    if dimension == "tools.names":
        yield from _member_changes(before, after)
    elif dimension in ("tools.parameters", "tools.descriptions"):
        yield from _tool_changes(dimension, _mapping(before), _mapping(after))
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from schema_changes("", before, after)
    elif isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > SHORT_VALUE // 2:
        yield from _both(*_excerpts(before, after))
    else:
        yield from _both(spell(before), spell(after))


def _mapping(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, Mapping) else {}


def _member_changes(before: JSON, after: JSON) -> Iterator[str]:
    old, new = _names(before), _names(after)
    for name in new:
        if name not in old:
            yield f"'{visible(name, limit=SHORT_VALUE)}' added"
    for name in old:
        if name not in new:
            yield f"'{visible(name, limit=SHORT_VALUE)}' removed"


def _names(value: JSON) -> list[str]:
    return [str(name) for name in value] if isinstance(value, (list, tuple)) else []


def _tool_changes(dimension: str, before: Mapping[str, JSON], after: Mapping[str, JSON]) -> Iterator[str]:
    for name in dict.fromkeys((*before, *after)):
        tool, old, new = visible(name, limit=SHORT_VALUE), before.get(name), after.get(name)
        if name not in before or name not in after:
            yield f"{tool}: tool {'removed' if name not in after else 'added'}"
        elif old == new:
            continue
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from schema_changes(f"{tool}: ", old, new)
        elif isinstance(old, str) and isinstance(new, str):
            yield f"{tool}: " + f" {ARROW} ".join(_excerpts(old, new))
        else:
            yield f"{tool}: {spell(old)} {ARROW} {spell(new)}"


def schema_changes(prefix: str, before: Mapping[str, JSON], after: Mapping[str, JSON], path: str = "") -> Iterator[str]:
    """The differences of two JSON schemas, property by property: `'limit' added (integer, optional)`."""
    old, new = _mapping(before.get("properties")), _mapping(after.get("properties"))
    required = _names(before.get("required")), _names(after.get("required"))
    for name in dict.fromkeys((*old, *new)):
        shown = f"{prefix}'{visible(path + name, limit=SHORT_VALUE)}'"
        if name not in old:
            yield f"{shown} added ({_kind(new[name])}, {'required' if name in required[1] else 'optional'})"
        elif name not in new:
            yield f"{shown} removed"
        else:
            if (name in required[0]) != (name in required[1]):
                yield f"{shown} {'required' if name in required[1] else 'optional'} now"
            yield from _property_changes(prefix, shown, f"{path}{name}.", _mapping(old[name]), _mapping(new[name]))
    for key in sorted((before.keys() | after.keys()) - {"properties", "required"}):
        if before.get(key) != after.get(key):
            yield f"{prefix}{visible(key, limit=40)} {spell(before.get(key))} {ARROW} {spell(after.get(key))}"


def _property_changes(
    prefix: str, shown: str, path: str, old: Mapping[str, JSON], new: Mapping[str, JSON]
) -> Iterator[str]:
    if "properties" in old or "properties" in new:
        yield from schema_changes(prefix, old, new, path)
        return
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            name = "" if key == "type" else f"{visible(key, limit=40)} "
            yield f"{shown} {name}{spell(old.get(key))} {ARROW} {spell(new.get(key))}"


def _kind(schema: JSON) -> str:
    kind = _mapping(schema).get("type")
    return spell(kind) if kind is not None else "any type"


def _excerpts(before: str, after: str) -> tuple[str, str]:
    """Two texts around the first place where they differ, in quotes."""
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    return _excerpt(before, start, end), _excerpt(after, start, end)


def _common(before: str, after: str) -> int:
    """How many leading characters are the same."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((place for place, (old, new) in pairs if old != new), min(len(before), len(after)))


def _excerpt(text: str, start: int, end: int) -> str:
    stop = len(text) - end
    first = start - CONTEXT if start > CONTEXT + 1 else 0
    last = min(stop + CONTEXT, start + EXCERPT + CONTEXT)
    last = last if last < len(text) - 1 else len(text)  # an ellipsis for one character would be none the shorter
    return f'"{"…" if first else ""}{visible(text[first:last])}{"…" if last < len(text) else ""}"'


def whole_lines(difference: SettingDifference) -> list[str]:
    """A difference in full: a unified diff where a value is a long text or a structure, else as in a refusal."""
    sides = difference.baseline, difference.candidate
    if difference.dimension != "data.cases" and all(side.state in ("set", "unset") for side in sides):
        texts = [_as_text(side.value) for side in sides]
        if any(len(text) > SHORT_VALUE for text in texts) and all(side.value is not None for side in sides):
            before, after = (visible_lines(text).splitlines() for text in texts)
            drawn = list(unified_diff(before, after, "baseline", "candidate", n=2, lineterm=""))
            summary = list(_short_lines(difference)) if _has_summary(difference) else []
            return [*summary, *drawn, *([f"({difference.note})"] if difference.note else [])]
    return [*_short_lines(difference), *([f"({difference.note})"] if difference.note else []), *_affected(difference)]


def _has_summary(difference: SettingDifference) -> bool:
    return isinstance(difference.baseline.value, (Mapping, list))


def _as_text(value: JSON) -> str:
    """A value over several lines, as diffs want it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
