"""The command `agenttrace`: finds the file of a command, and turns every failure into a sentence and an exit code.

Exit codes: 0 fine, 2 usage, 3 other failure, 130 interrupted. A closed output pipe is fine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

import click

from agenttrace.cli import output
from agenttrace.errors import DISTRIBUTION, AgentTraceError

COMMANDS = {
    "run": "run",
    "list": "list_traces",
    "show": "show",
    "export": "export",
    "import": "import_file",
    "phases": "phases",
    "settings": "settings",
    "cost": "cost",
    "compare": "compare",
    "reproduce": "reproduce",
    "baseline": "baseline",
    "plan": "plan",
    "aa": "aa",
    "rescore": "rescore",
    "eval": "eval",
    "explain-response": "explain_response",
    "view": "view",
    "serve": "serve",
    "doctor": "doctor",
    "demo": "demo",
    "sql": "sql",
    "prune": "prune",
    "compact": "compact",
    "summary": "summary",
}
"""Command to the module in this folder that holds it, in the order of the help. A module is loaded when its command is
called, and defines the command under its own name."""

FAILURE = 3
INTERRUPTED = 130


class CommandGroup(click.Group):
    """Loads a command when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; None if there is none."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(import_module(f"agenttrace.cli.{module}"), module)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's, which cannot suggest commands that are not loaded yet."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if args[0].startswith("-") or args[0] in COMMANDS:
                raise
            raise click.UsageError(f"There is no command '{args[0]}'.{_nearest(args[0])}", ctx) from error


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
    return f" Did you mean '{found[0]}'?" if found else ""


def _print_version(ctx: click.Context, parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        try:
            number = version(DISTRIBUTION)
        except PackageNotFoundError:
            number = "(not installed)"
        click.echo(f"agenttrace {number}")
        ctx.exit()


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
def group() -> None:
    """Where an agent's time went, with evidence."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Ends the process with its exit code unless that is 0.

    A command may return something to call: it is called here, outside of all error handling, so that a program run by
    `agenttrace run` meets no `except` of ours.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] != ["run"]:  # a program's output is its own
        output.tolerate_narrow_encodings()
    result = _result(arguments)
    if callable(result):
        result()


def _result(arguments: Sequence[str]) -> object:
    """What the command returned. Failures end the process here, each with one sentence."""
    try:
        # Not `group.main`: it would turn a closed pipe into exit code 1.
        with group.make_context("agenttrace", list(arguments)) as ctx:
            result = group.invoke(ctx)
        output.flush_output()
        return result
    except click.exceptions.Exit as request:
        _flush_or_exit()
        sys.exit(request.exit_code)
    except click.ClickException as error:
        output.print_error(_usage_text(error))
        sys.exit(error.exit_code)
    except AgentTraceError as error:
        _exit_with(error)
    except (KeyboardInterrupt, click.Abort):
        output.abandon_output()
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        output.abandon_output()
        sys.exit(0)
    except OSError as error:
        output.abandon_output()
        _exit_with(output.unwritable(error))
    except Exception as error:
        _exit_with_bug(error)


def _flush_or_exit() -> None:
    """Flush after `--help` and `--version`, with the same manners as after a command."""
    try:
        output.flush_output()
    except BrokenPipeError:
        output.abandon_output()
        sys.exit(0)
    except OSError as error:
        output.abandon_output()
        _exit_with(output.unwritable(error))


def _usage_text(error: click.ClickException) -> str:
    """What click says of a wrong command line, on one screen: what is wrong, then how it is used."""
    text = f"agenttrace: {error.format_message()}"
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    return text if ctx is None else f"{text}\n{ctx.get_usage()}\nSee '{ctx.command_path} --help'."


def _exit_with(error: AgentTraceError) -> NoReturn:
    output.print_error(f"agenttrace: {error}\nSee docs/messages.md#{error.slug}")
    sys.exit(error.exit_code)


def _exit_with_bug(error: Exception) -> NoReturn:
    """An exception nobody foresaw: its traceback helps to repair it, and exit code 1 would mean `regressed`."""
    import traceback

    output.print_error("".join(traceback.format_exception(error)).rstrip())
    output.print_error("agenttrace: this is a bug in agenttrace. Please report it with the lines above.")
    sys.exit(FAILURE)
