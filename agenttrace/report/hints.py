"""The commands that an output tells people to type next."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from agenttrace.store.layout import DEFAULT_FOLDER


def show_command(trace_id: str, store: str | None, *options: str) -> str:
    """What to type here to see a trace. `store` is None where no store was named."""
    return shlex.join(("agenttrace", "show", trace_id, *options, *_place(store)))


def _place(store: str | None) -> tuple[str, ...]:
    """The store as an option, unless it is where a command looks anyway."""
    if store is None or Path(store).absolute() == Path(DEFAULT_FOLDER).absolute():
        return ()
    path = Path(store)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return ("--store", os.path.relpath(path))
    return ("--store", store)
