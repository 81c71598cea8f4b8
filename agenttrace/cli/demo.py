"""`agenttrace demo`: a real agent on a real local model, recorded and shown. Nothing leaves this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from agenttrace.cli.options import store_option
from agenttrace.errors import LocalModelError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from agenttrace.evaluation.suite import Suite
    from agenttrace.local_model import LocalModel

TEMPERATURES = (0.0, 0.7)
"""Of the two runs that are compared."""


@click.command(short_help="Record a real agent on a local model, and look at it.")
@click.option("--questions", type=click.IntRange(1), metavar="N", help="Ask only the first N questions.")
@store_option
def demo(questions: int | None, store: str | None) -> None:
    """Let an agent answer questions on a small model of this machine, twice, and show and compare the two runs.

    Needs the checkout, where the agent lives, and the extras 'local' and 'eval'; 'make demo' installs and runs it all.
    """
    from agenttrace.report.console import open_console, put
    from agenttrace.store.layout import Layout, store_path

    console = open_console()
    Layout(store_path(store)).create()  # that it cannot be written is better known before the questions are asked
    build_agent, demo_suite = _load_agent(console)
    run_ids = []
    with _local_model(console) as model:
        for temperature in TEMPERATURES:
            agent = build_agent(model.base_url, model.name, temperature=temperature)
            run_ids.append(_ask(demo_suite(agent, questions), f"demo-{temperature}", store))
    show_run(run_ids[0], store, lambda drawing: put(drawing, console), console)
    _compare(run_ids, store, lambda drawing: put(drawing, console), console)
    console.print("\nWhat to try next:")
    console.print("  agenttrace list                every trace, newest first")
    console.print("  agenttrace show last --all     each step and each model call of the last")
    console.print("  agenttrace settings demo-0.0   what was asked of the model, and where")
    console.print("  make phoenix                   installs Arize Phoenix, and then")
    console.print("  agenttrace view                shows it the same traces")
    console.print("  agenttrace run your_script.py  the same for your own agent, as it is")


def _compare(run_ids: list[str], store: str | None, put: Callable[[Any], None], console: Console) -> None:
    """Compare the two runs: refused at first, allowed once the difference is declared."""
    from agenttrace.judging import compare
    from agenttrace.report.compare_report import draw_comparison
    from agenttrace.report.console import width_of
    from agenttrace.store.reading import open_store

    baseline, candidate = run_ids
    opened = open_store(store)
    for changed in ((), ("sampling.temperature",)):
        flags = "".join(f" --changed {dimension}" for dimension in changed)
        console.print(f"\n$ agenttrace compare demo-{TEMPERATURES[0]} demo-{TEMPERATURES[1]}{flags}\n", style="bold")
        put(draw_comparison(compare(opened, baseline, candidate, changed), width=width_of(console), store=store))


def _load_agent(console: Console) -> tuple[Callable[..., Any], Callable[..., Suite]]:
    """What builds the demo's agent, and its suite, from the checkout."""
    with console.status("Loading LangGraph …"):
        try:
            from evals.reading_agent import build_agent, demo_suite
        except ModuleNotFoundError as error:
            if error.name and error.name.startswith("evals"):
                raise UsageError(
                    "The demo's agent is not installed: it lives in agenttrace's checkout. "
                    "Run 'make demo' there, or record your own agent with 'agenttrace run your_script.py'."
                ) from error
            from agenttrace.errors import MissingExtra

            raise MissingExtra("local", "The demo") from error
    return build_agent, demo_suite


@contextmanager
def _local_model(console: Console) -> Iterator[LocalModel]:
    from agenttrace.local_model import serve_local_model

    status = console.status("Starting the local model …")
    status.start()
    try:
        with serve_local_model() as model:
            status.stop()
            console.print(f"{model.name} is up, on this machine, on one thread")
            yield model
    finally:
        status.stop()


def _ask(suite: Suite, name: str, store: str | None) -> str:
    """Record the suite as a new run; returns the run's id."""
    from agenttrace.evaluation.progress import RunProgress
    from agenttrace.evaluation.runner import Arm, RunOptions, run_suite
    from agenttrace.report.numbers import duration

    with RunProgress(name, duration) as progress:
        options = RunOptions(store=store, tags={"demo": True}, is_new=True, watching=progress)
        [result] = run_suite(suite, [Arm(task=suite.task_name(None), run_name=name)], options)
    if result.stopped:
        raise KeyboardInterrupt
    return result.run_id


def show_run(run_id: str, store: str | None, put: Callable[[Any], None], console: Console) -> None:
    """Draw the slowest trace of a run, and the screen that sums the run up."""
    from agenttrace.cli.summary import summary_of
    from agenttrace.report.console import draw_trace, width_of
    from agenttrace.store.reading import open_store

    with open_store(store) as opened:
        run, spans = opened.run(run_id), opened.run_spans(run_id)
    roots = [span for span in spans if span.parent_id is None]
    if not roots:
        raise LocalModelError(
            f"The demo recorded nothing into {os.fspath(store or 'the store')}. 'agenttrace doctor' says why."
        )
    slowest = max(roots, key=lambda span: span.duration_ns or 0)
    trace = [span for span in spans if span.trace_id == slowest.trace_id]
    width = width_of(console)
    console.print("\nThe slowest of them:\n")
    put(draw_trace(run, trace, width=width, store=store))
    console.print("\nAll of them:\n")
    put(summary_of([run], spans, store))
