"""`agenttrace cost`: what the model calls of a run cost, which length drives the money, and what prompts are made of."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, cast

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_json

if TYPE_CHECKING:
    from agenttrace.settings.prompt_parts import SitePrompts
    from agenttrace.spending import Grouping


@click.command(short_help="Show what a run's model calls cost.")
@click.argument("run", required=False)
@click.option(
    "--by",
    type=click.Choice(["model", "call-site", "day", "trace", "case"]),
    help="In groups, the dearest first. [default: all together, by model and by call site]",
)
@json_option
@store_option
@click.pass_context
def cost(ctx: click.Context, run: str | None, by: str | None, as_json: bool, store: str | None) -> None:
    """Show what the model calls of RUN cost, or those of all runs: uncached prompt, cached, output and reasoning.

    Prices are those of [tool.agenttrace.prices], else of genai-prices. What no price is known for is unknown, not zero.
    With RUN, also what its prompts are made of, and how much of them a prefix cache could have reused.
    """
    from agenttrace.configuration import read_configuration
    from agenttrace.pricing import Prices
    from agenttrace.settings.prompt_parts import describe_prompts
    from agenttrace.spending import costed, spending
    from agenttrace.store.paid_calls import read_paid_calls
    from agenttrace.store.reading import open_store
    from agenttrace.store.sent_prompts import read_prompts

    ctx.call_on_close(gc.enable)
    gc.disable()  # of a hundred thousand prompts none can go before the end, and looking for those that can takes a second
    prices = Prices(read_configuration().prices)
    with open_store(store) as opened:
        runs = opened.runs() if run is None else (opened.run(run),)
        with opened.connection() as connection:
            grouping = cast("Grouping | None", by)
            calls = costed(read_paid_calls(connection, [one.run_id for one in runs], grouping), prices)
            prompts = None if run is None else describe_prompts(*read_prompts(connection, runs[0].run_id))
    groupings = [by] if by else ["model", "call-site"]
    total, *_ = spending(calls) or (None,)
    groups = {name: spending(calls, cast("Grouping", name)) for name in groupings}
    title = f"{runs[0].name} ({runs[0].run_id[:8]})" if run is not None else "all runs"
    if as_json:
        print_json(_json(title, total, groups, prompts, prices))
        return
    from agenttrace.report.console import open_console, put
    from agenttrace.report.cost_report import draw_cost

    if total is None:
        click.echo(f"{title}: no model call, so nothing was paid for.", err=True)
        return
    put(draw_cost(title, total, groups, prompts, _source(prices)), open_console())


def _source(prices: Any) -> dict[str, Any]:
    from agenttrace.pricing import TABLE, table_version

    return {"table": TABLE, "version": table_version(), "own": sorted(prices.own)}


def _json(title: str, total: Any, groups: Any, prompts: dict[str, SitePrompts] | None, prices: Any) -> dict[str, Any]:
    from dataclasses import asdict

    from agenttrace.spending import spending_json

    return {
        "run": title,
        "prices": _source(prices),
        "total": None if total is None else spending_json(total),
        "by": {name: [spending_json(item) for item in items] for name, items in groups.items()},
        "prompts": None if prompts is None else {site: asdict(told) for site, told in prompts.items()},
    }
