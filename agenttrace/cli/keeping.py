"""What the project's configuration says of a store's age and size, done without being asked: `keep` and `max_bytes`."""

from __future__ import annotations

import click

from agenttrace import clock
from agenttrace.errors import AgentTraceError

DAY_NS = 86_400_000_000_000
"""Old traces are taken out at most this often: each time, what is left is written anew."""

ROOM = 0.8
"""To what share of `max_bytes` a store is brought that has outgrown it, so that the next run does not have to again."""


def keep_as_configured(store: str | None) -> None:
    """Take out what is older or more than the project wants to keep, and say so. It never fails for its caller."""
    from agenttrace.baselines import accepted_run_ids
    from agenttrace.configuration import read_configuration
    from agenttrace.report.numbers import quantity
    from agenttrace.store.layout import Layout, store_path
    from agenttrace.store.pruning import prune

    try:
        project = read_configuration()
        layout = Layout(store_path(store))
        is_too_large = project.max_bytes is not None and layout.database_bytes() > project.max_bytes
        now = clock.wall_ns()
        is_due = project.keep_ns is not None and now - (layout.pruned_ns() or 0) >= DAY_NS
        if not is_due and not is_too_large:
            return
        pruned = prune(
            store,
            before_ns=now - project.keep_ns if is_due and project.keep_ns is not None else None,
            keep_runs=accepted_run_ids(),
            max_bytes=round(ROOM * project.max_bytes) if is_too_large and project.max_bytes is not None else None,
        )
    except AgentTraceError as error:
        click.echo(f"The store was not pruned: {error}", err=True)
        return
    if pruned.traces:
        click.echo(
            f"Took out {quantity(pruned.traces, 'trace')}, as keep and max_bytes of {project.file} say.", err=True
        )
