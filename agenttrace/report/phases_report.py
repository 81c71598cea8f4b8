"""Draws distributions of model calls' times: quantiles with intervals, small histograms, load, and two runs over each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from agenttrace.phases.advice import Advice
from agenttrace.phases.distributions import RATES, Distribution, GroupTimings, Quantile
from agenttrace.phases.quantiles import QUANTILES, smallest_sample
from agenttrace.report.drawing import Column, table
from agenttrace.report.escaping import visible
from agenttrace.report.numbers import NOTHING, UNKNOWN, between, count, duration, moment, percent, quantity, rate
from agenttrace.report.phase_table import INDENT, PHASE_STYLES

SHOWN_GROUPS = 20
NAME_WIDTH = 20

SPARK_WIDTH = 14
"""Of a histogram, beside the share of calls in which the measure is known."""

NARROW = 100
"""Columns below which p95 is left out."""

LEVELS = " ▁▂▃▄▅▆▇█"

NAMES = {
    "duration": "whole call",
    "first_token": "time to first token",
    "inter_token": "inter-token latency",
    "tokens_per_second_user": "tokens/s per user",
}


def draw_timings(
    title: str, groups: Sequence[GroupTimings], sampled: float | None, *, by: str, width: int = 80
) -> RenderableType:
    """Each group's distributions, with the load that they were measured under."""
    head = Text("phases of ", style="dim").append(visible(title), style="bold")
    head.append(f"  {quantity(sum(group.calls for group in groups), 'model call')}, by {by}", style="dim")
    parts: list[RenderableType] = [head]
    if sampled is not None:
        parts.append(Text(f"Of so many calls a sample was taken, {percent(sampled)} of them.", style="dim"))
    for group in groups[:SHOWN_GROUPS]:
        parts += [Text(""), *_group(group, width)]
    if len(groups) > SHOWN_GROUPS:
        parts += [Text(""), Text(f"and {quantity(len(groups) - SHOWN_GROUPS, 'group')} with fewer calls", style="dim")]
    parts += [
        Text(""),
        Text("Below each quantile its 95 % interval; — where too few calls are known for one.", style="dim"),
    ]
    return Group(*parts)


def _group(group: GroupTimings, width: int) -> Iterator[RenderableType]:
    head = Text(visible(group.name, limit=80), style="bold").append(f"  {quantity(group.calls, 'call')}", style="dim")
    if group.left_out:
        left_out = ", ".join(f"{count(calls)} {state}" for state, calls in group.left_out.items())
        head.append(f"  without {left_out}", style="dim")
    yield head
    quantiles = [name for name in QUANTILES if width >= NARROW or name != "p95"]
    columns = [
        Column(title="known in", width=NAME_WIDTH),
        *(Column(title=name, is_number=True) for name in (*quantiles, "max")),
    ]
    drawn = table(columns, [_row(item, quantiles) for item in group.distributions if item.known], indent=INDENT)
    drawn.columns[1].no_wrap = False
    yield drawn
    facts = table([Column(), Column()], [], indent=INDENT)
    facts.columns[-1].no_wrap = False
    for label, text in group_facts(group):
        facts.add_row(Text(""), Text(label, style="dim"), Text(text))
    yield facts
    for item in group.advice:
        yield _advice(item)


def _row(item: Distribution, quantiles: Sequence[str]) -> list[Text | str]:
    name = Text(_name(item.name))
    shape = spark(item.bins, _range([item.bins])).ljust(SPARK_WIDTH)
    name.append("\n").append(shape, style=PHASE_STYLES.get(item.name, "blue"))
    name.append(f" {percent(item.known_share)}", style="dim")
    return [name, *(_cell(item, item.quantiles[name]) for name in quantiles), _value(item, item.maximum)]


def _name(measure: str) -> str:
    """As a cell shows it; a sum's can be broken between its members."""
    return NAMES.get(measure) or visible(measure, limit=60).replace("_plus_", " + ")


def _cell(item: Distribution, told: Quantile | None) -> Text:
    if told is None:
        return Text(NOTHING, style="dim")
    interval = (
        f"{_value(item, told.low).split()[0]}–{_value(item, told.high)}"
        if item.name in RATES
        else between(told.low, told.high).replace(" to ", "–")
    )
    return Text(_value(item, told.value)).append(f"\n{interval}", style="dim")


def _value(item: Distribution, value: float | None) -> str:
    if value is None:
        return NOTHING
    return rate(value).removesuffix(" tokens/s") if item.name in RATES else duration(value)


def _range(bins: Sequence[Mapping[int, int]]) -> tuple[int, int]:
    held = [number for one in bins for number in one]
    return (min(held), max(held)) if held else (0, 0)


