"""`agenttrace.prompt`: the name and version of a prompt, given where it is used."""

from __future__ import annotations

from contextvars import Token
from typing import Any, Self

from agenttrace.steps import current_prompt


class PromptLabel(dict[str, Any]):
    """Metadata that say which version of a prompt it is; also a context in which model calls are made with it."""

    label: str
    _token: Token[str | None]

    def __enter__(self) -> Self:
        self._token = current_prompt.set(self.label)
        return self

    def __exit__(self, *_: object) -> None:
        current_prompt.reset(self._token)


def prompt(name: str, *, version: str | int | None = None) -> PromptLabel:
    """Name the prompt of model calls: the version that a comparison tells, and that must not stand for two texts.

    It is metadata, for a template (`template.metadata = prompt("planner", version="12")`) or a model
    (`model.with_config(metadata=prompt("planner", version="12"))`), and a context: `with prompt("planner", version="12"):`.
    """
    label = name if version is None else f"{name}@{version}"
    told = PromptLabel(agenttrace_prompt=label)
    told.label = label
    return told
