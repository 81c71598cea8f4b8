"""`agenttrace list`: the traces of a store, newest first; or its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_json
from agenttrace.records import RunRecord, TraceSummary

SHOWN = 30
"""Lines that are drawn unless a number is asked for: a screen. JSON is for machines, and holds all."""


@click.command(short_help="List traces, newest first.")
@click.option("--runs", "of_runs", is_flag=True, help="List runs instead of traces.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help=f"At most N. [default: {SHOWN}, as JSON all]")
@json_option
@store_option
def list_traces(of_runs: bool, limit: int | None, as_json: bool, store: str | None) -> None:
    """List the traces of a store, newest first, each with its time, steps and tokens.

    Show one of them with 'agenttrace show' and the beginning of its id.
    """
    from agenttrace.store.reading import open_store

    # One more than is drawn, to know whether there are more.
    wanted = limit if as_json or limit is not None else SHOWN + 1
    with open_store(store) as opened:
        if of_runs:
            _print_runs(opened.runs(wanted), limit, as_json)
        else:
            _print_traces(opened.traces(wanted), limit, as_json)
        lost = sum(counter.dropped for counter in opened.counters())
    if lost:
        click.echo(f"{lost} records could not be kept. 'agenttrace doctor' says why.", err=True)


def _print_traces(traces: Sequence[TraceSummary], limit: int | None, as_json: bool) -> None:
    if as_json:
        print_json([asdict(trace) for trace in traces])
        return
    from agenttrace.report.console import draw_list, open_console, put, width_of

    console = open_console()
    if traces:
        put(draw_list(traces[: limit or SHOWN], width=width_of(console)), console)
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
        click.echo(f"These are the latest {SHOWN}; --limit N shows more.", err=True)