def spark(bins: Mapping[int, int], reach: tuple[int, int]) -> str:
    """A logarithmic histogram as one line of blocks, at most `SPARK_WIDTH` wide; a bin that holds anything is seen."""
    first, last = reach
    step = -(-(last - first + 1) // SPARK_WIDTH)
    heights = [sum(bins.get(at + more, 0) for more in range(step)) for at in range(first, last + 1, step)]
    most = max(heights, default=0) or 1
    return "".join(LEVELS[-(-height * (len(LEVELS) - 1) // most)] for height in heights)


def group_facts(group: GroupTimings) -> Iterator[tuple[str, str]]:
    """Sources, load, throughput and cache of a group, each with its label."""
    by_source: dict[str, list[str]] = defaultdict(list)
    for item in group.distributions:
        for source in item.sources:
            by_source[source].append(NAMES.get(item.name, item.name))
    for source, names in sorted(by_source.items()):
        yield source, visible(", ".join(names), limit=300)
    if group.unknown_phases:
        yield UNKNOWN, visible(", ".join(group.unknown_phases), limit=300)
    load = group.load
    yield "in flight", f"{_spread(load.in_flight)} requests when a call began, itself counted, as these clients saw it"
    if any(value is not None for value in load.output_tokens_in_flight.values()):
        yield "", f"{_spread(load.output_tokens_in_flight)} output tokens of these requests"
    window = f"from {moment(load.first_ns)} on, {duration(load.window_ns)}"
    if load.busy_ns is not None and load.window_ns:
        window += f", with calls under way in {percent(load.busy_ns / load.window_ns)} of it"
    yield "over", window
    system = rate(group.system_tokens_per_second)
    requests = group.requests_per_second
    yield "throughput", f"{'unknown' if requests is None else f'{requests:,.3g}'} requests/s, {system} of the system"
    if group.cache_hit_rate is None:
        yield "prefix cache", UNKNOWN
    else:
        hits = f"{count(group.cache_hits)} of {quantity(group.cached_known, 'call')}"
        yield "prefix cache", f"held {percent(group.cache_hit_rate)} of the prompts, something in {hits}"


def _spread(values: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {NOTHING if value is None else count(round(value))}" for name, value in values.items())


def _advice(item: Advice) -> Text:
    unknown = f", unknown in {count(item.unknown)}" if item.unknown else ""
    drawn = Text(f"  {item.phase}", style="yellow").append(
        f" took {percent(item.share)} of the call or more in {count(item.hits)} of {quantity(item.calls, 'call')}"
        f"{unknown} (in {percent(item.at_least)} of all at least): "
    )
    return drawn.append(item.remedy, style="bold")


def draw_comparison(names: Sequence[str], runs: Sequence[Sequence[GroupTimings]], *, width: int = 80) -> RenderableType:
    """Two runs over each other, group by group; nothing is judged."""
    parts: list[RenderableType] = [
        Text("A ", style="dim").append(visible(names[0]), style="bold"),
        Text("B ", style="dim").append(visible(names[1]), style="bold"),
    ]
    sides = [{group.name: group for group in groups} for groups in runs]
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        both = [side.get(name) for side in sides]
        calls = ", ".join(
            f"{label} {count(group.calls if group else 0)}" for label, group in zip("AB", both, strict=True)
        )
        parts += [Text(""), Text(visible(name, limit=80), style="bold").append(f"  calls: {calls}", style="dim")]
        parts.append(_overlaid(both, width))
    needed = ", ".join(f"{name} {smallest_sample(share)}" for name, share in QUANTILES.items())
    parts += [
        Text(""),
        Text(f"Below each quantile its 95 % interval; — below so many known calls: {needed}.", style="dim"),
        Text("Whether B is worse is not judged here: 'agenttrace compare' asks first whether the runs may be compared.", style="dim"),
    ]  # fmt: skip
    return Group(*parts)


def _overlaid(both: Sequence[GroupTimings | None], width: int) -> RenderableType:
    quantiles = [name for name in QUANTILES if width >= NARROW or name != "p95"]
    found = [{item.name: item for item in group.distributions if item.known} if group else {} for group in both]
    rows: list[list[Text | str]] = []
    for name in dict.fromkeys([*found[0], *found[1]]):
        reach = _range([side[name].bins for side in found if name in side])
        for label, side in zip("AB", found, strict=True):
            item = side.get(name)
            first = Text(_name(name) if label == "A" else "")
            if item is None:
                rows.append([first, label, *([NOTHING] * (len(quantiles) + 1))])
                continue
            first.append("\n" if label == "A" else "")
            first.append(spark(item.bins, reach), style="blue" if label == "A" else "magenta")
            cells = [_cell(item, item.quantiles[quantile]) for quantile in quantiles]
            rows.append([first, label, *cells, _value(item, item.maximum)])
    columns = [
        Column(width=NAME_WIDTH),
        Column(),
        *(Column(title=name, is_number=True) for name in (*quantiles, "max")),
    ]
    return table(columns, rows, indent=INDENT)
