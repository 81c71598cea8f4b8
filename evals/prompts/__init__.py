"""The prompts of the project's own suites: a file each, with its version in its name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml
from langchain_core.prompts import ChatPromptTemplate


@cache
def load_prompt(label: str) -> ChatPromptTemplate:
    """The prompt of a label, `grounded_answer.v1`. Another text gets another version."""
    messages = yaml.safe_load((Path(__file__).parent / f"{label}.yaml").read_text(encoding="utf-8"))
    return ChatPromptTemplate([(role, text) for role, text in messages])
