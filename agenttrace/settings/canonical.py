"""The spelling by which setting values are compared: JSON with sorted keys and numbers as RFC 8785 writes them.

1 and 1.0 are one number and are spelt alike; true and 1 are not. Texts are compared as they are, to the character.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import orjson

from agenttrace.records import SettingValue
from agenttrace.steps import JSON

WHOLE_FLOATS = 2.0**63
"""Below this a float without a fraction is written as the integer it equals; orjson writes no larger ones."""

LONG = 64
"""Bytes from which a digest stands for a spelling: thousands of prompts are compared, and not kept."""


class Canonical:
    """Keys of values: equal for equal values. Hold it for one contract, since what was spelt before costs a look-up."""

    def __init__(self) -> None:
        self._by_identity: dict[int, tuple[SettingValue, bytes]] = {}  # the setting is held, so its id stays its own
        self._by_text: dict[bytes, bytes] = {}

    def key(self, setting: SettingValue) -> bytes:
        known = self._by_identity.get(id(setting))
        if known is not None:
            return known[1]
        text = _short(orjson.dumps(setting.value))
        key = text if isinstance(setting.value, str) else self._by_text.get(text)
        if key is None:
            key = self._by_text[text] = _short(canonical(setting.value))
        self._by_identity[id(setting)] = (setting, key)
        return key


def _short(spelling: bytes) -> bytes:
    return spelling if len(spelling) < LONG else b"#" + blake2b(spelling, digest_size=16).digest()


def canonical(value: JSON) -> bytes:
    """The one spelling of a JSON value."""
    return orjson.dumps(_plain_numbers(value), option=orjson.OPT_SORT_KEYS)


def _plain_numbers(value: JSON) -> JSON:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < WHOLE_FLOATS else value
    if isinstance(value, str):  # a text is a sequence too
        return value
    if isinstance(value, Mapping):
        return {key: _plain_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_numbers(item) for item in value]
    return value
