"""What the time of a whole trace hangs on. In: a trace's spans. Out: the path that leads to its end, by phase, tool and own code.

Backwards from the end: time belongs to the step below that ended last, then to the one that ended last before that one
began (or still ran then, where none had ended), and to the step itself where none below it ran.
The view `critical_path` of the store says the same of all traces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from agenttrace.phases.names import counted
from agenttrace.records import SpanRecord

OWN_CODE = "own code, framework"
UNDIVIDED = "not divided"

Part = tuple[str, str]
"""Kind of step, and the phase of a model call or the step's name; `OWN_CODE` is of no kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a trace's time, and the step that had to end for the trace to go on."""

    span: SpanRecord
    from_ns: int
    """Since 1970 UTC, like `until_ns`."""
    until_ns: int

    @property
    def ns(self) -> int:
        return self.until_ns - self.from_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOnPath:
    """Time on the path that has one cause."""

    kind: str
    """model, tool, retriever, embedding; empty for own code."""
    name: str
    """Phase of a model call, else the step's name."""
    ns: int
    share: float
    """Of the path, 0 to 1."""
    saved_ns: int
    """By how much sooner the trace would have ended with each such part half as long, on the path or not: what waits for
    something else too is not saved. Assumes that a step waits for all steps beside it that had ended when it began.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    """A trace's path; its stretches add up to the time from the trace's beginning to its end."""

    stretches: tuple[Stretch, ...]
    parts: tuple[PartOnPath, ...]
    """The largest first, at most `MOST_PARTS`; where there are no more, they add up to the path."""
    has_ended: bool
    """Whether its root has ended; else the path leads to the latest moment that is known."""

    @property
    def ns(self) -> int:
        return sum(stretch.ns for stretch in self.stretches)

    def longest(self, kind: str, most: int) -> list[SpanRecord]:
        """The steps of a kind with most time on the path, the longest first."""
        times: dict[str, int] = defaultdict(int)
        steps: dict[str, SpanRecord] = {}
        for stretch in self.stretches:
            if stretch.span.kind == kind:
                times[stretch.span.span_id] += stretch.ns
                steps[stretch.span.span_id] = stretch.span
        return [steps[span_id] for span_id in sorted(times, key=lambda span_id: -times[span_id])[:most]]


@dataclass(slots=True, kw_only=True)
class _Node:
    span: SpanRecord | None
    """None for what stands above several roots."""
    start: int
    end: int
    below: list[_Node] = field(default_factory=list)
    """In the order of their ends; each within this one's time."""


MOST_PARTS = 12
"""Of which it is worked out what half of them would save."""


def critical_path(spans: Sequence[SpanRecord]) -> CriticalPath:
    """The path of one trace. A trace without its root hangs on what there is: its topmost steps."""
    root = _tree(spans)
    stretches = tuple(sorted(_path(root), key=lambda stretch: stretch.from_ns))
    times: dict[Part, int] = defaultdict(int)
    for stretch in stretches:
        for part, ns in _parts(stretch.span, stretch.ns):
            times[part] += ns
    whole = sum(times.values())
    order = sorted(times, key=lambda part: -times[part])
    parts = tuple(
        PartOnPath(
            kind=part[0],
            name=part[1],
            ns=times[part],
            share=times[part] / whole if whole else 0.0,
            saved_ns=max(root.end - root.start - _length(root, part), 0),
        )
        for part in order[:MOST_PARTS]
    )
    roots = [span for span in spans if span.parent_id is None]
    has_ended = bool(roots) and all(span.end_ns is not None for span in roots)
    return CriticalPath(stretches=stretches, parts=parts, has_ended=has_ended)


