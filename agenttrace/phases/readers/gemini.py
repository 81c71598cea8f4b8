"""Gemini: no times in the body; the header `server-timing: gfet4t7; dur=N` is Google's front end's, in milliseconds.

Of a stream it ends at the response's headers. Refused requests (429) carry it too. Undocumented: it may vanish.
"""

from __future__ import annotations

from collections.abc import Mapping

from agenttrace.phases.draft import NS, ReportDraft
from agenttrace.phases.readers.server_timing import durations
from agenttrace.phases.server_report import ServerReport

FRONT_END = "gfet4t7"
ALL = "Google's front end: request received until the response's headers, which without streaming is all of it"


def read(payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None) -> ServerReport | None:
    """Read the front end's time; None without it."""
    entries = durations(headers)
    if FRONT_END not in entries:
        return None
    draft = ReportDraft("gemini", entries, at="header:server-timing.", method="gemini.server-timing")
    draft.elapsed(streamed is True, FRONT_END, "ms", ALL, resolution_ns=NS["ms"])
    return draft.done(resolution_ns=NS["ms"])
