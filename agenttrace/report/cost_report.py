"""Draws what model calls cost, what prompts are made of, and how much of them a prefix cache could have reused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from agenttrace.pricing import PARTS as COST_PARTS
from agenttrace.report.drawing import Column, table
from agenttrace.report.escaping import visible
from agenttrace.report.numbers import NOTHING, UNKNOWN, count, money, percent, quantity
from agenttrace.report.settings_report import site_name
from agenttrace.settings.prompt_parts import PARTS as PROMPT_PARTS
from agenttrace.settings.prompt_parts import SitePrompts
from agenttrace.spending import Spending

SHOWN = 20
"""Lines of one grouping."""

TITLES = {
    "uncached": "prompt",
    "cached": "cached",
    "cache_written": "cache written",
    "output": "output",
    "reasoning": "reasoning",
}
PART_TITLES = {"tool_results": "tool results", "user": "user input", "tools": "tool definitions"}


def draw_cost(
    title: str,
    total: Spending,
    groups: Mapping[str, Sequence[Spending]],
    prompts: Mapping[str, SitePrompts] | None,
    source: Mapping[str, Any],
) -> RenderableType:
    """The cost in all, by group, and what drives it."""
    head = Text("cost of ", style="dim").append(visible(title), style="bold").append("  ")
    head.append(_money(total), style="bold").append(f"  {quantity(total.calls, 'model call')}", style="dim")
    parts: list[RenderableType] = [head]
    for name, items in groups.items():
        parts += [Text(""), _group(name, items)]
        if len(items) > SHOWN:
            parts.append(Text(f"and {len(items) - SHOWN} more", style="dim"))
    parts += _unknown(total)
    for site, told in (prompts or {}).items():
        parts += [Text(""), *_prompts(site, told)]
    own = f", and prices of your own for {', '.join(visible(name) for name in source['own'])}" if source["own"] else ""
    parts += [Text(""), Text(f"Prices: {source['table']} {source['version']}{own}; US dollars.", style="dim")]
    return Group(*parts)


def _money(item: Spending) -> str:
    if item.total is not None:
        return money(item.total)
    return UNKNOWN if item.unknown == item.calls else f"at least {money(item.cost.total)}"


def _group(name: str, items: Sequence[Spending]) -> RenderableType:
    used = [part for part in COST_PARTS if any(getattr(item.cost, part) for item in items)]
    columns = [
        Column(title=name),
        Column(title="calls", is_number=True),
        Column(title="cost", is_number=True),
        *(Column(title=TITLES[part], is_number=True) for part in used),
    ]
    rows = [
        [
            site_name(item.name) if name == "call-site" else visible(item.name, limit=60),
            count(item.calls),
            _money(item),
            *(_part(item, part) for part in used),
        ]
        for item in items[:SHOWN]
    ]
    return table(columns, rows)


def _part(item: Spending, part: str) -> str:
    amount = getattr(item.cost, part)
    if not item.cost.total:
        return NOTHING
    return percent(amount / item.cost.total) if amount else NOTHING


def _unknown(total: Spending) -> Iterator[RenderableType]:
    if not total.unknown:
        return
    yield Text("")
    models = ", ".join(visible(name, limit=60) for name in total.unpriced_models)
    why = f"no price is known for {models}" if models else "their tokens were not reported"
    yield Text(f"The cost of {quantity(total.unknown, 'call')} is unknown: {why}.", style="yellow")
    if models:
        yield Text(
            "Prices of your own: [tool.agenttrace.prices] of pyproject.toml (docs/configuration.md).", style="dim"
        )


def _prompts(site: str, told: SitePrompts) -> Iterator[RenderableType]:
    head = Text(f"prompts at {site_name(site)}", style="bold")
    head.append(f"  {quantity(told.calls, 'call')}, {count(told.tokens)} tokens", style="dim")
    if told.tokens_per_turn is not None:
        head.append(f", {told.tokens_per_turn:+,.0f} tokens a turn", style="dim")
    yield head
    if told.shares:
        scaled = told.tokens
        shown = []
        for part in PROMPT_PARTS:
            share = told.shares[part]
            if share:
                about = "" if scaled is None else f" (about {count(round(scaled * share))} tokens)"
                shown.append(f"{PART_TITLES.get(part, part)} {percent(share)}{about}")
        yield Text("  " + ", ".join(shown))
    if told.reusable is not None:
        reported = "nothing of a cache" if told.cached is None else f"{count(told.cached)} cached"
        yield Text(f"  reusable {count(told.reusable)} of {count(told.tokens)} tokens, provider reported {reported}")
    for broken in told.breaks[:1]:
        where = "the tool definitions" if not broken.message else f"message {broken.message}"
        what = "they differ" if not broken.message else f"{visible(broken.role, limit=20)}: {broken.what}"
        yield Text(f"  the prefix breaks at {where} ({what}) in {quantity(broken.calls, 'call')}", style="yellow")
