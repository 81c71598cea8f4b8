"""`agenttrace phases`: how the times of model calls are distributed, phase by phase, and under which load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from agenttrace.cli.options import Moment, html_option, json_option, store_option
from agenttrace.cli.output import print_json, write_page
from agenttrace.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from agenttrace.phases.distributions import By
    from agenttrace.phases.prefill_fit import Inferred
    from agenttrace.records import RunRecord
    from agenttrace.store.reading import Store
    from agenttrace.store.timings import Timings


@click.command(short_help="Show how the times of model calls are distributed.")
@click.option("--run", metavar="RUN", help="Of this run: its id, the beginning of it, or its name. [default: all runs]")
@click.option(
    "--by",
    type=click.Choice(["model", "call-site", "node", "provider"]),
    default="model",
    show_default=True,
    help="In groups, those with most calls first.",
)
@click.option("--since", "since_ns", type=Moment(), metavar="TIME", help="Calls begun then or later: a date, 2h ago.")
@click.option("--compare", "compared", nargs=2, metavar="A B", help="Two runs, one drawn over the other.")
@html_option
@json_option
@store_option
def phases(
    run: str | None,
    by: str,
    since_ns: int | None,
    compared: tuple[str, str] | None,
    html: str | None,
    as_json: bool,
    store: str | None,
) -> None:
    """Show quantiles of the phases of model calls, of time to first token and of inter-token latency, with intervals.

    Only calls that ended well are measured. Beside them stands the load that they were measured under.
    """
    from agenttrace.store.reading import open_store

    if compared is not None and run is not None:
        raise UsageError("--compare names its runs itself. Leave --run out.")
    with open_store(store) as opened:
        asked = [None if ref is None else opened.run(ref) for ref in compared or (run,)]
        found = [_timings(opened, one, since_ns, by) for one in asked]
        inferred = _inferred(opened, asked[0], since_ns) if compared is None else None
    if as_json:
        from agenttrace.phases.prefill_fit import inferred_json

        parts = [{**_head(one), **_json(timings, by)} for one, timings in zip(asked, found, strict=True)]
        print_json({"compared": parts} if inferred is None else {**parts[0], "inferred": inferred_json(inferred)})
        return
    if not any(timings.groups for timings in found):
        click.echo("No model call that ended well was selected, so no time is distributed.", err=True)
        return
    titles = ["all runs" if one is None else f"{one.name} ({one.run_id[:8]})" for one in asked]
    if html is not None:
        from agenttrace.report.phases_page import phases_page

        write_page(html, phases_page(titles, [timings.groups for timings in found], found[0].sampled))
        return
    _draw(titles, found, inferred, by)


def _timings(opened: Store, run: RunRecord | None, since_ns: int | None, by: str) -> Timings:
    try:
        from agenttrace.store.timings import Selection, read_timings

        selection = Selection(run_id=None if run is None else run.run_id, since_ns=since_ns)
        with opened.connection() as connection:
            return read_timings(connection, selection, cast("By", by))
    except ModuleNotFoundError as error:
        raise MissingExtra("eval", "Quantiles with intervals") from error


def _inferred(opened: Store, run: RunRecord | None, since_ns: int | None) -> Inferred:
    from agenttrace.phases.prefill_fit import infer
    from agenttrace.store.first_tokens import read_first_tokens
    from agenttrace.store.timings import Selection

    with opened.connection() as connection:
        selection = Selection(run_id=None if run is None else run.run_id, since_ns=since_ns)
        servers = read_first_tokens(connection, selection)
    return infer(servers)


def _head(run: RunRecord | None) -> dict[str, Any]:
    return {"run": None if run is None else {"run_id": run.run_id, "name": run.name}}


def _json(timings: Timings, by: str) -> dict[str, Any]:
    from agenttrace.phases.distributions import group_json

    return {"by": by, "sampled": timings.sampled, "groups": [group_json(group) for group in timings.groups]}


def _draw(titles: Sequence[str], found: Sequence[Timings], inferred: Inferred | None, by: str) -> None:
    from rich.console import Group
    from rich.text import Text

    from agenttrace.report.console import open_console, put, width_of
    from agenttrace.report.inferred_report import draw_inferred
    from agenttrace.report.phases_report import draw_comparison, draw_timings

    console = open_console()
    if len(found) == 1:
        drawn = draw_timings(titles[0], found[0].groups, found[0].sampled, by=by, width=width_of(console))
        if inferred is not None and inferred.fits:
            drawn = Group(drawn, Text(""), draw_inferred(inferred))
    else:
        drawn = draw_comparison(titles, [timings.groups for timings in found], width=width_of(console))
    put(drawn, console)
