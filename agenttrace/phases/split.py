"""Divides a model call's or a tool call's time into the phases there is evidence for. In: a step. Out: timings and provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from agenttrace.phases.attribution import attribute
from agenttrace.phases.client_view import view_of
from agenttrace.phases.names import server_ttft_ns
from agenttrace.phases.readers.registry import read_report
from agenttrace.phases.server_report import ServerReport
from agenttrace.records import PhaseTiming
from agenttrace.steps import ModelCall, State, ToolCall

WAIT = "end of the model call that asked until the tool starts"
RUN = "the tool's start to its end"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSplit:
    """A model call's time, divided. Durations in nanoseconds."""

    phases: tuple[PhaseTiming, ...]
    """In the order in which they happen. What has `ns` and no `included_in` adds up to the call exactly."""
    server_parts_ns: Mapping[str, int] = field(default_factory=dict)
    """What the server reports and we have no word for; parts of the phases above, never added to them."""
    server_total_ns: int | None = None
    """Everything the server counts; None where it states too little."""
    server_ttft_ns: int | None = None
    """The server's first mark until the first token, its wait included, the network not."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """The server's field to the reason why its value cannot be true."""


def split_phases(call: ModelCall) -> PhaseSplit:
    """Divide a model call's time into the phases we have evidence for.

    A phase without evidence has no number, never zero. What has one adds up to `end_ns - start_ns` exactly (members of a
    sum are counted once: entries with `included_in` not at all); a call without an end has unknown phases only.
    """
    report = _report_of(call)
    if report is None and _only_its_length_is_known(call):
        return _stretched(_unseen_call(call.state, call.is_streamed), (call.end_ns or 0) - call.start_ns)
    return _split(call, report)


def _split(call: ModelCall, report: ServerReport | None) -> PhaseSplit:
    reasoning = call.tokens.get("reasoning")
    if reasoning is None and report is not None:
        reasoning = report.tokens.reasoning
    view = view_of(call, reasoning_tokens=reasoning)
    divided = attribute(None if view.e2e_ns is None else report, view)
    believed = divided.report
    return PhaseSplit(
        phases=divided.phases,
        server_parts_ns=believed.parts_ns,
        server_total_ns=believed.total_ns,
        server_ttft_ns=believed.ttft_ns if believed.ttft_ns is not None else server_ttft_ns(believed.phases),
        notes=divided.notes,
        rejected=believed.rejected,
    )


UNIT_NS = 1_000_000_007
"""The length of the call that stands for all of which nothing else is known."""


def _only_its_length_is_known(call: ModelCall) -> bool:
    if call.attempts or call.is_local or call.chunks or call.end_ns is None or call.end_ns <= call.start_ns:
        return False
    return call.first_reasoning_ns is None and call.first_content_ns is None and call.first_tool_ns is None


@lru_cache(maxsize=32)
def _unseen_call(state: State, is_streamed: bool) -> PhaseSplit:
    """How a call of `UNIT_NS` divides of which only the length is known: like every other such call, so it is done once."""
    call = ModelCall(
        trace_id=1, span_id=1, parent_id=None, run_id="", kind="model", name="",
        start_ns=0, end_ns=UNIT_NS, state=state, is_streamed=is_streamed,
    )  # fmt: skip
    return _split(call, None)


def _stretched(split: PhaseSplit, e2e_ns: int) -> PhaseSplit:
    def stretch(ns: int | None) -> int | None:
        return e2e_ns if ns == UNIT_NS else ns

    phases = tuple(
        PhaseTiming(
            name=phase.name,
            ns=stretch(phase.ns),
            low_ns=stretch(phase.low_ns),
            high_ns=stretch(phase.high_ns),
            source=phase.source,
            method=phase.method,
            definition=phase.definition,
            included_in=phase.included_in,
        )
        for phase in split.phases
    )
    return PhaseSplit(phases=phases, notes=split.notes)


def split_tool_phases(call: ToolCall) -> tuple[PhaseTiming, ...]:
    """`wait`, from the end of the model call that asked, and `run`. Unknown where a moment was not seen."""
    wait = None if call.asked_ns is None else max(call.start_ns - call.asked_ns, 0)
    run = None if call.end_ns is None else max(call.end_ns - call.start_ns, 0)
    return (_observed("wait", wait, WAIT), _observed("run", run, RUN))


def _report_of(call: ModelCall) -> ServerReport | None:
    """What the last request's response says of its time; where the tap saw nothing of the kind, what the framework kept."""
    hint = call.metadata.get("ls_provider")
    server = hint if isinstance(hint, str) else None
    # A response may stream although nothing of it reached a callback, as when it broke off.
    is_streamed = call.is_streamed or any(one.sent_settings.get("stream") is True for one in call.attempts[-1:])
    fallback = None
    attempts = call.attempts[-1:]
    sources = [(one.report, one.headers) for one in attempts] + [(call.response, _headers(call.response))]
    for payload, headers in sources:
        if not payload and not headers:
            continue
        report = read_report(payload, headers, server=server, streamed=is_streamed)
        if report is not None and report.says_time:
            return report
        fallback = fallback or report
    return fallback


def _headers(response: Mapping[str, object]) -> Mapping[str, str]:
    """Response headers where the framework keeps them: `headers` (OpenAI), `ResponseMetadata.HTTPHeaders` (Bedrock)."""
    held = response.get("headers")
    if not isinstance(held, Mapping):
        metadata = response.get("ResponseMetadata")
        held = metadata.get("HTTPHeaders") if isinstance(metadata, Mapping) else None
    return {str(name): str(value) for name, value in held.items()} if isinstance(held, Mapping) else {}


def _observed(name: str, ns: int | None, definition: str) -> PhaseTiming:
    if ns is None:
        return PhaseTiming(name=name, ns=None, low_ns=0, definition=definition)
    return PhaseTiming(
        name=name, ns=ns, low_ns=ns, high_ns=ns, source="client-observed", method="client.marks", definition=definition
    )
