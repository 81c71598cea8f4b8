"""LiteLLM's proxy, in milliseconds: its own headers, and its upstream's with the prefix `llm_provider-`.

The upstream's headers are read as the upstream's own; what the proxy took besides is its part. Where nobody says whether the
response streamed, it is taken as whole: the proxy states durations of whole responses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agenttrace.phases.draft import ReportDraft
from agenttrace.phases.server_report import Reader, ServerReport

PREFIX = "llm_provider-"
RESPONSE = "x-litellm-response-duration-ms"
ALL = "the proxy's handler, from the request to its response, the upstream's answer inside"
PARTS = {
    "litellm_overhead": "x-litellm-overhead-duration-ms",
    "litellm_callback": "x-litellm-callback-duration-ms",
    "litellm_pre_processing": "x-litellm-timing-pre-processing-ms",
    "litellm_llm_api": "x-litellm-timing-llm-api-ms",
    "litellm_post_processing": "x-litellm-timing-post-processing-ms",
    "litellm_message_copy": "x-litellm-timing-message-copy-ms",
}
RETRIES = "x-litellm-attempted-retries"


def reader_over(upstream: Callable[[], Sequence[Reader]]) -> Reader:
    """A reader of the proxy's headers that hands relayed ones to `upstream`, asked for when it is needed."""

    def read(payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None) -> ServerReport | None:
        relayed = {name.removeprefix(PREFIX): text for name, text in headers.items() if name.startswith(PREFIX)}
        if not relayed and not any(name in headers for name in (RESPONSE, *PARTS.values())):
            return None
        is_streamed = streamed is True
        draft = ReportDraft("litellm", headers, at="header:", method="litellm.headers")
        for part, name in PARTS.items():
            draft.part(part, name, "ms")
        if headers.get(RETRIES, "0").strip() not in ("", "0"):
            draft.notes.append(f"the proxy retried: {RETRIES} is {headers[RETRIES][:8]}")
        for reader in upstream():
            report = reader(payload, relayed, is_streamed)
            if report is not None and report.says_time:
                return _relayed(draft, report, is_streamed)
        draft.elapsed(is_streamed, RESPONSE, "ms", ALL)
        return draft.done()

    return read


def _relayed(draft: ReportDraft, report: ServerReport, is_streamed: bool) -> ServerReport:
    """The upstream's report with the proxy's parts; the proxy's duration is the total, where the response is whole."""
    handled = None if is_streamed else draft.duration(RESPONSE, "ms")
    if handled is not None and handled >= (report.total_ns or 0):
        draft.total(handled, is_independent=True, raw=RESPONSE)
    ours = draft.done()
    return replace(
        report,
        server=f"litellm/{report.server}",
        parts_ns={**ours.parts_ns, **report.parts_ns},
        total_ns=report.total_ns if ours.total_ns is None else ours.total_ns,
        total_is_independent=report.total_is_independent or ours.total_is_independent,
        raw={**report.raw, **ours.raw},
        rejected={**ours.rejected, **report.rejected},
        notes=(*ours.notes, *report.notes),
    )
