"""The gate before the numbers (D8): whether two runs may be compared, and if not, everything that stands against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal, TypeAlias

from agenttrace.comparison.differences import (
    REQUESTED,
    SERVED,
    SettingDifference,
    Side,
    Unverified,
    contract_difference,
    counted,
)
from agenttrace.comparison.dimensions import DIMENSIONS, Declaration, Severity, resolve
from agenttrace.comparison.evidence import RunEvidence
from agenttrace.digest import other_schemes
from agenttrace.errors import NoModelCalls, UnknownCallSite
from agenttrace.settings.contract import Contract
from agenttrace.steps import JSON

GateVerdict: TypeAlias = Literal["comparable", "not_comparable", "invalid"]

SHOWN_NAMES = 6
"""Cases or call sites that a sentence names before it says how many more there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """What the gate says."""

    verdict: GateVerdict
    reasons: tuple[str, ...]
    """Why not comparable or invalid, one sentence each, besides the differences themselves."""
    differences: tuple[SettingDifference, ...]
    """All, also the declared ones and those that only warn or inform."""
    unverified: tuple[Unverified, ...]
    confounded: bool
    """More than one declared change: what is seen cannot be attributed to one of them."""
    changed: tuple[str, ...]
    """What was declared, as given, each once."""
    notes: tuple[str, ...]

    @property
    def blocking(self) -> tuple[SettingDifference, ...]:
        """Differences that are not declared and forbid comparing."""
        return tuple(item for item in self.differences if item.quality == "blocks" and not item.is_declared)

    @property
    def blocking_cost(self) -> tuple[SettingDifference, ...]:
        """Differences that are not declared and forbid comparing times and tokens, and only those."""
        return tuple(
            item
            for item in self.differences
            if item.cost == "blocks" and item.quality != "blocks" and not item.is_declared
        )

    @property
    def treatments(self) -> tuple[SettingDifference, ...]:
        """Differences that were declared."""
        return tuple(item for item in self.differences if item.is_declared)


def gate(
    baseline: RunEvidence,
    candidate: RunEvidence,
    changed: Sequence[str] = (),
    *,
    strict: bool = False,
    severity: Mapping[str, Severity] = MappingProxyType({}),
    restrict: Sequence[str] = (),
) -> GateResult:
    """Decide whether the runs may be compared, given what `changed` declares to differ on purpose.

    With `strict`, what cannot be verified stands against comparing too. `severity` says by dimension what a difference does,
    where that is not what the table says. `restrict` says which cases the runs given were restricted to.

    Raises:
        UnknownDimension, UndeclarableDimension, UnknownCallSite: `changed` names what cannot be declared.
        NoModelCalls: a run holds nothing to compare.
    """
    declarations = tuple(resolve(text) for text in dict.fromkeys(changed))
    invalid = [*faults("baseline", baseline), *faults("candidate", candidate)]
    if not invalid:
        _require_model_calls(baseline, candidate)
        _require_call_sites(declarations, baseline.contract, candidate.contract)
    found = contract_difference(baseline.contract, candidate.contract, severity)
    differences = tuple(_declared(item, found.differences, declarations) for item in found.differences)
    differences = (*_case_differences(baseline, candidate), *differences)
    effects = {item.text: _effect(item, differences, baseline.contract, candidate.contract) for item in declarations}
    unverified = (
        *found.unverified,
        *_unverified_treatments(declarations, differences, effects),
        *_unverified_inputs(baseline, candidate),
    )
    result = GateResult(
        verdict="comparable",
        reasons=(),
        differences=differences,
        unverified=tuple(dict.fromkeys(unverified)),
        confounded=len({item.treatment for item in declarations if effects[item.text] != "absent"}) > 1,
        changed=tuple(item.text for item in declarations),
        notes=(*restrict, *found.notes),
    )
    if invalid:
        return replace(result, verdict="invalid", reasons=tuple(invalid))
    reasons = (*_objections(baseline, candidate, effects), *_strict_objection(result, strict))
    if reasons or result.blocking:
        return replace(result, verdict="not_comparable", reasons=reasons)
    return result


