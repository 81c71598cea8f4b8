"""Brings the runner the steps of each attempt while they are recorded, so that nobody reads the database meanwhile."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from agenttrace.evaluation.trace import Trace
from agenttrace.pricing import Prices
from agenttrace.records import SpanRecord
from agenttrace.steps import EVALUATOR

KEPT_TRACES = 2_000
"""Traces that nobody asked for are forgotten, the oldest first: an agent may make others besides its attempt's."""


class TraceCollector:
    """Gathers finished steps by trace. Called on the writer's thread, asked on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, prices: Prices) -> None:
        self._loop = loop
        self._prices = prices
        self._judges_calls: deque[SpanRecord] = deque()
        self._spans: OrderedDict[str, list[SpanRecord]] = OrderedDict()
        self._whole: OrderedDict[str, None] = OrderedDict()
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def __call__(self, span: SpanRecord) -> None:
        """A step that has finished. What an evaluator did is no part of the attempt."""
        if EVALUATOR in span.metadata:
            if span.kind == "model":
                self._judges_calls.append(span)
        elif not self._loop.is_closed():
            self._spans.setdefault(span.trace_id, []).append(span)
            if span.parent_id is None:
                self._loop.call_soon_threadsafe(self._ended, span.trace_id)

    async def take(self, trace_id: str | None, timeout_s: float) -> Trace:
        """The trace, once its root has ended and is in the journal; what there is of it after `timeout_s`."""
        if trace_id is None:
            return Trace(is_whole=False, prices=self._prices)
        if trace_id not in self._whole:
            waiting = self._waiting[trace_id] = self._loop.create_future()
            await asyncio.wait([waiting], timeout=timeout_s)
            del self._waiting[trace_id]
        is_whole = self._whole.pop(trace_id, self) is None
        spans = sorted(self._spans.pop(trace_id, ()), key=lambda span: (span.start_ns, span.parent_id is not None))
        return Trace(spans=tuple(spans), is_whole=is_whole, prices=self._prices)

    def judging(self) -> Trace:
        """Model calls of evaluators that have ended since this was last asked: they cost too."""
        calls = [self._judges_calls.popleft() for _ in range(len(self._judges_calls))]
        return Trace(spans=tuple(calls), prices=self._prices)

    def _ended(self, trace_id: str) -> None:
        self._whole[trace_id] = None
        if trace_id in self._waiting and not self._waiting[trace_id].done():
            self._waiting[trace_id].set_result(None)
        while len(self._whole) > KEPT_TRACES:
            self._spans.pop(self._whole.popitem(last=False)[0], None)
