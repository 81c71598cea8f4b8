"""OpenAI and Azure OpenAI: no times in the body; the header `openai-processing-ms` is the time the request took to process.

Of a stream it ends when the headers leave (81 ms in a capture whose answer took seconds), so it bounds the first token from
below and is never the server's total. Where nobody says whether the response streamed, the careful reading is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from agenttrace.phases.draft import NS, ReportDraft
from agenttrace.phases.server_report import ServerReport

HEADER = "openai-processing-ms"
ALL = "time taken to process the request (openai-processing-ms)"


def read(payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None) -> ServerReport | None:
    """Read the processing time; None without the header."""
    if HEADER not in headers:
        return None
    draft = ReportDraft("openai", headers, at="header:", method="openai.headers")
    is_whole = streamed is False or (streamed is None and is_whole_response(payload))
    draft.elapsed(not is_whole, HEADER, "ms", ALL, resolution_ns=NS["ms"])
    return draft.done(resolution_ns=NS["ms"])


def is_whole_response(payload: Mapping[str, object]) -> bool:
    """Whether the body says that it is a whole response and no chunk of one."""
    return payload.get("object") in ("chat.completion", "text_completion", "response")
