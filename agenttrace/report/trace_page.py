"""One trace as an HTML page: the critical path, then a waterfall whose steps open to their phases and messages.

Each step is a disclosure of the browser's own, so keys and screen readers work without a script.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import orjson

from agenttrace.phases.critical_path import CriticalPath, Stretch, critical_path
from agenttrace.phases.names import counted, in_order
from agenttrace.phases.summary import latest_ns
from agenttrace.records import PhaseTiming, RunRecord, SpanRecord
from agenttrace.report.drawing import part_name
from agenttrace.report.html_page import html_page, html_table, lines, text
from agenttrace.report.numbers import NOTHING, between, count, duration, moment, percent, quantity
from agenttrace.report.trace_tree import most_telling, tree_lines

SCALE = 1000
"""Units of a bar's width."""

MOST_DEPTH = 8
"""Steps further inside are drawn as far in as this."""

TEXT_LIMIT = 20_000
"""Characters of one input or output."""

PAGE_LIMIT = 4_000_000
"""Characters of all inputs and outputs: a browser opens more only slowly."""

OPENED = 500
"""Steps that open to what is in them, for the same reason: the longest and the failed ones."""

FAILED = ("error", "timed_out")


def trace_page(run: RunRecord | None, spans: Sequence[SpanRecord]) -> str:
    """The page of a trace's spans, which come in start order."""
    path = critical_path(spans)
    root = min(spans, key=lambda span: (span.parent_id is not None, span.start_ns))
    began, whole = (
        min(span.start_ns for span in spans),
        duration(latest_ns(spans) - min(span.start_ns for span in spans)),
    )
    named = f", run {run.name}" if run is not None else ""
    about = f"{moment(began)}{named}: {quantity(len(spans), 'step')}, {whole}"
    body = [
        f'<p class="dim">{text(about)}; trace <code>{text(root.trace_id)}</code></p>',
        *_path(path),
        *_steps(spans, path),
    ]
    return html_page(f"{root.name}: {whole}", body)


def _path(path: CriticalPath) -> Iterator[str]:
    yield "<h2>What its time hangs on</h2>"
    if not path.has_ended:
        yield '<p class="bad">The trace has not ended, or its root is missing.</p>'
    rows = [
        (
            text(part_name(part)),
            duration(part.ns),
            percent(part.share),
            duration(part.saved_ns) if part.saved_ns else NOTHING,
        )
        for part in path.parts
    ]
    yield html_table(("waits for", "time", "share", "half of it saves"), rows, caption="The critical path by cause")


def _steps(spans: Sequence[SpanRecord], path: CriticalPath) -> Iterator[str]:
    yield "<h2>Steps</h2>"
    yield (
        '<p class="dim">Each opens to its phases and messages. A red line below a bar: the trace waited for it then. '
        "Phases are drawn one after the other, in the order in which they happen.</p>"
    )
    opened = {span.span_id for span in most_telling(spans, OPENED)}
    if len(opened) < len(spans):
        closed = quantity(len(spans) - len(opened), "shorter step")
        yield f'<p class="dim">{closed} do not open here; agenttrace show --json has what is in them.</p>'
    rows = "".join(_items(spans, path, opened))  # without line breaks: each would be a node of its own
    yield f'<ol class="steps">{rows}</ol>'


def _items(spans: Sequence[SpanRecord], path: CriticalPath, opened: Collection[str]) -> Iterator[str]:
    """The lines of the waterfall, parents first."""
    began, latest = min(span.start_ns for span in spans), latest_ns(spans)
    scale = SCALE / max(latest - began, 1)
    on_path: dict[str, list[Stretch]] = defaultdict(list)
    for stretch in path.stretches:
        on_path[stretch.span.span_id].append(stretch)
    depths = _depths(spans)
    left = PAGE_LIMIT
    for _, span in tree_lines(spans):
        depth = depths[span.span_id]
        end_ns = latest if span.end_ns is None else span.end_ns
        row = _row(span, depth, _bar(span, on_path[span.span_id], began, scale, end_ns))
        if span.span_id not in opened:
            yield f'<li class="row" aria-level="{depth + 1}">{row}</li>'
            continue
        inside, used = _inside(span, left)
        left -= used
        yield f'<li aria-level="{depth + 1}"><details><summary class="row">{row}</summary>'
        yield f'<div class="inside">{inside}</div></details></li>'


def _depths(spans: Sequence[SpanRecord]) -> Mapping[str, int]:
    depths: dict[str, int] = {}
    for _, span in tree_lines(spans):
        depths[span.span_id] = depths.get(span.parent_id or "", -1) + 1
    return depths


