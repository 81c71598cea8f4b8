"""This process's append-only files, which take records before the database does (D5).

A segment is lines of JSON, one row of one table each, and belongs to one process for as long as that process holds a
lock on it. What is written is whole lines: a short write is cut back to the last good line and the segment is sealed.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import BinaryIO

import portalocker

from agenttrace import clock
from agenttrace.store.layout import Layout

SEGMENT_BYTES = 4 << 20
"""A segment is sealed when it has grown to this size."""

SEGMENT_NS = 5_000_000_000
"""A segment is sealed when it is this old."""

SUFFIX = ".ndjson"


def process_name() -> str:
    """`host:pid:random`, the same for as long as this process lives: a pid alone is used again."""
    return _process_name(os.getpid())


@cache
def _process_name(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}:{secrets.token_hex(4)}"


class Journal:
    """Appends lines to segments in `folder`. Used by one thread; raises `OSError` when the disk refuses.

    With `survives_power_loss` an append returns when the disk has the lines, which takes some milliseconds.
    """

    def __init__(self, folder: Path, process: str, *, survives_power_loss: bool = False) -> None:
        self.survives_power_loss = survives_power_loss
        self._folder = folder
        self._layout = Layout(folder.parent)
        self._pruned = self._layout.pruned_ns()
        self._stem = process.replace(":", "-").replace("/", "-")
        self._segments = 0
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self._size = 0
        self._opened_ns = 0

    def append(self, lines: Iterable[bytes]) -> None:
        """Write whole lines, each ending in a newline. After an `OSError` nothing of them is there, not even in part."""
        data = b"".join(lines)
        file = self._segment()
        try:
            written = os.write(file.fileno(), data)
            while written < len(data):
                # A full disk takes a part and refuses the rest at the next call.
                written += os.write(file.fileno(), data[written:])
            if self.survives_power_loss:
                _sync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), self._size)
            if self._size == 0 and self._path is not None:
                self._path.unlink(missing_ok=True)  # a disk that refuses for hours would fill the folder with nothing
            self.seal()
            raise
        self._size += len(data)

    def is_gone(self) -> bool:
        """Whether somebody removed or moved the segment from under us, or took texts out of the store."""
        if self._layout.pruned_ns() != self._pruned:
            return True
        if self._file is None or self._path is None:
            return False
        try:
            return not os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path))
        except OSError:
            return True

    def seal_if_due(self) -> None:
        """Seal a segment that is old or large, so that it can be merged and removed."""
        if self._file and (self._size >= SEGMENT_BYTES or clock.monotonic_ns() - self._opened_ns >= SEGMENT_NS):
            self.seal()

    def seal(self) -> None:
        """Close the segment; letting go of its lock says that it is complete."""
        if self._file:
            self._file.close()
            self._file = None

    def abandon(self) -> None:
        """In a forked child: forget the parent's segment. Closing our copy of it leaves the parent's lock in place."""
        self.seal()

    def _segment(self) -> BinaryIO:
        if self._file is None:
            self._segments += 1
            path = self._folder / f"{self._stem}-{self._segments:06}{SUFFIX}"
            starting = path.with_suffix(".starting")
            file = open(starting, "ab", buffering=0, opener=_private)  # noqa: SIM115  # held until sealed
            try:
                portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
                # Only a locked segment gets its name: a merger never takes a new one for a dead process's.
                starting.rename(path)
                if self.survives_power_loss:
                    _sync_folder(self._folder)
            except BaseException:
                file.close()
                raise
            self._file, self._path, self._size, self._opened_ns = file, path, 0, clock.monotonic_ns()
        return self._file


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync(descriptor: int) -> None:
    getattr(os, "fdatasync", os.fsync)(descriptor)  # macOS has the second only


def _sync_folder(folder: Path) -> None:
    """Make a file's name survive too, which is its folder's content."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_complete(path: Path) -> bool:
    """Whether no process writes this segment any more."""
    try:
        with open(path, "ab") as file:
            portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
    except (portalocker.LockException, FileNotFoundError):
        return False
    return True
