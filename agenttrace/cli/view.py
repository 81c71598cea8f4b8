"""`agenttrace view`: starts Phoenix on this machine, shows it the stored traces, and says where to look."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from agenttrace.cli.options import store_option
from agenttrace.errors import PhoenixRunning, RunNotFound, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from agenttrace.export.phoenix import Phoenix
    from agenttrace.export.phoenix_traces import ShowResult, StoredTrace
    from agenttrace.records import TraceSummary
    from agenttrace.store.reading import Store

DEFAULT_PORT = 6006

NEWEST = 200
"""Traces that are shown unless others are asked for."""


@click.command(short_help="Look at the traces in Arize Phoenix.")
@click.argument("target", metavar="[RUN|TRACE]", required=False)
@click.option("--run", metavar="RUN", help="Only the traces of this run.")
@click.option("--trace", metavar="TRACE", help="Only this trace.")
@click.option(
    "--limit", type=click.IntRange(1), default=NEWEST, show_default=True, help="How many traces, newest first."
)
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Phoenix's port. [default: 6006, or a free one where that is taken]"
)
@click.option("--no-open", is_flag=True, help="Open no browser.")
@click.option("--check", is_flag=True, help="Show the traces, make sure that Phoenix has them, and stop it again.")
@store_option
def view(
    target: str | None,
    run: str | None,
    trace: str | None,
    limit: int,
    port: int | None,
    no_open: bool,
    check: bool,
    store: str | None,
) -> None:
    """Start Phoenix on this machine, show it the stored traces, and open the page. Ctrl-C stops it.

    It listens on loopback only, asks nothing of the internet, and keeps its data in the store's folder. Traces that
    it has already are not sent again. Where $PHOENIX_COLLECTOR_ENDPOINT names a Phoenix, that one is shown them instead.
    """
    from agenttrace.cli.sending import chosen_traces
    from agenttrace.export.phoenix import free_port, running_phoenix
    from agenttrace.report.console import open_console
    from agenttrace.store.layout import store_path
    from agenttrace.store.reading import open_store

    if target is not None and (run or trace):
        raise UsageError(f"'{target}' was given beside --run or --trace. Name a run or a trace once.")
    console = open_console()
    with open_store(store) as opened:
        if target is not None:
            run, trace = _run_or_trace(opened, target)
        chosen = chosen_traces(opened, run, trace, limit)
        elsewhere = None if port else os.environ.get("PHOENIX_COLLECTOR_ENDPOINT")
        if elsewhere:
            _show(_named_phoenix(), opened, store, chosen, console, opens=not (check or no_open))
            return
        try:
            with _phoenix(store_path(store), port or free_port(DEFAULT_PORT), console) as phoenix:
                _show(phoenix, opened, store, chosen, console, opens=not (check or no_open))
                if not check:
                    console.print("Ctrl-C stops it.")
                    with _until_interrupted():
                        phoenix.wait()
        except PhoenixRunning as running:
            _show(running_phoenix(running.address), opened, store, chosen, console, opens=not (check or no_open))
            console.print("It was started by another 'agenttrace view', and goes on with that.")


def _run_or_trace(store: Store, target: str) -> tuple[str | None, str | None]:
    """What a bare name means: a run by id or name, else a trace. Raises `TraceNotFound` where it is neither."""
    try:
        return store.run(target).run_id, None
    except RunNotFound:
        return None, target


def _named_phoenix() -> Phoenix:
    """The Phoenix that the environment names, with its key."""
    from agenttrace.export.destinations import destination
    from agenttrace.export.phoenix import running_phoenix

    place = destination("phoenix")
    return running_phoenix(place.endpoint.rstrip("/").removesuffix("/v1/traces"), place.headers)


@contextmanager
def _phoenix(store: Path, port: int, console: Console) -> Iterator[Phoenix]:
    from agenttrace.export.phoenix import serve_phoenix

    status = console.status("Starting Phoenix (10 to 30 s) …")
    status.start()
    try:
        with serve_phoenix(store, port=port) as phoenix:
            status.stop()
            yield phoenix
    finally:
        status.stop()


def _show(
    phoenix: Phoenix,
    store: Store,
    path: str | None,
    chosen: Sequence[TraceSummary],
    console: Console,
    *,
    opens: bool,
) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from agenttrace.cli.sending_scores import send_scores, told
    from agenttrace.configuration import read_configuration
    from agenttrace.export.phoenix_traces import show_traces
    from agenttrace.pricing import Prices

    prices = Prices(read_configuration().prices)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("Showing steps to Phoenix", total=sum(summary.spans for summary in chosen))
        traces = _stored(store, chosen)
        result = show_traces(
            phoenix, traces, prices=prices, progress=lambda done: progress.update(task, completed=done)
        )
    with console.status("Showing scores …") as status:
        scores = send_scores(store, path, phoenix, chosen, status.update)
    for line in (_outcome(result), *told(scores)):
        console.print(line, soft_wrap=True)
    address = phoenix.page_of(chosen[0].trace_id) if len(chosen) == 1 else phoenix.address
    console.print(f"Phoenix {phoenix.version}: {address}")
    # Only where somebody sits before a screen: elsewhere a browser would take the terminal, or be none.
    if (
        opens
        and console.is_terminal
        and (sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    ):
        webbrowser.open(address)


def _stored(store: Store, chosen: Sequence[TraceSummary]) -> Iterator[StoredTrace]:
    from agenttrace.export.phoenix_traces import StoredTrace

    for summary in chosen:
        yield StoredTrace(trace_id=summary.trace_id, project=summary.run, spans=store.trace(summary.trace_id))


def _outcome(result: ShowResult) -> str:
    from agenttrace.report.numbers import count, quantity

    return f"Phoenix has {quantity(result.traces, 'trace')}, {quantity(result.spans, 'span')}; {count(result.sent)} were new to it."


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Ctrl-C is how this is meant to end."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo()
