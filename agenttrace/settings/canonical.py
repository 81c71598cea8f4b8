"""The spelling by which setting values are compared: JSON as RFC 8785 writes it.

1 and 1.0 are one number and are spelt alike; true and 1 are not. Texts are compared as they are, to the character.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson
import rfc8785

from agenttrace.records import SettingValue
from agenttrace.steps import JSON

MAX_INTEGER = 2**53 - 1
"""A seed may be larger: as RFC 8785's numbers, which are JavaScript's, two of them could become one."""

MAX_FLOAT = 2**1023

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
    """The one spelling of a JSON value, by RFC 8785."""
    return rfc8785.dumps(_spellable(value))


def _spellable(value: JSON) -> Any:
    """The value in the types that RFC 8785 knows; integers that its numbers cannot hold, which it refuses, by their digits."""
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return float(value) if abs(value) < MAX_FLOAT and int(float(value)) == value else {"@integer": str(value)}
    if isinstance(value, str):  # a text is a sequence too
        return value
    if isinstance(value, Mapping):
        return {key: _spellable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spellable(item) for item in value]
    return value
