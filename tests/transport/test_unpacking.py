"""Content encodings are undone, within a bound."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest

from agenttrace.transport.unpacking import INFLATED, unpack

TEXT = b'{"usage": {"prompt_tokens": 9}}' * 100


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


def zstd(data: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)  # type: ignore[no-any-return]


def brotli(data: bytes) -> bytes:
    return pytest.importorskip("brotli").compress(data)  # type: ignore[no-any-return]


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "zstd": zstd,
    "br": brotli,
    "": bytes,
    "identity": bytes,
    "deflate, gzip": lambda data: gzip.compress(zlib.compress(data)),
}


@pytest.mark.parametrize("encoding", PACKERS)
def test_what_was_packed_is_unpacked(encoding: str) -> None:
    """Every encoding that clients ask for, alone or one over the other."""
    assert unpack(PACKERS[encoding](TEXT), encoding) == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd", "br"])
def test_a_body_that_unpacks_to_more_is_cut(encoding: str) -> None:
    """A few kilobytes that unpack to three times the bound give the bound."""
    assert unpack(PACKERS[encoding](b" " * (3 * INFLATED)), encoding) == b" " * INFLATED


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd", "br"])
def test_a_body_that_broke_off_is_no_error(encoding: str) -> None:
    """What arrived may be half of it; what can be read of that is its beginning."""
    packed = PACKERS[encoding](TEXT)
    assert TEXT.startswith(unpack(packed[: len(packed) // 2], encoding))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd", "br", "unheard-of"])
def test_what_is_not_packed_that_way_is_nothing(encoding: str) -> None:
    """A wrong or unknown encoding gives no body, and no error."""
    assert unpack(b"plainly not", encoding) == b""
