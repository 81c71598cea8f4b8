"""`agenttrace doctor`: is everything that was observed in the store, and if not, what is missing and why."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_json

if TYPE_CHECKING:
    from agenttrace.store.health import Health

LOSSES = 3
"""The exit code when something was lost or is damaged."""


@click.command(short_help="Check the store, and what could not be recorded.")
@json_option
@store_option
def doctor(as_json: bool, store: str | None) -> None:
    """Check the store: what it holds, what was lost on the way, who still writes. Exit code 3 if anything was lost or is damaged."""
    from agenttrace.store.health import examine

    health = examine(store)
    if as_json:
        print_json({**asdict(health), "store": str(health.store), "is_whole": health.is_whole})
    else:
        _draw(health)
    if not health.is_whole or health.damaged_logs:
        sys.exit(LOSSES)


def _draw(health: Health) -> None:
    from rich.filesize import decimal

    from agenttrace.report.escaping import visible
    from agenttrace.report.numbers import count, quantity

    versions = ", ".join(f"{name} {number}" for name, number in health.versions.items())
    click.echo(f"store       {visible(str(health.store))}")
    click.echo(f"versions    {versions}")
    click.echo(f"holds       {quantity(health.runs, 'run')}, {quantity(health.traces, 'trace')}, "
               f"{quantity(health.spans, 'span')}; {count(health.unfinished)} unfinished")  # fmt: skip
    click.echo(f"on disk     {decimal(health.size_bytes)}, {decimal(health.free_bytes)} free")
    click.echo(f"writing     {quantity(health.open_segments, 'open journal segment')}")
    click.echo(f"damaged     {quantity(health.damaged_lines, 'journal line')}")
    if health.doubled:
        click.echo(f"doubled     {quantity(health.doubled, 'span')}")
    if health.missing_texts:
        click.echo(
            f"missing     {quantity(health.missing_texts, 'large text')}, whose files in blobs/ are gone or damaged"
        )
    for table, rows in health.miscounted.items():
        click.echo(f"miscounted  {table}: {abs(rows):,} {'more' if rows > 0 else 'fewer'} than were merged")
    for name in health.damaged_logs:
        click.echo(f"set aside   {name}, a damaged log of the database; what it held was merged again. Remove it.")
    if not health.faults:
        click.echo("capture     no errors, nothing dropped")
    for fault in health.faults:
        click.echo(
            f"capture     {visible(fault.process)}: {quantity(fault.capture_errors, 'error')}, "
            f"{count(fault.dropped)} dropped; last: {visible(fault.last_error or 'not known')}"
        )
    verdict = "Everything" if health.is_whole else "Not everything"
    click.echo(f"\n{verdict} that was observed is here.")
