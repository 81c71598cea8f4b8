"""Adds up where the time of whole runs went. In: runs and their spans. Out: totals by phase, tokens, what failed.

A phase that is known in some calls only is added up over those, and says over how many: unknown is never zero.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agenttrace.phases.names import ORDER, counted, members
from agenttrace.records import ErrorRecord, PhaseTiming, RunRecord, SpanRecord
from agenttrace.steps import State

LENGTH_REASONS = frozenset(
    ("length", "max_tokens", "max_output_tokens", "max_length", "model_length", "model_context_window_exceeded")
)
"""Finish reasons, in lower case, of providers that stopped a model for having written enough."""

FAILURES: tuple[State, ...] = ("error", "timed_out")

CALL_KINDS = ("model", "tool", "retriever", "embedding")
"""Kinds of steps that wait for something outside of the agent's own code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTotal:
    """One phase, or a sum of phases, over all model calls."""

    name: str
    ns: int
    share: float | None
    """Of the time of all model calls, 0 to 1; None where that is zero."""
    known_calls: int
    """In how many model calls it has a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTotal:
    """One kind of tokens over all model calls."""

    total: int | None
    """Over the calls that reported it; None where none did."""
    known_calls: int
    some_calls: int = 0
    """In how many of them there was at least one: of cached tokens, the share of requests that hit a cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestCall:
    """The model call that took longest, and what it waited for."""

    span: SpanRecord
    ns: int
    phase: PhaseTiming | None
    """Its largest phase; None where none has a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Where the time of one or several runs went."""

    runs: tuple[RunRecord, ...]
    traces: int
    spans: int
    model_calls: int
    tool_calls: int
    trace_ns: int
    """Wall time of all traces, one after the other; of an unfinished one as far as it is known."""
    model_ns: int
    """Time of all finished model calls; calls at the same time count each."""
    tool_ns: int
    own_ns: int
    """Wall time in which no model, tool or retriever call was under way: the agent's own code, and the framework."""
    phases: tuple[PhaseTotal, ...]
    undivided_ns: int
    """Model time that no phase accounts for."""
    unknown_phases: tuple[str, ...]
    """Phases that apply and have no number in any call, alone or within a sum."""
    slowest: SlowestCall | None
    first_token_ns: tuple[int, ...]
    """Times to the first token of the calls in which it was seen, in ascending order."""
    input: TokenTotal
    output: TokenTotal
    cached: TokenTotal
    failed: tuple[SpanRecord, ...]
    """Steps that failed, in start order, without those that only passed on the error of a step below them."""
    other_states: Mapping[State, int]
    """How many steps ended neither well nor in an error, by state."""
    stopped_by_length: tuple[SpanRecord, ...]
    """Model calls whose answer was cut off."""
    trace_id: str | None
    """The trace to look at first: that of the slowest call, else the last one; None without any."""


def summarise(runs: Sequence[RunRecord], spans: Sequence[SpanRecord]) -> RunSummary:
    """Sum up runs from their spans, which come in start order."""
    calls = [span for span in spans if span.kind == "model"]
    tools = [span for span in spans if span.kind == "tool"]
    traces = _by_trace(spans)
    model_ns = sum(_taken(calls))
    phases = _phase_totals(calls, model_ns)
    slowest = _slowest(calls)
    return RunSummary(
        runs=tuple(runs),
        traces=len(traces),
        spans=len(spans),
        model_calls=len(calls),
        tool_calls=len(tools),
        trace_ns=sum(_wall_ns(trace) for trace in traces.values()),
        model_ns=model_ns,
        tool_ns=sum(_taken(tools)),
        own_ns=sum(_own_ns(trace) for trace in traces.values()),
        phases=phases,
        undivided_ns=model_ns - sum(phase.ns for phase in phases),
        unknown_phases=_unknown_phases(calls),
        slowest=slowest,
        first_token_ns=tuple(sorted(_first_tokens(calls))),
        input=_tokens(calls, "input"),
        output=_tokens(calls, "output"),
        cached=_tokens(calls, "cached"),
        failed=tuple(_failed(spans)),
        other_states=Counter(span.state for span in spans if span.state not in ("ok", *FAILURES)),
        stopped_by_length=tuple(call for call in calls if is_stopped_by_length(call)),
        trace_id=slowest.span.trace_id if slowest else (spans[-1].trace_id if spans else None),
    )