def _row(span: SpanRecord, depth: int, bar: str) -> str:
    took = NOTHING if span.duration_ns is None else duration(span.duration_ns)
    state = "" if span.state == "ok" else f' <span class="bad">{text(span.state)}</span>'
    # Few elements a row: a browser takes time for each.
    name = f"{text(span.name, limit=200)} ({text(span.model or span.kind, limit=60)})"
    name = f'<span class="name d{min(depth, MOST_DEPTH)}">{name}{state}</span>'
    return f"{name}<span>{took}</span>{bar}"


def _bar(span: SpanRecord, path: Sequence[Stretch], began: int, scale: float, end_ns: int) -> str:
    """The step in the trace's time, a model call divided into its phases, and the critical path below it."""
    kind = (
        "failed"
        if span.state in FAILED
        else "tool"
        if span.kind == "tool"
        else "other"
        if span.kind == "model"
        else "chain"
    )
    drawn = [_rect((span.start_ns - began) * scale, (end_ns - span.start_ns) * scale, 0, 11, kind)]
    reached = span.start_ns
    for phase in counted(in_order(span.phases)) if span.kind == "model" and span.state not in FAILED else ():
        if (phase.ns or 0) > 0:
            drawn.append(_rect((reached - began) * scale, (phase.ns or 0) * scale, 0, 11, phase.name))
            reached += phase.ns or 0
    waited = "".join(
        f"M{(part.from_ns - began) * scale:.1f} 13h{max(part.ns * scale, 1.0):.1f}v3H{(part.from_ns - began) * scale:.1f}z"
        for part in path
    )
    if waited:
        drawn.append(f'<path class="path" d="{waited}"/>')
    return f'<svg class="bar" viewBox="0 0 {SCALE} 16" preserveAspectRatio="none" aria-hidden="true">{"".join(drawn)}</svg>'


def _rect(x: float, width: float, y: int, height: int, kind: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{max(width, 1.0):.1f}" height="{height}" class="{text(kind)}"/>'


def _inside(span: SpanRecord, left: int) -> tuple[str, int]:
    """What a step opens to, and how many characters of content are in it."""
    parts = []
    if span.call_site:
        parts.append(f'<p class="dim">at {text(span.call_site, limit=200)}</p>')
    if span.error is not None:
        parts.append(f'<p class="bad">{text(span.error.type)}: {text(span.error.message, limit=2_000)}</p>')
    if span.usage is not None and (span.usage.input is not None or span.usage.output is not None):
        tokens = (
            f"{count(span.usage.input)} tokens in (cached: {count(span.usage.cached)}), {count(span.usage.output)} out"
        )
        parts.append(f"<p>{tokens}</p>")
    if span.phases:
        rows = [_phase(phase, span.duration_ns) for phase in in_order(span.phases) if phase.source != "not-applicable"]
        parts.append(html_table(("phase", "time", "share", "source"), rows, caption=f"Phases of {span.name}"))
    used = 0
    for title, value in (("Input", span.input), ("Output", span.output)):
        if value is not None:
            shown, size = _content(value, left - used)
            used += size
            parts.append(f"<details><summary>{title}</summary>{shown}</details>")
    return "".join(parts), used


def _phase(phase: PhaseTiming, whole_ns: int | None) -> tuple[str, ...]:
    share = percent(phase.ns / whole_ns) if phase.ns is not None and whole_ns and phase.included_in is None else ""
    took = duration(phase.ns) if phase.ns is not None else between(phase.low_ns, phase.high_ns)
    source = f"within {phase.included_in}" if phase.included_in else phase.source
    return text(phase.name, limit=80), took, share, text(source, limit=100)


def _content(value: Any, left: int) -> tuple[str, int]:
    """Messages one below the other, all else as JSON; cut where it is long, and saying so."""
    if isinstance(value, str):
        whole = value
    elif isinstance(value, list) and all(isinstance(item, dict) and "role" in item for item in value):
        whole = "\n\n".join(f"{item['role']}: {_words(item)}" for item in value)
    else:
        whole = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    kept = whole[: max(min(TEXT_LIMIT, left), 0)]
    cut = f'<p class="dim">Cut: {count(len(whole) - len(kept))} characters more. show --json has all.</p>'
    return f"<pre>{lines(kept)}</pre>{cut if len(kept) < len(whole) else ''}", len(kept)


def _words(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    rest = {key: value for key, value in message.items() if key not in ("role", "content") and value}
    told = content if isinstance(content, str) else orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()
    return f"{told}\n{orjson.dumps(rest, option=orjson.OPT_INDENT_2).decode()}" if rest else told
