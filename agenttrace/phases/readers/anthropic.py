"""Anthropic: no times in the body. Two undocumented headers of its edge, in milliseconds, which may vanish:

`x-envoy-upstream-service-time` is what the edge waited for the service, `server-timing: x-originResponse;dur=N` the same with
the edge's own time. Of a stream both end at the response's headers.
"""

from __future__ import annotations

from collections.abc import Mapping

from agenttrace.phases.draft import NS, ReportDraft, to_ns
from agenttrace.phases.readers.server_timing import durations
from agenttrace.phases.server_report import ServerReport

UPSTREAM = "x-envoy-upstream-service-time"
ORIGIN = "x-originResponse"
ALL = "what Anthropic's edge waited for the service, until the response's headers; without streaming that is all of it"


def read(payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None) -> ServerReport | None:
    """Read the edge's headers; None where the response does not look like Anthropic's or states no time."""
    is_anthropic = headers.get("request-id", "").startswith("req_") or any(
        name.startswith("anthropic-") for name in headers
    )
    origin_ms = durations(headers).get(ORIGIN)
    if not is_anthropic or (UPSTREAM not in headers and origin_ms is None):
        return None
    fields: dict[str, object] = {**headers, ORIGIN: origin_ms}
    draft = ReportDraft("anthropic", fields, at="header:", method="anthropic.headers")
    name = UPSTREAM if UPSTREAM in headers else ORIGIN
    upstream_ns = draft.elapsed(streamed is True, name, "ms", ALL, resolution_ns=NS["ms"])
    if upstream_ns is not None and origin_ms is not None and name == UPSTREAM:
        edge_ns = to_ns(origin_ms, "ms") - upstream_ns
        if 0 <= edge_ns <= upstream_ns + NS["s"]:
            draft.parts["edge_overhead"] = edge_ns
    return draft.done(resolution_ns=NS["ms"])
