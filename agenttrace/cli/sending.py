"""Sends stored traces to a backend with a progress bar, and notes what the backend has confirmed."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import click

from agenttrace import clock
from agenttrace.cli.output import print_json
from agenttrace.cli.sending_scores import SentScores, send_scores, told
from agenttrace.errors import RunNotFound, TraceNotFound
from agenttrace.pricing import Prices
from agenttrace.records import ExportRecord, SpanRecord, TraceSummary
from agenttrace.store.exports import confirm, unconfirmed
from agenttrace.store.filters import TraceFilter

if TYPE_CHECKING:
    from agenttrace.export.destinations import Destination
    from agenttrace.export.phoenix import Phoenix
    from agenttrace.store.reading import Store

PHOENIX_TRACES = 50
"""How many traces Phoenix is asked about before what it has is noted."""

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What came of it. Phases and attempts are spans of their own, as backends count."""

    destination: str
    traces: int = 0
    steps: int = 0
    spans: int = 0
    new_spans: int | None = None
    """Of Phoenix, which says what it had: those that it lacked. None where nobody says."""
    requests: int | None = None
    sent_bytes: int | None = None
    rejected: int = 0
    rejected_reason: str = ""
    unfinished: int = 0
    """Steps that have not ended, and were left for the next time."""
    judged: SentScores | None = None
    """Of Phoenix, which also takes what was judged."""


def chosen_traces(
    store: Store, run: str | None, trace: str | None, limit: int | None = None, since_ns: int | None = None
) -> Sequence[TraceSummary]:
    """The traces of a run, one trace, or the newest `limit` of all, begun at `since_ns` or later; oldest first, never none."""
    if trace is not None:
        trace_id = store.trace(trace)[0].trace_id
        return tuple(summary for summary in store.traces() if summary.trace_id == trace_id)
    run_id = None if run is None else store.run(run).run_id
    summaries = store.traces(limit, where=TraceFilter(run_id=run_id, since_ns=since_ns))
    if not summaries:
        if since_ns is not None:
            raise TraceNotFound("No trace has begun since then. 'agenttrace list' shows when each began.")
        if run:
            raise RunNotFound(f"The run {run} holds no trace. 'agenttrace list' shows the runs that do.")
        raise TraceNotFound("The store holds no trace yet. Record one with 'agenttrace run your_script.py'.")
    return summaries[::-1]