def faults(side: str, evidence: RunEvidence) -> Iterator[str]:
    """What makes a run unfit to be judged at all."""
    name = f"The {side} {evidence.label}"
    if evidence.is_unfinished:
        yield f"{name} is unfinished: the process that records it has ended before the run did, or is still at it."
    elif evidence.missing is not None:
        yield f"{name} is incomplete: {evidence.missing}. 'agenttrace eval run' with its name goes on where it stopped."
    counters = evidence.counters
    if counters is not None and (counters.capture_errors or counters.dropped):
        last = f" The last error: {counters.last_error}." if counters.last_error else ""
        errors = counted(counters.capture_errors, "capture error", "capture errors")
        dropped = counted(counters.dropped, "dropped record", "dropped records")
        yield (
            f"{name} was not recorded whole: {errors} and {dropped} in its process.{last} "
            "'agenttrace doctor' shows the counts; record the run again."
        )


def _require_model_calls(baseline: RunEvidence, candidate: RunEvidence) -> None:
    empty = [
        f"the {side} {run.label}"
        for side, run in (("baseline", baseline), ("candidate", candidate))
        if not run.contract.sites
    ]
    if empty:
        raise NoModelCalls(
            f"There is nothing to compare: {' and '.join(empty)} holds no finished model call and no imported result. "
            "'agenttrace list --runs' lists the runs there are."
        )


def _require_call_sites(declarations: Sequence[Declaration], baseline: Contract, candidate: Contract) -> None:
    sites = tuple(dict.fromkeys((*baseline.sites, *candidate.sites)))
    for declaration in declarations:
        site = declaration.call_site
        if site is not None and site not in sites:
            near = get_close_matches(site, sites, n=1, cutoff=0.5)
            advice = f"Did you mean '{near[0]}'?" if near else f"They call one at: {_named(sites)}."
            raise UnknownCallSite(f"Neither run calls a model at '{site}' (--changed {declaration.text}). {advice}")


def _declared(
    difference: SettingDifference, all_differences: Sequence[SettingDifference], declarations: Sequence[Declaration]
) -> SettingDifference:
    is_declared = any(_covers(declaration, difference, all_differences) for declaration in declarations)
    return replace(difference, is_declared=True) if is_declared else difference


def _covers(
    declaration: Declaration, difference: SettingDifference, all_differences: Sequence[SettingDifference]
) -> bool:
    """Whether the declaration allows this difference."""
    return difference.flag is not None and _concerns(declaration, difference, all_differences)


def _concerns(
    declaration: Declaration, difference: SettingDifference, all_differences: Sequence[SettingDifference]
) -> bool:
    """Whether the declaration is about this difference."""
    site = difference.call_site
    if declaration.call_site not in (None, site):
        return False
    if difference.dimension in declaration.names:
        return True
    # Asking for another model is what makes another one answer; and where no answer says its name, the one that was
    # asked for stands for both.
    if difference.dimension == SERVED.name and REQUESTED.name in declaration.names:
        return any(item.dimension == REQUESTED.name and item.call_site == site for item in all_differences)
    decides = difference.quality == "blocks"
    return difference.dimension == REQUESTED.name and SERVED.name in declaration.names and decides


Effect: TypeAlias = Literal["present", "absent", "unknown"]


def _effect(
    declaration: Declaration, differences: Sequence[SettingDifference], baseline: Contract, candidate: Contract
) -> Effect:
    """Whether what was declared to differ does; unknown where the runs do not tell."""
    if any(_concerns(declaration, difference, differences) for difference in differences):
        return "present"
    if any(name in baseline.run or name in candidate.run for name in declaration.names):
        return "absent"
    common = [site for site in baseline.sites if site in candidate.sites]
    for site in common if declaration.call_site is None else {declaration.call_site}.intersection(common):
        pairs = [(baseline.sites[site].get(name), candidate.sites[site].get(name)) for name in declaration.names]
        if all(before.is_unknown or after.is_unknown for before, after in pairs):
            return "unknown"
    return "absent"


