"""Draws the contract of a run by call site, and the difference of two contracts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agenttrace.comparison.differences import ContractDifference, SettingDifference, Unverified
from agenttrace.comparison.dimensions import ORDER, TABLE
from agenttrace.records import RunRecord
from agenttrace.report.drawing import GAP
from agenttrace.report.escaping import visible
from agenttrace.report.numbers import quantity
from agenttrace.report.setting_text import cases_text, spell, whole_lines
from agenttrace.settings.contract import Contract, Observed, SiteContract, SiteSetting

VALUE_LIMIT = 240
NAME_LIMIT = 60

SHOWN_PARTS = 6
"""Parts of a value that belongs to the whole run, like the versions of its packages, that are written out."""

INDENT = 2

SHORT_ID = 8
"""Digits of a run's id that tell runs of one name apart."""

SEVERITY_STYLES = {"blocks": "bold red", "blocks times": "red", "warns": "yellow", "informs": "dim"}


def site_name(site: str | None) -> str:
    """A call site as people read it."""
    return visible(site, limit=NAME_LIMIT) if site else "(no call site)"


def at_sites(sites: Sequence[str | None]) -> str:
    """Call sites within a line: `at planner, writer`; nothing for calls outside of any chain, or for the whole run."""
    return "" if not any(sites) else f"at {', '.join(site_name(site) for site in sites if site is not None)}"


def run_name(run: RunRecord) -> str:
    """A run's name with the beginning of its id, which tells runs of one name apart."""
    return f"{visible(run.name, limit=NAME_LIMIT)} ({visible(run.run_id[:SHORT_ID])})"


def severity_word(difference: SettingDifference) -> str:
    """What an undeclared difference does, in a word or two."""
    if difference.cost == "blocks" and difference.quality != "blocks":
        return "blocks times"
    return difference.quality


def grid(columns: int, *, indent: int = INDENT) -> Table:
    """Cells side by side: all columns but the last are as wide as what they hold, and the last one wraps."""
    drawn = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
    drawn.add_column(width=indent - GAP if indent > GAP else 0)
    for _ in range(columns - 1):
        drawn.add_column(no_wrap=True, overflow="ellipsis")
    drawn.add_column(overflow="fold")
    return drawn


def draw_contract(run: RunRecord, contract: Contract) -> RenderableType:
    """What a run's model calls were set to, one call site after the other."""
    calls, sites = quantity(contract.calls, "model call"), quantity(len(contract.sites), "call site")
    title = Text("run ", style="dim").append(run_name(run), style="bold").append(f"  {calls} at {sites}", style="dim")
    if not contract.sites:
        return Group(title, Text("  The run holds no finished model call, so there are no settings to show."))
    return Group(title, *(part for site in contract.sites.values() for part in _site(site)), *_whole(contract))


def _whole(contract: Contract) -> Iterator[RenderableType]:
    """What held for the run as a whole."""
    if contract.run:
        yield Text("")
        yield Text("the whole run", style="bold cyan")
        drawn = grid(2)
        for name, setting in sorted(contract.run.items(), key=lambda item: ORDER.get(item[0], len(ORDER))):
            [seen] = setting.observed
            value = spell(seen.value, VALUE_LIMIT)
            if isinstance(seen.value, Mapping) and len(seen.value) > SHOWN_PARTS:
                value = f"{len(seen.value)} of them; --json shows all"
            drawn.add_row(Text(""), Text(visible(name, limit=NAME_LIMIT)), Text(value))
        yield drawn


def _site(site: SiteContract) -> Iterator[RenderableType]:
    yield Text("")
    yield Text(site_name(site.call_site), style="bold cyan").append(f"  {quantity(site.calls, 'call')}", style="dim")
    drawn = grid(3)
    names = sorted(site.settings, key=lambda name: ORDER.get(name, len(ORDER)))
    for name, setting in ((name, site.settings[name]) for name in names):
        for row in _setting_rows(name, setting):
            drawn.add_row(Text(""), *row)
    if drawn.row_count:
        yield drawn
    unset = [name for name in names if _is_unset(site.settings[name])]
    untold = [item.name for item in TABLE if item.both_unknown == "unverified" and item.name not in site.settings]
    for word, names in (("unset", unset), ("unknown", untold)):
        if names:
            yield indented(f"{word}: {dimension_names(names)}", style="dim")


