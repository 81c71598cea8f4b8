"""`agenttrace summary`: the closing screen of runs. `agenttrace run` calls it at its end; it is in no help."""

from __future__ import annotations

import click

from agenttrace.cli.options import store_option


@click.command(hidden=True, short_help="The closing screen of runs.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@store_option
def summary(runs: tuple[str, ...], store: str | None) -> None:
    """Print where the time of some runs went, on one screen."""
    from agenttrace.phases.summary import summarise
    from agenttrace.report.closing_screen import draw_summary
    from agenttrace.report.console import open_console, put, width_of
    from agenttrace.store.reading import open_store

    with open_store(store) as opened:
        records = [opened.run(run) for run in dict.fromkeys(runs)]
        spans = [span for record in records for span in opened.run_spans(record.run_id)]
    console = open_console()
    put(draw_summary(summarise(records, spans), width=width_of(console), store=store), console)
