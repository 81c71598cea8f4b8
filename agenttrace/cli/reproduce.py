"""`agenttrace reproduce`: makes a recorded model call, or the task of a recorded attempt, again, and compares what comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agenttrace.cli.options import json_option, store_option
from agenttrace.cli.output import print_error, print_json
from agenttrace.errors import NotReproducible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttrace.evaluation.reproduction import Reproduction
    from agenttrace.records import SpanRecord

TIMES = 5


@click.command(short_help="Repeat a recorded call or task, and see how often it answers the same.")
@click.argument("trace")
@click.option("--n", "times", type=click.IntRange(1), default=TIMES, show_default=True, metavar="N", help="How often.")
@click.option(
    "--span", metavar="ID", help="Only this model call, by the beginning of its id. [default: all of the trace]"
)
@click.option(
    "--suite", metavar="SUITE", help="Repeat the whole task at its case, which is in SUITE, not single calls."
)
@click.option("--task", metavar="TASK", help="Which task of the suite. [default: its first]")
@click.option("--base-url", metavar="URL", help="Where the model is served, for calls. [default: as its package says]")
@json_option
@store_option
def reproduce(
    trace: str,
    times: int,
    span: str | None,
    suite: str | None,
    task: str | None,
    base_url: str | None,
    as_json: bool,
    store: str | None,
) -> None:
    """Repeat the model calls of TRACE under the settings that were recorded, N times each, and say how often the outputs
    agree, where they first differ, and which settings could not be reproduced. Models are called, and cost what they cost.

    TRACE is an id, the beginning of one, 'last', or 'last~1', the one before it. The repetitions are recorded too.
    """
    from agenttrace.store.reading import open_store

    with open_store(store) as opened:
        spans = opened.trace(trace)
    found = _calls(spans, span, times, store, base_url) if suite is None else [_task(spans, suite, task, times, store)]
    if as_json:
        print_json({"trace_id": spans[0].trace_id, "n": times, "reproductions": [one.as_json() for one in found]})
    else:
        for one in found:
            _draw(one)
    unanswered = next((one for one in found if not one.answered), None)
    if unanswered is not None:
        raise NotReproducible(
            f"No repetition of {unanswered.name} was answered: {unanswered.error or 'it did not return'}. "
            "See that the model can be reached, and name its address with --base-url."
        )


def _calls(
    spans: Sequence[SpanRecord], span: str | None, times: int, store: str | None, base_url: str | None
) -> list[Reproduction]:
    from agenttrace.evaluation.reproduction import reproduce_calls

    calls = [one for one in spans if one.kind == "model" and one.state == "ok" and one.span_id.startswith(span or "")]
    if not calls:
        which = f"call {span}" if span else "model call that was answered"
        raise NotReproducible(
            f"Trace {spans[0].trace_id[:12]} has no {which}. 'agenttrace show {spans[0].trace_id[:12]} --json' names its steps."
        )
    return reproduce_calls(calls, times, store=store, base_url=base_url)


def _task(spans: Sequence[SpanRecord], suite: str, task: str | None, times: int, store: str | None) -> Reproduction:
    from agenttrace.evaluation.reproduction import reproduce_task
    from agenttrace.evaluation.suite_files import load_suite

    return reproduce_task(load_suite(suite), spans, task, times, store=store)


def _draw(one: Reproduction) -> None:
    from agenttrace.report.reproduction_report import reproduction_lines

    for line in reproduction_lines(one):
        click.echo(line)
    if one.error and one.answered:
        print_error(f"agenttrace: {one.asked - one.answered} of {one.asked} repetitions failed: {one.error}")
