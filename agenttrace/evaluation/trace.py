"""The steps of one attempt, as evaluators ask for them: which tools, in what order, how long in which phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from agenttrace.records import SpanRecord
from agenttrace.steps import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTool:
    """One execution of a tool."""

    name: str
    arguments: JSON
    """As the tool was given them: an object by parameter, or a text."""


@dataclass(frozen=True)
class Trace:
    """The trace of one attempt."""

    spans: tuple[SpanRecord, ...] = ()
    """Its finished steps in the order in which they began."""
    is_whole: bool = True
    """False where its steps could not be recorded in time; then what it lacks is not known."""

    @property
    def trace_id(self) -> str | None:
        return self.spans[0].trace_id if self.spans else None

    @property
    def latency_ns(self) -> int | None:
        """Of the whole attempt."""
        root = next((span for span in self.spans if span.parent_id is None), None)
        return None if root is None else root.duration_ns

    @cached_property
    def model_calls(self) -> tuple[SpanRecord, ...]:
        return tuple(span for span in self.spans if span.kind == "model")

    @cached_property
    def tools_called(self) -> tuple[CalledTool, ...]:
        """In the order in which they began."""
        return tuple(CalledTool(name=span.name, arguments=span.input) for span in self.spans if span.kind == "tool")

    @cached_property
    def tools_offered(self) -> frozenset[str]:
        """Of all model calls."""
        names: set[str] = set()
        for call in self.model_calls:
            offered = call.settings.get("tools.names")
            if offered is not None and isinstance(offered.value, (list, tuple)):
                names.update(str(name) for name in offered.value)
        return frozenset(names)

    @cached_property
    def documents(self) -> tuple[Mapping[str, JSON], ...]:
        """What retrievers brought, in order."""
        found: list[Mapping[str, JSON]] = []
        for span in self.spans:
            if span.kind == "retriever" and isinstance(span.output, (list, tuple)):
                found += [document for document in span.output if isinstance(document, Mapping)]
        return tuple(found)

    @property
    def tokens(self) -> int | None:
        """Input and output of all model calls; None where one of them does not tell."""
        counts = [(call.usage.input, call.usage.output) if call.usage else (None, None) for call in self.model_calls]
        told = [number for pair in counts for number in pair if number is not None]
        return sum(told) if len(told) == 2 * len(counts) else None

    @property
    def cost_usd(self) -> float | None:
        """Of all model calls; None where the price of one is not known."""
        return None if self.model_calls or not self.is_whole else 0.0

    def phase_ns(self, name: str) -> int | None:
        """The time of all model and tool calls in a phase; None where one of them does not tell.

        A phase of a tool call is asked for with `tool_` before its name, `tool_run`.
        """
        kind = "tool" if name.startswith("tool_") else "model"
        calls = [span for span in self.spans if span.kind == kind]
        told = [_phase(call, name.removeprefix("tool_")) for call in calls]
        known = [ns for ns in told if ns is not None]
        return sum(known) if len(known) == len(calls) and calls else None


def _phase(call: SpanRecord, name: str) -> int | None:
    timing = next((phase for phase in call.phases if phase.name == name), None)
    if timing is None:
        return None
    return 0 if timing.source == "not-applicable" else timing.ns
