"""What to say of a request that a recording has no reply to: the nearest recorded one, and how the two differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from agenttrace.langchain.asked_request import Request
from agenttrace.settings.canonical import canonical
from agenttrace.steps import JSON

SHOWN = 70
"""Characters of a text around the place where it differs."""

LOOKED_AT = 2_000
"""Characters of a text that decide how near it is."""

LISTED = 6


def nearest(asked: Request, recorded: Sequence[Request]) -> Request | None:
    """The recorded request that has most in common with this one; the first of several."""
    if not recorded:
        return None
    spelt = [canonical(message) for message in asked.messages]
    ranked = [(_rank(asked, spelt, other), other) for other in recorded]
    best = max(rank for rank, _ in ranked)
    alike = [other for rank, other in ranked if rank == best]
    return max(alike[:200], key=lambda other: _likeness(asked, spelt, other))


def _rank(asked: Request, spelt: Sequence[bytes], other: Request) -> tuple[int, ...]:
    common = _common(spelt, other)
    return (
        common == len(spelt) == len(other.messages),
        common + (other.site == asked.site) + (other.scope == asked.scope),
        other.params == asked.params,
        other.model == asked.model,
    )


def _common(spelt: Sequence[bytes], other: Request) -> int:
    """How many messages are the same, from the first one on."""
    common = 0
    for ours, theirs in zip(spelt, other.messages, strict=False):
        if ours != canonical(theirs):
            break
        common += 1
    return common


def _likeness(asked: Request, spelt: Sequence[bytes], other: Request) -> float:
    place = _common(spelt, other)
    if place >= len(spelt) or place >= len(other.messages):
        return 0.0
    ours, theirs = _text(asked.messages[place])[:LOOKED_AT], _text(other.messages[place])[:LOOKED_AT]
    return SequenceMatcher(None, ours, theirs, autojunk=False).quick_ratio()


def differences(asked: Request, other: Request) -> tuple[str, ...]:
    """How a recorded request differs from the one that was asked, a line each."""
    found = [
        *_value("call site", other.site or "(none)", asked.site or "(none)"),
        *_scope(asked.scope, other.scope),
        *_value("model class", other.model, asked.model),
        *_params(asked.params, other.params),
        *_messages(asked.messages, other.messages),
    ]
    more = len(found) - LISTED
    return (*found[:LISTED], f"and {more} more") if more > 0 else tuple(found)


def _value(name: str, recorded: JSON, asked: JSON) -> Iterator[str]:
    if canonical(recorded) != canonical(asked):
        is_text = isinstance(recorded, str) and isinstance(asked, str)
        before, after = around(_text(recorded), _text(asked)) if is_text else (_short(recorded), _short(asked))
        yield f"{name}: recorded {before}, asked {after}"


def _scope(asked: Mapping[str, JSON], recorded: Mapping[str, JSON]) -> Iterator[str]:
    for name in dict.fromkeys((*recorded, *asked)):
        yield from _value(name, recorded.get(name), asked.get(name))


def _params(asked: JSON, recorded: JSON) -> Iterator[str]:
    ours, theirs = (value if isinstance(value, Mapping) else {} for value in (asked, recorded))
    for name in sorted({*ours, *theirs}):
        if name not in ours or name not in theirs:
            where = "recorded" if name in theirs else "asked"
            yield f"{name}: only {where}, {_short((theirs if name in theirs else ours)[name])}"
        else:
            yield from _value(name, theirs[name], ours[name])


def _messages(asked: Sequence[JSON], recorded: Sequence[JSON]) -> Iterator[str]:
    for number, (ours, theirs) in enumerate(zip(asked, recorded, strict=False), 1):
        if canonical(ours) != canonical(theirs):
            yield from _message(f"message {number} of {len(asked)}", theirs, ours)
    if len(asked) != len(recorded):
        longer, where = (asked, "asked") if len(asked) > len(recorded) else (recorded, "recorded")
        extra = longer[min(len(asked), len(recorded))]
        yield (
            f"messages: recorded {len(recorded)}, asked {len(asked)}; the first that is only {where}: {_short(extra)}"
        )


def _message(name: str, recorded: JSON, asked: JSON) -> Iterator[str]:
    if not isinstance(recorded, Mapping) or not isinstance(asked, Mapping):
        yield from _value(name, recorded, asked)
        return
    role = asked.get("role")
    for key in sorted({*recorded, *asked}):
        yield from _value(f"{name} ({role}), {key}", recorded.get(key), asked.get(key))


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else canonical(value).decode()


def _short(value: JSON) -> str:
    """A value as JSON, or its beginning."""
    text = canonical(value).decode()
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def around(before: str, after: str) -> tuple[str, str]:
    """Two texts from shortly before the place where they part, quoted."""
    parting = next(
        (place for place, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]),
        min(len(before), len(after)),
    )
    start = max(0, parting - SHOWN // 3)
    return _cut(before, start), _cut(after, start)


def _cut(text: str, start: int) -> str:
    end = start + SHOWN
    shown = " ".join(text[start:end].split())
    return f"'{'…' if start else ''}{shown}{'…' if end < len(text) else ''}'"
