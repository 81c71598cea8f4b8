"""`agenttrace view`: starts Phoenix on this machine, shows it the stored traces, and says where to look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from agenttrace.cli.options import store_option
from agenttrace.errors import PhoenixRunning

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from agenttrace.export.phoenix import Phoenix
    from agenttrace.export.phoenix_traces import ShowResult, StoredTrace
    from agenttrace.records import TraceSummary
    from agenttrace.store.reading import Store

NEWEST = 200
"""Traces that are shown unless others are asked for."""


@click.command(short_help="Look at the traces in Arize Phoenix, on this machine.")
@click.option("--run", metavar="RUN", help="Only the traces of this run.")
@click.option("--trace", metavar="TRACE", help="Only this trace.")
@click.option(
    "--limit", type=click.IntRange(1), default=NEWEST, show_default=True, help="How many traces, newest first."
)
@click.option("--port", type=click.IntRange(1, 65535), default=6006, show_default=True, help="Phoenix's port.")
@click.option("--check", is_flag=True, help="Show the traces, make sure that Phoenix has them, and stop it again.")
@store_option
def view(run: str | None, trace: str | None, limit: int, port: int, check: bool, store: str | None) -> None:
    """Start Phoenix on this machine, show it the stored traces, and print where to look. Ctrl-C stops it.

    It listens on loopback only, asks nothing of the internet, and keeps its data in the store's folder. Traces that
    it has already are not sent again.
    """
    from agenttrace.cli.sending import chosen_traces
    from agenttrace.export.phoenix import running_phoenix
    from agenttrace.report.console import open_console
    from agenttrace.store.layout import store_path
    from agenttrace.store.reading import open_store

    console = open_console()
    with open_store(store) as opened:
        chosen = chosen_traces(opened, run, trace, limit)
        try:
            with _phoenix(store_path(store), port, console) as phoenix:
                _show(phoenix, opened, chosen, console)
                if not check:
                    console.print("Ctrl-C stops it.")
                    with _until_interrupted():
                        phoenix.wait()
        except PhoenixRunning as running:
            _show(running_phoenix(running.address), opened, chosen, console)
            console.print("It was started by another 'agenttrace view', and goes on with that.")


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


def _show(phoenix: Phoenix, store: Store, chosen: Sequence[TraceSummary], console: Console) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from agenttrace.export.phoenix_traces import show_traces

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("Showing steps to Phoenix", total=sum(summary.spans for summary in chosen))
        traces = _stored(store, chosen)
        result = show_traces(phoenix, traces, progress=lambda done: progress.update(task, completed=done))
    console.print(_outcome(result))
    address = phoenix.page_of(chosen[0].trace_id) if len(chosen) == 1 else phoenix.address
    console.print(f"Phoenix {phoenix.version}: {address}")


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
