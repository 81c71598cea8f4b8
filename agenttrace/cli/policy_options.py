"""The options that set the rules of a comparison, over what `[tool.agenttrace]` of pyproject.toml says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agenttrace.comparison.policy import Policy


class Margin(click.ParamType[tuple[str, float]]):
    """A metric's name and a number."""

    name = "margin"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        """`correct=0.05`; shares of times, tokens and cost as `latency_s=20%` too."""
        if isinstance(value, tuple):
            return value
        name, equals, number = str(value).rpartition("=")
        try:
            size = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
        except ValueError:
            equals = ""
        if not equals or not name:
            self.fail(f"'{value}' is no margin. Give a metric and a number: 'correct=0.05'.", param, ctx)
        return name, size


def policy_options(command: Any) -> Any:
    """Options of every command that judges."""
    for option in reversed(
        (
            click.option(
                "--primary", multiple=True, metavar="METRIC", help="A metric that decides. [default: all scores]"
            ),
            click.option(
                "--margin",
                "margins",
                type=Margin(),
                multiple=True,
                metavar="METRIC=NUMBER",
                help="How much worse still passes. [default: 0.05 for scores between 0 and 1]",
            ),
            click.option("--alpha", type=float, metavar="RATE", help="The rate of either error. [default: 0.05]"),
            click.option("--min-cases", type=int, metavar="N", help="Decide nothing with fewer cases. [default: 5]"),
            click.option(
                "--on-inconclusive",
                type=click.Choice(("fail", "warn")),
                help="Whether an inconclusive comparison ends with exit code 10 or 0. [default: fail]",
            ),
            click.option(
                "--allow-missing",
                is_flag=True,
                default=None,
                help="Judge runs with many attempts that came to nothing.",
            ),
        )
    ):
        command = option(command)
    return command


def policy_of(options: dict[str, Any]) -> Policy:
    """The project's rules with what the command line sets. Takes its options out of `options`."""
    from agenttrace.configuration import RULES, read_configuration

    return read_configuration().policy({name: options.pop(name, None) for name in RULES})
