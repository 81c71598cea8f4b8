"""Content is stored once (D4): JSON values with their large parts replaced by references, and back.

A reference is an object with one key: `{"@content": hash}` for one value, `{"@list": [hash, …]}` for a short list,
`{"@chain": hash, "@head": [hash]}` for a longer one (`@head`: a system message, kept beside the chain so that a
conversation with and without it is one chain). A user's own key that begins with `@` is written with one more `@`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from operator import is_
from typing import Any

import orjson

from agenttrace.steps import JSON

LONG_TEXT = 512
"""Characters from which a text is kept by reference."""

LARGE_BYTES = 1 << 20
"""A value whose JSON is longer is marked, and lies in a file of its own (blobs.py)."""

SHORT_LIST = 3
"""Up to so many items a list is written out as references; longer ones become chains."""

KNOWN_HASHES = 65_536
"""How many hashes a process remembers having written; a repeat is harmless."""

KNOWN_LISTS = 256
KNOWN_VALUES = 16_384

SCALARS = (int, float, bool, type(None))

Emit = Callable[[Mapping[str, JSON]], None]


def content_hash(body: bytes) -> str:
    """32 hexadecimal digits of BLAKE2b over the JSON text."""
    return blake2b(body, digest_size=16).hexdigest()


class _Bounded(OrderedDict[Any, Any]):
    """A mapping that forgets its oldest entry when it is full."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        if len(self) > self._limit:
            self.popitem(last=False)


class ContentWriter:
    """Replaces the large parts of values by references, and emits each part the first time it is met.

    Values are compared by identity first: whoever renders messages hands in the same object for the same message, so a
    conversation that grew by one message costs one hash, not one a message.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._written = _Bounded(KNOWN_HASHES)
        self._values = _Bounded(KNOWN_VALUES)  # id(value) -> (value, hash); the value is held, so its id stays its own
        self._lists = _Bounded(KNOWN_LISTS)  # id(first item) -> (items, hashes of the links)

    def intern(self, value: JSON) -> JSON:
        """The value with long texts, messages and lists of objects replaced by references."""
        kind = type(value)
        if kind in SCALARS:
            return value
        if isinstance(value, str):
            return {"@content": self._content(value)} if len(value) >= LONG_TEXT else value
        if isinstance(value, Mapping):
            if "role" in value and "content" in value:
                return {"@content": self._content(value)}
            return {
                "@" + key if key[:1] == "@" else key: item if type(item) in SCALARS else self.intern(item)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return self._intern_list(value)
        return value

    def _intern_list(self, items: Sequence[JSON]) -> JSON:
        if not set(map(type, items)) <= {dict}:
            return [self.intern(item) for item in items]
        if len(items) <= SHORT_LIST:
            return {"@list": [self._content(item) for item in items]}
        head = 1 if isinstance(items[0], Mapping) and items[0].get("role") == "system" else 0
        reference: dict[str, JSON] = {"@chain": self._chain(items[head:])}
        if head:
            reference["@head"] = [self._content(items[0])]
        return reference

    def brief(self, value: JSON) -> Any:
        """As `intern`, for what mostly holds nothing to refer to: then its JSON is written once and spliced in."""
        try:
            body = orjson.dumps(value)
        except TypeError:  # a text without UTF-8 form
            return self.intern(value)
        has_parts = len(body) >= LONG_TEXT or b'"@' in body or b"[{" in body or b'"role"' in body
        return self.intern(value) if has_parts else orjson.Fragment(body)

    def whole(self, value: Mapping[str, object]) -> JSON:
        """A reference to the value as it is: for what is small, often made anew, and mostly the same, like settings."""
        return {"@content": self._write(orjson.dumps(value))} if value else None

    def _content(self, value: JSON) -> str:
        known = self._values.get(id(value))
        if known is not None:
            return str(known[1])
        digest = self._write(orjson.dumps(value), may_be_large=True)
        self._values[id(value)] = (value, digest)
        return digest

    def _write(self, body: bytes, *, may_be_large: bool = False) -> str:
        digest = content_hash(body)
        if digest not in self._written:
            self._written[digest] = True
            size = {"blob_bytes": len(body)} if may_be_large and len(body) > LARGE_BYTES else {}
            # A Fragment is spliced in as it is.
            self._emit({"r": "contents", "hash": digest, **size, "body": orjson.Fragment(body)})
        return digest

    def _chain(self, items: Sequence[JSON]) -> str:
        known_items, links = self._lists.get(id(items[0]), ((), []))
        shared = _common_prefix(known_items, items)
        links = links[:shared]
        for depth in range(shared + 1, len(items) + 1):
            links.append(self._link(links, self._content(items[depth - 1]), depth))
        self._lists[id(items[0])] = (list(items), links)
        return str(links[-1])

    def _link(self, links: list[str], item: str, depth: int) -> str:
        prefix = links[-1] if links else None
        digest = content_hash(f"{prefix or ''}>{item}".encode())
        if digest not in self._written:
            self._written[digest] = True
            root = links[0] if links else digest
            self._emit({"r": "links", "hash": digest, "prefix": prefix, "item": item, "root": root, "depth": depth})
        return digest


def _common_prefix(known: Sequence[object], items: Sequence[object]) -> int:
    """How many leading items are the same objects."""
    length = min(len(known), len(items))
    if all(map(is_, known[:length], items)):
        return length
    return next(i for i in count() if known[i] is not items[i])


def references(value: JSON) -> Iterable[tuple[str, str]]:
    """Every (`content` or `chain`, hash) that a stored value refers to."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, Mapping):
        if "@content" in value:
            yield "content", str(value["@content"])
        elif "@list" in value or "@chain" in value:
            for digest in [*_hashes(value.get("@list")), *_hashes(value.get("@head"))]:
                yield "content", digest
            if "@chain" in value:
                yield "chain", str(value["@chain"])
        else:
            for item in value.values():
                yield from references(item)


def _hashes(value: JSON) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


MISSING: JSON = {"missing": "content not found in the store"}
"""Stands for content that a reference names and the store does not hold."""


def expand(value: JSON, contents: Mapping[str, JSON], chains: Mapping[str, Sequence[str]]) -> JSON:
    """A stored value with its references replaced by what they refer to. `chains`: last link to the items' hashes."""
    if isinstance(value, list):
        return [expand(item, contents, chains) for item in value]
    if not isinstance(value, Mapping):
        return value
    if "@content" in value:
        return contents.get(str(value["@content"]), MISSING)
    if "@list" in value or "@chain" in value:
        hashes = [*_hashes(value.get("@head")), *_hashes(value.get("@list"))]
        hashes += chains.get(str(value.get("@chain")), ())
        return [contents.get(digest, MISSING) for digest in hashes]
    return {key[1:] if key.startswith("@@") else key: expand(item, contents, chains) for key, item in value.items()}
