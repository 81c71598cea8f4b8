"""Shows traces to a running Phoenix: asks what it has, sends what it lacks, and waits until it has that.

Phoenix acknowledges spans before it keeps them, and loses those when it is killed, so only its own answer counts. What
it has it never writes again, whatever is sent: a span that was unfinished and has ended since is removed there first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import orjson
from opentelemetry.sdk.resources import Resource

from agenttrace import clock
from agenttrace.errors import PhoenixIncomplete
from agenttrace.export.otlp import Progress, send_spans
from agenttrace.export.phoenix import POLL_S, Phoenix, call, not_understood
from agenttrace.export.phoenix_rest import pages, post, understood
from agenttrace.pricing import Prices
from agenttrace.records import SpanRecord
from agenttrace.spans.otel import TABLE_PRICES, readable_spans

STALL_S = 30.0
"""How long Phoenix may keep nothing new of what was sent."""

CHUNK_SPANS = 1000
CHUNK_TRACES = 50
"""What is sent before Phoenix is asked whether it has it: far below the 20,000 spans that it holds in memory."""

PAGE = 1000
"""The most spans that Phoenix names in one answer."""

IS_UNFINISHED = "attributes['agenttrace']['state'] == 'unfinished'"
"""In Phoenix's language for filters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """All steps of one trace, and the project that Phoenix is to file them in."""

    trace_id: str
    project: str
    spans: tuple[SpanRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowResult:
    """What Phoenix has now. Phases and attempts are spans of their own, as Phoenix counts."""

    traces: int
    spans: int
    sent: int
    """Of those, the ones that it lacked."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A trace on its way to Phoenix."""

    trace: StoredTrace
    span_ids: Mapping[str, tuple[str, ...]]
    """Of each step, its own id first: the spans it becomes."""

    @property
    def all_ids(self) -> frozenset[str]:
        return frozenset(span_id for ids in self.span_ids.values() for span_id in ids)


def show_traces(
    phoenix: Phoenix,
    traces: Iterable[StoredTrace],
    *,
    prices: Prices = TABLE_PRICES,
    progress: Progress | None = None,
    stall_s: float = STALL_S,
) -> ShowResult:
    """Let Phoenix have these traces; when this returns, it has them. Showing them again changes nothing.

    Args:
        phoenix: where to.
        traces: taken one by one, so that a generator's records are never all in memory.
        prices: by which model calls carry their cost.
        progress: called with the number of steps that Phoenix has so far.
        stall_s: how long Phoenix may keep nothing new.

    Raises:
        PhoenixIncomplete: it acknowledged spans and did not keep them.
        PhoenixNotHealthy, EndpointUnreachable, EndpointRefused: it does not answer, or not as Phoenix does.
    """
    done_steps = trace_count = span_count = sent = 0
    for chunk in _chunks(traces):
        wanted = {shown.trace.trace_id: shown.all_ids for shown in chunk}
        kept = _kept(phoenix, wanted)
        _forget_unfinished(phoenix, chunk, kept)
        _send_lacking(phoenix, chunk, kept, prices)
        steps, total = sum(len(shown.trace.spans) for shown in chunk), sum(map(len, wanted.values()))
        for count in _counts_until_kept(phoenix, wanted, stall_s):
            if progress:
                progress(done_steps + steps * count // total)
        _file(phoenix, chunk, kept)
        done_steps, trace_count, span_count = done_steps + steps, trace_count + len(chunk), span_count + total
        sent += sum(len(ids - kept[trace_id]) for trace_id, ids in wanted.items())
    return ShowResult(traces=trace_count, spans=span_count, sent=sent)


def _chunks(traces: Iterable[StoredTrace]) -> Iterator[list[_Shown]]:
    chunk: list[_Shown] = []
    size = 0
    for trace in traces:
        if not trace.spans:
            continue
        shown = _Shown(trace, {span.span_id: _span_ids(span) for span in trace.spans})
        if chunk and (size + len(shown.all_ids) > CHUNK_SPANS or len(chunk) == CHUNK_TRACES):
            yield chunk
            chunk, size = [], 0
        chunk.append(shown)
        size += len(shown.all_ids)
    if chunk:
        yield chunk


def _span_ids(span: SpanRecord) -> tuple[str, ...]:
    contexts = [readable.context for readable in readable_spans(span, Resource({}))]
    return tuple(f"{context.span_id:016x}" for context in contexts if context)


def _forget_unfinished(phoenix: Phoenix, chunk: Sequence[_Shown], kept: dict[str, frozenset[str]]) -> None:
    """Remove from Phoenix, and from `kept`, what it has as unfinished and has ended since."""
    known = [shown.trace.trace_id for shown in chunk if kept[shown.trace.trace_id]]
    unfinished = _kept(phoenix, known, IS_UNFINISHED)
    for span in (span for shown in chunk for span in shown.trace.spans):
        if span.state != "unfinished" and span.span_id in unfinished.get(span.trace_id, ()):
            call(phoenix.address, "DELETE", f"/v1/spans/{span.span_id}", headers=phoenix.headers)
            kept[span.trace_id] -= {span.span_id}


def _send_lacking(
    phoenix: Phoenix, chunk: Sequence[_Shown], kept: Mapping[str, frozenset[str]], prices: Prices
) -> None:
    for project, members in groupby(chunk, key=lambda shown: shown.trace.project):
        lacking = [
            span
            for shown in members
            for span in shown.trace.spans
            if not kept[shown.trace.trace_id].issuperset(shown.span_ids[span.span_id])
        ]
        send_spans(lacking, phoenix.address, project=project, prices=prices, headers=phoenix.headers)


def _file(phoenix: Phoenix, chunk: Sequence[_Shown], kept: Mapping[str, frozenset[str]]) -> None:
    """Move new traces to their project that Phoenix filed elsewhere: it goes by a trace's first span, and a model server
    may have sent that. Where a trace of ours was before, somebody may have put it.
    """
    new = {shown.trace.trace_id: shown.trace for shown in chunk if not kept[shown.trace.trace_id] & shown.all_ids}
    answers = _ask(phoenix, dict.fromkeys(new, "project { name }"))
    astray = [trace for trace_id, trace in new.items() if answers[trace_id]["project"]["name"] != trace.project]
    if not astray:
        return
    with understood(phoenix):
        known = {project["name"] for project in pages(phoenix, "/v1/projects")}
        for project in {trace.project for trace in astray} - known:
            post(phoenix, "/v1/projects", {"name": project})
        for trace in astray:  # one by one: Phoenix moves no traces of several projects at once
            move = {"trace_identifiers": [trace.trace_id], "destination_project_identifier": trace.project}
            post(phoenix, "/v1/traces/transfer", move)


def _counts_until_kept(phoenix: Phoenix, wanted: Mapping[str, frozenset[str]], stall_s: float) -> Iterator[int]:
    """How many of the wanted spans Phoenix has, again and again until that is all of them."""
    total = sum(map(len, wanted.values()))
    missing = dict(wanted)
    best = 0
    deadline_ns = clock.monotonic_ns() + int(stall_s * 1e9)
    while True:
        counts = _counts(phoenix, missing)
        # Counting is cheap and mostly says not yet; others' spans in the same trace may make it say yes too early.
        full = [trace_id for trace_id, ids in missing.items() if counts[trace_id] >= len(ids)]
        for trace_id, ids in _kept(phoenix, full).items():
            counts[trace_id] = len(ids & missing[trace_id])
            if ids >= missing[trace_id]:
                del missing[trace_id]
        lacks = sum(max(0, len(ids) - counts[trace_id]) for trace_id, ids in missing.items())
        yield total - lacks
        if not missing:
            return
        if total - lacks > best:
            best = total - lacks
            deadline_ns = clock.monotonic_ns() + int(stall_s * 1e9)
        elif clock.monotonic_ns() > deadline_ns:
            raise PhoenixIncomplete(
                f"Phoenix took {total:,} spans and kept {best:,}, and nothing more for {stall_s:g} s. "
                "View them again: what it has is not sent twice, and its log in the store's folder says what it met."
            )
        time.sleep(POLL_S)


def _counts(phoenix: Phoenix, trace_ids: Iterable[str]) -> dict[str, int]:
    """How many spans Phoenix has of each trace, others' included."""
    answers = _ask(phoenix, dict.fromkeys(trace_ids, "numSpans"))
    return {trace_id: answer.get("numSpans", 0) for trace_id, answer in answers.items()}


def _kept(phoenix: Phoenix, trace_ids: Iterable[str], condition: str = "") -> dict[str, frozenset[str]]:
    """The ids of the spans that Phoenix has of each trace and that meet a condition."""
    found: dict[str, frozenset[str]] = dict.fromkeys(trace_ids, frozenset())
    after: dict[str, str | None] = dict.fromkeys(found)
    while after:
        answers = _ask(phoenix, {trace_id: _page(cursor, condition) for trace_id, cursor in after.items()})
        after = {}
        for trace_id, answer in answers.items():
            spans = answer.get("spans", {"edges": [], "pageInfo": {"hasNextPage": False}})
            found[trace_id] |= {edge["node"]["spanId"] for edge in spans["edges"]}
            if spans["pageInfo"]["hasNextPage"]:
                after[trace_id] = spans["pageInfo"]["endCursor"]
    return found


def _page(after: str | None, condition: str) -> str:
    return (
        f"spans(first: {PAGE}, after: {_literal(after)}, filterCondition: {_literal(condition)}) "
        "{ edges { node { spanId } } pageInfo { hasNextPage endCursor } }"
    )


def _ask(phoenix: Phoenix, fields: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The fields asked for of each trace, by GraphQL; of a trace that Phoenix does not know, none."""
    if not fields:
        return {}
    traces = " ".join(
        f"t{number}: getTraceByOtelId(traceId: {_literal(trace_id)}) {{ {asked} }}"
        for number, (trace_id, asked) in enumerate(fields.items())
    )
    text = call(phoenix.address, "POST", "/graphql", orjson.dumps({"query": f"{{ {traces} }}"}), phoenix.headers)
    try:
        answer: dict[str, Any] = orjson.loads(text)
        if "errors" in answer:
            raise ValueError(str(answer["errors"][0]["message"]))
        return {trace_id: answer["data"][f"t{number}"] or {} for number, trace_id in enumerate(fields)}
    except (ValueError, LookupError, TypeError) as error:
        raise not_understood(phoenix, error) from error


def _literal(value: str | None) -> str:
    """A value as GraphQL writes it, which is as JSON does."""
    return orjson.dumps(value).decode()
