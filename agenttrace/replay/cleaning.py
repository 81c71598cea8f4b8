"""Takes secrets out of requests and replies before they are kept or compared, as redaction does for spans.

A secret may come in pieces: the texts that stand at one place in the chunks of a stream are looked at as one text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, cast

import orjson

from agenttrace.langchain.asked_request import Request
from agenttrace.langchain.replay import Reply
from agenttrace.spans.redaction import scrub, scrub_line
from agenttrace.steps import JSON

Redact: TypeAlias = Callable[[str], str]
Path: TypeAlias = tuple[Any, ...]

CONSTANT = ("type", "id", "role", "model_name", "model_provider", "finish_reason")
"""Keys of texts that are no part of what was written."""


def clean_request(request: Request, redact: Redact | None) -> Request:
    """The request as it may be kept. Two that were the same are the same afterwards."""
    return replace(
        request,
        params=_clean(request.params, redact),
        messages=[_clean(message, redact) for message in request.messages],
        scope={name: _clean(value, redact) for name, value in request.scope.items()},
    )


def clean_reply(reply: Reply, redact: Redact | None) -> Reply:
    """The reply as it may be kept. Chunks between which a secret was divided hold their text in the first of them."""
    return replace(
        reply,
        result=_clean(reply.result, redact),
        error=_clean(reply.error, redact),
        chunks=_clean_chunks([_clean(chunk, None) for chunk in reply.chunks], redact),
    )


def _clean(value: JSON, redact: Redact | None) -> JSON:
    return _scrubbed(value if redact is None else _redacted(value, redact))


def _scrubbed(value: JSON) -> JSON:
    """The value without its secrets. Looks through all of it at once first: mostly there is nothing to find."""
    try:
        line = orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # an integer beyond 64 bits
        return scrub(value)
    kept = scrub_line(line)
    return value if kept is line else cast(JSON, orjson.loads(kept))


def _redacted(value: JSON, redact: Redact) -> JSON:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: item if key in CONSTANT else _redacted(item, redact) for key, item in value.items()}
    return [_redacted(item, redact) for item in value] if isinstance(value, (list, tuple)) else value


def _clean_chunks(chunks: list[JSON], redact: Redact | None) -> list[JSON]:
    pieces: dict[Path, list[str]] = {}
    for chunk in chunks:
        for path, text in _texts(chunk, ()):
            pieces.setdefault(path, []).append(text)
    changed: dict[Path, str] = {}
    for path, texts in pieces.items():
        whole = "".join(texts)
        kept = _scrubbed(whole if redact is None or path[-1] in CONSTANT else redact(whole))
        if kept != whole:
            changed[path] = str(kept)
    return [_put(chunk, (), changed) for chunk in chunks] if changed else chunks


def _texts(value: JSON, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text of a chunk with its place; blocks of content keep theirs by their index."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _texts(item, (*path, _index(item, number)))


def _index(item: JSON, number: int) -> Any:
    found = item.get("index") if isinstance(item, Mapping) else None
    return number if found is None else found


def _put(value: JSON, path: Path, changed: dict[Path, str]) -> JSON:
    """The chunk with the changed texts: all of a text in the first chunk that has its place, nothing in the others."""
    if isinstance(value, str):
        if path not in changed:
            return value
        kept, changed[path] = changed[path], ""
        return kept
    if isinstance(value, Mapping):
        return {key: _put(item, (*path, key), changed) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_put(item, (*path, _index(item, number)), changed) for number, item in enumerate(value)]
    return value
