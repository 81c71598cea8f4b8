"""`agenttrace baseline`: accepts a run as what others are compared with, and shows what was accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_json

if TYPE_CHECKING:
    from agenttrace.export.baseline_file import AcceptedBaseline


@click.group(short_help="Accept a run as the baseline, or show what was accepted.")
def baseline() -> None:
    """Baselines are files in your repository: accepting one is a change that is reviewed, like any other."""


@baseline.command()
@click.argument("run")
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where it is written. [default: baselines/NAME.json beside pyproject.toml, NAME being the suite's or the run's]",
)
@click.option("--reason", metavar="TEXT", help="Why this run, for whoever reviews it.")
@json_option
@store_option
def accept(run: str, file: Path | None, reason: str | None, as_json: bool, store: str | None) -> None:
    """Write RUN down as the baseline: its settings and the results of every case, enough to compare without its store.

    Commit the file. 'agenttrace compare accepted CANDIDATE' then compares with it, in any checkout.
    """
    from agenttrace.baselines import accept as accept_run
    from agenttrace.export.baseline_file import shown_baseline
    from agenttrace.judging import load_evidence
    from agenttrace.store.reading import open_store

    with open_store(store) as opened:
        accepted = accept_run(load_evidence(opened, run), file=file, reason=reason)
    if as_json:
        print_json(dict(shown_baseline(accepted)))
        return
    _draw([accepted], {})
    click.echo(f"\nWrote {accepted.file}: commit it.")


@baseline.command()
@click.argument("name", required=False)
@json_option
def show(name: str | None, as_json: bool) -> None:
    """Show all accepted baselines, or the one of NAME or in a file, with what speaks against it: its age, its commit.

    Exit code 13 where none was accepted.
    """
    from agenttrace.baselines import accepted_baseline, accepted_baselines, warnings
    from agenttrace.errors import NoBaseline
    from agenttrace.export.baseline_file import shown_baseline

    found = accepted_baselines() if name is None else (accepted_baseline(name),)
    if not found:
        raise NoBaseline("No baseline was accepted yet. 'agenttrace baseline accept RUN' accepts a run as one.")
    told = {one.run.run_id: list(warnings(one.run)) for one in found}
    if as_json:
        print_json([{**dict(shown_baseline(one)), "warnings": told[one.run.run_id]} for one in found])
        return
    _draw(found, told)


def _draw(found: Sequence[AcceptedBaseline], warnings: Mapping[str, Sequence[str]]) -> None:
    from agenttrace.report.baseline_report import draw_baselines
    from agenttrace.report.console import open_console, put

    put(draw_baselines(found, warnings), open_console())
