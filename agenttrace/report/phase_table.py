"""Draws one model call: its phases with time, share and source, and the numbers that people compare models by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from agenttrace.phases.chunks import BUFFERED
from agenttrace.phases.metrics import call_metrics
from agenttrace.phases.names import counted, in_order
from agenttrace.phases.summary import is_stopped_by_length
from agenttrace.records import AttemptRecord, PhaseTiming, SpanRecord
from agenttrace.report.drawing import GAP, Column, error_text, share_bar, state_text, step_name, table
from agenttrace.report.escaping import visible
from agenttrace.report.numbers import MINUS, between, count, duration, percent, quantity, rate

INDENT = 2
PHASE_STYLES = {"queue": "yellow", "prefill": "cyan", "decode": "green", "delivery": "magenta"}
MAX_BAR = 40
NOTE_LIMIT = 500

Row = tuple[Text | str, str, str, Text, str]


def draw_call(call: SpanRecord, *, width: int) -> RenderableType:
    """A heading, the table of phases, and what follows from it."""
    heading = step_name(call).append(f"  {duration(call.duration_ns)}", style="bold")
    if call.call_site:
        heading.append(f"  at {visible(call.call_site, limit=80)}", style="dim")
    heading.append("  ").append_text(state_text(call.state))
    heading.rstrip()
    return Group(heading, *_phases(call, width), *_remarks(call), _facts_table(list(_facts(call))))


def _phases(call: SpanRecord, width: int) -> Iterator[RenderableType]:
    rows = list(_rows(call, bar_width=1))
    if not rows:
        return
    titles = ("phase", "time", "share", "", "source")
    widths = [max(len(title), *(len(str(row[n])) for row in rows)) for n, title in enumerate(titles)]
    widths[3] = 0
    bar_width = min(MAX_BAR, width - INDENT - sum(widths) - GAP * len(titles))
    columns = [
        Column(title="phase"),
        Column(title="time", is_number=True),
        Column(title="share", is_number=True),
        *([Column(width=bar_width)] if bar_width >= 5 else []),
        Column(title="source"),
    ]
    cells: Iterator[Sequence[Text | str]] = _rows(call, bar_width=bar_width)
    if bar_width < 5:
        cells = ((*row[:3], row[4]) for row in _rows(call, bar_width=1))
    yield table(columns, list(cells), indent=INDENT)


def _rows(call: SpanRecord, *, bar_width: int) -> Iterator[Row]:
    whole = call.duration_ns
    for phase in in_order(call.phases):
        name = visible(phase.name, limit=60)
        if phase.ns is not None and phase.included_in is None:
            share = phase.ns / whole if whole else None
            bar = share_bar(max(share or 0, 0), bar_width, style=PHASE_STYLES.get(phase.name, "blue"))
            yield name, duration(phase.ns), percent(share) if share is not None else "", bar, phase.source
        elif _is_bounded(phase):
            yield Text(name, style="dim"), between(phase.low_ns, phase.high_ns), "", Text(""), phase.source
    with_time = counted(call.phases)
    if whole is not None and with_time:
        rest = whole - sum(phase.ns or 0 for phase in with_time)
        if rest:
            share = rest / whole if whole else 0
            bar = share_bar(max(share, 0), bar_width, style="dim")
            yield "not divided", duration(rest), percent(share) if whole else "", bar, ""


def _is_bounded(phase: PhaseTiming) -> bool:
    """Whether something is known of a phase that has no number."""
    says_something = bool(phase.low_ns) or phase.high_ns is not None
    return phase.ns is None and phase.included_in is None and phase.source != "not-applicable" and says_something


def _remarks(call: SpanRecord) -> Iterator[RenderableType]:
    """What the table cannot say in a row: sums, phases without any number, and how the numbers were had."""
    sums: dict[str, list[str]] = defaultdict(list)
    methods: dict[str, list[str]] = defaultdict(list)
    unknown: list[str] = []
    for phase in in_order(call.phases):
        if phase.ns is not None and phase.method:
            methods[phase.method].append(phase.name)
        if phase.ns is None and phase.included_in is not None:
            sums[phase.included_in].append(phase.name)
        elif phase.ns is None and phase.source != "not-applicable" and not _is_bounded(phase):
            unknown.append(phase.name)
    lines = [f"{', '.join(members)}: known only within {name}" for name, members in sums.items()]
    lines += [f"unknown: {', '.join(unknown)}"] if unknown else []
    by_method = "; ".join(f"{method} ({', '.join(names)})" for method, names in methods.items())
    lines += [f"by {by_method}"] if methods else []
    for line in lines:
        yield _indented(visible(line, limit=NOTE_LIMIT))


def _indented(line: str) -> RenderableType:
    drawn = table([Column()], [], indent=INDENT)
    drawn.columns[-1].no_wrap = False
    drawn.add_row(Text(""), Text(line, style="dim"))
    return drawn


def _facts_table(facts: Sequence[tuple[str, str]]) -> RenderableType:
    drawn = table([Column(), Column()], [], indent=INDENT)
    drawn.columns[-1].no_wrap = False
    for label, value in facts:
        drawn.add_row(Text(""), Text(label, style="dim"), Text(value))
    return drawn


def _facts(call: SpanRecord) -> Iterator[tuple[str, str]]:
    yield "time to first token", _first_token(call)
    yield "prefill rate", _prefill_rate(call)
    yield "inter-token latency", _inter_token(call)
    yield from _stream(call)
    yield "tokens", _tokens(call)
    if call.finish_reason:
        cut = ": the answer is cut off" if is_stopped_by_length(call) else ""
        yield "finish reason", f"{visible(call.finish_reason, limit=60)}{cut}"
    if len(call.attempts) > 1:
        yield "HTTP requests", ", ".join(_attempt(attempt) for attempt in call.attempts)
    if call.error:
        yield "error", error_text(call, limit=NOTE_LIMIT)
    for note in call.notes:
        yield "note", visible(note, limit=NOTE_LIMIT)


def _first_token(call: SpanRecord) -> str:
    metrics = call_metrics(call)
    if metrics.client_ttft_ns is not None:
        client = duration(metrics.client_ttft_ns)
    else:
        client = between(metrics.client_ttft_low_ns, metrics.client_ttft_high_ns)
    return f"{duration(metrics.server_ttft_ns)} at the server (client: {client})"


def _prefill_rate(call: SpanRecord) -> str:
    shown = rate(call_metrics(call).prefill_tok_s)
    usage = call.usage
    if usage is None or usage.input is None or call_metrics(call).prefill_tok_s is None:
        return shown
    if usage.cached is None:
        return f"{shown} ({quantity(usage.input, 'prompt token')}, cached ones unknown)"
    return f"{shown} ({quantity(usage.input - usage.cached, 'prompt token')} that the cache did not hold)"


def _inter_token(call: SpanRecord) -> str:
    metrics = call_metrics(call)
    if metrics.tpot_n_ns is None and metrics.itl_n1_ns is None:
        return duration(None)
    n, n_1 = duration(metrics.tpot_n_ns), duration(metrics.itl_n1_ns)
    tokens = count(call.usage.output if call.usage else None)
    return f"{n} (decode / N), {n_1} (decode / (N {MINUS} 1)), N = {tokens}"


def _stream(call: SpanRecord) -> Iterator[tuple[str, str]]:
    """How a stream arrived: evenly, or in bursts that say nothing about single tokens."""
    metrics = call_metrics(call)
    if call.marks is None or metrics.icl_mean_ns is None:
        return
    text = f"{quantity(call.marks.chunks or 0, 'chunk')}, {duration(metrics.icl_mean_ns)} apart on average"
    if metrics.longest_silence_ns is not None:
        text += f", the longest silence {duration(metrics.longest_silence_ns)}"
    if metrics.burst_index is not None and metrics.burst_index > BUFFERED:
        text += f"; buffered: a token took between {duration(metrics.itl_mean_low_ns)} and {duration(metrics.itl_mean_high_ns)}"
    yield "stream", text


def _tokens(call: SpanRecord) -> str:
    usage = call.usage
    if usage is None:
        return duration(None)
    reasoning = f" ({count(usage.reasoning)} of them reasoning)" if usage.reasoning else ""
    return f"{count(usage.input)} in (cached: {count(usage.cached)}), {count(usage.output)} out{reasoning}"


def _attempt(attempt: AttemptRecord) -> str:
    outcome = str(attempt.status) if attempt.status is not None else visible(attempt.error or "no response", limit=60)
    took = "" if attempt.end_ns is None else f" after {duration(attempt.end_ns - attempt.start_ns)}"
    return f"{outcome}{took}"
