"""Messages of every provider become the attributes that OpenInference names."""

from __future__ import annotations

from typing import Any

import pytest

from agenttrace import semconv
from agenttrace.records import SettingValue
from agenttrace.spans.messages import message_attributes, tool_attributes

PREFIX = "llm.input_messages"


def flat(message: Any) -> dict[str, Any]:
    return {
        key.removeprefix(f"{PREFIX}.0.message."): value
        for key, value in message_attributes(semconv.LLM_INPUT_MESSAGES, [message])
    }


def test_text_is_one_attribute() -> None:
    """A message of text alone has its content in one place."""
    assert flat({"role": "user", "content": "hi"}) == {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("part", "kind", "key", "value"),
    [
        ({"type": "text", "text": "hi"}, "text", "text", "hi"),
        ("hi", "text", "text", "hi"),
        ({"type": "image_url", "image_url": {"url": "https://x/y.png"}}, "image", "image.image.url", "https://x/y.png"),
        ({"type": "image_url", "image_url": "data:image/png;base64,AA"}, "image", "image.image.url", "data:image/png;base64,AA"),
        ({"type": "input_image", "image_url": "https://x/y.png"}, "image", "image.image.url", "https://x/y.png"),
        ({"type": "image", "base64": "AA", "mime_type": "image/png"}, "image", "image.image.url", "data:image/png;base64,AA"),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
            "image", "image.image.url", "data:image/png;base64,AA",
        ),
        ({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}, "audio", "audio.audio.url", "data:wav;base64,AA"),
        ({"type": "file", "file": {"file_id": "f-1"}}, "document", "document.document.url", "f-1"),
        ({"type": "thinking", "thinking": "hm", "signature": "s"}, "reasoning", "text", "hm"),
        ({"type": "reasoning", "reasoning": "hm"}, "reasoning", "text", "hm"),
        ({"type": "server_tool_result", "result": 4}, "text", "text", '{"type":"server_tool_result","result":4}'),
    ],
)  # fmt: skip
def test_each_part_is_typed(part: Any, kind: str, key: str, value: str) -> None:
    """Text, images, audio, files and reasoning are told apart, however the provider spells them; nothing is hidden."""
    found = flat({"role": "user", "content": [part]})
    assert found["contents.0.message_content.type"] == kind
    assert found[f"contents.0.message_content.{key}"] == value


def test_a_tool_call_is_said_once() -> None:
    """A part that repeats a tool call is left to the tool calls."""
    call = {"id": "c1", "name": "add", "args": {"a": 1}}
    found = flat(
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "add"}], "tool_calls": [call]}
    )
    assert found == {
        "role": "assistant",
        "content": "",
        "tool_calls.0.tool_call.id": "c1",
        "tool_calls.0.tool_call.function.name": "add",
        "tool_calls.0.tool_call.function.arguments": '{"a":1}',
    }


def test_reasoning_stands_before_the_answer() -> None:
    """Reasoning that came beside the content is the first part, and the answer the second."""
    found = flat({"role": "assistant", "content": "4", "reasoning": "2 and 2"})
    assert [found[f"contents.{n}.message_content.text"] for n in (0, 1)] == ["2 and 2", "4"]
    assert found["contents.0.message_content.type"] == "reasoning"


def test_tools_are_offered_as_schemas() -> None:
    """Names, descriptions and parameters come together again, in the order they were offered."""
    offered: dict[str, Any] = {
        "tools.order": ["b", "a"],
        "tools.descriptions": {"a": "first", "b": None},
        "tools.parameters": {"a": {"type": "object"}},
    }
    settings = {name: SettingValue(value=value, voice="sent", source="wire") for name, value in offered.items()}
    assert dict(tool_attributes(settings)) == {
        "llm.tools.0.tool.json_schema": '{"type":"function","function":{"name":"b"}}',
        "llm.tools.1.tool.json_schema": '{"type":"function","function":{"name":"a","description":"first","parameters":{"type":"object"}}}',
    }
