"""The prompt of a model call as a setting: its label where one was given, and the text that does not change with the input."""

from __future__ import annotations

from collections.abc import Mapping

from agenttrace.records import SettingValue
from agenttrace.steps import JSON, ModelCall


def prompt_settings(call: ModelCall) -> dict[str, SettingValue]:
    """`prompt.label`, where one was given, and `prompt.content`: the template, else the system message of the call."""
    settings = {}
    if call.prompt_label is not None:
        settings["prompt.label"] = SettingValue(value=call.prompt_label, voice="requested", source="metadata")
    if call.prompt_template is not None:
        content: JSON = _unix_lines(call.prompt_template)
        settings["prompt.content"] = SettingValue(value=content, voice="requested", source="template")
    else:
        content = _system_text(call.input)
        settings["prompt.content"] = SettingValue(value=content, voice="requested", source="messages")
    return settings


def _unix_lines(text: str) -> str:
    """Without the one difference that editors make and nobody means."""
    return text.replace("\r\n", "\n")


def _system_text(messages: JSON) -> JSON:
    """The text of the leading system messages; None when there is none."""
    texts: list[JSON] = []
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, Mapping) or message.get("role") not in ("system", "developer"):
            break
        content = message.get("content")
        texts.append(_unix_lines(content) if isinstance(content, str) else content)
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else texts
