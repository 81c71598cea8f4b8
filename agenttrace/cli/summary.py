"""`agenttrace summary`: the closing screen of runs. `agenttrace run` calls it at its end; it is in no help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from agenttrace.cli.options import store_option
from agenttrace.errors import AgentTraceError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from agenttrace.phases.advice import Advice
    from agenttrace.records import RunRecord, SpanRecord


@click.command(hidden=True, short_help="The closing screen of runs.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@store_option
def summary(runs: tuple[str, ...], store: str | None) -> None:
    """Print where the time of some runs went, on one screen."""
    from agenttrace.report.console import open_console, put
    from agenttrace.store.reading import open_store

    with open_store(store) as opened:
        records = [opened.run(run) for run in dict.fromkeys(runs)]
        spans = [span for record in records for span in opened.run_spans(record.run_id)]
    put(summary_of(records, spans, store), open_console())
    from agenttrace.cli.keeping import keep_as_configured

    keep_as_configured(store)


def summary_of(runs: Sequence[RunRecord], spans: Sequence[SpanRecord], store: str | None) -> RenderableType:
    """The closing screen of these runs."""
    from agenttrace.phases.critical_path import paths_by_part
    from agenttrace.phases.summary import summarise
    from agenttrace.report.closing_screen import draw_summary

    calls = [span for span in spans if span.kind == "model"]
    return draw_summary(
        summarise(runs, spans), path=paths_by_part(spans), cost=_cost(calls), advice=_advice(calls), store=store
    )


def _cost(calls: Sequence[SpanRecord]) -> str | None:
    """What the calls cost, as far as it is known; None where no price is."""
    from agenttrace.configuration import read_configuration
    from agenttrace.pricing import Prices, priced_model
    from agenttrace.records import Usage
    from agenttrace.report.numbers import money

    try:
        prices = Prices(read_configuration().prices)
    except AgentTraceError:  # a configuration that cannot be read is said by the commands that depend on it
        return None
    costs = [prices.cost(call.usage or Usage(), priced_model(call.settings), call.start_ns) for call in calls]
    known = [cost.total for cost in costs if cost is not None]
    if not any(known):
        return None
    is_whole = all(cost is not None or call.state != "ok" for call, cost in zip(calls, costs, strict=True))
    return f"{'' if is_whole else 'at least '}{money(sum(known))}"


def _advice(calls: Sequence[SpanRecord]) -> Sequence[Advice]:
    try:
        from agenttrace.phases.advice import advise_on

        return advise_on(calls)
    except ModuleNotFoundError:  # without the extra 'eval' there is no advice, and all the rest
        return ()
