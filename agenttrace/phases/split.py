"""The phases of a model call or tool call: picks the reader that knows the server's report, and divides the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agenttrace.phases.attribution import attribute
from agenttrace.phases.client_view import view_of
from agenttrace.phases.readers import llamacpp, ollama
from agenttrace.phases.server_report import Reader, ServerReport
from agenttrace.records import PhaseTiming
from agenttrace.steps import ModelCall, ToolCall

READERS: tuple[Reader, ...] = (llamacpp.read, ollama.read)

TOOL_WAIT = "end of the model call that asked for the tool until it starts"
TOOL_RUN = "the tool's own time"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSplit:
    """A model call's time, divided."""

    phases: tuple[PhaseTiming, ...]
    server_parts_ns: Mapping[str, int] = field(default_factory=dict)
    server_total_ns: int | None = None
    server_ttft_ns: int | None = None
    notes: tuple[str, ...] = ()
    rejected: Mapping[str, str] = field(default_factory=dict)


def split_phases(call: ModelCall) -> PhaseSplit:
    """Divide a model call's time into the phases there is evidence for.

    What has a number and is in no other entry adds up to the call's time exactly. A phase without evidence has no
    number, never zero.
    """
    headers = call.attempts[-1].headers if call.attempts else {}
    report = read_report(call.report, headers, call.is_streamed)
    reasoning = call.tokens.get("reasoning")
    divided = attribute(report, view_of(call, reasoning_tokens=reasoning))
    believed = divided.report
    return PhaseSplit(
        phases=divided.phases,
        server_parts_ns=believed.parts_ns,
        server_total_ns=believed.total_ns,
        server_ttft_ns=believed.ttft_ns,
        notes=divided.notes,
        rejected=believed.rejected,
    )


def read_report(
    payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None
) -> ServerReport | None:
    """The report of the first reader that knows this shape; None where none does."""
    reports = (read(payload, headers, streamed) for read in READERS)
    return next((report for report in reports if report is not None), None)


def split_tool_phases(call: ToolCall) -> tuple[PhaseTiming, ...]:
    """`wait` and `run` of a tool. Both are seen by the client; an unknown asking call leaves `wait` unknown."""
    wait = PhaseTiming(name="wait", ns=None, definition=TOOL_WAIT)
    if call.asked_ns is not None:
        wait = _seen("wait", max(call.start_ns - call.asked_ns, 0), TOOL_WAIT)
    if call.end_ns is None:
        return (wait, PhaseTiming(name="run", ns=None, definition=TOOL_RUN))
    return (wait, _seen("run", max(call.end_ns - call.start_ns, 0), TOOL_RUN))


def _seen(name: str, ns: int, definition: str) -> PhaseTiming:
    return PhaseTiming(
        name=name, ns=ns, low_ns=ns, high_ns=ns, source="client-observed", method="callbacks", definition=definition
    )
