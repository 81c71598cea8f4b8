"""The W3C `Server-Timing` header and the timing headers of proxies: what stands between the client and the model's server.

`x-envoy-upstream-service-time` and `x-kong-upstream-latency` are what the proxy waited for the server's headers. The entries
of `Server-Timing` mean what their sender says, which a stranger cannot know, so they are kept as parts and never as phases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agenttrace.phases.draft import NS, ReportDraft, number
from agenttrace.phases.server_report import ServerReport

UPSTREAM = ("x-envoy-upstream-service-time", "x-kong-upstream-latency")
ALL = (
    "what the proxy before the server waited for it, until the response's headers; without streaming that is all of it"
)

_ENTRY = re.compile(r'((?:"(?:[^"\\]|\\.)*"|[^,"])+)')
_LONGEST_HEADER = 8192


def durations(headers: Mapping[str, str]) -> dict[str, float]:
    """The entries of `Server-Timing` that state a duration, in milliseconds; the first of each name.

    Syntax: https://www.w3.org/TR/server-timing/#the-server-timing-header-field.
    """
    found: dict[str, float] = {}
    for entry in _ENTRY.findall(headers.get("server-timing", "")[:_LONGEST_HEADER]):
        name, *parameters = (piece.strip() for piece in entry.split(";"))
        for parameter in parameters:
            key, _, text = parameter.partition("=")
            value = number(text.strip().strip('"'), text=True)
            if name and key.strip().lower() == "dur" and value is not None:
                found.setdefault(name, value)
    return found


def read(payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None) -> ServerReport | None:
    """Read the upstream time, the proxy's own, and every `Server-Timing` entry; None where there is none of them."""
    entries = durations(headers)
    upstream = next((name for name in UPSTREAM if name in headers), None)
    if upstream is None and not entries:
        return None
    draft = ReportDraft("proxy", headers, at="header:", method=f"header.{upstream or 'server-timing'}")
    if upstream is not None:
        draft.elapsed(streamed is True, upstream, "ms", ALL, resolution_ns=NS["ms"])
    draft.part("gateway_overhead", "x-kong-proxy-latency", "ms")
    timing = ReportDraft("proxy", entries, at="header:server-timing.")
    for name in entries:
        timing.part(name, name, "ms")
    draft.parts.update(timing.parts)
    draft.raw.update(timing.raw)
    draft.rejected.update(timing.rejected)
    return draft.done(resolution_ns=NS["ms"])
