"""Sends finished steps to a destination while the agent runs, from a thread of its own, beside the journal.

The journal has every step whatever happens here. So nothing waits for an endpoint: what does not fit the queue, or is not
acknowledged in time, is left for `agenttrace export --resume`, and said once.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from agenttrace import clock
from agenttrace.errors import AgentTraceError, EndpointUnreachable
from agenttrace.export.destinations import Destination
from agenttrace.export.otlp import MAX_BATCH_SPANS, require_encoder, send_spans
from agenttrace.records import ExportRecord, SpanRecord

GATHER_S = 1.0
"""How long steps gather before they are sent together."""

MAX_WAITING = 10_000
"""Steps that wait to be sent. More are left to `agenttrace export --resume`."""

MAX_BATCH = MAX_BATCH_SPANS // 4
"""Steps in one request or a few; each is a span and has some below it."""

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
"""How long to wait before an endpoint that did not take a batch is tried again."""

CLOSE_S = 2.0
"""How long the end of a process may be held up to send what is left."""

log = logging.getLogger("agenttrace")


class LiveExport:
    """Takes finished steps and sends them on. `confirm` is told what the destination has acknowledged.

    Phoenix acknowledges what it may still lose, so of it nothing is confirmed here.

    Raises `MissingExtra` where the encoder is not installed.
    """

    def __init__(self, place: Destination, confirm: Callable[[ExportRecord], None]) -> None:
        require_encoder()
        self.destination = place.name
        self._place = place
        self._confirm = confirm
        self.start_afresh()

    def start_afresh(self) -> None:
        """Forget what waits and who sends it: in a forked child both are the parent's."""
        self._waiting: deque[SpanRecord] = deque()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._left = 0
        self._has_complained = False

    def take(self, spans: Sequence[SpanRecord]) -> None:
        """Queue finished steps. Called by one thread only, never the agent's; never waits."""
        room = MAX_WAITING - len(self._waiting)
        self._waiting.extend(spans[:room])
        self._left += max(0, len(spans) - room)
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._work, name="agenttrace-export", daemon=True)
            self._thread.start()
        self._wake.set()

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Send what waits, for at most `timeout_s`, and say how much is left."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        left = self._left + len(self._waiting)
        if left:
            log.warning(
                "Not sent to %s: %s of the steps. The store has them: agenttrace export --to %s --endpoint %s --resume",
                self.destination, left, self._place.kind, self._place.endpoint.rpartition("@")[2],
            )  # fmt: skip

    def _work(self) -> None:
        while not (self._closing.is_set() and not self._waiting):
            self._wake.wait()
            self._wake.clear()
            self._closing.wait(GATHER_S)
            while self._waiting:
                self._send_until_taken(list(islice(self._waiting, MAX_BATCH)))

    def _send_until_taken(self, batch: Sequence[SpanRecord]) -> None:
        """Send one batch, again and again while nobody takes it; what is refused is left out."""
        delay_s = FIRST_DELAY_S
        while True:
            try:
                self._send(batch)
                break
            except EndpointUnreachable as error:
                self._complain(error)
                if self._closing.wait(max(delay_s, error.retry_after_s)):
                    return  # no second chance at the end of a process: the journal has them
                delay_s = min(delay_s * 2, LONGEST_DELAY_S)
            except Exception as error:  # whatever it is, the agent goes on, and the next batch may do better
                self._complain(error)
                self._left += len(batch)
                break
        for _ in batch:
            self._waiting.popleft()

    def _send(self, batch: Sequence[SpanRecord]) -> None:
        place = self._place
        send_spans(batch, place.endpoint, headers=place.headers, project=place.project, patience_s=0)
        if place.kind != "phoenix":
            self._note(batch)

    def _note(self, spans: Sequence[SpanRecord]) -> None:
        by_trace: dict[str, list[str]] = {}
        for span in spans:
            by_trace.setdefault(span.trace_id, []).append(span.span_id)
        for trace_id, ids in by_trace.items():
            self._confirm(
                ExportRecord(
                    destination=self.destination, trace_id=trace_id, span_ids=tuple(ids), at_ns=clock.wall_ns()
                )
            )

    def _complain(self, error: Exception) -> None:
        """Log the first failure: an agent's log is not ours to fill."""
        if not self._has_complained:
            self._has_complained = True
            what = error if isinstance(error, AgentTraceError) else f"{type(error).__name__}: {error}"
            log.warning(
                "agenttrace could not send steps on (%s) The agent is not held up, and the store has them.", what
            )
