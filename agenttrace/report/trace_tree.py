"""Draws a trace as a tree of its steps, each with a bar that says when it ran and for how long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from agenttrace.phases.summary import latest_ns
from agenttrace.records import SpanRecord
from agenttrace.report.drawing import KIND_STYLES, Column, state_text, step_name, table, time_bar
from agenttrace.report.numbers import NOTHING, count, duration

SHOWN_STEPS = 60
"""Steps that are drawn unless all are asked for: about a screen, read from the top."""

STATE_WIDTH = 11
MAX_PREFIX = 24
"""Columns that a deep step's branches may take from its name."""

Children = Mapping[str | None, Sequence[SpanRecord]]


def draw_tree(spans: Sequence[SpanRecord], *, width: int) -> Table:
    """The tree of a trace's spans, which come in start order. A step whose parent is not among them is a root."""
    first_ns = min(span.start_ns for span in spans)
    whole_ns = max(latest_ns(spans) - first_ns, 1)
    has_states = any(span.state != "ok" for span in spans)
    has_tokens = any(span.usage for span in spans)
    bar_width = max(width // (5 if has_states else 4), 10)
    columns = [
        Column(title="step", is_flexible=True),
        *([Column(title="state", width=STATE_WIDTH)] if has_states else []),
        Column(title="took", width=_took_width(spans), is_number=True),
        *([Column(title="tokens", width=_tokens_width(spans), is_number=True)] if has_tokens else []),
        Column(title=f"0{duration(whole_ns):>{bar_width - 1}}", width=bar_width),
    ]
    rows: list[list[Text | str]] = []
    for prefix, span in tree_lines(spans):
        end_ns = first_ns + whole_ns if span.end_ns is None else span.end_ns
        bar = time_bar(
            (span.start_ns - first_ns) / whole_ns,
            (end_ns - first_ns) / whole_ns,
            bar_width,
            style="red" if span.state in ("error", "timed_out") else KIND_STYLES.get(span.kind, "dim"),
            is_open=span.end_ns is None,
        )
        rows.append(
            [
                step_name(span, prefix=prefix),
                *([state_text(span.state)] if has_states else []),
                _took(span),
                *([_tokens(span)] if has_tokens else []),
                bar,
            ]
        )
    drawn = table(columns, rows)
    drawn.width = width
    return drawn


def _took(span: SpanRecord) -> str:
    return NOTHING if span.duration_ns is None else duration(span.duration_ns)


def _took_width(spans: Sequence[SpanRecord]) -> int:
    return max(len(_took(span)) for span in spans)


def _tokens(span: SpanRecord) -> str:
    """Input and output; a question mark is a count that nobody reported."""
    usage = span.usage
    if usage is None:
        return ""
    return " → ".join("?" if number is None else count(number) for number in (usage.input, usage.output))


def _tokens_width(spans: Sequence[SpanRecord]) -> int:
    return max(len("tokens"), *(len(_tokens(span)) for span in spans))


def tree_lines(spans: Sequence[SpanRecord]) -> Iterator[tuple[str, SpanRecord]]:
    """Each span once, parents first, with the branches to draw before its name.

    Parents come from files too, so they may be missing or go round in a circle: such steps are drawn as roots.
    """
    ids = {span.span_id for span in spans}
    children: dict[str | None, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        children[span.parent_id if span.parent_id in ids else None].append(span)
    drawn: set[str] = set()
    for root in (*children[None], *spans):
        if root.span_id not in drawn:
            yield from _branch(root, children, drawn)


def _branch(root: SpanRecord, children: Children, drawn: set[str]) -> Iterator[tuple[str, SpanRecord]]:
    # A stack instead of recursion: a chain may be deeper than Python lets us recurse.
    stack = [("", "", root)]
    while stack:
        branch, below, span = stack.pop()
        if span.span_id in drawn:
            continue
        drawn.add(span.span_id)
        yield branch if len(branch) <= MAX_PREFIX else f"…{branch[1 - MAX_PREFIX :]}", span
        inside = children.get(span.span_id, ())
        for child in reversed(inside):
            is_last = child is inside[-1]
            stack.append((f"{below}{'└─ ' if is_last else '├─ '}", f"{below}{'   ' if is_last else '│  '}", child))


def most_telling(spans: Sequence[SpanRecord], limit: int = SHOWN_STEPS) -> list[SpanRecord]:
    """The longest and the failed steps, with all that contain them; in the order given."""
    by_id = {span.span_id: span for span in spans}
    longest = sorted(spans, key=lambda span: (span.state == "ok", -(span.duration_ns or 0)))
    kept: set[str] = set()
    for span in longest:
        path = _path_up(span, by_id, kept)
        if kept and len(kept) + len(path) > limit:
            break
        kept |= path
    return [span for span in spans if span.span_id in kept]


def _path_up(span: SpanRecord, by_id: Mapping[str, SpanRecord], kept: Collection[str]) -> set[str]:
    """A step and what contains it, as far as that is not kept already."""
    path: set[str] = set()
    above: SpanRecord | None = span
    while above is not None and above.span_id not in kept and above.span_id not in path:
        path.add(above.span_id)
        above = by_id.get(above.parent_id) if above.parent_id is not None else None
    return path
