"""The steps of one attempt, as evaluators ask for them: which tools, in what order, how long in which phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from agenttrace.errors import ReplayMiss
from agenttrace.pricing import Prices, priced_model
from agenttrace.records import SpanRecord, Usage
from agenttrace.steps import JSON

Amount = TypeVar("Amount", int, float)


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
    prices: Prices = field(default_factory=Prices)
    """A project's own, before those of the table."""

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

    @property
    def is_replayed(self) -> bool:
        """Whether a recording answered any of its model calls: its times and its cost are not a model's."""
        return any("replay" in call.settings for call in self.model_calls)

    @property
    def has_replay_miss(self) -> bool:
        """Whether a model was asked what the recording has no reply to; the agent may have gone on without."""
        return any(call.error is not None and call.error.type == ReplayMiss.__name__ for call in self.model_calls)

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
        """Input and output of all model calls that were answered; None where one of them does not tell."""
        return _total([tokens_of(call) for call in self._paid])

    @property
    def cost_usd(self) -> float | None:
        """Of all model calls that were answered, in US dollars; None where the cost of one is not known."""
        return _total([cost_of(call, self.prices) for call in self._paid]) if self.is_whole else None

    @property
    def _paid(self) -> list[SpanRecord]:
        """A call that failed tells no tokens; one that failed midway may."""
        return [call for call in self.model_calls if call.state == "ok" or tokens_of(call) is not None]

    def phase_ns(self, name: str) -> int | None:
        """The time of all model and tool calls in a phase; None where one of them does not tell.

        A phase of a tool call is asked for with `tool_` before its name, `tool_run`.
        """
        kind = "tool" if name.startswith("tool_") else "model"
        calls = [span for span in self.spans if span.kind == kind]
        told = [_phase(call, name.removeprefix("tool_")) for call in calls]
        known = [ns for ns in told if ns is not None]
        return sum(known) if len(known) == len(calls) and calls else None


def tokens_of(call: SpanRecord) -> int | None:
    """Input and output of one model call; None where one of them is not told."""
    usage = call.usage or Usage()
    return None if usage.input is None or usage.output is None else usage.input + usage.output


def cost_of(call: SpanRecord, prices: Prices) -> float | None:
    """What one model call cost, in US dollars; None where its tokens or its prices are not known."""
    cost = prices.cost(call.usage or Usage(), priced_model(call.settings), call.start_ns)
    return None if cost is None else cost.total


def _total(amounts: Sequence[Amount | None]) -> Amount | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def _phase(call: SpanRecord, name: str) -> int | None:
    timing = next((phase for phase in call.phases if phase.name == name), None)
    if timing is None:
        return None
    return 0 if timing.source == "not-applicable" else timing.ns
