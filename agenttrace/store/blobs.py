"""Texts over 1 MiB: each a compressed file beside the database, named by its hash, so that no journal and no merge carries them.

A file is there before the line that names it. One that no row names any more goes when texts are pruned.
"""

from __future__ import annotations

import gzip
import os
import re
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import duckdb
import orjson

from agenttrace import clock
from agenttrace.steps import JSON
from agenttrace.store.content import LARGE_BYTES
from agenttrace.store.layout import Layout

LARGE = re.compile(rb'\{"r":"contents","hash":"([0-9a-f]{32})","blob_bytes":\d+,"body":')
"""How a row begins that may lie outside, as `ContentWriter` emits it."""

YOUNG_NS = 60_000_000_000
"""A file that is younger stays, whether or not a row names it yet."""


def put_aside(layout: Layout, lines: Iterable[bytes], *, survives_power_loss: bool = False) -> list[bytes]:
    """The journal's lines with each large text in a file instead. Raises `OSError` when the disk refuses."""
    return [
        _line_without_body(layout, line, survives_power_loss) if len(line) > LARGE_BYTES else line for line in lines
    ]


def _line_without_body(layout: Layout, line: bytes, survives_power_loss: bool) -> bytes:
    found = LARGE.match(line)
    if found is None:
        return line
    digest, body = found[1].decode(), line[found.end() : -2]
    _write(_file(layout.folder, digest), gzip.compress(body, 1, mtime=0), survives_power_loss)
    return b'{"r":"contents","hash":"%b","blob_bytes":%d}\n' % (found[1], len(body))


def _file(folder: Path, digest: str) -> Path:
    return Layout(folder).blobs / digest[:2] / f"{digest}.json.gz"


def _write(path: Path, data: bytes, survives_power_loss: bool) -> None:
    """Whole or not at all. Also where it is there already: then it is young, and no pruning takes it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{secrets.token_hex(8)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            if survives_power_loss:
                file.flush()
                os.fsync(file.fileno())
        draft.rename(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    if survives_power_loss:
        for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def read_blobs(connection: duckdb.DuckDBPyConnection, digests: Iterable[str]) -> dict[str, JSON]:
    """The values of texts that lie outside; one that is gone or damaged is left out."""
    row = connection.execute("SELECT path FROM duckdb_databases() WHERE database_name = current_database()").fetchone()
    assert row is not None
    folder = Path(row[0]).parent
    texts = {digest: _text(_file(folder, digest)) for digest in digests}
    return {digest: orjson.loads(text) for digest, text in texts.items() if text is not None}


def _text(path: Path) -> bytes | None:
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error):
        return None


def unreadable_blobs(layout: Layout, connection: duckdb.DuckDBPyConnection) -> int:
    """How many large texts the database names that are not there, or not whole."""
    return sum(len(_text(_file(layout.folder, digest)) or b"") != size for digest, size in _named(connection).items())


def blobs_with(layout: Layout, connection: duckdb.DuckDBPyConnection, words: str) -> Iterator[str]:
    """The hashes of large texts whose JSON holds these words, which are in small letters."""
    for digest in _named(connection):
        text = _text(_file(layout.folder, digest))
        if text is not None and words in text.decode("utf-8", "replace").lower():
            yield digest


def drop_unnamed(layout: Layout, connection: duckdb.DuckDBPyConnection) -> None:
    """Remove the files that no row names. A process may be writing one anew this moment: a young one stays."""
    named = _named(connection)
    newest = clock.wall_ns() - YOUNG_NS
    for path in layout.blobs.glob("*/*"):
        if path.name.partition(".")[0] not in named and path.stat().st_mtime_ns < newest:
            # Out of the way first, and looked at again: what has taken its place since is another file.
            doomed = path.with_name(f".{secrets.token_hex(8)}")
            with suppress(FileNotFoundError):
                path.rename(doomed)
                if doomed.stat().st_mtime_ns < newest:
                    doomed.unlink()
                else:
                    doomed.rename(path)


def _named(connection: duckdb.DuckDBPyConnection) -> Mapping[str, int]:
    query = "SELECT hash, blob_bytes FROM contents WHERE body IS NULL AND blob_bytes IS NOT NULL"
    return dict(connection.execute(query).fetchall())
