"""The reports that `compare` writes beside what it prints, and where they go."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agenttrace.cli.options import html_option
from agenttrace.cli.output import print_error, unwritable
from agenttrace.errors import UsageError

if TYPE_CHECKING:
    from agenttrace.comparison.outcome import Comparison
    from agenttrace.store.reading import Store

SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that GitHub Actions shows below a step."""

STDOUT = "-"


def report_options(command: Any) -> Any:
    """One option a form."""
    for option in reversed(
        (
            click.option("--markdown", metavar="FILE", help="Write a comment for a pull request. '-' is stdout."),
            click.option("--junit", metavar="FILE", help="Write JUnit XML, for CI systems. '-' is stdout."),
            html_option,
            click.option(
                "--github", is_flag=True, help="Annotate a run of GitHub Actions, and add to its step's summary."
            ),
        )
    ):
        command = option(command)
    return command


def is_stdout_taken(files: Mapping[str, str | None], *, as_json: bool) -> bool:
    """Whether a report goes to standard output, so that nothing else may.

    Raises:
        UsageError: more than one would.
    """
    taken = [f"--{form} -" for form, file in files.items() if file == STDOUT] + ["--json"] * as_json
    if len(taken) > 1:
        raise UsageError(f"{' and '.join(taken)} would mix in standard output. Give all but one of them a file.")
    return bool(taken)


def write_report(file: str, content: bytes) -> None:
    """Write a report whole, to a file or to standard output."""
    if file == STDOUT:
        click.echo(content, nl=False)
        return
    try:
        Path(file).write_bytes(content)
    except OSError as error:
        raise unwritable(error) from error


def write_text_reports(comparison: Comparison, markdown: str | None, junit: str | None) -> None:
    """Those that need no more than the comparison."""
    if markdown is not None:
        from agenttrace.report.markdown_report import markdown_report

        write_report(markdown, markdown_report(comparison).encode("utf-8", "replace"))
    if junit is not None:
        from agenttrace.report.junit_report import junit_report

        write_report(junit, junit_report(comparison))


def write_comparison_page(comparison: Comparison, opened: Store, file: str, store: str | None) -> None:
    """The HTML report, with what the store has of outputs and times."""
    from agenttrace.judging import load_details
    from agenttrace.report.comparison_page import MAX_CASES, changed_cases, comparison_page

    cases = [case.case for case in changed_cases(comparison)[:MAX_CASES]]
    phoenix = os.environ.get("PHOENIX_COLLECTOR_ENDPOINT")
    page = comparison_page(comparison, load_details(opened, comparison, cases), store=store, phoenix=phoenix)
    write_report(file, page.encode("utf-8", "replace"))


def tell_github(comparison: Comparison, *, to_stderr: bool) -> None:
    """Print annotations, and add the Markdown report to the summary of this step."""
    from agenttrace.report.github_report import github_annotations
    from agenttrace.report.markdown_report import markdown_report

    for line in github_annotations(comparison):
        click.echo(line, err=to_stderr)
    summary = os.environ.get(SUMMARY)
    if not summary:
        print_error(f"agenttrace: {SUMMARY} is not set, so no summary is written. GitHub Actions sets it.")
        return
    try:
        with Path(summary).open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{markdown_report(comparison)}\n")
    except OSError as error:
        raise unwritable(error) from error


@contextmanager
def recorded_text_commands_nothing(is_github: bool) -> Iterator[None]:
    """Let GitHub Actions ignore what looks like its commands: a recorded name that begins a line may be `::error::`."""
    token = secrets.token_hex(16)
    if is_github:
        click.echo(f"::stop-commands::{token}")
    try:
        yield
    finally:
        if is_github:
            sys.stdout.flush()
            click.echo(f"::{token}::")
