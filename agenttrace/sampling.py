"""Which traces of a sampled run are kept: a share of all, and every one with an error or that was slow.

The head decides by the trace's id, so every process decides alike. What the head leaves out waits here, off the agent's
thread and bounded, until its end decides.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from agenttrace.steps import Step

MAX_WAITING = 20_000
"""Steps that wait for their trace's end, over all traces. Beyond it the oldest trace is kept, since it is the slowest."""

REMEMBERED = 10_000
"""Traces that are remembered as kept, and runs whose left-out traces are counted."""


@dataclass(slots=True)
class _Waiting:
    run_id: str
    slow_ns: int
    first_ns: int
    seen_ns: int
    """When something of it was last seen; monotonic."""
    steps: dict[int, Step] = field(default_factory=dict)
    has_ended: bool = False

    def is_complete(self) -> bool:
        """Children may end after their root."""
        return self.has_ended and all(step.end_ns is not None for step in self.steps.values())


class TraceSampler:
    """Used by one thread. What comes back from a method is to be written, in that order."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._steps = 0
        self.left_out: OrderedDict[str, int] = OrderedDict()
        """By run, how many traces were not kept."""
        self.untold: set[str] = set()
        """Runs whose count has grown since somebody last wrote it down."""

    def __len__(self) -> int:
        return self._steps

    def admit(self, step: Step, *, share: float, slow_ns: int, now: int) -> list[Step]:
        """Take a step of a run of which `share` of all traces is kept. `now`: monotonic nanoseconds."""
        if is_in_share(step.trace_id, share) or step.trace_id in self._kept:
            return [step]
        trace = self._waiting.get(step.trace_id)
        if trace is None:
            trace = self._waiting[step.trace_id] = _Waiting(step.run_id, slow_ns, step.start_ns, now)
        self._steps += step.span_id not in trace.steps
        trace.steps[step.span_id] = step
        trace.seen_ns = now
        trace.first_ns = min(trace.first_ns, step.start_ns)
        if step.state in ("error", "timed_out") or (step.end_ns or 0) - trace.first_ns >= slow_ns:
            return self._keep(step.trace_id)
        trace.has_ended = trace.has_ended or (step.is_root and step.end_ns is not None)
        if trace.is_complete():
            self._leave_out(step.trace_id)
        return self._keep(next(iter(self._waiting))) if self._steps > MAX_WAITING else []

    def look(self, *, wall: int, now: int, quiet_ns: int) -> list[Step]:
        """What time has decided: a trace that runs on has become slow; one that is quiet will not end any more."""
        decided: list[Step] = []
        for trace_id, trace in list(self._waiting.items()):
            is_quiet = now - trace.seen_ns >= quiet_ns
            if not trace.has_ended and (is_quiet or wall - trace.first_ns >= trace.slow_ns):
                decided += self._keep(trace_id)
            elif is_quiet:
                self._leave_out(trace_id)
        return decided

    def rest(self) -> Iterator[Step]:
        """At the process's end: what never ended is kept; that it did not is what somebody will ask about."""
        for trace_id, trace in list(self._waiting.items()):
            if trace.has_ended:
                self._leave_out(trace_id)
            else:
                yield from self._keep(trace_id)

    def _keep(self, trace_id: int) -> list[Step]:
        self._kept[trace_id] = None
        if len(self._kept) > REMEMBERED:
            self._kept.popitem(last=False)
        return list(self._pop(trace_id).steps.values())

    def _leave_out(self, trace_id: int) -> None:
        run_id = self._pop(trace_id).run_id
        self.left_out[run_id] = self.left_out.get(run_id, 0) + 1
        self.untold.add(run_id)
        if len(self.left_out) > REMEMBERED:
            self.left_out.popitem(last=False)

    def _pop(self, trace_id: int) -> _Waiting:
        trace = self._waiting.pop(trace_id)
        self._steps -= len(trace.steps)
        return trace


def is_in_share(trace_id: int, share: float) -> bool:
    """By the low 64 bits of the id, which are random: OpenTelemetry's own ratio sampler takes the same."""
    return (trace_id & 0xFFFFFFFFFFFFFFFF) < share * (1 << 64)
