"""`agenttrace settings`: what the model calls of a run were set to, or where two runs differ in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agenttrace.cli.options import Moment, json_option, store_option
from agenttrace.cli.output import print_json
from agenttrace.errors import UsageError

if TYPE_CHECKING:
    from agenttrace.records import RunRecord
    from agenttrace.settings.contract import Contract


@click.command(short_help="Show a run's settings, or where two runs differ.")
@click.argument("run")
@click.argument("other", required=False, metavar="[RUN2]")
@click.option(
    "--since",
    "since_ns",
    type=Moment(),
    metavar="TIME",
    help="What changed since then, and when: a date, a time, 7d ago.",
)
@json_option
@store_option
def settings(run: str, other: str | None, since_ns: int | None, as_json: bool, store: str | None) -> None:
    """Show what the model calls of RUN were set to, by call site; with RUN2, where the two runs differ.

    A run is an id, the beginning of one, or a name, which means its latest run; the first of two may
    be 'accepted' or a baseline's file, as in 'compare'. With --since a name means all its runs: when
    did which setting change, at which call site.
    """
    from agenttrace.judging import load_contracts
    from agenttrace.store.reading import open_store

    if since_ns is not None:
        if other is not None:
            raise UsageError("--since shows how one agent's settings moved. Name one run.")
        _show_history(run, since_ns, as_json, store)
        return
    with open_store(store) as opened:
        loaded = load_contracts(opened, [run] if other is None else [run, other])
    if as_json:
        print_json(_contract_json(*loaded[0]) if other is None else _difference_json(*loaded[0], *loaded[1]))
        return
    from agenttrace.comparison.differences import contract_difference
    from agenttrace.configuration import read_configuration
    from agenttrace.report.console import open_console, put
    from agenttrace.report.settings_report import draw_contract, draw_difference

    if other is None:
        put(draw_contract(*loaded[0]), open_console())
        return
    (baseline, before), (candidate, after) = loaded
    found = contract_difference(before, after, read_configuration().severity)
    has_common_site = bool(before.sites.keys() & after.sites.keys())
    put(draw_difference(baseline, candidate, found, has_common_site=has_common_site), open_console())


def _show_history(run: str, since_ns: int, as_json: bool, store: str | None) -> None:
    from agenttrace.settings.history import history_json, settings_history
    from agenttrace.store.reading import open_store
    from agenttrace.store.settings_over_time import read_calls_since

    with open_store(store) as opened, opened.connection() as connection:
        name, runs, calls = read_calls_since(connection, run, since_ns)
    sites = settings_history(calls)
    if as_json:
        print_json({"run": name, "runs": runs, "since_ns": since_ns, "call_sites": history_json(sites)})
        return
    from agenttrace.report.console import open_console, put
    from agenttrace.report.history_report import draw_history

    put(draw_history(name, runs, since_ns, sites), open_console())


def _contract_json(run: RunRecord, contract: Contract) -> dict[str, Any]:
    from agenttrace.settings.contract import contract_json, run_json

    return {
        "run_id": run.run_id,
        "run": run.name,
        "calls": contract.calls,
        "of_the_run": run_json(contract),
        "call_sites": contract_json(contract),
    }


def _difference_json(baseline: RunRecord, before: Contract, candidate: RunRecord, after: Contract) -> dict[str, Any]:
    from agenttrace.comparison.differences import contract_difference, difference_json, unverified_json
    from agenttrace.configuration import read_configuration

    found = contract_difference(before, after, read_configuration().severity)
    return {
        "baseline": {"run_id": baseline.run_id, "run": baseline.name},
        "candidate": {"run_id": candidate.run_id, "run": candidate.name},
        "differences": [difference_json(difference) for difference in found.differences],
        "unverified_settings": unverified_json(found.unverified),
        "notes": list(found.notes),
    }
