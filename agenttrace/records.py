"""What the store returns and every report draws: runs, spans, phase and setting values. Plain data, no behaviour but totals.

Times of day are integer nanoseconds since 1970 UTC (`start_ns`, `end_ns`, `at_ns`); durations are integer nanoseconds.
`None` means unknown or not there; it never means zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agenttrace.steps import JSON, Kind, State

SpanKind: TypeAlias = Kind | Literal["attempt", "phase"]
"""A step's kind, or what is drawn below a step: an HTTP attempt, a phase."""

PhaseSource: TypeAlias = Literal[
    "server-reported", "client-observed", "derived", "inferred", "unknown", "not-applicable"
]

Voice: TypeAlias = Literal["requested", "sent", "served"]


@dataclass(slots=True, kw_only=True)  # not frozen: that takes 2.5 times as long to make, and a step makes up to twenty
class PhaseTiming:
    """One named part of a step's time, with the evidence for it (D6)."""

    name: str
    """A phase, or the members of a sum joined with `_plus_` where only their sum is known."""
    ns: int | None
    low_ns: int | None = None
    """Lower bound; None where nothing bounds it."""
    high_ns: int | None = None
    """Upper bound; None where nothing bounds it."""
    source: PhaseSource = "unknown"
    method: str | None = None
    """How the number was had, e.g. `llama.cpp.timings`; None where there is no number."""
    definition: str = ""
    """What begins and ends it, in the reporting server's own terms."""
    included_in: str | None = None
    """The sum this phase is a member of, where it has no number of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingValue:
    """One dimension's value as one voice told it."""

    value: JSON
    voice: Voice
    source: str
    """Where it was read: `invocation_params`, `metadata`, `wire`, `response`, `serialized`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of a model call as its server reported them. `cached` and `cache_written` are parts of `input`,
    `reasoning` of `output`.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    cache_written: int | None = None
    reasoning: int | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Moments of a model call, as durations from its start; None where not seen."""

    first_byte_ns: int | None = None
    first_reasoning_ns: int | None = None
    first_content_ns: int | None = None
    first_tool_ns: int | None = None
    last_content_ns: int | None = None
    chunks: int | None = None
    """Chunks that held something; None when the call did not stream."""
    arrivals: str | None = None
    """When each of them came, from the call's start (`phases.chunks.unpack_arrivals`); None where that was not seen."""

    @property
    def first_token_ns(self) -> int | None:
        """The first of reasoning, content and tool call: what NVIDIA's guide calls time to first token."""
        seen = [ns for ns in (self.first_reasoning_ns, self.first_content_ns, self.first_tool_ns) if ns is not None]
        return min(seen, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One HTTP request of a model call. Durations count from the attempt's start."""

    start_ns: int
    end_ns: int | None
    status: int | None
    """HTTP status; None when no response came."""
    host: str
    connect_ns: int | None = None
    """Opening the connection, TLS included; None on a connection that was open already."""
    sent_ns: int | None = None
    """Until the request had left."""
    headers_ns: int | None = None
    first_byte_ns: int | None = None
    """Until the first byte of the body."""
    reads: int = 0
    read_bytes: int | None = None
    """Of the body, as it came over the wire, over the reads that were timed."""
    arrivals: str | None = None
    """When each read of a body in several parts came, from the attempt's start (`phases.chunks.unpack_arrivals`)."""
    error: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Response headers from an allow-list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord:
    type: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    name: str
    at_ns: int
    data: JSON = None


@dataclass(slots=True, kw_only=True)  # not frozen: that takes 2.5 times as long to make, and a step makes one
class SpanRecord:
    """One step of an agent as it is kept: the record behind an OpenTelemetry span."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    parent_id: str | None
    run_id: str
    kind: SpanKind
    name: str
    state: State
    start_ns: int
    end_ns: int | None
    """None while unfinished."""
    call_site: str | None = None
    attempt: int = 1
    input: JSON = None
    output: JSON = None
    finish_reason: str | None = None
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    usage: Usage | None = None
    """None for steps that are no model call."""
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    phases: tuple[PhaseTiming, ...] = ()
    server_parts_ns: Mapping[str, int] = field(default_factory=dict)
    """Parts of its time that a server reports and that are no phase of ours."""
    marks: Marks | None = None
    attempts: tuple[AttemptRecord, ...] = ()
    events: tuple[EventRecord, ...] = ()
    error: ErrorRecord | None = None
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know: what was rejected, and why."""
    server_report: JSON = None
    """The server's own words (usage, timings), so that phases can be read again when semantics are corrected."""

    paused_at: str | None = None
    """Of an interrupted graph: the checkpoint where it paused."""
    resumed_from: str | None = None
    """The checkpoint that the graph went on from: another trace paused there."""
    session: str | None = None
    """The conversation it belongs to: `session_id` or `thread_id` of its config, else that of `record()`."""
    user: str | None = None

    @property
    def duration_ns(self) -> int | None:
        return None if self.end_ns is None else self.end_ns - self.start_ns

    @property
    def model(self) -> str | None:
        """The served model's name, else the requested one's."""
        for dimension in ("model.served", "model.requested"):
            setting = self.settings.get(dimension)
            if setting is not None and isinstance(setting.value, str):
                return setting.value
        return None


REPLAYED = "replayed from a recording: its times and its cost are not those of a model"
"""Note of a model call that a recording answered; by it such calls are left out where times are added up."""

EVALUATION = "evaluation"
"""Key of a run's metadata under which its suite is kept: it is told of the run, and not of each of its traces."""

PROVENANCE = "provenance"
"""Key of a run's metadata under which stands what held for the run as a whole, by dimension; where a suite made it, it stands
with the suite."""

OF_THE_RUN = (EVALUATION, PROVENANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One recorded execution with one intent; holds one or more traces."""

    run_id: str
    name: str
    start_ns: int
    end_ns: int | None = None
    tags: Mapping[str, JSON] = field(default_factory=dict)
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    session: str | None = None
    user: str | None = None
    process: str | None = None
    """`host:pid` of the process that opened it; None for an imported run."""
    policy: Mapping[str, JSON] = field(default_factory=dict)
    """What was kept of content and of traces; empty where everything was."""
    sampled_out: int | None = None
    """Traces that sampling did not keep; None where nothing was sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRecord:
    """Finished steps of one trace that a destination has confirmed."""

    destination: str
    """Its kind, address and project; no keys."""
    trace_id: str
    span_ids: tuple[str, ...]
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """One line of `agenttrace list`."""

    trace_id: str
    run_id: str
    run: str
    name: str
    state: State
    start_ns: int
    end_ns: int | None
    spans: int
    usage: Usage
    cost_usd: float | None = None
    """Filled where costs were asked for; None where the cost of one of its calls is unknown."""
    known_usd: float | None = None
    """What is known of it, where costs were asked for."""
    resumes: str | None = None
    session: str | None = None
    user: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureCounters:
    """What one process could not record. All zero is the good case, and is kept too: it says that somebody counted."""

    process: str
    capture_errors: int = 0
    """Exceptions inside the handler or the writer; the agent never saw them."""
    dropped: int = 0
    """Facts dropped because the queue was full or the disk refused."""
    last_error: str | None = None
