"""`agenttrace compact`: write the database anew, without the space that is free inside it."""

from __future__ import annotations

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_json


@click.command(short_help="Write the database anew, as small as it can be.")
@json_option
@store_option
def compact(as_json: bool, store: str | None) -> None:
    """Write the database into a new file, without the space that is free inside it. Recording goes on meanwhile."""
    from rich.filesize import decimal

    from agenttrace.store.pruning import compact as write_anew

    before, after = write_anew(store)
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after})
        return
    click.echo(f"{decimal(before)} became {decimal(after)}.")