def is_stopped_by_length(call: SpanRecord) -> bool:
    """Whether the model would have written more."""
    return call.finish_reason is not None and call.finish_reason.lower() in LENGTH_REASONS


def _position(name: str) -> int:
    """Where a phase, or the first member of a sum, stands among the phases of a call; names we do not know come last."""
    first = members(name)[0]
    return ORDER.index(first) if first in ORDER else len(ORDER)


def _by_trace(spans: Iterable[SpanRecord]) -> Mapping[str, list[SpanRecord]]:
    traces: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        traces[span.trace_id].append(span)
    return traces


def _taken(spans: Iterable[SpanRecord]) -> Iterator[int]:
    return (span.duration_ns for span in spans if span.duration_ns is not None)


def _wall_ns(trace: Sequence[SpanRecord]) -> int:
    return latest_ns(trace) - min(span.start_ns for span in trace)


def latest_ns(spans: Iterable[SpanRecord]) -> int:
    """The last moment that is known of some spans."""
    return max(span.start_ns if span.end_ns is None else span.end_ns for span in spans)


def _own_ns(trace: Sequence[SpanRecord]) -> int:
    """The trace's wall time minus the time in which at least one call was under way."""
    end_of_trace = latest_ns(trace)
    called = 0
    reached = min(span.start_ns for span in trace)
    for span in sorted((span for span in trace if span.kind in CALL_KINDS), key=lambda span: span.start_ns):
        end = end_of_trace if span.end_ns is None else span.end_ns
        called += max(0, end - max(span.start_ns, reached))
        reached = max(reached, end)
    return _wall_ns(trace) - called


def _phase_totals(calls: Iterable[SpanRecord], model_ns: int) -> tuple[PhaseTotal, ...]:
    times: dict[str, list[int]] = defaultdict(list)
    for call in calls:
        # An unfinished call's time is not in the total, so neither are its phases.
        for phase in counted(call.phases) if call.duration_ns is not None else ():
            times[phase.name].append(phase.ns or 0)
    return tuple(
        PhaseTotal(
            name=name,
            ns=sum(times[name]),
            share=sum(times[name]) / model_ns if model_ns else None,
            known_calls=len(times[name]),
        )
        for name in sorted(times, key=_position)
    )


def _unknown_phases(calls: Iterable[SpanRecord]) -> tuple[str, ...]:
    unknown: set[str] = set()
    known: set[str] = set()
    for phase in (phase for call in calls for phase in call.phases):
        if phase.ns is not None or phase.included_in is not None:
            known.add(phase.name)
        elif phase.source != "not-applicable":
            unknown.add(phase.name)
    return tuple(sorted(unknown - known, key=_position))


def _slowest(calls: Iterable[SpanRecord]) -> SlowestCall | None:
    finished = [call for call in calls if call.duration_ns is not None]
    if not finished:
        return None
    span = max(finished, key=lambda call: call.duration_ns or 0)
    return SlowestCall(
        span=span,
        ns=span.duration_ns or 0,
        phase=max(counted(span.phases), key=lambda phase: phase.ns or 0, default=None),
    )


def _first_tokens(calls: Iterable[SpanRecord]) -> Iterator[int]:
    for call in calls:
        if call.marks is not None and call.marks.first_token_ns is not None:
            yield call.marks.first_token_ns


def _tokens(calls: Iterable[SpanRecord], kind: str) -> TokenTotal:
    counts: list[int | None] = [getattr(call.usage, kind) for call in calls if call.usage is not None]
    known = [number for number in counts if number is not None]
    some = sum(number > 0 for number in known)
    return TokenTotal(total=sum(known) if known else None, known_calls=len(known), some_calls=some)


def _failed(spans: Sequence[SpanRecord]) -> Iterator[SpanRecord]:
    failures = [span for span in spans if span.state in FAILURES]
    errors_below: dict[tuple[str, str | None], list[ErrorRecord | None]] = defaultdict(list)
    for span in failures:
        errors_below[span.trace_id, span.parent_id].append(span.error)
    return (span for span in failures if span.error not in errors_below[span.trace_id, span.span_id])
