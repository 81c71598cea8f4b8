"""`agenttrace list`: the traces of a store, newest first; or its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from agenttrace.cli.options import Duration, Moment, Money, json_option, store_option
from agenttrace.cli.output import print_json
from agenttrace.errors import UsageError
from agenttrace.records import RunRecord, TraceSummary

if TYPE_CHECKING:
    from agenttrace.pricing import Prices
    from agenttrace.spending import Spending
    from agenttrace.store.filters import TraceFilter
    from agenttrace.store.reading import Order, Store

SHOWN = 30
"""Lines that are drawn unless a number is asked for: a screen. JSON is for machines, and holds all."""

SHOWN_AS_JSON = 1_000
"""Of the dearest, unless a number is asked for: each is priced call by call."""


@click.command(short_help="List traces, newest first.")
@click.option("--runs", "of_runs", is_flag=True, help="List runs instead of traces.")
@click.option("--run", metavar="RUN", help="Of this run: its id, the beginning of it, or its name.")
@click.option("--tag", metavar="TAG", help="With this tag, or KEY=VALUE of the run's tags.")
@click.option("--session", metavar="SESSION", help="Of this session.")
@click.option("--model", metavar="MODEL", help="With a call of this model; * stands for anything.")
@click.option("--state", metavar="STATE", help="That ended so: ok, error, unfinished, …")
@click.option("--error", metavar="TEXT", help="With an error whose type or message holds this.")
@click.option("--text", metavar="TEXT", help="With a name, input, output or metadata that holds this.")
@click.option("--since", "since_ns", type=Moment(), metavar="TIME", help="Begun then or later: a date, a time, 2h ago.")
@click.option("--until", "until_ns", type=Moment(), metavar="TIME", help="Begun before.")
@click.option("--min-duration", "min_ns", type=Duration(), metavar="TIME", help="That took so long: 500ms, 2s, 1m.")
@click.option("--max-duration", "max_ns", type=Duration(), metavar="TIME", help="That took no longer.")
@click.option("--min-tokens", type=click.IntRange(min=1), metavar="N", help="Whose model calls used so many in all.")
@click.option("--max-tokens", type=click.IntRange(min=0), metavar="N", help="Whose model calls used no more.")
@click.option("--min-cost", type=Money(), metavar="USD", help="Known to have cost so much; costs are shown.")
@click.option("--failed", "has_failed", is_flag=True, default=None, help="That ended in an error, or was timed out.")
@click.option("--slow", "is_slow", is_flag=True, help="The slowest first.")
@click.option(
    "--expensive", "is_expensive", is_flag=True, help="The dearest first, with their cost; of known cost only."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help=f"At most N. [default: {SHOWN}, as JSON all]")
@click.option("--offset", type=click.IntRange(min=0), default=0, metavar="N", help="Leave out the first N.")
@json_option
@store_option
def list_traces(
    of_runs: bool,
    run: str | None,
    is_slow: bool,
    is_expensive: bool,
    min_cost: float | None,
    limit: int | None,
    offset: int,
    as_json: bool,
    store: str | None,
    **filters: Any,
) -> None:
    """List the traces of a store, newest first, each with its time, steps and tokens.

    Several conditions narrow each other. Show one trace with 'agenttrace show' and the beginning of its id.
    """
    from agenttrace.store.filters import TraceFilter
    from agenttrace.store.reading import open_store

    where = TraceFilter(**filters)
    if of_runs and (run is not None or is_slow or is_expensive or min_cost or any(where.given())):
        raise UsageError("--runs lists runs, and the conditions are on traces. Leave --runs or the conditions out.")
    if is_slow and is_expensive:
        raise UsageError("--slow and --expensive are two orders. Leave one of them out.")
    # One more than is drawn, to know whether there are more.
    wanted = limit if as_json or limit is not None else SHOWN + 1
    with open_store(store) as opened:
        if of_runs:
            _print_runs(opened.runs(wanted, offset=offset), limit, as_json)
        else:
            where = where if run is None else replace(where, run_id=opened.run(run).run_id)
            if is_expensive:
                found = _dearest(opened, wanted, offset, where, min_cost)
            elif min_cost is not None:
                found = _costing(opened, wanted, offset, where, min_cost, "slowest" if is_slow else "newest")
            else:
                found = opened.traces(wanted, offset=offset, where=where, order="slowest" if is_slow else "newest")
            _print_traces(
                found, limit, as_json, is_part=offset > 0 or is_expensive or min_cost is not None or any(where.given())
            )
        lost = sum(counter.dropped for counter in opened.counters())
    if lost:
        click.echo(f"{lost} records could not be kept. 'agenttrace doctor' says why.", err=True)


def _dearest(
    opened: Store, wanted: int | None, offset: int, where: TraceFilter, min_cost: float | None
) -> tuple[TraceSummary, ...]:
    """The dearest first; a cost that is not known in full stays unknown, and counts as what is known of it."""
    from agenttrace.store.filters import TraceFilter
    from agenttrace.store.trace_costs import dearest_traces

    most = offset + (SHOWN_AS_JSON if wanted is None else wanted)
    among = _among(opened, where)  # before: a store has one connection at a time
    with opened.connection() as connection:
        costs = {item.name: item for item in dearest_traces(connection, _prices(), most, among)}
    ids = [item.name for item in costs.values() if item.cost.total >= (min_cost or 0)][offset:]
    traces = {trace.trace_id: trace for trace in opened.traces(where=TraceFilter(trace_ids=ids))}
    return tuple(_with_cost(traces[trace_id], costs[trace_id]) for trace_id in ids)


def _costing(
    opened: Store, wanted: int | None, offset: int, where: TraceFilter, min_cost: float, order: Order
) -> tuple[TraceSummary, ...]:
    from agenttrace.store.filters import TraceFilter
    from agenttrace.store.trace_costs import traces_costing

    among = _among(opened, where)  # as above
    with opened.connection() as connection:
        costs = {item.name: item for item in traces_costing(connection, _prices(), min_cost, among)}
    traces = opened.traces(wanted, offset=offset, where=TraceFilter(trace_ids=list(costs)), order=order)
    return tuple(_with_cost(trace, costs[trace.trace_id]) for trace in traces)


def _prices() -> Prices:
    from agenttrace.configuration import read_configuration
    from agenttrace.pricing import Prices

    return Prices(read_configuration().prices)


def _among(opened: Store, where: TraceFilter) -> list[str] | None:
    return [trace.trace_id for trace in opened.traces(where=where)] if any(where.given()) else None


def _with_cost(trace: TraceSummary, spent: Spending) -> TraceSummary:
    return replace(trace, cost_usd=spent.total, known_usd=spent.cost.total)


def _print_traces(traces: Sequence[TraceSummary], limit: int | None, as_json: bool, *, is_part: bool) -> None:
    if as_json:
        print_json([asdict(trace) for trace in traces])
        return
    from agenttrace.report.console import draw_list, open_console, put, width_of

    console = open_console()
    if traces:
        put(draw_list(traces[: limit or SHOWN], width=width_of(console)), console)
    if is_part and not traces:
        click.echo("No trace is so. Ask for less; 'agenttrace list' shows what there is.", err=True)
        return
    _print_rest(len(traces), limit, "trace")


def _print_runs(runs: Sequence[RunRecord], limit: int | None, as_json: bool) -> None:
    if as_json:
        from agenttrace.export.jsonl import run_json

        print_json([run_json(run) for run in runs])
        return
    from agenttrace.report.console import draw_runs, open_console, put, width_of

    console = open_console()
    if runs:
        put(draw_runs(runs[: limit or SHOWN], width=width_of(console)), console)
    _print_rest(len(runs), limit, "run")


def _print_rest(found: int, limit: int | None, thing: str) -> None:
    """What a list cannot show, on standard error: the list itself may be going into a pipe."""
    if not found:
        click.echo(f"The store holds no {thing} yet. Record one with 'agenttrace run your_script.py'.", err=True)
    elif limit is None and found > SHOWN:
        click.echo(f"These are the latest {SHOWN}; --limit N shows more, --offset N what comes after.", err=True)
