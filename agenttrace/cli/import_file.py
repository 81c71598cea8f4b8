"""`agenttrace import`: runs and traces from a file into a store, its own formats and those of other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_error, print_json
from agenttrace.errors import UsageError
from agenttrace.records import RunRecord, SpanRecord

if TYPE_CHECKING:
    from agenttrace.export.json_fields import BadRecords
    from agenttrace.export.scored import ImportedScores
    from agenttrace.export.scored_tools import Tool
    from agenttrace.store.importing import ImportResult


@click.command(short_help="Read runs and traces from a file into the store.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option("--run", "name", metavar="NAME", help="A name for the run, instead of the one in the file.")
@click.option("--skip-bad", is_flag=True, help="Leave out records that cannot be read, and say which.")
@json_option
@store_option
def import_file(file: str, name: str | None, skip_bad: bool, as_json: bool, store: str | None) -> None:
    """Read runs and traces of a file into the store: what 'agenttrace export' wrote (jsonl, parquet), scored attempts
    (jsonl), or the results of Inspect AI, promptfoo, DeepEval and pytest-json-report.

    All of it is stored, or nothing. What the store holds already is left as it is. See docs/importing.md.
    """
    from agenttrace.export.json_fields import BadRecords

    bad = BadRecords(Path(file).name, are_skipped=skip_bad)
    told, lines = _import(file, name, store, bad)
    if as_json:
        print_json({**told, "skipped": bad.problems})
        return
    for line in lines:
        click.echo(line)
    if bad.problems:
        from agenttrace.report.numbers import quantity

        print_error(f"Left out {quantity(len(bad.problems), 'bad record')}:{bad.told()}")


Told: TypeAlias = "tuple[dict[str, Any], Sequence[str]]"
"""What was imported, as JSON and as lines for people."""


def _import(file: str, name: str | None, store: str | None, bad: BadRecords) -> Told:
    from agenttrace.export.jsonl import read_lines, read_records
    from agenttrace.export.scored import import_scored, is_scored_file
    from agenttrace.export.scored_tools import open_tool_file
    from agenttrace.export.tracers import open_tracer_file, read_tracer
    from agenttrace.store.parquet import is_parquet, parquet_lines

    if is_parquet(file):
        return _records(*read_records(parquet_lines(file), bad), file, name, store)
    if is_scored_file(file):
        imported = import_scored(store, file, name, bad)
        return asdict(imported), [_scored_line(imported)]
    opened = open_tool_file(Path(file).read_bytes())
    if opened is not None:
        return _tool_runs(*opened, file, name, store, bad)
    traced = open_tracer_file(Path(file).read_bytes())
    if traced is not None:
        run, spans = read_tracer(*traced, name or Path(file).stem, bad)
        return _records([run], spans, file, None, store)
    return _records(*read_lines(file, bad), file, name, store)


def _tool_runs(
    tool: Tool, value: Mapping[str, Any], file: str, name: str | None, store: str | None, bad: BadRecords
) -> Told:
    """Take in what another tool scored: one run, or one for each part of the file that is a run of its own."""
    from agenttrace.export.scored import store_results
    from agenttrace.export.scored_tools import read_tool

    data = Path(file).read_bytes()
    whole = name or Path(file).stem
    imported = [
        store_results(store, run.results, f"{whole}-{run.name}" if run.name else whole, data, Path(file).name)
        for run in read_tool(tool, value, bad)
    ]
    return {"tool": tool, "runs": [asdict(one) for one in imported]}, [_scored_line(one) for one in imported]


def _records(
    runs: Sequence[RunRecord], spans: Sequence[SpanRecord], file: str, name: str | None, store: str | None
) -> Told:
    from agenttrace.report.hints import show_command
    from agenttrace.store.importing import import_records

    runs = _named(_with_missing_runs(runs, spans, Path(file).stem), name)
    result = import_records(store, runs, spans)
    look = [f"Look at it: {show_command(spans[0].trace_id, store)}"] if spans else []
    return {**asdict(result), "run_ids": [run.run_id for run in runs]}, [_outcome(result, Path(file).name), *look]


def _scored_line(imported: ImportedScores) -> str:
    there = " All of it was there already." if imported.already_there else ""
    cases, attempts = _count(imported.cases, "case"), _count(imported.repetitions, "attempt")
    return f"Imported {cases}, {attempts} as run {imported.run} ({imported.run_id}).{there}"


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
