"""`agenttrace aa`: how often the gate decides something about an agent that did not change."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_json
from agenttrace.cli.policy_options import policy_of, policy_options
from agenttrace.errors import MissingExtra


@click.command(short_help="How often the gate calls an unchanged agent regressed.")
@click.argument("run")
@click.argument("other", required=False)
@click.option("--divisions", type=click.IntRange(1), default=200, show_default=True, help="How many to judge.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random divisions.")
@policy_options
@json_option
@store_option
def aa(
    run: str, other: str | None, divisions: int, seed: int, as_json: bool, store: str | None, **options: Any
) -> None:
    """Divide the repetitions of RUN into two random halves, again and again, and judge each pair by your own rules.

    Nothing changed between the halves: what is called regressed is a false alarm. RUN needs at least four repetitions of a
    case. With OTHER, a second run with an equal contract, the attempts of both are divided instead.
    """
    from agenttrace.judging import load_evidence
    from agenttrace.store.reading import open_store

    try:
        from agenttrace.comparison.aa import divide
    except ImportError as error:
        raise MissingExtra("eval", "Judging a comparison") from error

    policy = policy_of(options)
    with open_store(store) as opened:
        runs = tuple(load_evidence(opened, ref) for ref in (run, other) if ref is not None)
    with click.progressbar(length=divisions, label="dividing", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        rates = divide(runs, policy, divisions=divisions, seed=seed, moved=lambda done, _: bar.update(done - bar.pos))
    if as_json:
        told = {"schema": "agenttrace.aa/1", "run_ids": [one.run.run_id for one in runs], "alpha": policy.alpha}
        print_json({**told, "seed": seed, **asdict(rates)})
        return
    from agenttrace.report.aa_report import draw_rates
    from agenttrace.report.console import open_console, put

    put(draw_rates(rates, runs=[one.run for one in runs], alpha=policy.alpha), open_console())
