"""`agenttrace show`: one trace, as a tree with its times and the phases of its model calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agenttrace.cli.options import html_option, json_option, store_option
from agenttrace.cli.output import print_json, write_page
from agenttrace.errors import MissingExtra, RunNotFound

if TYPE_CHECKING:
    from agenttrace.records import RunRecord
    from agenttrace.store.reading import Store


@click.command(short_help="Show one trace: its steps, times and phases.")
@click.argument("trace")
@click.option("--all", "show_all", is_flag=True, help="Every step and every model call, however many.")
@click.option(
    "--why", "ask_why", is_flag=True, help="What its time hangs on, and why its calls took longer than usual."
)
@click.option("--diff", "other", metavar="TRACE", help="Lay another trace beside it, and show where they part.")
@html_option
@json_option
@store_option
def show(
    trace: str, show_all: bool, ask_why: bool, other: str | None, html: str | None, as_json: bool, store: str | None
) -> None:
    """Show one trace: its steps as a tree with a bar of time each, and the phases of its model calls.

    TRACE is an id, the beginning of one, 'last', or 'last~1', the one before it.
    """
    from agenttrace.store.reading import open_store

    if other is not None:
        if ask_why:
            raise click.UsageError("--diff compares two traces and --why explains one: give one of them.")
        _lay_side_by_side(trace, other, show_all, html, as_json, store)
        return
    if ask_why:
        _explain(trace, as_json, store)
        return
    with open_store(store) as opened:
        spans = opened.trace(trace)
        run = None if as_json else _run(opened, spans[0].run_id)
        resumes = opened.resumes(spans[0].trace_id)
    if as_json:
        from agenttrace.export.jsonl import span_json

        head = {"trace_id": spans[0].trace_id, "run_id": spans[0].run_id, "resumes": resumes}
        print_json({**head, "spans": [span_json(span) for span in spans]})
        return
    if html is not None:
        from agenttrace.report.trace_page import trace_page

        write_page(html, trace_page(run, spans))
        return
    from agenttrace.report.console import draw_trace, open_console, put, width_of

    console = open_console()
    put(draw_trace(run, spans, width=width_of(console), show_all=show_all, store=store), console)
    if resumes is not None:
        click.echo(f"It goes on from where another trace was interrupted: agenttrace show {resumes[:12]}")


def _run(store: Store, run_id: str) -> RunRecord | None:
    """The run of a trace; None where its line was lost with the process that wrote it."""
    try:
        return store.run(run_id)
    except RunNotFound:
        return None


def _lay_side_by_side(
    trace: str, other: str, show_all: bool, html: str | None, as_json: bool, store: str | None
) -> None:
    from agenttrace.comparison.trace_diff import diff_json, trace_diff
    from agenttrace.store.reading import open_store

    with open_store(store) as opened:
        before, after = opened.trace(trace), opened.trace(other)
    diff = trace_diff(before, after)
    if as_json:
        print_json({"baseline": before[0].trace_id, "candidate": after[0].trace_id, **diff_json(diff)})
        return
    if html is not None:
        from agenttrace.report.trace_diff_page import trace_diff_page

        write_page(html, trace_diff_page(diff, before, after))
        return
    from agenttrace.report.console import open_console, put, width_of
    from agenttrace.report.trace_diff_report import draw_trace_diff

    console = open_console()
    put(draw_trace_diff(diff, before, after, width=width_of(console), show_all=show_all), console)


EXPLAINED = 3
"""Model calls that are explained: those with most time on the critical path."""


def _explain(trace: str, as_json: bool, store: str | None) -> None:
    try:
        from agenttrace.phases.critical_path import critical_path, path_json
        from agenttrace.phases.why import why
        from agenttrace.store.reading import open_store
        from agenttrace.store.recent_calls import read_recent_calls

        with open_store(store) as opened:
            path = critical_path(opened.trace(trace))
            calls = path.longest("model", EXPLAINED)
            with opened.connection() as connection:
                recent = read_recent_calls(connection, calls)
            whys = [why(call, recent[call.span_id]) for call in calls]
    except ModuleNotFoundError as error:
        raise MissingExtra("eval", "Comparing a call with earlier ones") from error
    if as_json:
        head = {"trace_id": path.stretches[0].span.trace_id if path.stretches else None}
        print_json({**head, "critical_path": path_json(path), "calls": [told.as_json() for told in whys]})
        return
    from agenttrace.report.console import open_console, put, width_of
    from agenttrace.report.why_report import draw_why

    console = open_console()
    put(draw_why(path, whys, width=width_of(console)), console)
