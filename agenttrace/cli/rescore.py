"""`agenttrace rescore`: new evaluators over what runs answered, without a call of the agent's model."""

from __future__ import annotations

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_json


@click.command(short_help="Judge the stored outputs of runs anew.")
@click.argument("suite")
@click.argument("baseline")
@click.argument("candidate", required=False)
@json_option
@store_option
@click.pass_context
def rescore(
    ctx: click.Context, /, suite: str, baseline: str, candidate: str | None, as_json: bool, store: str | None
) -> None:
    r"""Have the evaluators of SUITE judge the stored outputs of the runs BASELINE and CANDIDATE.

    Stores a run NAME-rescored for each, with new scores and the old traces; compare these. Neither the agent nor its model is
    called; a judge that is a model is. What failed without an output stays as it is.

    \b
    Exit codes: 0 judged, 2 the suite is not that of the runs, 3 incomplete.
    """
    from agenttrace.cli.eval import draw_results
    from agenttrace.evaluation.progress import RunProgress
    from agenttrace.evaluation.rescoring import rescore as judge_anew
    from agenttrace.evaluation.suite_files import load_suite
    from agenttrace.report.numbers import duration

    loaded = load_suite(suite)
    refs = [ref for ref in (baseline, candidate) if ref is not None]
    with RunProgress(f"judging {' and '.join(refs)}", duration) as progress:
        results = judge_anew(loaded, refs, store=store, watching=progress)
    if as_json:
        print_json([result.as_json() for result in results])
    else:
        draw_results(results, store)
    ctx.exit(3 if any(result.missing for result in results) else 0)
