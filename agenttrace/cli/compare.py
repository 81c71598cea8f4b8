"""`agenttrace compare`: two runs, if they may be compared, by case. Its exit code is the verdict."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_json
from agenttrace.cli.policy_options import policy_of, policy_options
from agenttrace.cli.report_options import (
    is_stdout_taken,
    recorded_text_commands_nothing,
    report_options,
    tell_github,
    write_comparison_page,
    write_text_reports,
)


@click.command(short_help="Compare two runs, after proving that they may be.")
@click.argument("baseline")
@click.argument("candidate")
@click.option(
    "--changed",
    multiple=True,
    metavar="DIMENSION[:CALL_SITE]",
    help="A setting, or a group of them like 'sampling', that differs on purpose. May be given several times.",
)
@click.option("--strict", is_flag=True, help="Refuse what cannot be verified to be the same.")
@click.option(
    "--restrict",
    multiple=True,
    metavar="DIMENSION=VALUE",
    help="Only cases that had this value throughout, where a setting changed within a run.",
)
@policy_options
@report_options
@json_option
@store_option
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    baseline: str,
    candidate: str,
    changed: tuple[str, ...],
    strict: bool,
    restrict: tuple[str, ...],
    markdown: str | None,
    junit: str | None,
    html: str | None,
    github: bool,
    as_json: bool,
    store: str | None,
    **options: Any,
) -> None:
    r"""Compare the runs BASELINE and CANDIDATE, paired by case.

    Settings that differ and are not declared with --changed stand against it: then every difference is told. A run is
    an id, the beginning of one, a name, 'branch:main' or 'tag:KEY=VALUE', which mean the latest of those. BASELINE may be
    'accepted' too: see 'agenttrace baseline --help'.

    \b
    Exit codes: 0 pass, 1 regressed, 10 inconclusive, 11 not comparable, 12 invalid run, 13 no baseline.
    """
    from agenttrace.comparison.as_json import comparison_json
    from agenttrace.configuration import read_configuration
    from agenttrace.judging import compare as compare_runs
    from agenttrace.store.comparisons import note_comparison
    from agenttrace.store.reading import open_store

    is_taken = is_stdout_taken({"markdown": markdown, "junit": junit, "html": html}, as_json=as_json)
    policy = policy_of(options)
    ctx.call_on_close(gc.enable)
    gc.disable()  # of a hundred thousand attempts none can go before the end, and looking for those that can takes a second
    with open_store(store) as opened:
        severity = read_configuration().severity
        comparison = compare_runs(
            opened,
            baseline,
            candidate,
            changed,
            strict=strict,
            severity=severity,
            restrict=restrict,
            policy=policy,
        )
        if html is not None:
            write_comparison_page(comparison, opened, html, store)
    note_comparison(
        store,
        baseline=comparison.baseline.run_id,
        candidate=comparison.candidate.run_id,
        verdict=comparison.verdict,
        result=comparison_json(replace(comparison, cases=())),
    )
    if as_json:
        print_json(comparison_json(comparison))
    elif not is_taken:
        from agenttrace.report.compare_report import draw_comparison
        from agenttrace.report.console import open_console, put, width_of

        console = open_console()
        with recorded_text_commands_nothing(github):
            put(draw_comparison(comparison, width=width_of(console), store=store), console)
    write_text_reports(comparison, markdown, junit)
    if github:
        tell_github(comparison, to_stderr=is_taken)
    ctx.exit(comparison.exit_code)
