"""`agenttrace prune`: take old traces out of a store."""

from __future__ import annotations

from dataclasses import asdict

import click

from agenttrace import clock
from agenttrace.cli.options import Duration, Size, json_option, store_option
from agenttrace.cli.output import print_json
from agenttrace.errors import UsageError


@click.command(short_help="Take old traces out of the store.")
@click.option("--older-than", type=Duration(), metavar="TIME", help="That ended so long ago: 30d, 12h.")
@click.option("--tag", metavar="TAG", help="With this tag, or KEY=VALUE of the run's tags.")
@click.option("--max-bytes", type=Size(), metavar="SIZE", help="The oldest, until the database is no larger: 5GB.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@json_option
@store_option
def prune(
    older_than: int | None, tag: str | None, max_bytes: int | None, dry_run: bool, as_json: bool, store: str | None
) -> None:
    """Take traces out of a store, for good: old ones, those with a tag, or the oldest above a size.

    Without options, keep and max_bytes of [tool.agenttrace] count. --older-than and --tag together mean both. Runs that are accepted baselines of the project stay. What is left is written into a new file, so the space is free.
    """
    from agenttrace.store.pruning import prune as take_out

    if older_than is None and tag is None and max_bytes is None:
        from agenttrace.configuration import read_configuration

        project = read_configuration()
        older_than, max_bytes = project.keep_ns, project.max_bytes
    if older_than is None and tag is None and max_bytes is None:
        raise UsageError(
            "Nothing says which traces shall go. Give --older-than, --tag or --max-bytes, "
            "or set keep or max_bytes in [tool.agenttrace]."
        )
    from agenttrace.baselines import accepted_run_ids

    before = None if older_than is None else clock.wall_ns() - older_than
    pruned = take_out(
        store, before_ns=before, tag=tag, max_bytes=max_bytes, keep_runs=accepted_run_ids(), is_trial=dry_run
    )
    if as_json:
        print_json({**asdict(pruned), "dry_run": dry_run})
        return
    from rich.filesize import decimal

    from agenttrace.report.numbers import quantity

    what = ", ".join([quantity(pruned.traces, "trace"), quantity(pruned.spans, "span"), quantity(pruned.runs, "run")])
    if dry_run:
        click.echo(f"Would take out {what}. Nothing was changed.")
        return
    click.echo(f"Took out {what}; {decimal(pruned.bytes_before)} became {decimal(pruned.bytes_after)}.")
    if pruned.texts_kept:
        click.echo("A process is recording, so texts that only they had are still there; prune again later.", err=True)
