"""Draws how the settings of an agent moved over time: a lane for each value, and when one followed another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.text import Text

from agenttrace.report.escaping import visible
from agenttrace.report.numbers import moment, quantity
from agenttrace.report.setting_text import ARROW, spell
from agenttrace.report.settings_report import NAME_LIMIT, dimension_names, grid, indented, site_name
from agenttrace.settings.history import SettingHistory, SiteHistory, ValueHistory

LANE = 32
"""Columns of a lane: the time from the first call to the last one."""

SHOWN_VALUES = 6

VALUE_LIMIT = 40

SHARES = ("·", "░", "▒", "▓", "█")
"""A value's share of the calls in its column: none, up to a third, up to two thirds, most, all."""


def draw_history(name: str, runs: int, since_ns: int, sites: Sequence[SiteHistory]) -> RenderableType:
    """The settings of all runs of one name since a time, one call site after the other."""
    title = Text("settings of ", style="dim").append(visible(name, limit=NAME_LIMIT), style="bold")
    calls = sum(site.calls for site in sites)
    title.append(f"  {quantity(runs, 'run')}, {quantity(calls, 'model call')} since {moment(since_ns)}", style="dim")
    if not sites:
        return Group(title, Text("  No model call since then. An earlier --since shows more."))
    parts: list[RenderableType] = [title]
    for site in sites:
        parts += [Text(""), *_site(site)]
    return Group(*parts)


def _site(site: SiteHistory) -> Iterator[RenderableType]:
    heading = Text(site_name(site.call_site), style="bold cyan").append(
        f"  {quantity(site.calls, 'call')}", style="dim"
    )
    yield heading.append(f", {moment(site.first_ns)} to {moment(site.last_ns)}", style="dim")
    if not site.changed:
        yield indented("No setting changed.")
    for setting in site.changed:
        yield from _setting(setting, site)
    if site.unchanged:
        yield indented(f"unchanged: {dimension_names(site.unchanged)}", style="dim")


def _setting(setting: SettingHistory, site: SiteHistory) -> Iterator[RenderableType]:
    yield indented(visible(setting.dimension, limit=NAME_LIMIT), style="bold")
    if setting.takes_turns and len(setting.values) > SHOWN_VALUES:  # seeds, texts with the input in them
        yield indented(f"  {quantity(len(setting.values), 'value')} that take turns", style="yellow")
        return
    drawn = grid(3, indent=4)
    for value in setting.values[:SHOWN_VALUES]:
        lane = Text(_lane(value, setting, site), style="cyan")
        drawn.add_row(
            Text(""),
            lane,
            Text(quantity(len(value.times_ns), "call"), style="dim"),
            Text(spell(value.value, VALUE_LIMIT)),
        )
    yield drawn
    for line in _sentences(setting):
        yield indented(f"  {line}", style="yellow")


def _sentences(setting: SettingHistory) -> Iterator[str]:
    hidden = len(setting.values) - SHOWN_VALUES
    if hidden > 0:
        yield f"and {quantity(hidden, 'more value')}"
    if setting.takes_turns:
        yield f"{quantity(len(setting.values), 'value')} that take turns"
    for switch in setting.switches:
        before, after = spell(switch.before, VALUE_LIMIT), spell(switch.after, VALUE_LIMIT)
        yield f"{moment(switch.at_ns)}  {before} {ARROW} {after}, first in trace {switch.trace_id[:8]}"
    if setting.asked_for is not None:
        yield f"asked for all the time as {spell(setting.asked_for, VALUE_LIMIT)}: the name stayed and the model behind it moved"


def _lane(value: ValueHistory, setting: SettingHistory, site: SiteHistory) -> str:
    """Blank where nothing told the setting."""
    span = max(1, site.last_ns + 1 - site.first_ns)
    bounds = [site.first_ns + span * column // LANE for column in range(LANE + 1)]
    return "".join(
        _share(_within(value, start, end), sum(_within(other, start, end) for other in setting.values))
        for start, end in pairwise(bounds)
    )


def _within(value: ValueHistory, start: int, end: int) -> int:
    return bisect_left(value.times_ns, end) - bisect_left(value.times_ns, start)


def _share(calls: int, all_calls: int) -> str:
    if not all_calls:
        return " "
    share = calls / all_calls
    return SHARES[0 if not calls else 4 if share == 1 else 1 if share <= 1 / 3 else 2 if share <= 2 / 3 else 3]
