"""`agenttrace plan`: before a comparison, how many cases and repetitions it takes, and what they cost."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_json
from agenttrace.cli.policy_options import policy_of, policy_options
from agenttrace.errors import MissingExtra


@click.command(short_help="How many cases and repetitions a comparison takes, and what they cost.")
@click.argument("run")
@click.argument("other", required=False)
@click.option(
    "--power", type=float, default=0.8, show_default=True, help="The chance that an unchanged agent shall have to pass."
)
@click.option(
    "--repetitions",
    type=click.IntRange(1, 100),
    multiple=True,
    metavar="K",
    help="To choose from. [default: 1 2 3 5 10]",
)
@policy_options
@json_option
@store_option
def plan(
    run: str,
    other: str | None,
    power: float,
    repetitions: tuple[int, ...],
    as_json: bool,
    store: str | None,
    **options: Any,
) -> None:
    """Say what a comparison with RUN takes: how many cases, with how many repetitions, for an unchanged agent to pass.

    What it costs follows from what RUN cost. With OTHER, a run of a changed agent, how differently cases change counts too.
    """
    from agenttrace.judging import load_evidence
    from agenttrace.store.reading import open_store

    try:
        from agenttrace.comparison.planning import REPETITIONS
        from agenttrace.comparison.planning import plan as make_plan
    except ImportError as error:
        raise MissingExtra("eval", "Planning a comparison") from error

    policy = policy_of(options)
    with open_store(store) as opened:
        baseline = load_evidence(opened, run)
        candidate = None if other is None else load_evidence(opened, other)
    with click.progressbar(length=1, label="planning", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:

        def moved(name: str, done: int, of: int) -> None:
            bar.length, bar.label = of, f"planning {name}"
            bar.update(done - bar.pos)

        plans = make_plan(baseline, candidate, policy, power=power, repetitions=repetitions or REPETITIONS, moved=moved)
    if as_json:
        print_json(
            {
                "schema": "agenttrace.plan/1",
                "run_id": baseline.run.run_id,
                "alpha": policy.alpha,
                "power": power,
                "metrics": [asdict(one) for one in plans],
            }
        )
        return
    from agenttrace.report.console import open_console, put
    from agenttrace.report.plan_report import draw_plans

    put(draw_plans(plans, run=baseline.run, alpha=policy.alpha, power=power), open_console())