def indented(text: str, *, style: str = "") -> RenderableType:
    """A line below a heading, whose continuation is indented as well."""
    return Padding(Text(text, style=style), (0, 0, 0, INDENT))


def dimension_names(names: Sequence[str]) -> str:
    """Dimensions with the name of their group written once: `sampling.top_p, .top_k`."""
    shown, group = [], ""
    for name in names:
        head, dot, tail = name.partition(".")
        shown.append(f".{tail}" if dot and head == group else name)
        group = head if dot else ""
    return visible(", ".join(shown))


def _is_unset(setting: SiteSetting) -> bool:
    return [seen.value for seen in setting.observed] == [None] and not setting.unknown_calls


def _setting_rows(name: str, setting: SiteSetting) -> Iterator[tuple[Text, Text, Text]]:
    if _is_unset(setting):
        return
    label = Text(visible(name, limit=NAME_LIMIT))
    if setting.note is not None:
        yield label, Text(""), Text(setting.note, style="yellow")
        return
    for number, seen in enumerate(setting.observed):
        voice = Text(", ".join(seen.voices), style="dim")
        value = Text(spell(seen.value, VALUE_LIMIT))
        if len(setting.observed) > 1:
            value.append(f"  {_share(seen, setting, number)}", style="yellow")
        yield label if number == 0 else Text(""), voice, value
    if setting.unknown_calls:
        yield Text(""), Text(""), Text(f"{quantity(setting.unknown_calls, 'call')} did not tell it", style="yellow")


def _share(seen: Observed, setting: SiteSetting, number: int) -> str:
    share = quantity(seen.count, "call")
    if setting.is_change and number:
        return f"{share}, changed while the run went on; cases: {cases_text(seen.cases) or 'not named'}"
    return share


def draw_difference(
    baseline: RunRecord, candidate: RunRecord, found: ContractDifference, *, has_common_site: bool
) -> RenderableType:
    """All that differs between the settings of two runs, each in full."""
    title = Text("settings of ", style="dim").append(run_name(baseline), style="bold")
    title.append(" and ", style="dim").append(run_name(candidate), style="bold")
    parts: list[RenderableType] = [title]
    if not has_common_site:
        parts.append(Text("They have no call site in common, so there is nothing to set side by side."))
    elif not found.differences:
        parts.append(Text("No setting differs, as far as is known."))
    for difference in found.differences:
        parts += [Text(""), *_difference(difference)]
    return Group(*parts, *draw_unverified(found.unverified), *draw_notes(found.notes))


def _difference(difference: SettingDifference) -> Iterator[RenderableType]:
    severity = severity_word(difference)
    heading = Text(visible(difference.dimension, limit=NAME_LIMIT), style="bold")
    heading.append(f"  {at_sites([difference.call_site])}".rstrip())
    heading.append(f"  {severity}", style=SEVERITY_STYLES[severity])
    yield heading
    for line in whole_lines(difference):
        yield indented(line, style=_diff_style(line))


def _diff_style(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "dim"
    return {"+": "green", "-": "red"}.get(line[:1], "")


def draw_unverified(unverified: Sequence[Unverified]) -> Iterator[RenderableType]:
    """What cannot be known to be the same: one line for each reason, with all that it holds of."""
    if not unverified:
        return
    by_reason: dict[tuple[str, str], list[str]] = {}
    for item in unverified:
        names = by_reason.setdefault((item.why, item.call_site), [])
        names.append(item.dimension or "all settings")
    by_names: dict[tuple[str, str], list[str]] = {}
    for (why, site), names in by_reason.items():
        by_names.setdefault((why, dimension_names(names)), []).append(site)
    yield Text("")
    yield Text("Unverified, since an unconfirmed match is no match:", style="yellow")
    for (why, dimensions), sites in by_names.items():
        yield indented(f"{' '.join((dimensions, at_sites(sites))).strip()}: {visible(why)}", style="dim")


def draw_notes(notes: Sequence[str]) -> Iterator[RenderableType]:
    """What is good to know besides."""
    if notes:
        yield Text("")
    for note in notes:
        yield Text(visible(note), style="dim")
