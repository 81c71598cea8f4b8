"""The composition root of reading: loads what two runs left in a store, and compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from agenttrace.baselines import accepted_run, find_baseline, names_file
from agenttrace.comparison import compare as comparing
from agenttrace.comparison.dimensions import Severity
from agenttrace.comparison.evidence import RunEvidence
from agenttrace.comparison.outcome import Comparison
from agenttrace.comparison.parting import partings, telling_attempts
from agenttrace.comparison.policy import Policy
from agenttrace.configuration import read_configuration
from agenttrace.errors import RunNotFound
from agenttrace.phases.distributions import GroupTimings
from agenttrace.pricing import Prices
from agenttrace.records import RunRecord
from agenttrace.settings.contract import Contract
from agenttrace.steps import JSON
from agenttrace.store.evidence import read_contract, read_evidence
from agenttrace.store.reading import Store, read_traces


def load_evidence(store: Store, ref: str) -> RunEvidence:
    """What a comparison needs of one run, by its id, the beginning of one, or its name."""
    with store.connection() as connection:
        return read_evidence(connection, ref, prices=_prices())


def _prices() -> Prices:
    return Prices(read_configuration().prices)


def load_contracts(store: Store, refs: Sequence[str]) -> tuple[tuple[RunRecord, Contract], ...]:
    """Runs with their contracts, in the order asked for. Of an accepted baseline that the store does not have, its file's.

    The first of two may be `accepted`, `accepted:NAME` or a baseline's file, as in a comparison.
    """

    def contract_of(ref: str) -> tuple[RunRecord, Contract]:
        if names_file(ref) and ref in refs[:-1]:
            accepted = find_baseline(
                ref, read_evidence(connection, refs[-1]), lambda ref: read_evidence(connection, ref)
            )
            return accepted.evidence.run, accepted.evidence.contract
        try:
            return read_contract(connection, ref)
        except RunNotFound:
            known = accepted_run(ref)
            if known is None:
                raise
            return known.run, known.evidence.contract

    with store.connection() as connection:
        return tuple(contract_of(ref) for ref in refs)


def compare(
    store: Store,
    baseline_ref: str,
    candidate_ref: str,
    changed: Sequence[str] = (),
    *,
    strict: bool = False,
    severity: Mapping[str, Severity] = MappingProxyType({}),
    restrict: Sequence[str] = (),
    policy: Policy | None = None,
) -> Comparison:
    """Compare two runs of a store. `changed` declares what differs on purpose (`sampling`, `prompt:planner`).

    A run is an id, the beginning of one, a name, `branch:main` or `tag:KEY=VALUE`, which mean the latest of those. The baseline may
    be `accepted` too, the last accepted one of the candidate's suite, or the file of one.

    `severity` says by dimension what a difference does (`{"prompt.label": "warns"}`); `restrict` keeps the cases that had one
    value of a setting throughout (`model.served=gpt-5-mini`).

    Raises:
        NoBaseline: there is no such baseline.
        RunNotFound: the candidate is not there.
        UnknownDimension, UnknownCallSite, UndeclarableDimension: `changed` names what cannot be declared.
        NothingToRestrict: no call has a value that `restrict` names.
        InvalidPolicy, UnknownMetric: the policy cannot be used, or names a metric that no run has.
        NoModelCalls: a run holds nothing to compare.
        MissingExtra: there are scores to judge, and the extra `eval` is not installed.
    """
    with store.connection() as connection:
        prices = _prices()
        candidate = read_evidence(connection, candidate_ref, prices=prices)
        found = find_baseline(
            baseline_ref, candidate, lambda ref: read_evidence(connection, ref, beside=candidate.run, prices=prices)
        )
        baseline = found.evidence
        comparison = comparing.compare(
            baseline, candidate, changed, strict=strict, severity=severity, restrict=restrict, policy=policy
        )
        attempts = telling_attempts(comparison.cases, baseline, candidate)
        traces = read_traces(connection, [trace for pair in attempts.values() for trace in pair]) if attempts else {}
    return replace(comparison, partings=partings(attempts, traces), notes=(*found.warnings, *comparison.notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What a page shows of a comparison beside its numbers."""

    outputs: Mapping[str, JSON]
    """By trace, what it answered; of the first attempts at cases that changed."""
    baseline_times: tuple[GroupTimings, ...]
    """Of the model calls of the whole run, by model."""
    candidate_times: tuple[GroupTimings, ...]


def load_details(store: Store, comparison: Comparison, cases: Sequence[str]) -> Details:
    """Outputs of `cases`, and how the times of both runs are distributed."""
    from agenttrace.store.root_outputs import read_root_outputs
    from agenttrace.store.timings import Selection, read_timings

    traces = [side[0] for case in cases for side in comparison.traces.get(case, ((), ())) if side]
    with store.connection() as connection:
        times = [
            read_timings(connection, Selection(run_id=run.run_id)).groups
            for run in (comparison.baseline, comparison.candidate)
        ]
        outputs = read_root_outputs(connection, traces)
    return Details(outputs=outputs, baseline_times=times[0], candidate_times=times[1])
