"""Phoenix's REST interface: ask, send, read a list to its end; an answer of another shape is one clear error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import orjson

from agenttrace.export.phoenix import Phoenix, call, not_understood


@contextmanager
def understood(phoenix: Phoenix) -> Iterator[None]:
    """Around all that reads answers: what is not there, or not of the kind that Phoenix 20 answers, raises `PhoenixNotHealthy`."""
    try:
        yield
    except (ValueError, LookupError, TypeError) as error:
        raise not_understood(phoenix, error) from error


def get(phoenix: Phoenix, path: str) -> Any:
    """The whole answer."""
    return orjson.loads(call(phoenix.address, "GET", path, headers=phoenix.headers))


def pages(phoenix: Phoenix, path: str) -> Iterator[dict[str, Any]]:
    """All that a list holds, page by page."""
    cursor: str | None = ""
    while cursor is not None:
        joined = "&" if "?" in path else "?"
        answer = get(phoenix, f"{path}{joined}cursor={quote(cursor)}" if cursor else path)
        yield from answer["data"]
        cursor = answer.get("next_cursor")


def post(phoenix: Phoenix, path: str, body: Mapping[str, Any]) -> Any:
    """The `data` of the answer."""
    return orjson.loads(call(phoenix.address, "POST", path, orjson.dumps(body), phoenix.headers))["data"]
