"""Shows how far a run has come: a bar on a terminal, a plain line now and then elsewhere. On standard error."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agenttrace import clock
from agenttrace.evaluation.budgets import Spending, Used
from agenttrace.store.results import ResultRecord

LINE_EVERY_NS = 10_000_000_000
"""How often a plain line is written, at most."""


class RunProgress:
    """A `Watching`; a context manager, so that the terminal is left as it was."""

    def __init__(self, name: str, duration: Callable[[float], str]) -> None:
        """`duration` writes nanoseconds for people."""
        self._name = name
        self._duration = duration
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
        )
        self._bar = Progress(
            *columns, TimeRemainingColumn(), console=self._console, disable=not self._console.is_terminal
        )
        self._planned = 0
        self._done = 0
        self._failed = 0
        self._began_ns = self._line_ns = clock.monotonic_ns()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def began(self, planned: int, already_there: int) -> None:
        """Before the first attempt."""
        self._planned = planned
        self._began_ns = self._line_ns = clock.monotonic_ns()
        self._task = self._bar.add_task(self._name, total=planned, told="")
        there = f", {already_there} are there already" if already_there else ""
        self._say(f"{self._name}: {planned} attempts{there}")

    def moved(self, result: ResultRecord, spending: Spending) -> None:
        """An attempt has been made and judged."""
        self._done += 1
        self._failed += result.outcome != "scored"
        told = self._told(spending)
        self._bar.update(self._task, completed=self._done, told=told)
        now = clock.monotonic_ns()
        if now - self._line_ns >= LINE_EVERY_NS or self._done == self._planned:
            self._line_ns = now
            left = (self._planned - self._done) * (now - self._began_ns) / self._done
            ahead = f", about {self._duration(left)} left" if self._done < self._planned else ""
            self._say(f"{self._name}: {self._done}/{self._planned}, {told}{ahead}")

    def _told(self, spending: Spending) -> str:
        seconds = max(clock.monotonic_ns() - self._began_ns, 1) / 1e9
        parts = [f"{self._done / seconds:.2g}/s", f"{spending.tokens.known:,.0f} tokens"]
        if cost := cost_text(spending.cost_usd):
            parts.append(cost)
        if self._failed:
            parts.append(f"{self._failed} without a score")
        return ", ".join(parts)

    def _say(self, line: str) -> None:
        if not self._console.is_terminal:
            self._console.print(line, soft_wrap=True)


def cost_text(cost: Used) -> str:
    """What attempts cost so far; nothing where they cost nothing, since most local models do."""
    if cost.unknown and not cost.known:
        return "cost unknown"
    return f"{'at least ' if cost.unknown else ''}${cost.known:.4f}" if cost.known else ""