def _tree(spans: Sequence[SpanRecord]) -> _Node:
    """The spans below each other. An end before its beginning, or outside of the step above, is moved to the nearest moment."""
    latest = max((span.start_ns if span.end_ns is None else span.end_ns for span in spans), default=0)
    known = {span.span_id for span in spans}
    children: dict[str | None, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        children[span.parent_id if span.parent_id in known else None].append(span)
    tops = children[None]
    root = _Node(
        span=tops[0] if len(tops) == 1 else None,
        start=min((span.start_ns for span in tops), default=0),
        end=max((_end(span, latest) for span in tops), default=0),
    )
    stack = [(root, root.span.span_id if root.span else None)]
    while stack:
        node, span_id = stack.pop()
        for span in children.pop(span_id, ()):
            if span.end_ns is None and node.span is not None and node.span.end_ns is not None:
                continue  # nobody waited for its end
            first = min(max(span.start_ns, node.start), node.end)
            below = _Node(span=span, start=first, end=min(max(_end(span, latest), first), node.end))
            node.below.append(below)
            stack.append((below, span.span_id))
        node.below.sort(key=lambda child: (child.end, *_begins(child)))
    return root


def _end(span: SpanRecord, latest: int) -> int:
    return latest if span.end_ns is None else max(span.end_ns, span.start_ns)


def _path(root: _Node) -> Iterator[Stretch]:
    nodes = [(root, root.end)]
    while nodes:
        node, until = nodes.pop()
        for child in _last_to_end(node, until):
            yield from _stretch(node, min(child.end, until), until)
            nodes.append((child, min(child.end, until)))
            until = child.start
        yield from _stretch(node, node.start, until)


def _last_to_end(node: _Node, until: int) -> Iterator[_Node]:
    """Steps below, from the end backwards: each the last that had ended when the one before it began, else that still ran."""
    waiting = [child for child in node.below if child.end > child.start]
    order = {id(child): -place for place, child in enumerate(sorted(waiting, key=_begins))}
    running: list[tuple[int, _Node]] = []
    while waiting and waiting[-1].end >= until:  # what outlives the step itself had not to end for it
        heappush(running, (order[id(waiting[-1])], waiting.pop()))
    while True:
        while waiting and waiting[-1].end > until:
            heappush(running, (order[id(waiting[-1])], waiting.pop()))
        while running and running[0][1].start >= until:
            heappop(running)
        has_ended = waiting and waiting[-1].end == until
        if not waiting and not running:
            return
        child = waiting.pop() if has_ended or not running else heappop(running)[1]
        yield child
        until = child.start


def _begins(node: _Node) -> tuple[int, str]:
    return node.start, node.span.span_id if node.span else ""


def _stretch(node: _Node, from_ns: int, until_ns: int) -> Iterator[Stretch]:
    if node.span is not None and until_ns > from_ns:
        yield Stretch(span=node.span, from_ns=from_ns, until_ns=until_ns)


def _parts(span: SpanRecord, ns: int) -> Iterable[tuple[Part, int]]:
    """What a stretch of a step's own time is made of."""
    if span.kind == "model":
        phases = _phases(span) if ns == span.duration_ns else {}
        rest = ns - sum(phases.values())
        return [(("model", name), took) for name, took in (*phases.items(), (UNDIVIDED, rest)) if took]
    if span.kind in ("tool", "retriever", "embedding"):
        return [((span.kind, span.name), ns)]
    return [(("", OWN_CODE), ns)]


def _phases(span: SpanRecord) -> Mapping[str, int]:
    return {phase.name: phase.ns for phase in counted(span.phases) if phase.ns}


def _length(root: _Node, halved: Part) -> int:
    """How long the trace would take with each `halved` part half as long."""
    order = [root]
    for node in order:
        order.extend(node.below)
    lengths: dict[int, int] = {}
    for node in reversed(order):
        shorten = _shortening(node.span, halved)
        ended = [child for child in node.below if child.end > child.start]  # in the order of their ends
        ends: dict[int, int] = {}
        place, last, reached = 0, node.start, 0  # what had ended: how many, the last end, and the same after shortening
        for child in sorted(ended, key=_begins):
            while ended[place].end <= child.start:
                last, reached = ended[place].end, max(reached, ends[id(ended[place])])
                place += 1
            ends[id(child)] = reached + shorten(child.start - last) + lengths[id(child)]
        last = ended[-1].end if ended else node.start
        lengths[id(node)] = max(ends.values(), default=0) + shorten(node.end - last)
    return lengths[id(root)]


def _shortening(span: SpanRecord | None, halved: Part) -> Callable[[int], int]:
    """What becomes of a stretch of a step's own time."""

    def shorten(ns: int) -> int:
        if span is None or ns <= 0:
            return ns
        return ns - sum(took for part, took in _parts(span, ns) if part == halved) // 2

    return shorten


def paths_by_part(spans: Iterable[SpanRecord]) -> tuple[PartOnPath, ...]:
    """The parts of all traces' paths together, the largest first. Traces are added up, as if one followed the other."""
    traces: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        traces[span.trace_id].append(span)
    times: dict[Part, int] = defaultdict(int)
    saved: dict[Part, int] = defaultdict(int)
    for trace in traces.values():
        for part in critical_path(trace).parts:
            times[part.kind, part.name] += part.ns
            saved[part.kind, part.name] += part.saved_ns
    whole = sum(times.values())
    return tuple(
        PartOnPath(kind=kind, name=name, ns=ns, share=ns / whole if whole else 0.0, saved_ns=saved[kind, name])
        for (kind, name), ns in sorted(times.items(), key=lambda item: -item[1])
    )


def path_json(path: CriticalPath) -> dict[str, Any]:
    """As `show --why --json` prints it, in seconds."""
    begin = path.stretches[0].from_ns if path.stretches else 0
    return {
        "seconds": path.ns / 1e9,
        "has_ended": path.has_ended,
        "parts": [
            {
                "kind": part.kind or None,
                "name": part.name,
                "seconds": part.ns / 1e9,
                "share": part.share,
                "saved_by_half_s": part.saved_ns / 1e9,
            }
            for part in path.parts
        ],
        "stretches": [
            {
                "span_id": stretch.span.span_id,
                "kind": stretch.span.kind,
                "name": stretch.span.name,
                "from_s": (stretch.from_ns - begin) / 1e9,
                "seconds": stretch.ns / 1e9,
            }
            for stretch in path.stretches
        ],
    }
