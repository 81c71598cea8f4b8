"""`agenttrace eval`: runs a suite of cases and records it, two tasks of it in turn, or writes a small suite to start from.

What a run is worth is not decided here: that is `agenttrace compare`, over runs that are stored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agenttrace.cli.options import Duration, Money, json_option, store_option, tape_options
from agenttrace.cli.output import flush_output, print_error, print_json
from agenttrace.errors import UsageError

if TYPE_CHECKING:
    from agenttrace.evaluation.runner import Arm
    from agenttrace.evaluation.suite import Suite
    from agenttrace.evaluation.summary import EvaluatedRun

EXIT_INTERRUPTED = 130
SHOWN_FAILURES = 10

STARTER = '''"""A small suite to start from: put your agent in place of `answer`, and your cases in place of these."""

from agenttrace import Case, Score, Suite
from agenttrace.evaluation.evaluators import Contains


def answer(question: str) -> str:
    """What is tried: any Runnable, graph, or sync or async function on a case's input."""
    return "Paris is the capital of France." if "France" in question else "I do not know."


def short(case: Case, output: str) -> Score:
    """An evaluator of your own: on case, output and trace, or some of them. Higher is better."""
    return Score(value=len(output) < 80, reason=f"{len(output)} characters")


suite = Suite(
    name="capitals",
    cases=[
        Case(id="france", input="What is the capital of France?", expected="Paris"),
        Case(id="peru", input="What is the capital of Peru?", expected="Lima"),
    ],
    task=answer,
    evaluators=[Contains(), short],
    repetitions=1,
    timeout_s=60,
)
'''


class Shard(click.ParamType[tuple[int, int]]):
    """A part of so many."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """`2/4`."""
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d+)/(\d+)", str(value).strip())
        if not found:
            self.fail(f"'{value}' is no shard. Give its number and how many there are: '2/4'.", param, ctx)
        return int(found[1]), int(found[2])


def run_options(command: Any) -> Any:
    """The options that `run` and `ab` share."""
    for option in reversed(
        (
            click.option("--repeat", type=click.IntRange(1), metavar="K", help="Repetitions, in place of the suite's."),
            click.option(
                "--cases",
                multiple=True,
                metavar="ID",
                help="Only these cases: ids, or tag:NAME. Several: give it again, or commas.",
            ),
            click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag of the run."),
            click.option("--max-cost", type=Money(), metavar="USD", help="Stop before more money is spent than this."),
            click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="Stop before more tokens are used."),
            click.option("--max-time", type=Duration(), metavar="TIME", help="Begin nothing after this: 90, 15m, 2h."),
            click.option(
                "--new", "is_new", is_flag=True, help="Begin a new run, even where one of this name was broken off."
            ),
            json_option,
            store_option,
        )
    ):
        command = option(command)
    return command


@click.group(short_help="Run a suite of cases and record it.")
def eval() -> None:  # noqa: A001  # the command's name
    """Run suites: cases that an agent is tried on, and evaluators that judge what it did."""


@eval.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("suite.py"))
def init(file: Path) -> None:
    """Write a small suite to start from. [default: suite.py]"""
    try:
        with open(file, "x", encoding="utf-8") as opened:
            opened.write(STARTER)
    except FileExistsError as error:
        raise UsageError(f"{file} is there already and is left as it is. Name another file.") from error
    click.echo(f"Wrote {file}. Run it: agenttrace eval run {file}")


@eval.command()
@click.argument("suite")
@click.option("--name", metavar="RUN", help="The run's name. [default: the suite's]")
@click.option("--task", metavar="TASK", help="Which task of the suite. [default: its first]")
@click.option(
    "--shard",
    type=Shard(),
    default=(1, 1),
    metavar="I/N",
    help="Only the I-th of N parts of the cases; all parts under one name are one run.",
)
@tape_options
@run_options
@click.pass_context
def run(
    ctx: click.Context, /, suite: str, name: str | None, task: str | None, shard: tuple[int, int], **options: Any
) -> None:
    r"""Try every case of SUITE and record it: a file 'suite.py', or a module, with ':NAME' where it holds several.

    A run of the same name that was broken off is gone on with: what it has is not tried again.

    \b
    Exit codes: 0 recorded, 2 the suite is not right, 3 stopped by a limit, incomplete or not in the recording, 130 interrupted.
    """
    from agenttrace.evaluation.runner import Arm
    from agenttrace.evaluation.suite_files import load_suite

    loaded = load_suite(suite)
    arm = Arm(task=loaded.task_name(task), run_name=name or loaded.name)
    _run(ctx, loaded, [arm], shard=shard, **options)


@eval.command()
@click.argument("suite")
@click.option("--baseline", required=True, metavar="TASK", help="The task to compare with.")
@click.option("--candidate", required=True, metavar="TASK", help="The task that is new.")
@click.option("--name", metavar="RUN", help="How the runs' names begin. [default: the suite's]")
@click.option("--seed", type=int, default=0, metavar="N", help="Of the order in which the two take turns.")
@run_options
@click.pass_context
def ab(ctx: click.Context, /, suite: str, baseline: str, candidate: str, name: str | None, **options: Any) -> None:
    """Try every case of SUITE with two of its tasks, in turn and in random order, so that times may be compared too.

    Records two runs, NAME-BASELINE and NAME-CANDIDATE, for 'agenttrace compare'.
    """
    from agenttrace.evaluation.runner import Arm
    from agenttrace.evaluation.suite_files import load_suite

    loaded = load_suite(suite)
    arms = [
        Arm(task=loaded.task_name(task), run_name=f"{name or loaded.name}-{task}") for task in (baseline, candidate)
    ]
    if baseline == candidate:
        raise UsageError(
            "Baseline and candidate are one task. Name two; to compare a task with itself, use 'agenttrace aa'."
        )
    _run(ctx, loaded, arms, **options)


def _run(
    ctx: click.Context,
    suite: Suite,
    arms: Sequence[Arm],
    *,
    repeat: int | None,
    cases: tuple[str, ...],
    tags: tuple[str, ...],
    max_cost: float | None,
    max_tokens: int | None,
    max_time: int | None,
    is_new: bool,
    as_json: bool,
    store: str | None,
    shard: tuple[int, int] = (1, 1),
    seed: int = 0,
    recorded: str | None = None,
    replayed: str | None = None,
) -> None:
    from agenttrace.cli.keeping import keep_as_configured
    from agenttrace.evaluation.budgets import Limits
    from agenttrace.evaluation.progress import RunProgress
    from agenttrace.evaluation.runner import ASKED_TO_END, INTERRUPTED, RunOptions, run_suite
    from agenttrace.report.numbers import duration

    with RunProgress(" and ".join(arm.run_name for arm in arms), duration) as progress:
        options = RunOptions(
            store=store,
            cases=[one for group in cases for one in group.split(",") if one],
            repetitions=repeat,
            shard=shard,
            limits=Limits(cost_usd=max_cost, tokens=max_tokens, seconds=max_time and max_time / 1e9),
            tags=_tags(tags),
            is_new=is_new,
            seed=seed,
            watching=progress,
            record_replies=recorded,
            replay=replayed,
        )
        results = run_suite(suite, arms, options)
    if as_json:
        print_json([result.as_json() for result in results] if len(results) > 1 else results[0].as_json())
    else:
        draw_results(results, store)
    _say_what_is_left(results)
    keep_as_configured(store)
    is_interrupted = any(result.stopped in (INTERRUPTED, ASKED_TO_END) for result in results)
    is_incomplete = any(result.missing or result.replay_misses for result in results)
    code = EXIT_INTERRUPTED if is_interrupted else 3 if is_incomplete else 0
    if any(result.left_behind for result in results):
        _end_now(code)  # what did not let go would complain while Python takes it apart
    ctx.exit(code)


def _end_now(code: int) -> None:
    from agenttrace.recording import flush

    flush()
    flush_output()
    os._exit(code)


def _tags(texts: Sequence[str]) -> dict[str, str | bool]:
    """`key=value`; a key alone is true."""
    tags: dict[str, str | bool] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key:
            raise UsageError(f"'{text}' is no tag. Give a key, or KEY=VALUE.")
        tags[key] = value if equals else True
    return tags


def draw_results(results: Sequence[EvaluatedRun], store: str | None) -> None:
    from agenttrace.report.console import open_console, put, width_of
    from agenttrace.report.evaluation_report import draw_evaluated

    console = open_console()
    put(draw_evaluated(results, width=width_of(console), shown=SHOWN_FAILURES, store=store), console)


def _say_what_is_left(results: Sequence[EvaluatedRun]) -> None:
    for result in results:
        if result.missing:
            why = f" ({result.stopped})" if result.stopped else ""
            print_error(f"agenttrace: {result.name}: {result.missing}{why}. The same command goes on where it stopped.")
        if result.other_shards:
            print_error(f"agenttrace: {result.name}: {result.other_shards} so far.")
    if results[0].tape:
        print_error(f"agenttrace: {results[0].tape}")
    left = max(result.left_behind for result in results)
    if left:
        print_error(f"agenttrace: {left} attempts that ran out of time did not let go; they end with this process.")
