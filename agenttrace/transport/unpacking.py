"""Undoes the content encodings of a body, within a bound: a few kilobytes of a hostile server unpack to gigabytes.

A body that broke off gives what can be unpacked of it; an unknown encoding, or one whose library is not here, nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

INFLATED = 16 << 20
"""Bytes at most that a body is unpacked to."""

ZSTD_WINDOW = 8 << 20
"""Bytes of memory that HTTP allows a frame to ask for (RFC 9659)."""

BROTLI_STEP = 64
"""Bytes put in at a time: brotli has no bound on what comes out (before 1.2), and 14 bytes may become 16 MiB."""


def unpack(data: bytes, encodings: str) -> bytes:
    """The body as it was before it was encoded; `encodings` as in the header, the last one undone first."""
    for name in reversed(encodings.lower().split(",")):
        one = name.strip()
        if one in ("", "identity"):
            continue
        if one not in UNPACKERS:
            return b""
        try:
            data = UNPACKERS[one](data)
        except Exception:
            return b""  # it is not what it says, or the library is missing: there is no report then
    return data


def _gzip(data: bytes) -> bytes:
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, INFLATED)


def _deflate(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, INFLATED)
    except zlib.error:  # servers send it with and without zlib's frame
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, INFLATED)


def _brotli(data: bytes) -> bytes:
    import brotli

    decompressor, unpacked = brotli.Decompressor(), bytearray()
    for at in range(0, len(data), BROTLI_STEP):
        unpacked += decompressor.process(data[at : at + BROTLI_STEP])
        if len(unpacked) > INFLATED:
            break
    return bytes(unpacked[:INFLATED])


def _zstd(data: bytes) -> bytes:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    return decompressor.stream_reader(data, read_across_frames=True).read(INFLATED)


UNPACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
