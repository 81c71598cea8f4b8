"""Standard output and standard error as every command uses them: whole, safe for a terminal, and polite when closed."""

from __future__ import annotations

import errno
import os
import re
import sys
from contextlib import suppress
from typing import Any

import click
import orjson

from agenttrace.errors import AgentTraceError
from agenttrace.report.escaping import visible_lines

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_OBEYED_BY_TERMINALS = re.compile(rb"\x7f|\xc2[\x80-\x9f]")
"""Control characters that JSON allows inside a string: DEL, and in UTF-8 what 8-bit terminals obey like ESC."""


class OutputUnwritable(AgentTraceError):
    """What a command prints or exports cannot be written."""

    slug = "output-unwritable"


def print_json(value: Any) -> None:
    """Print one JSON value, UTF-8 whatever the terminal's encoding, without a character that a terminal would obey."""
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    click.echo(_OBEYED_BY_TERMINALS.sub(lambda match: rb"\u%04x" % ord(match[0].decode()), text), nl=False)


def write_page(path: str, page: str) -> None:
    """Write an HTML page; `-` is standard output. A lone surrogate in what was recorded costs that character, not the page."""
    data = page.encode("utf-8", "replace")
    if path == "-":
        click.echo(data, nl=False)
        return
    with open(path, "wb") as file:
        file.write(data)
    click.echo(f"Wrote {visible_lines(path)}: open it in a browser.", err=True)


def print_error(message: str) -> None:
    """Print to standard error. That nobody reads it changes nothing."""
    with suppress(OSError, ValueError):
        click.echo(visible_lines(message), err=True)


def flush_output() -> None:
    """Write out what is still held back, so that a failure shows while it can be reported."""
    if sys.stdout is not None:
        sys.stdout.flush()


def abandon_output() -> None:
    """Write nothing more: the interpreter would try again at its end, and complain."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def tolerate_narrow_encodings() -> None:
    """Let a terminal without Unicode show a question mark rather than end the command."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a replaced stream may lack it: suppressed


def unwritable(error: OSError) -> OutputUnwritable:
    """What the system said about a write, with what to do."""
    where = f" {os.fspath(error.filename)}" if isinstance(error.filename, (str, os.PathLike)) else ""
    reason = error.strerror or str(error)
    advice = "Free some space and try again" if error.errno in FULL else "Name a place you may write"
    return OutputUnwritable(f"The output{where} cannot be written: {reason}. {advice}.")
