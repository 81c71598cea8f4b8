"""The options that several commands share, and how they read durations, sizes and times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from agenttrace import clock
from agenttrace.amounts import duration_ns, size_bytes

store_option = click.option(
    "--store", metavar="PATH", help="The store's folder. [default: $AGENTTRACE_STORE, else ./.agenttrace]"
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")

html_option = click.option(
    "--html", metavar="FILE", help="Write a page for the browser, one file that loads nothing else."
)


class Duration(click.ParamType[int]):
    """`250ms`, `1.5s`, `10m`, `2h`, `30d`, `1w`, or seconds without a unit: nanoseconds, above zero."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nanoseconds."""
        if isinstance(value, int):
            return value
        number = duration_ns(value if value.strip()[-1:].isalpha() else f"{value}s")
        if not number:
            self.fail(f"'{value}' is no duration. Give one like 250ms, 1.5s, 10m, 2h or 30d.", param, ctx)
        return number


class Size(click.ParamType[int]):
    """`500MB`, `5GB`: bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes."""
        if isinstance(value, int):
            return value
        number = size_bytes(value)
        if number is None:
            self.fail(f"'{value}' is no size. Give one like 500MB or 5GB.", param, ctx)
        return number


class Money(click.ParamType[float]):
    """A number above zero."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """`0.5` or `$0.5`."""
        try:
            number = float(str(value).removeprefix("$"))
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            self.fail(f"'{value}' is no number above zero.", param, ctx)
        return number


class Moment(click.ParamType[int]):
    """`2026-12-01`, `2026-12-01T14:30`, or a duration before now: nanoseconds since 1970 UTC."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nanoseconds since 1970 UTC; a time without a zone is local."""
        if isinstance(value, int):
            return value
        ago = duration_ns(value)
        if ago is not None:
            return clock.wall_ns() - ago
        try:
            return round(datetime.fromisoformat(value).astimezone(UTC).timestamp() * 1_000_000) * 1_000
        except (ValueError, OverflowError):
            self.fail(f"'{value}' is no time. Give one like 2026-12-01, 2026-12-01T14:30, or 2h for two hours ago.",
                      param, ctx)  # fmt: skip


def tape_options(command: Any) -> Any:
    """`--record` and `--replay`."""
    folder = click.Path(file_okay=False)
    for option in (
        click.option(
            "--replay",
            "replayed",
            type=folder,
            metavar="DIR",
            help="Have the recording in DIR reply in place of models.",
        ),
        click.option(
            "--record", "recorded", type=folder, metavar="DIR", help="Record what models reply into DIR, for --replay."
        ),
    ):
        command = option(command)
    return command
