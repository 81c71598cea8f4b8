"""`agenttrace sql`: a question in SQL to all that is recorded."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from agenttrace.cli.options import Duration, Size, json_option, store_option
from agenttrace.cli.output import print_json
from agenttrace.errors import UsageError

if TYPE_CHECKING:
    from agenttrace.store.query import Answer

SHOWN = 40
"""Rows that are drawn: a screen. CSV and JSON are for machines, and hold all."""


@click.command(short_help="Ask the store in SQL.")
@click.argument("query")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV; an unknown value is empty.")
@click.option("--timeout", type=Duration(), default="60s", metavar="DURATION", show_default=True, help="Stop it then.")
@click.option("--memory", type=Size(), default="1GB", metavar="SIZE", show_default=True, help="It may use so much.")
@json_option
@store_option
def sql(query: str, as_csv: bool, timeout: int, memory: int, as_json: bool, store: str | None) -> None:
    """Run one SQL statement on the store, which it can only read. It reaches no file and no network.

    The tables and views are in docs/schema.md: model_calls, phase_seconds and critical_path are the ones to begin with.
    """
    from agenttrace.store.query import ask

    if as_csv and as_json:
        raise UsageError("Both --csv and --json were given. Give one of them.")
    with ask(store, query, timeout_s=timeout / 1e9, memory_bytes=memory) as answer:
        if as_json:
            print_json([dict(zip(_distinct(answer.columns), row, strict=True)) for row in _values(answer)])
        elif as_csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(answer.columns)
            writer.writerows(answer.rows)
        else:
            _draw(answer)


def _draw(answer: Answer) -> None:
    from rich import box
    from rich.table import Table

    from agenttrace.report.console import open_console, put
    from agenttrace.report.escaping import visible

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in answer.columns:
        table.add_column(visible(column), overflow="fold")
    for row in islice(answer.rows, SHOWN):
        table.add_row(*("" if value is None else visible(str(value)) for value in row))
    put(table, open_console())
    if next(answer.rows, None) is not None:
        click.echo(f"These are the first {SHOWN} rows; --csv and --json print all.", err=True)


def _distinct(names: Sequence[str]) -> list[str]:
    """Names as keys: one that comes again gets its place."""
    return [name if name not in names[:place] else f"{name}_{place + 1}" for place, name in enumerate(names)]


def _values(answer: Answer) -> Iterator[list[Any]]:
    import orjson

    is_json = [kind == "JSON" for kind in answer.types]
    for row in answer.rows:
        yield [
            orjson.loads(value) if parse and isinstance(value, str) else _plain(value)
            for parse, value in zip(is_json, row, strict=True)
        ]


def _plain(value: Any) -> Any:
    """What JSON has a form for; everything else as its text, an integer that others would round too."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bool | float | None):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else str(value)
    return value.hex() if isinstance(value, bytes) else str(value)