def send(
    store: Store,
    path: str | None,
    place: Destination,
    *,
    run: str | None,
    trace: str | None,
    since_ns: int | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Send the chosen traces, or with `resume` what the place has not confirmed of them, and print what came of it."""
    chosen = all_chosen = chosen_traces(store, run, trace, since_ns=since_ns)
    wanted: Mapping[str, frozenset[str]] | None = None
    if resume:
        wanted = unconfirmed(path, place.name)
        chosen = [summary for summary in chosen if summary.trace_id in wanted]
    confirmations = _Confirmations(path, place.name)
    sent = Sent(destination=place.name)
    if chosen:
        deliver = _to_phoenix if place.kind == "phoenix" else _to_otlp
        with _progress(f"Sending to {place.endpoint.rpartition('@')[2]}", chosen) as progress, confirmations:
            sent = deliver(store, place, chosen, wanted, confirmations, progress)
    if place.kind == "phoenix":
        sent = replace(sent, judged=_scores(store, path, place, all_chosen))
    if as_json:
        print_json(asdict(sent))
    else:
        click.echo(_outcome(sent))


class _Confirmations:
    """Gathers what was confirmed, and notes it when the sending ends, however it ends."""

    def __init__(self, path: str | None, destination: str) -> None:
        self._path = path
        self._destination = destination
        self._spans: dict[str, list[str]] = defaultdict(list)

    def add(self, span: SpanRecord) -> None:
        if span.state != "unfinished":
            self._spans[span.trace_id].append(span.span_id)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        now = clock.wall_ns()
        confirm(
            self._path,
            [
                ExportRecord(destination=self._destination, trace_id=trace_id, span_ids=tuple(ids), at_ns=now)
                for trace_id, ids in self._spans.items()
            ],
        )


def _to_otlp(
    store: Store,
    place: Destination,
    chosen: Sequence[TraceSummary],
    wanted: Mapping[str, frozenset[str]] | None,
    confirmations: _Confirmations,
    progress: Progress,
) -> Sent:
    from agenttrace.configuration import read_configuration
    from agenttrace.export.otlp import send_spans

    prices = Prices(read_configuration().prices)
    total = Sent(destination=place.name, traces=len(chosen), requests=0, sent_bytes=0)
    under_way: deque[SpanRecord] = deque()
    unfinished = 0

    def steps(summaries: Sequence[TraceSummary]) -> Iterator[SpanRecord]:
        nonlocal unfinished
        for summary in summaries:
            for span in store.trace(summary.trace_id):
                if span.state == "unfinished":  # an OpenTelemetry span is sent once, when it has ended
                    unfinished += 1
                elif wanted is None or span.span_id in wanted[span.trace_id]:
                    under_way.append(span)
                    yield span

    for project, group in groupby(chosen, key=partial(_project, place)):
        before = total.steps
        confirmed = 0

        def note(count: int, before: int = before) -> None:
            nonlocal confirmed
            for _ in range(count - confirmed):
                confirmations.add(under_way.popleft())
            confirmed = count
            progress(before + count)

        result = send_spans(
            steps(list(group)), place.endpoint, headers=place.headers, project=project, prices=prices, progress=note
        )
        total = replace(
            total,
            steps=total.steps + result.steps,
            spans=total.spans + result.spans,
            requests=(total.requests or 0) + result.requests,
            sent_bytes=(total.sent_bytes or 0) + result.sent_bytes,
            rejected=total.rejected + result.rejected,
            rejected_reason=result.rejected_reason or total.rejected_reason,
        )
    return replace(total, unfinished=unfinished)


def _project(place: Destination, summary: TraceSummary) -> str | None:
    """Phoenix and Arize file traces by project, where a run is one; elsewhere a project is only what was named."""
    return place.project or (None if place.kind == "otlp" else summary.run)


def _to_phoenix(
    store: Store,
    place: Destination,
    chosen: Sequence[TraceSummary],
    wanted: Mapping[str, frozenset[str]] | None,
    confirmations: _Confirmations,
    progress: Progress,
) -> Sent:
    from agenttrace.configuration import read_configuration
    from agenttrace.export.phoenix_traces import StoredTrace, show_traces

    phoenix = _phoenix(place)
    prices = Prices(read_configuration().prices)
    total = Sent(destination=place.name, new_spans=0)
    for start in range(0, len(chosen), PHOENIX_TRACES):
        traces = [
            StoredTrace(
                trace_id=summary.trace_id,
                project=_project(place, summary) or summary.run,
                spans=store.trace(summary.trace_id),
            )
            for summary in chosen[start : start + PHOENIX_TRACES]
        ]
        result = show_traces(phoenix, traces, prices=prices, progress=partial(_shifted, progress, total.steps))
        spans = [span for trace in traces for span in trace.spans]
        for span in spans:
            confirmations.add(span)
        total = replace(
            total,
            traces=total.traces + result.traces,
            steps=total.steps + len(spans),
            spans=total.spans + result.spans,
            new_spans=(total.new_spans or 0) + result.sent,
            unfinished=total.unfinished + sum(span.state == "unfinished" for span in spans),
        )
    return total


def _scores(store: Store, path: str | None, place: Destination, chosen: Sequence[TraceSummary]) -> SentScores:
    """Of all that was chosen, also of what was confirmed before: it may have been judged since."""
    from agenttrace.report.console import open_console

    with open_console(stderr=True).status("Sending scores …") as status:
        return send_scores(store, path, _phoenix(place), chosen, status.update)


def _phoenix(place: Destination) -> Phoenix:
    from agenttrace.export.phoenix import running_phoenix

    return running_phoenix(place.endpoint.removesuffix("/").removesuffix("/v1/traces"), place.headers)


def _shifted(progress: Progress, before: int, count: int) -> None:
    progress(before + count)


@contextmanager
def _progress(what: str, chosen: Sequence[TraceSummary]) -> Iterator[Progress]:
    """A bar on standard error, where a person is watching."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from agenttrace.report.console import open_console

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=open_console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=sum(summary.spans for summary in chosen))
        yield lambda done: bar.update(task, completed=done)


def _outcome(sent: Sent) -> str:
    from agenttrace.report.numbers import count, quantity

    scores = told(sent.judged) if sent.judged else []
    if not sent.traces:
        return "\n".join([f"Nothing to send: {sent.destination} has confirmed all of it.", *scores])
    text = f"{sent.destination}: {quantity(sent.traces, 'trace')}, {quantity(sent.steps, 'step')} as {quantity(sent.spans, 'span')}"
    if sent.new_spans is not None:
        text += f"; {count(sent.new_spans)} were new to it"
    if sent.rejected:
        text += f"\nIt did not keep {quantity(sent.rejected, 'span')}: {sent.rejected_reason or 'it does not say why'}."
    if sent.unfinished:
        text += f"\n{quantity(sent.unfinished, 'step')} had not ended; --resume sends what ends later."
    return "\n".join([text, *scores])