def _unverified_treatments(
    declarations: Sequence[Declaration], differences: Sequence[SettingDifference], effects: Mapping[str, Effect]
) -> Iterator[Unverified]:
    for declaration in declarations:
        if effects[declaration.text] == "unknown":
            why = "the runs do not tell whether the declared change took effect"
            name = declaration.text.partition(":")[0]
            yield Unverified(dimension=name, call_site=declaration.call_site or "", why=why)
    for item in differences:
        if item.is_declared and "unknown" in (item.baseline.state, item.candidate.state):
            yield Unverified(dimension=item.dimension, call_site=item.call_site or "", why="only one run tells it")


def _case_differences(baseline: RunEvidence, candidate: RunEvidence) -> Iterator[SettingDifference]:
    """Cases that only one run has: another set of cases is another measurement."""
    before, after = baseline.cases, candidate.cases
    removed, added = _without(before, after), _without(after, before)
    edited = _edited(baseline, candidate)
    if not removed and not added and not edited:
        return
    dimension = DIMENSIONS["data.cases"]
    is_told = bool(before) and bool(after)
    yield SettingDifference(
        dimension=dimension.name,
        call_site=None,
        baseline=Side(state="set", value=[*removed, *edited]) if before else Side(state="unknown"),
        candidate=Side(state="set", value=[*added, *edited]) if after else Side(state="unknown"),
        quality=dimension.quality if is_told else dimension.one_unknown,
        cost=dimension.cost,
        flag=None,
        note=f"another input under the same name: {_named(edited)}" if edited else None,
    )


def _edited(baseline: RunEvidence, candidate: RunEvidence) -> list[str]:
    """Cases of both runs whose inputs are not the same."""
    before, after = _inputs(baseline), _inputs(candidate)
    differing = [case for case in before if case in after and before[case] != after[case]]
    return [case for case in differing if other_schemes(before[case], after[case]) is None]


def _unverified_inputs(baseline: RunEvidence, candidate: RunEvidence) -> Iterator[Unverified]:
    why = other_schemes(dict(_inputs(baseline)), dict(_inputs(candidate)))
    if why is not None:
        yield Unverified(dimension="data.cases", call_site="", why=why)


def _inputs(run: RunEvidence) -> Mapping[str, JSON]:
    """A digest of each case's input; nothing where no suite made the run."""
    told = None if run.suite is None else run.suite.settings.get("data.cases")
    return told if isinstance(told, Mapping) else {}


def _without(cases: Sequence[str], others: Sequence[str]) -> list[str]:
    known = frozenset(others)
    return [case for case in cases if case not in known]


def _objections(baseline: RunEvidence, candidate: RunEvidence, effects: Mapping[str, Effect]) -> Iterator[str]:
    """What stands against comparing, besides differences."""
    sites = baseline.contract.sites, candidate.contract.sites
    if not sites[0].keys() & sites[1].keys():
        yield (
            "The runs are of different agents: they have no call site in common "
            f"(baseline: {_named(tuple(sites[0]))}; candidate: {_named(tuple(sites[1]))})."
        )
    before, after = baseline.cases, candidate.cases
    if before and after and not frozenset(before) & frozenset(after):
        yield (
            "The runs have no case in common "
            f"(baseline: {_named(before)}; candidate: {_named(after)}), so nothing can be paired."
        )
    for text, effect in effects.items():
        if effect == "absent":
            yield f"The declared change did not take effect: {text} does not differ between the runs."


def _strict_objection(result: GateResult, strict: bool) -> Iterator[str]:
    if strict and result.unverified:
        yield "--strict: not everything could be verified to be the same."


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(name or "(no call site)" for name in names[:SHOWN_NAMES])
    more = len(names) - SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
