"""The prompt of a model call as a setting: its label where one was given, and the text that does not change with the input."""

from __future__ import annotations

from collections.abc import Mapping

from agenttrace.records import SettingValue
from agenttrace.steps import JSON, ModelCall

LABEL_KEYS = ("prompt_label", "prompt_version", "lc_hub_commit_hash")
"""Metadata keys that name a prompt's version."""


def prompt_settings(call: ModelCall) -> dict[str, SettingValue]:
    """`prompt.label`, where metadata names one, and `prompt.content`: the system message of the call."""
    settings = {}
    label = next((call.metadata[key] for key in LABEL_KEYS if call.metadata.get(key)), None)
    if label is not None:
        settings["prompt.label"] = SettingValue(value=str(label), voice="requested", source="metadata")
    content = _system_text(call.input)
    settings["prompt.content"] = SettingValue(value=content, voice="requested", source="messages")
    return settings


def _system_text(messages: JSON) -> JSON:
    """The text of the leading system messages; None when there is none."""
    texts: list[JSON] = []
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, Mapping) or message.get("role") not in ("system", "developer"):
            break
        texts.append(message.get("content"))
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else texts
