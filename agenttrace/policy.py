"""What is recorded and what is not: of a run's content, of its traces, and how long a quiet trace is waited for.

Each setting comes from an argument, else from an environment variable, else is the default.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast, get_args

from agenttrace.errors import UsageError
from agenttrace.spans.content_policy import CONTENT, KEEP, ContentPolicy, Keep, Redact, strictest
from agenttrace.steps import JSON

Content: TypeAlias = Keep | Mapping[str, Keep]
"""One word for all content, or a word for each kind of it."""

SLOW_S = 10.0
"""A trace that takes so long is slow: a sampled run keeps it."""

QUIET_S = 600.0
"""A trace of which nothing was heard for so long is not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingPolicy:
    """What is recorded of a run."""

    content: ContentPolicy = field(default_factory=ContentPolicy)
    sample: float = 1.0
    """The share of traces that is kept, from 0 to 1; errors and slow traces are kept whatever it is."""
    slow_s: float = SLOW_S
    """Seconds from which a trace is slow."""

    def described(self) -> Mapping[str, JSON]:
        """As it is stored with a run."""
        content = self.content
        kept = {name: getattr(content, name) for name in CONTENT}
        redacts = None if content.redact is None else getattr(content.redact, "__qualname__", "a function")
        return {
            "content": kept,
            "payload_limit": content.limit,
            "redact": redacts,
            "sample": self.sample,
            "slow_s": self.slow_s,
        }

    def tightened(self, other: RecordingPolicy) -> RecordingPolicy:
        """This policy, keeping no more content than the other one does. Sampling stays as it is."""
        mine, theirs = self.content, other.content
        limits = [limit for limit in (mine.limit, theirs.limit) if limit is not None]
        keeps = {name: strictest(getattr(mine, name), getattr(theirs, name)) for name in CONTENT}
        redact = _both(mine.redact, theirs.redact)
        content = ContentPolicy(**keeps, limit=min(limits, default=None), redact=redact)
        return self if content == mine else replace(self, content=content)


DEFAULT = RecordingPolicy()

Durability: TypeAlias = Literal["process", "power"]
"""What a finished step survives, once it is written: the end of its process, or a loss of power too."""


def recording_policy(
    *,
    sample: float | None = None,
    slow_s: float | None = None,
    content: Content | None = None,
    redact: Redact | None = None,
    payload_limit: int | None = None,
) -> RecordingPolicy:
    """The policy that arguments and environment say. Raises `UsageError` for what is no policy: a policy that was
    misunderstood would keep what must not be kept.
    """
    keeps = _content(content if content is not None else os.environ.get("AGENTTRACE_CONTENT", ""))
    limit = payload_limit if payload_limit is not None else _number("AGENTTRACE_PAYLOAD_LIMIT", int)
    chosen = {"sample": sample, "slow_s": slow_s}
    for name, value in chosen.items():
        if value is None:
            chosen[name] = _number(f"AGENTTRACE_{name.upper()}", float)
    given = {name: _checked(name, value) for name, value in chosen.items() if value is not None}
    if limit is not None:
        _checked("payload_limit", limit)
    if redact is not None and not callable(redact):
        raise UsageError("redact is no function. Give a function that takes a text and returns what may be kept of it.")
    redacts = redact if redact is not None else _named_function(os.environ.get("AGENTTRACE_REDACT"))
    return RecordingPolicy(content=ContentPolicy(**keeps, limit=limit, redact=redacts), **given)


def survives_power_loss(durability: Durability | None) -> bool:
    """What `durability`, else `AGENTTRACE_DURABILITY`, says. Raises `UsageError` for another word."""
    word = durability if durability is not None else os.environ.get("AGENTTRACE_DURABILITY", "").strip() or "process"
    if word not in get_args(Durability):
        raise UsageError(f"durability is {word!r}. Say 'process', or 'power' to have the disk confirm every write.")
    return word == "power"


def quiet_ns() -> int:
    """How long a trace may be quiet before it is not waited for, from `AGENTTRACE_QUIET_S`."""
    seconds = _number("AGENTTRACE_QUIET_S", float)
    return round(1e9 * (QUIET_S if seconds is None else _checked("quiet_s", seconds)))


def _content(given: Content | str) -> dict[str, Any]:
    if isinstance(given, str):
        if "=" in given:
            given = cast(Content, dict(part.strip().split("=", 1) for part in given.split(",") if "=" in part))
        else:
            given = dict.fromkeys(CONTENT, cast(Keep, given.strip())) if given.strip() else {}
    if not isinstance(given, Mapping):
        raise UsageError(f"content is {given!r}. {_HOW}")
    for name, keep in given.items():
        if name not in CONTENT or keep not in KEEP:
            raise UsageError(f"content says {name}={keep}. {_HOW}")
    return dict(given)


_HOW = (
    f"Say one of {', '.join(KEEP)} for all of it, or one of these for each of {', '.join(CONTENT)}: "
    "'prompts=hashes,arguments=off'."
)


def _number(variable: str, kind: Callable[[str], Any]) -> Any:
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    try:
        return kind(text)
    except ValueError as error:
        raise UsageError(f"{variable} is '{text}', which is no number. Give a number, or unset it.") from error


def _checked(name: str, value: float) -> float:
    high = 1.0 if name == "sample" else float("inf")
    # `type`, since True is a number to isinstance.
    if type(value) not in (int, float) or not 0 <= value <= high:
        raise UsageError(f"{name} is {value!r}. Give a number from 0{' to 1' if high == 1 else ' up'}.")
    return value


def _named_function(path: str | None) -> Redact | None:
    if not path:
        return None
    module, _, name = path.partition(":")
    try:
        return cast(Redact, getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"AGENTTRACE_REDACT is '{path}', which cannot be imported. Name a function as 'package.module:function'."
        ) from error


def _both(first: Redact | None, second: Redact | None) -> Redact | None:
    if first is None or second is None or first == second:
        return first or second

    def both(text: str) -> str:
        return second(first(text))

    return both
