"""`agenttrace import`: runs and traces from a file of JSON Lines or Parquet into a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_json
from agenttrace.errors import UsageError
from agenttrace.records import RunRecord, SpanRecord

if TYPE_CHECKING:
    from agenttrace.store.importing import ImportResult


@click.command(short_help="Read runs and traces from a file into the store.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option("--run", "name", metavar="NAME", help="A name for the run, instead of the one in the file.")
@json_option
@store_option
def import_file(file: str, name: str | None, as_json: bool, store: str | None) -> None:
    """Read the runs and traces of a file that 'agenttrace export' wrote (jsonl, parquet), or scored attempts; store them.

    All of it is stored, or nothing. What the store holds already is left as it is.
    """
    from agenttrace.export.jsonl import read_lines, read_records
    from agenttrace.export.scored import is_scored_file
    from agenttrace.store.parquet import is_parquet, parquet_lines

    if is_parquet(file):
        runs, spans = read_records(parquet_lines(file), Path(file).name)
    elif is_scored_file(file):
        _import_scores(file, name, as_json, store)
        return
    else:
        runs, spans = read_lines(file)
    runs = _named(_with_missing_runs(runs, spans, Path(file).stem), name)
    from agenttrace.store.importing import import_records

    result = import_records(store, runs, spans)
    if as_json:
        print_json({**asdict(result), "run_ids": [run.run_id for run in runs]})
        return
    click.echo(_outcome(result, Path(file).name))
    if spans:
        _print_next(spans[0].trace_id, store)


def _import_scores(file: str, name: str | None, as_json: bool, store: str | None) -> None:
    """Take in scored attempts, one a line, as one run that `compare` takes."""
    from agenttrace.export.scored import import_scored

    imported = import_scored(store, file, name)
    if as_json:
        print_json(asdict(imported))
        return
    there = " All of it was there already." if imported.already_there else ""
    cases, attempts = _count(imported.cases, "case"), _count(imported.repetitions, "attempt")
    click.echo(f"Imported {cases}, {attempts} as run {imported.run} ({imported.run_id}).{there}")


def _with_missing_runs(runs: Sequence[RunRecord], spans: Sequence[SpanRecord], name: str) -> list[RunRecord]:
    """The runs, and for spans whose run the file does not tell, one that is named after the file."""
    known = {run.run_id for run in runs}
    by_run: dict[str, list[SpanRecord]] = {}
    for span in spans:
        if span.run_id not in known:
            by_run.setdefault(span.run_id, []).append(span)
    missing = [
        RunRecord(
            run_id=run_id,
            name=name,
            start_ns=min(span.start_ns for span in of_run),
            end_ns=max(span.end_ns or span.start_ns for span in of_run),
        )
        for run_id, of_run in by_run.items()
    ]
    return [*runs, *missing]


def _named(runs: list[RunRecord], name: str | None) -> list[RunRecord]:
    if name is None:
        return runs
    if len(runs) != 1:
        raise UsageError(f"The file holds {len(runs)} runs, and --run names one. Import it without --run.")
    return [replace(runs[0], name=name)]


def _outcome(result: ImportResult, file: str) -> str:
    there = f" {result.already_there} spans were there already." if result.already_there else ""
    return f"Imported {_count(result.runs, 'run')} and {_count(result.spans, 'span')} from {file}.{there}"


def _count(number: int, thing: str) -> str:
    from agenttrace.report.numbers import quantity

    return quantity(number, thing)


def _print_next(trace_id: str, store: str | None) -> None:
    from agenttrace.report.hints import show_command

    click.echo(f"Look at it: {show_command(trace_id, store)}")
