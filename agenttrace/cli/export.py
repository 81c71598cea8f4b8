"""`agenttrace export`: runs or one trace, written in a format that others read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from agenttrace.cli.options import store_option
from agenttrace.cli.output import unwritable
from agenttrace.errors import RunNotFound, UsageError

if TYPE_CHECKING:
    from agenttrace.records import RunRecord, SpanRecord
    from agenttrace.store.reading import Store


@click.command(short_help="Write runs or a trace to a file.")
@click.option("--to", "to_format", type=click.Choice(["jsonl"]), required=True, help="The format: JSON Lines.")
@click.option("--run", "run", metavar="RUN", help="Only this run: its id, the beginning of it, or its name.")
@click.option("--trace", "trace", metavar="TRACE", help="Only this trace: its id, the beginning of it, or 'last'.")
@click.option("-o", "--output", "file", metavar="FILE", help="Where to. [default: standard output]")
@store_option
def export(to_format: str, run: str | None, trace: str | None, file: str | None, store: str | None) -> None:
    """Write what a store holds, or one run or trace of it, as JSON Lines that 'agenttrace import' reads.

    A file is there whole or not at all.
    """
    from agenttrace.export.jsonl import write_lines
    from agenttrace.store.reading import open_store

    if run is not None and trace is not None:
        raise UsageError("Both --run and --trace were given. Give one of them, or neither to export everything.")
    with open_store(store) as opened:
        runs, spans = _chosen(opened, run, trace)
        _write(write_lines(runs, spans), file)


def _chosen(store: Store, run: str | None, trace: str | None) -> tuple[Iterable[RunRecord], Iterable[SpanRecord]]:
    if run is not None:
        record = store.run(run)
        return [record], store.run_spans(record.run_id)
    if trace is not None:
        spans = store.trace(trace)
        return list(_runs_of(store, spans)), spans
    runs = store.runs()[::-1]
    return runs, (span for record in runs for span in store.run_spans(record.run_id))


def _runs_of(store: Store, spans: Iterable[SpanRecord]) -> Iterator[RunRecord]:
    for run_id in dict.fromkeys(span.run_id for span in spans):
        with suppress(RunNotFound):  # a run's line may be lost with the process that wrote it; its spans are here
            yield store.run(run_id)


def _write(lines: Iterator[bytes], file: str | None) -> None:
    if file is None or file == "-":
        for line in lines:
            click.echo(line, nl=False)
        return
    try:
        with _whole_file(Path(file)) as opened:
            for line in lines:
                opened.write(line)
    except OSError as error:
        raise unwritable(error) from error


@contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when all of it is written. Devices and pipes are written as they are."""
    if path.exists() and not path.is_file():
        with open(path, "wb") as opened:
            yield opened
        return
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(unfinished, "xb") as opened:
            yield opened
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
