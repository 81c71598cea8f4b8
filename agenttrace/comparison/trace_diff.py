"""Lays two traces side by side: which steps stand for each other, and where what they were given and gave differs.

In: the spans of two traces. Out: a `TraceDiff`; what came first in the second trace stands first, since it may be why the rest
differs.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, TypeAlias

from agenttrace.comparison.differences import SettingDifference, contract_difference
from agenttrace.phases.names import ORDER
from agenttrace.phases.summary import PhaseTotal, summarise
from agenttrace.records import SpanRecord
from agenttrace.settings.canonical import canonical
from agenttrace.settings.contract import fold
from agenttrace.steps import JSON

Part: TypeAlias = Literal[
    "input", "settings", "prompt", "model output", "tool arguments", "tool output", "retrieval", "steps", "output"
]
"""What differs. `steps`: a step that only one trace has; `output`: what the task answered, where no call explains it."""

CALLS = ("model", "tool", "retriever", "embedding")
"""Steps that are looked into; what chains and nodes pass on is what these gave."""

Known: TypeAlias = tuple[set[bytes], set[bytes]]
"""Of either trace, what differed earlier, message by message."""

MAX_PAIRS = 4_000_000
"""Siblings of one trace times those of the other: beyond this they are matched in order, which takes no search."""

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""Of a document, what its store made up for it; an id of another form is the author's, and is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPair:
    """A step in both traces, or in one."""

    before: SpanRecord | None
    after: SpanRecord | None
    depth: int
    """0 for roots."""

    @property
    def step(self) -> SpanRecord:
        step = self.after or self.before
        assert step is not None
        return step

    @property
    def delta_ns(self) -> int | None:
        """How much longer the second took; None where one has not ended, or is not there."""
        times = [None if span is None else span.duration_ns for span in (self.before, self.after)]
        return None if times[0] is None or times[1] is None else times[1] - times[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs."""

    part: Part
    pair: StepPair
    before: JSON
    """What the first trace has; of a prompt, the messages that differ."""
    after: JSON
    dimension: str | None = None
    """Of settings, which one."""
    offset_ns: int
    """When it shows, from the start of the trace: of the second one, or the first where only that has the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePair:
    """A phase over all model calls of each trace; None where none of them has a number for it."""

    name: str
    before: PhaseTotal | None
    after: PhaseTotal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceDiff:
    """Two traces side by side."""

    pairs: tuple[StepPair, ...]
    """In the order of a tree that is read from the top."""
    differences: tuple[Difference, ...]
    """In the order in which they show."""
    settings: tuple[SettingDifference, ...]
    """As a comparison of runs would tell them, by call site."""
    phases: tuple[PhasePair, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """What differs, each once, first difference first."""
        return tuple(dict.fromkeys(difference.part for difference in self.differences))


def trace_diff(before: Sequence[SpanRecord], after: Sequence[SpanRecord]) -> TraceDiff:
    """Compare two traces, each with its spans in start order."""
    pairs = tuple(aligned(before, after))
    return TraceDiff(
        pairs=pairs,
        differences=tuple(_differences(pairs, before, after)),
        settings=contract_difference(fold(before), fold(after)).differences,
        phases=tuple(_phases(before, after)),
    )


Children: TypeAlias = Mapping[str | None, Sequence[SpanRecord]]


def aligned(before: Sequence[SpanRecord], after: Sequence[SpanRecord]) -> Iterator[StepPair]:
    """Pair steps from the roots down: of one parent, those of one kind and name, in the order in which they began."""
    old, new = _children(before), _children(after)
    stack: list[StepPair] = list(reversed(list(_siblings(old[None], new[None], 0))))
    while stack:
        pair = stack.pop()
        yield pair
        inside = [
            () if span is None else children.get(span.span_id, ())
            for span, children in ((pair.before, old), (pair.after, new))
        ]
        stack += reversed(list(_siblings(inside[0], inside[1], pair.depth + 1)))


def _children(spans: Sequence[SpanRecord]) -> dict[str | None, list[SpanRecord]]:
    """By parent. A step whose parent is missing is a root; so is the first of a circle, so that nothing is left out."""
    ids = {span.span_id for span in spans}
    children: dict[str | None, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        children[span.parent_id if span.parent_id in ids else None].append(span)
    reached: set[str] = set()
    for root in (*children[None], *spans):
        if root.span_id in reached:
            continue
        if root.parent_id in ids:
            children[root.parent_id].remove(root)
            children[None].append(root)
        stack = [root]
        while stack:
            span = stack.pop()
            reached.add(span.span_id)
            stack += children.get(span.span_id, ())
    return children


def _key(span: SpanRecord) -> tuple[str, str]:
    return span.kind, span.name


def _siblings(before: Sequence[SpanRecord], after: Sequence[SpanRecord], depth: int) -> Iterator[StepPair]:
    """Steps in the order of the second trace, those that only the first one has where they were."""
    partners, rest = _in_order(before, after), list[int]()
    taken = {place for place in partners if place is not None}
    left: dict[tuple[str, str], deque[int]] = defaultdict(deque)
    for place, span in enumerate(before):
        if place not in taken:
            left[_key(span)].append(place)
    for place, partner in enumerate(partners):  # what began in another order: parallel steps do
        if partner is None and left[_key(after[place])]:
            partners[place] = left[_key(after[place])].popleft()
    rest = sorted(place for places in left.values() for place in places)
    for span, partner in zip(after, partners, strict=True):
        while rest and partner is not None and rest[0] < partner:
            yield StepPair(before=before[rest.pop(0)], after=None, depth=depth)
        yield StepPair(before=None if partner is None else before[partner], after=span, depth=depth)
    for place in rest:
        yield StepPair(before=before[place], after=None, depth=depth)


def _in_order(before: Sequence[SpanRecord], after: Sequence[SpanRecord]) -> list[int | None]:
    """For each step of `after` the place of its partner, found without changing any order."""
    old, new = [_key(span) for span in before], [_key(span) for span in after]
    partners: list[int | None] = [None] * len(new)
    same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    partners[:same] = range(same)
    if (len(old) - same) * (len(new) - same) <= MAX_PAIRS:
        for start, new_start, size in SequenceMatcher(
            None, old[same:], new[same:], autojunk=False
        ).get_matching_blocks():
            for n in range(size):
                partners[same + new_start + n] = same + start + n
    return partners


def _differences(
    pairs: Sequence[StepPair], before: Sequence[SpanRecord], after: Sequence[SpanRecord]
) -> list[Difference]:
    """What differs, by the time at which it shows: what a step was given when it began, what it gave when it ended."""
    starts = [min((span.start_ns for span in spans), default=0) for spans in (before, after)]
    moments = sorted(_moments(pairs, starts[0], starts[1]), key=lambda moment: moment[:3])
    known: Known = (set(), set())
    settings: set[tuple[str | None, str | None, bytes]] = set()
    found: list[Difference] = []
    for offset_ns, moment, _, pair in moments:
        for difference in (_was_given if moment == BEGINS else _gave)(pair, offset_ns, known):
            if difference.part == "settings":  # the same at every call of a site, and told once
                told = pair.step.call_site, difference.dimension, canonical([difference.before, difference.after])
                if told in settings:
                    continue
                settings.add(told)
            found.append(difference)
    is_explained = any(difference.part not in ("input", "settings", "output") for difference in found)
    return [difference for difference in found if difference.part != "output" or not is_explained]


ENDS, BEGINS, ENDS_AT_ONCE = 0, 1, 2
"""What happens first within one moment: what began later may have been given what ended then."""


def _moments(pairs: Sequence[StepPair], old_ns: int, new_ns: int) -> Iterator[tuple[int, int, int, StepPair]]:
    for place, pair in enumerate(pairs):
        span, zero_ns = (pair.after, new_ns) if pair.after is not None else (pair.before, old_ns)
        assert span is not None
        yield span.start_ns - zero_ns, BEGINS, place, pair
        if span.end_ns is not None and pair.before is not None and pair.after is not None:
            ends = ENDS if span.end_ns > span.start_ns else ENDS_AT_ONCE
            yield span.end_ns - zero_ns, ends, -place, pair  # what is inside ended first


def _was_given(pair: StepPair, offset_ns: int, known: Known) -> Iterator[Difference]:
    before, after = pair.before, pair.after
    if before is None or after is None:
        if pair.step.kind in CALLS:
            yield Difference(part="steps", pair=pair, before=_name(before), after=_name(after), offset_ns=offset_ns)
        return
    if pair.step.kind == "model":
        yield from _settings(pair, offset_ns)
        prompts = _unlike(before.input, after.input, known)
        if prompts is not None:
            yield Difference(part="prompt", pair=pair, before=prompts[0], after=prompts[1], offset_ns=offset_ns)
    elif pair.step.kind in CALLS or pair.depth == 0:
        given = _bare(before.input), _bare(after.input)
        if given[0] != given[1]:
            part: Part = "tool arguments" if pair.step.kind == "tool" else "input"
            yield Difference(part=part, pair=pair, before=given[0], after=given[1], offset_ns=offset_ns)


def _name(span: SpanRecord | None) -> JSON:
    return None if span is None else span.name


OUTPUTS: Mapping[str, Part] = {
    "model": "model output",
    "tool": "tool output",
    "retriever": "retrieval",
    "embedding": "retrieval",
}


def _gave(pair: StepPair, offset_ns: int, known: Known) -> Iterator[Difference]:
    assert pair.before is not None
    assert pair.after is not None
    if pair.step.kind not in CALLS and pair.depth > 0:
        return
    gave = [_bare(_outcome(span)) for span in (pair.before, pair.after)]
    if gave[0] == gave[1]:
        return
    for side, value in zip(known, gave, strict=True):
        side.update(canonical(message) for message in _list(value))
    part: Part = OUTPUTS.get(pair.step.kind, "output")
    yield Difference(part=part, pair=pair, before=gave[0], after=gave[1], offset_ns=offset_ns)


def _outcome(span: SpanRecord) -> JSON:
    """What a step gave; of one that failed, how."""
    if span.error is None:
        return span.output
    return {"state": span.state, "error": span.error.type, "message": span.error.message}


def _settings(pair: StepPair, offset_ns: int) -> Iterator[Difference]:
    """Requested and served settings that differ; the prompt and the offered tools by their content."""
    assert pair.before is not None
    assert pair.after is not None
    old, new = pair.before.settings, pair.after.settings
    for name in dict.fromkeys((*old, *new)):
        if name.startswith("prompt."):
            continue  # told with the messages
        values = [settings[name].value if name in settings else None for settings in (old, new)]
        if values[0] != values[1]:
            yield Difference(
                part="settings", pair=pair, before=values[0], after=values[1], dimension=name, offset_ns=offset_ns
            )


def _unlike(before: JSON, after: JSON, known: Known) -> tuple[JSON, JSON] | None:
    """The messages that differ, without those that earlier steps gave or were given: of these it is told already."""
    sides = [[(canonical(message), message) for message in _list(_bare(value))] for value in (before, after)]
    old, new = ([key for key, _ in side] for side in sides)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    differing: tuple[list[JSON], list[JSON]] = ([], [])
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            differing[0].extend(message for key, message in sides[0][start:end] if key not in known[0])
            differing[1].extend(message for key, message in sides[1][new_start:new_end] if key not in known[1])
    for side, messages in zip(known, differing, strict=True):
        side.update(canonical(message) for message in messages)
    return (differing[0], differing[1]) if any(differing) else None


def _list(value: JSON) -> Sequence[JSON]:
    return value if isinstance(value, (list, tuple)) else () if value is None else (value,)


def _bare(value: JSON) -> JSON:
    """A value without the ids that are made anew in each run: of messages, their tool calls, and documents."""
    if isinstance(value, (list, tuple)):
        return [_bare(held) for held in value]
    if not isinstance(value, Mapping):
        return value
    if "role" in value:
        calls = value.get("tool_calls")
        bare = {key: held for key, held in value.items() if key not in ("id", "tool_call_id", "tool_calls")}
        if isinstance(calls, (list, tuple)):
            bare["tool_calls"] = [
                {key: held for key, held in call.items() if key != "id"} if isinstance(call, Mapping) else call
                for call in calls
            ]
        return bare
    if "page_content" in value and UUID.fullmatch(str(value.get("id"))):
        return {key: held for key, held in value.items() if key != "id"}
    return {key: _bare(held) for key, held in value.items()}


def _phases(before: Sequence[SpanRecord], after: Sequence[SpanRecord]) -> Iterator[PhasePair]:
    old, new = ({phase.name: phase for phase in summarise([], spans).phases} for spans in (before, after))
    for name in sorted(old.keys() | new.keys(), key=_place):
        yield PhasePair(name=name, before=old.get(name), after=new.get(name))


def _place(name: str) -> tuple[int, str]:
    """Phases in their order, sums after them."""
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def diff_json(diff: TraceDiff) -> dict[str, Any]:
    """The whole of it as JSON, without the contents of what is the same. Times in seconds, as everywhere in JSON."""
    return {
        "parts": list(diff.parts),
        "differences": [
            {
                "part": difference.part,
                "step": difference.pair.step.name,
                "kind": difference.pair.step.kind,
                "call_site": difference.pair.step.call_site,
                "baseline_span": _id(difference.pair.before),
                "candidate_span": _id(difference.pair.after),
                "dimension": difference.dimension,
                "offset_s": difference.offset_ns / 1e9,
                "baseline": difference.before,
                "candidate": difference.after,
            }
            for difference in diff.differences
        ],
        "steps": [
            {
                "name": pair.step.name,
                "kind": pair.step.kind,
                "depth": pair.depth,
                "baseline_span": _id(pair.before),
                "candidate_span": _id(pair.after),
                "baseline_s": _seconds(pair.before),
                "candidate_s": _seconds(pair.after),
            }
            for pair in diff.pairs
        ],
        "phases": [
            {"phase": phase.name, **{f"{side}_s": None if total is None else total.ns / 1e9 for side, total in sides}}
            for phase in diff.phases
            for sides in [(("baseline", phase.before), ("candidate", phase.after))]
        ],
    }


def _id(span: SpanRecord | None) -> str | None:
    return None if span is None else span.span_id


def _seconds(span: SpanRecord | None) -> float | None:
    return None if span is None or span.duration_ns is None else span.duration_ns / 1e9
