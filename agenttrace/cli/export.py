"""`agenttrace export`: runs or one trace, written to a file or sent to a backend."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from agenttrace.cli.options import Moment, json_option, store_option
from agenttrace.cli.output import unwritable
from agenttrace.errors import RunNotFound, UsageError

if TYPE_CHECKING:
    from agenttrace.records import RunRecord, SpanRecord
    from agenttrace.store.reading import Store

FILES = ("jsonl", "parquet", "otlp-json")
ENDPOINTS = ("otlp", "phoenix", "arize-ax")


@click.command(short_help="Write runs or a trace to a file, or send them to a backend.")
@click.option(
    "--to",
    "to_format",
    type=click.Choice([*FILES, *ENDPOINTS]),
    required=True,
    help="A file (JSON Lines, Parquet, OTLP JSON) or a backend (OTLP, Phoenix, Arize AX).",
)
@click.option("--run", "run", metavar="RUN", help="Only this run: its id, the beginning of it, or its name.")
@click.option("--trace", "trace", metavar="TRACE", help="Only this trace: its id, the beginning of it, or 'last'.")
@click.option("--since", "since_ns", type=Moment(), metavar="TIME", help="Traces begun then or later: a date, 2h ago.")
@click.option("-o", "--output", "file", metavar="FILE", help="The file to write. [default: standard output]")
@click.option("--endpoint", metavar="URL", help="The backend's address. [default: from the environment]")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="Sent with each request, for keys.")
@click.option("--project", metavar="NAME", help="Where the backend files the traces. [default: the run's name]")
@click.option("--resume", is_flag=True, help="Send only what this backend has not confirmed yet.")
@json_option
@store_option
def export(
    to_format: str,
    run: str | None,
    trace: str | None,
    since_ns: int | None,
    file: str | None,
    endpoint: str | None,
    headers: tuple[str, ...],
    project: str | None,
    resume: bool,
    as_json: bool,
    store: str | None,
) -> None:
    """Write what a store holds, or a part of it, to a file, or send it to a backend.

    A file is there whole or not at all; 'agenttrace import' reads JSON Lines and Parquet back. Sending again changes nothing at the
    backend; with --resume it goes on where it stopped, or where the agent's own sending did.
    """
    from agenttrace.store.reading import open_store

    if run is not None and trace is not None:
        raise UsageError("Both --run and --trace were given. Give one of them, or neither to export everything.")
    if trace is not None and since_ns is not None:
        raise UsageError("--since chooses among traces, and --trace names one. Leave one of them out.")
    if to_format in ENDPOINTS and file is not None:
        raise UsageError(f"--output names a file, and --to {to_format} sends to a backend. Leave one of them out.")
    if to_format in FILES and (endpoint or headers or project or resume):
        raise UsageError(
            f"--to {to_format} writes a file: --endpoint, --header, --project and --resume are for backends."
        )
    if to_format == "parquet" and file in (None, "-"):
        raise UsageError("--to parquet writes a file. Name it: --output spans.parquet")
    with open_store(store) as opened:
        if to_format in ENDPOINTS:
            from agenttrace.cli.sending import send
            from agenttrace.export.destinations import destination

            kind: Any = to_format  # one of ENDPOINTS, which are the destinations' kinds
            place = destination(kind, endpoint=endpoint, headers=headers, project=project)
            send(opened, store, place, run=run, trace=trace, since_ns=since_ns, resume=resume, as_json=as_json)
            return
        runs, spans = _chosen(opened, run, trace) if since_ns is None else _begun_since(opened, run, since_ns)
        lines = _lines(to_format, runs, spans)
        if to_format == "parquet" and file is not None:
            _write_parquet(lines, Path(file))
        else:
            _write(lines, file)


def _lines(to_format: str, runs: Iterable[RunRecord], spans: Iterable[SpanRecord]) -> Iterator[bytes]:
    if to_format == "otlp-json":
        from agenttrace.configuration import read_configuration
        from agenttrace.export.otlp_json import write_otlp_json
        from agenttrace.pricing import Prices

        return write_otlp_json(spans, Prices(read_configuration().prices))
    from agenttrace.export.jsonl import write_lines

    return write_lines(runs, spans)


def _chosen(store: Store, run: str | None, trace: str | None) -> tuple[Iterable[RunRecord], Iterable[SpanRecord]]:
    if run is not None:
        record = store.run(run)
        return [record], store.run_spans(record.run_id)
    if trace is not None:
        spans = store.trace(trace)
        return list(_runs_of(store, spans)), spans
    runs = store.runs()[::-1]
    return runs, (span for record in runs for span in store.run_spans(record.run_id))


def _begun_since(store: Store, run: str | None, since_ns: int) -> tuple[Iterable[RunRecord], Iterable[SpanRecord]]:
    from agenttrace.cli.sending import chosen_traces

    chosen = chosen_traces(store, run, None, since_ns=since_ns)
    runs = [store.run(run_id) for run_id in dict.fromkeys(summary.run_id for summary in chosen)]
    return runs, (span for summary in chosen for span in store.trace(summary.trace_id))


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


def _write_parquet(lines: Iterator[bytes], path: Path) -> None:
    from agenttrace.store.parquet import write_parquet

    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file, and Parquet cannot be written piece by piece. Name a file.")
    try:
        with _whole_path(path) as unfinished:
            write_parquet(lines, unfinished)
    except OSError as error:
        raise unwritable(error) from error


@contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when all of it is written. Devices and pipes are written as they are."""
    if path.exists() and not path.is_file():
        with open(path, "wb") as opened:
            yield opened
        return
    with _whole_path(path) as unfinished, open(unfinished, "xb") as opened:
        yield opened


@contextmanager
def _whole_path(path: Path) -> Iterator[Path]:
    """Where to write a file that takes its name when all of it is written."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield unfinished
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
