"""The few shapes that every console drawing is made of: bars, cells, tables without lines, and how a step is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from agenttrace.phases.critical_path import PartOnPath
from agenttrace.records import SpanRecord
from agenttrace.report.escaping import visible
from agenttrace.steps import State

MAX_WIDTH = 140
"""Wider than this, the eye loses the line."""

GAP = 2
"""Columns of space between two cells."""

KIND_STYLES = {"model": "cyan", "tool": "yellow", "retriever": "magenta", "embedding": "magenta"}

EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")

NAME_LIMIT = 200
"""Characters of a recorded name that are looked at; a line shows fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a drawn table. Without a width it is as wide as its widest cell, or takes what is left."""

    title: str = ""
    width: int | None = None
    is_number: bool = False
    is_flexible: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[Text | str]], *, indent: int = 0) -> Table:
    """Cells in columns, without lines; what does not fit ends in an ellipsis. Titles are drawn if there are any."""
    titled = any(column.title for column in columns)
    drawn = Table(box=None, show_header=titled, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    if indent:
        drawn.add_column(width=indent - GAP)
    for column in columns:
        drawn.add_column(
            Text(column.title),
            width=column.width,
            justify="right" if column.is_number else "left",
            ratio=1 if column.is_flexible else None,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in rows:
        # A str would be read as markup.
        cells = [cell if isinstance(cell, Text) else Text(cell) for cell in row]
        drawn.add_row(*([Text("")] if indent else []), *cells)
    return drawn


def share_bar(share: float, width: int, *, style: str = "") -> Text:
    """A bar as long as its share of `width`, in eighths of a character; what is not nothing is seen."""
    eighths = min(width * 8, max(round(share * width * 8), 1 if share > 0 else 0))
    return Text("█" * (eighths // 8) + EIGHTHS[eighths % 8], style=style)


def time_bar(start: float, end: float, width: int, *, style: str = "", is_open: bool = False) -> Text:
    """A bar from `start` to `end`, both shares of the whole; one that is still open is dotted."""
    first = min(int(max(start, 0) * width), width - 1)
    length = max(1, min(round(end * width), width) - first)
    return Text(" " * first).append(("░" if is_open else "█") * length, style=style)


def state_text(state: State) -> Text:
    """How a step ended, unless it ended well."""
    if state == "ok":
        return Text("")
    return Text(state, style="bold red" if state in ("error", "timed_out") else "yellow")


def step_name(span: SpanRecord, *, prefix: str = "") -> Text:
    """A step's name, with its model's name or its kind where it is more than a chain, and which attempt it was."""
    drawn = Text(prefix, style="dim").append(visible(span.name, limit=NAME_LIMIT), style=KIND_STYLES.get(span.kind, ""))
    detail = span.model if span.kind in ("model", "embedding") and span.model else span.kind
    if span.kind in KIND_STYLES:
        drawn.append(f" ({visible(detail, limit=NAME_LIMIT)})", style="dim")
    if span.attempt > 1:
        drawn.append(f" attempt {span.attempt}", style="dim")
    return drawn


def part_name(part: PartOnPath) -> str:
    """What a part of a critical path is called: `model: decode`, `tool: search`."""
    kind = f"{part.kind}: " if part.kind else ""
    return f"{kind}{visible(part.name, limit=60)}"


def error_text(span: SpanRecord, *, limit: int = 300) -> str:
    """An error's type and message on one line."""
    if span.error is None:
        return span.state
    return visible(f"{span.error.type}: {span.error.message}", limit=limit)
