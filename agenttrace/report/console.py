"""Draws on a terminal, or into a pipe: the list of traces, and one trace with its tree and its model calls.

Colour only where a terminal asks for it. Everything recorded passes `escaping.visible` and is drawn as `Text`, never as
markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from agenttrace.phases.summary import RunSummary, latest_ns, summarise
from agenttrace.records import RunRecord, SpanRecord, TraceSummary
from agenttrace.report.drawing import MAX_WIDTH, NAME_LIMIT, Column, error_text, state_text, step_name, table
from agenttrace.report.escaping import visible
from agenttrace.report.hints import show_command
from agenttrace.report.numbers import NOTHING, count, duration, moment, money, quantity
from agenttrace.report.phase_table import draw_call
from agenttrace.report.trace_tree import draw_tree, most_telling

SHOWN_CALLS = 3
"""Model calls whose phases are drawn unless all are asked for: the slowest."""

SHORT_ID = 12
"""Digits of an id that a line shows: `show` takes the beginning of an id."""

WIDE = 100
"""Columns from which a line has room for what is good to know."""


def open_console(*, stderr: bool = False) -> Console:
    """Standard output as drawings want it: no wrapping of what is too wide, and no guesses about what names mean.

    `stderr` for what is no result: progress.
    """
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False, stderr=stderr)


def width_of(console: Console) -> int:
    return min(console.width, MAX_WIDTH)


def command_line(command: str) -> Text:
    """A command on a line of its own, never broken, so that it can be copied."""
    return Text(f"  {visible(command)}", style="bold", no_wrap=True, overflow="ignore")


def put(drawing: RenderableType, console: Console) -> None:
    """Print a drawing. Into a pipe or file go no colours, and no spaces at the ends of lines."""
    if console.is_terminal:
        console.print(drawing)
        return
    with console.capture() as captured:
        console.print(drawing)
    console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def draw_list(traces: Sequence[TraceSummary], *, width: int = 80) -> RenderableType:
    """Traces one a line, in the order given."""
    has_states = any(trace.state != "ok" for trace in traces)
    has_costs = any(trace.known_usd is not None for trace in traces)
    labels = [name for name in ("session", "user") if width >= WIDE and any(getattr(trace, name) for trace in traces)]
    columns = [
        Column(title="trace"),
        Column(title="started"),
        Column(title="name", is_flexible=True),
        *([Column(title="run", is_flexible=True)] if width >= WIDE else []),
        *(Column(title=name, is_flexible=True) for name in labels),
        *([Column(title="state")] if has_states else []),
        Column(title="took", is_number=True),
        Column(title="steps", is_number=True),
        Column(title="tokens", is_number=True),
        *([Column(title="cost", is_number=True)] if has_costs else []),
    ]
    drawn = table(columns, [_trace_row(trace, width, has_states, labels, has_costs) for trace in traces])
    drawn.width = width
    return drawn


def _trace_row(
    trace: TraceSummary, width: int, has_states: bool, labels: Sequence[str], has_costs: bool
) -> list[Text | str]:
    usage = trace.usage
    tokens = " → ".join("?" if number is None else count(number) for number in (usage.input, usage.output))
    return [
        Text(trace.trace_id[:SHORT_ID], style="bold"),
        moment(trace.start_ns) if width >= WIDE else moment(trace.start_ns)[5:-3],
        visible(trace.name, limit=NAME_LIMIT),
        *([Text(visible(trace.run, limit=NAME_LIMIT), style="dim")] if width >= WIDE else []),
        *(visible(getattr(trace, name) or "", limit=NAME_LIMIT) for name in labels),
        *([state_text(trace.state)] if has_states else []),
        NOTHING if trace.end_ns is None else duration(trace.end_ns - trace.start_ns),
        count(trace.spans),
        NOTHING if usage.input is None and usage.output is None else tokens,
        *([f"{'' if trace.cost_usd is not None else '≥ '}{money(trace.known_usd)}"] if has_costs else []),
    ]


def draw_runs(runs: Sequence[RunRecord], *, width: int = 80) -> RenderableType:
    """Runs one a line, in the order given."""
    columns = [
        Column(title="run"),
        Column(title="started"),
        Column(title="name", is_flexible=True),
        Column(title="took", is_number=True),
        Column(title="tags"),
    ]
    rows: list[list[Text | str]] = [
        [
            Text(visible(run.run_id, limit=40), style="bold"),
            moment(run.start_ns),
            visible(run.name, limit=NAME_LIMIT),
            NOTHING if run.end_ns is None else duration(run.end_ns - run.start_ns),
            visible(", ".join(f"{key}={value}" for key, value in run.tags.items()), limit=40),
        ]
        for run in runs
    ]
    drawn = table(columns, rows)
    drawn.width = width
    return drawn


def draw_trace(
    run: RunRecord | None,
    spans: Sequence[SpanRecord],
    *,
    width: int = 80,
    show_all: bool = False,
    store: str | None = None,
) -> RenderableType:
    """A trace's spans, which come in start order: heading, tree, and the phases of its model calls.

    Without `show_all` a long trace is shortened to its longest steps and its slowest calls, and says so. `store` goes
    into the command that shows all; None is the default store.
    """
    summary = summarise([run] if run is not None else [], spans)
    shown = spans if show_all else most_telling(spans)
    calls = [span for span in spans if span.kind == "model"]
    slowest = sorted(calls, key=lambda call: call.duration_ns or 0, reverse=True)[:SHOWN_CALLS]
    shown_calls = calls if show_all else [call for call in calls if call in slowest]
    parts: list[RenderableType] = [
        *_heading(run, spans, summary),
        *_labels(run, spans),
        Text(""),
        draw_tree(shown, width=width),
    ]
    if len(shown) < len(spans):
        parts.append(Text(f"{quantity(len(spans) - len(shown), 'shorter step')} not shown", style="dim"))
    parts += _failures(summary)
    for call in shown_calls:
        parts += [Text(""), draw_call(call, width=width)]
    if len(shown) < len(spans) or len(shown_calls) < len(calls):
        hidden = quantity(len(calls) - len(shown_calls), "faster model call")
        parts += [Text(""), Text(f"{hidden} not shown; all of it:")]
        parts.append(command_line(show_command(spans[0].trace_id, store, "--all")))
    return Group(*parts)


def _heading(run: RunRecord | None, spans: Sequence[SpanRecord], summary: RunSummary) -> Iterator[RenderableType]:
    first = spans[0]
    is_open = any(span.end_ns is None for span in spans)
    took = duration(latest_ns(spans) - first.start_ns)
    title = Text("trace ", style="dim").append(first.trace_id, style="bold")
    if run is not None:
        title.append(" of run ", style="dim").append(visible(run.name, limit=60))
    yield title
    yield Text(
        f"{moment(first.start_ns)}, {f'not finished, {took} so far' if is_open else took}: "
        f"{quantity(len(spans), 'step')}, {quantity(summary.model_calls, 'model call')} {duration(summary.model_ns)}, "
        f"{quantity(summary.tool_calls, 'tool call')} {duration(summary.tool_ns)}"
    )


def _labels(run: RunRecord | None, spans: Sequence[SpanRecord]) -> Iterator[RenderableType]:
    """Whose trace it is, and what was kept of its run."""
    root = spans[0]
    labels = [("session", root.session), ("user", root.user), ("tags", ", ".join(root.tags) or None)]
    told = [f"{name} {visible(value, limit=60)}" for name, value in labels if value]
    if told:
        yield Text(", ".join(told), style="dim")
    if run is not None and run.policy:
        yield Text(policy_text(run), style="dim")


def policy_text(run: RunRecord) -> str:
    """What was recorded of a run that did not record everything."""
    content = run.policy.get("content")
    kept = (
        [f"{name} {value}" for name, value in content.items() if value != "full"] if isinstance(content, dict) else []
    )
    parts = [f"kept of content: {visible(', '.join(kept), limit=120)}"] if kept else []
    if run.policy.get("redact"):
        parts.append("texts redacted")
    limit = run.policy.get("payload_limit")
    if isinstance(limit, int):
        parts.append(f"texts cut at {quantity(limit, 'character')}")
    share = run.policy.get("sample")
    if isinstance(share, (int, float)) and share < 1:
        parts.append(f"sampled at {share:g}: {quantity(run.sampled_out or 0, 'trace')} left out")
    return "; ".join(parts)


def _failures(summary: RunSummary) -> Iterator[RenderableType]:
    for span in summary.failed:
        yield Text("")
        yield step_name(span).append(" failed: ", style="bold red").append(error_text(span))
