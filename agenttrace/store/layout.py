"""The files of a store: where they lie, and whether a path holds a store at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agenttrace.errors import NotAStore, StoreNotFound, StoreUnwritable

DEFAULT_FOLDER = ".agenttrace"

OURS = (".gitignore", "merge.lock", "pruned")
"""What may be left of a store whose database and journal were removed."""


def store_path(path: str | os.PathLike[str] | None) -> Path:
    """The folder of the store that was named, else `$AGENTTRACE_STORE`, else `./.agenttrace`."""
    return Path(path or os.environ.get("AGENTTRACE_STORE") or DEFAULT_FOLDER).absolute()


@dataclass(frozen=True, slots=True)
class Layout:
    """A store's folder and what lies in it."""

    folder: Path

    @property
    def database(self) -> Path:
        return self.folder / "traces.duckdb"

    @property
    def log(self) -> Path:
        """DuckDB's write-ahead log, which is there between a commit and the checkpoint after it."""
        return self.database.with_name(f"{self.database.name}.wal")

    def damaged_logs(self) -> list[Path]:
        """Logs that could not be read and were set aside."""
        return sorted(self.folder.glob(f"{self.log.name}.damaged-*"))

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def blobs(self) -> Path:
        """Large texts, each a file."""
        return self.folder / "blobs"

    @property
    def merge_lock(self) -> Path:
        return self.folder / "merge.lock"

    @property
    def pruned(self) -> Path:
        """Touched before texts are taken out: a recording process then refers to no text that it wrote earlier."""
        return self.folder / "pruned"

    def pruned_ns(self) -> int | None:
        """When texts were last taken out, in nanoseconds since 1970; None if never."""
        try:
            return self.pruned.stat().st_mtime_ns
        except OSError:
            return None

    def database_bytes(self) -> int:
        """What the database and its large texts take on disk."""
        files = (self.database, self.log, *self.blobs.glob("*/*"))
        return sum(file.stat().st_size for file in files if file.exists())

    def create(self) -> None:
        """Make the folder, readable by its owner alone, and keep it out of version control.

        Raises:
            NotAStore: something else is in it already.
            StoreUnwritable: the disk refuses.
        """
        try:
            if not self.folder.exists():
                self._create_whole()
            self.require_no_other_use()
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self.journal.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreUnwritable(
                f"The store {self.folder} cannot be written: {error.strerror or error}. "
                "Name a folder you may write with --store, store=… or $AGENTTRACE_STORE."
            ) from error

    def _create_whole(self) -> None:
        """Make the folder with all that belongs in it under another name: whoever looks sees no store or a whole one."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}-", dir=self.folder.parent))
        Layout(draft).journal.mkdir(mode=0o700)
        (draft / ".gitignore").write_text("*\n")
        try:
            draft.rename(self.folder)
        except OSError:  # another process was first
            shutil.rmtree(draft)

    def require_no_other_use(self) -> None:
        """Raise where a folder holds other things and no store: nobody's folder becomes one by a slip of the hand."""
        if self.folder.is_file():
            raise self._is_a_file()
        if not self.folder.is_dir() or self.database.exists() or self.journal.is_dir():
            return
        with os.scandir(self.folder) as entries:
            other = next((entry.name for entry in entries if entry.name not in OURS), None)
        if other is not None:
            raise NotAStore(
                f"{self.folder} is no store and holds other things, such as {other}. "
                "Name a new folder, an empty one, or one that agenttrace recorded into."
            )

    def _is_a_file(self) -> NotAStore:
        return NotAStore(
            f"{self.folder} is a file, and a store is a folder. Name the folder that agenttrace recorded into."
        )

    def require(self) -> None:
        """Raise unless a store is here."""
        if self.folder.is_file():
            raise self._is_a_file()
        if not self.folder.is_dir():
            raise StoreNotFound(
                f"There is no store at {self.folder}. "
                "Record one with 'agenttrace run your_script.py', or name another with --store."
            )
        if not self.database.exists() and not self.journal.is_dir():
            raise NotAStore(
                f"{self.folder} holds neither a database nor a journal of agenttrace. "
                "Name the folder that agenttrace recorded into."
            )
