"""What comparisons found, kept so that the history of verdicts can be asked for in SQL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agenttrace import clock
from agenttrace.store.importing import write_segment
from agenttrace.store.layout import Layout, store_path


def note_comparison(
    path: str | os.PathLike[str] | None, *, baseline: str, candidate: str, verdict: str, result: Mapping[str, Any]
) -> None:
    """Note what comparing two runs, by their ids, gave. A store that cannot be written stays as it is.

    It is in the database when the store is next read.
    """
    row = {
        "r": "comparisons",
        "at_ns": clock.wall_ns(),
        "baseline": baseline,
        "candidate": candidate,
        "verdict": verdict,
        "result": result,
    }
    with suppress(OSError):
        write_segment(Layout(store_path(path)), [row])
