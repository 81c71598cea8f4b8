"""Where two contracts differ, and where it cannot be known whether they do. In: two contracts. Out: findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from agenttrace.comparison.dimensions import DIMENSIONS, ORDER, SEVERITIES, Dimension, Severity, dimension_of
from agenttrace.digest import other_schemes
from agenttrace.settings.canonical import canonical
from agenttrace.settings.contract import UNKNOWN, Contract, Observed, SiteContract, SiteSetting
from agenttrace.steps import JSON

SideState: TypeAlias = Literal["set", "unset", "unknown", "varies", "changes"]
"""`varies`: several values, in no order of time; `changes`: several values, one after another."""

SERVED = DIMENSIONS["model.served"]
REQUESTED = DIMENSIONS["model.requested"]
LABEL = DIMENSIONS["prompt.label"]
SEED = "sampling.seed"
REPLAY = "replay"

BY_NAME = ("data.expected", "evaluator.code", "evaluator.judge")
"""Dimensions whose value is one for each case, or each evaluator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One dimension as one run has it."""

    state: SideState
    value: JSON = None
    """The one value of a `set`; of several values, a list of them; else None."""
    observed: tuple[Observed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """A dimension that two runs do not have in common."""

    dimension: str
    call_site: str | None
    """None for what belongs to the run as a whole."""
    baseline: Side
    candidate: Side
    quality: Severity
    """What it does to scores while it is not declared."""
    cost: Severity
    """What it does to times and tokens while it is not declared."""
    flag: str | None
    """What declares it; None where nothing can."""
    note: str | None = None
    is_declared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unverified:
    """A dimension of which it cannot be known whether it is the same."""

    dimension: str | None
    """None: all of them, at a call site that only one run has."""
    call_site: str
    why: str


Finding: TypeAlias = SettingDifference | Unverified | str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractDifference:
    """All that comparing two contracts finds."""

    differences: tuple[SettingDifference, ...]
    """Gravest first, then in the order of the table of dimensions."""
    unverified: tuple[Unverified, ...]
    notes: tuple[str, ...]
    """What is the same in both runs and good to know."""


def contract_difference(
    baseline: Contract, candidate: Contract, severity: Mapping[str, Severity] = MappingProxyType({})
) -> ContractDifference:
    """Compare the call sites that both runs have, dimension by dimension, and what held for the runs as a whole.

    `severity` says by dimension what a difference does, where that is not what the table says.
    """
    findings: list[Finding] = list(_run_findings(baseline, candidate))
    for name, site in baseline.sites.items():
        if name in candidate.sites:
            findings.extend(_site_findings(site, candidate.sites[name]))
        else:
            findings.append(_only_in("baseline", name))
    findings.extend(_only_in("candidate", name) for name in candidate.sites if name not in baseline.sites)
    differences = [_weighed(finding, severity) for finding in findings if isinstance(finding, SettingDifference)]
    return ContractDifference(
        differences=tuple(sorted(differences, key=_rank)),
        unverified=tuple(finding for finding in findings if isinstance(finding, Unverified)),
        notes=tuple(finding for finding in findings if isinstance(finding, str)),
    )


def _weighed(difference: SettingDifference, severity: Mapping[str, Severity]) -> SettingDifference:
    """The difference as a project weighs it. What only informs for a reason of its own stays so."""
    word = severity.get(difference.dimension)
    usual = dimension_of(difference.dimension)
    if word is None or difference.quality not in (usual.quality, usual.one_unknown):
        return difference
    return replace(difference, quality=word, cost=word)


def _run_findings(baseline: Contract, candidate: Contract) -> Iterator[Finding]:
    """What held for the runs as a whole. Of values by case or by evaluator only those that both have are compared: which
    cases there are is told apart, and an evaluator that one run has gives no score to compare.
    """
    for name in dict.fromkeys((*ORDER, *baseline.run, *candidate.run)):
        before, after = baseline.run.get(name, UNKNOWN), candidate.run.get(name, UNKNOWN)
        if before.is_unknown and after.is_unknown:
            continue
        if name in BY_NAME and not (before.is_unknown or after.is_unknown):
            before, after = _common_parts(before, after)
        yield from _compared(dimension_of(name), None, before, after)


def _common_parts(baseline: SiteSetting, candidate: SiteSetting) -> tuple[SiteSetting, SiteSetting]:
    [before], [after] = baseline.observed, candidate.observed
    if not isinstance(before.value, Mapping) or not isinstance(after.value, Mapping):
        return baseline, candidate
    differing = [name for name in before.value if name in after.value and before.value[name] != after.value[name]]

    def only(seen: Observed) -> SiteSetting:
        value = {name: seen.value[name] for name in differing} if isinstance(seen.value, Mapping) else seen.value
        return SiteSetting(observed=(replace(seen, value=value, key=canonical(value)),))

    return only(before), only(after)


def _rank(difference: SettingDifference) -> tuple[int, int, str]:
    grave = SEVERITIES.index(difference.quality), SEVERITIES.index(difference.cost)
    return 3 * grave[0] + grave[1], ORDER.get(difference.dimension, len(ORDER)), difference.call_site or ""


def _only_in(run: str, site: str) -> Unverified:
    return Unverified(
        dimension=None, call_site=site, why=f"only the {run} calls a model there, so its settings have no counterpart"
    )


def _site_findings(baseline: SiteContract, candidate: SiteContract) -> Iterator[Finding]:
    site = baseline.call_site
    names = dict.fromkeys((*ORDER, *baseline.settings, *candidate.settings))
    for name in names:
        if name not in (SERVED.name, REQUESTED.name):
            yield from _compared(dimension_of(name), site, baseline.get(name), candidate.get(name))
    yield from _model_findings(baseline, candidate)
    yield from _label_conflict(baseline, candidate)


def _model_findings(baseline: SiteContract, candidate: SiteContract) -> Iterator[Finding]:
    """Which model answered decides; which one was asked for decides only where the answer does not say."""
    site = baseline.call_site
    served = baseline.get(SERVED.name), candidate.get(SERVED.name)
    requested = baseline.get(REQUESTED.name), candidate.get(REQUESTED.name)
    untold = [run for run, setting in zip(("baseline", "candidate"), served, strict=True) if setting.is_unknown]
    if not untold:
        yield from _compared(SERVED, site, *served)
        if requested[0].keys != requested[1].keys:
            yield _difference(REQUESTED, site, *requested, quality="informs", cost="informs")
        return
    whose = "of both runs do" if len(untold) == 2 else f"of the {untold[0]} do"
    yield Unverified(dimension=SERVED.name, call_site=site, why=f"the responses {whose} not say which model answered")
    yield from _compared(REQUESTED, site, *requested)


def _label_conflict(baseline: SiteContract, candidate: SiteContract) -> Iterator[SettingDifference]:
    """A label that stands for one text here and for another there misleads whoever trusts it."""
    labels = baseline.get(LABEL.name), candidate.get(LABEL.name)
    contents = baseline.get("prompt.content"), candidate.get("prompt.content")
    if any(setting.is_unknown for setting in contents) or contents[0].keys == contents[1].keys:
        return
    same = [value for value in labels[0].observed if value.value is not None and value.key in labels[1].keys]
    if len(same) == len(labels[0].observed) == len(labels[1].observed) == 1:
        note = "the label is the same and the prompt is not: give the new prompt a label of its own"
        yield _difference(LABEL, baseline.call_site, *labels, note=note)


def _compared(
    dimension: Dimension, site: str | None, baseline: SiteSetting, candidate: SiteSetting
) -> Iterator[Finding]:
    """What one dimension at one call site gives to say."""
    if dimension.name == REPLAY and not (baseline.is_unknown and candidate.is_unknown):
        baseline, candidate = _with_live_calls(baseline), _with_live_calls(candidate)
    unknown = baseline.is_unknown, candidate.is_unknown
    rendered = baseline.note or candidate.note if baseline.rendered or candidate.rendered else None
    if rendered is not None:
        yield Unverified(dimension=dimension.name, call_site=site or "", why=rendered)
    elif all(unknown):
        if dimension.both_unknown == "unverified":
            yield Unverified(dimension=dimension.name, call_site=site or "", why="neither run tells it")
    elif any(unknown):
        severity = dimension.one_unknown
        yield _difference(dimension, site, baseline, candidate, quality=severity, cost=severity)
    elif dimension.name == SEED:
        yield from _seeds(dimension, site, baseline, candidate)
    else:
        yield from _known(dimension, site, baseline, candidate)


def _with_live_calls(setting: SiteSetting) -> SiteSetting:
    """Which calls were replayed, with those that do not say so: a model answered them."""
    if setting.observed and not setting.unknown_calls:
        return setting
    live = Observed(
        value=False, key=canonical(False), count=setting.unknown_calls, voices=("served",), sources=("response",),
        first_case=None, last_case=None, cases=(),
    )  # fmt: skip
    return SiteSetting(observed=(*setting.observed, live))


def _known(dimension: Dimension, site: str | None, baseline: SiteSetting, candidate: SiteSetting) -> Iterator[Finding]:
    values = [[seen.value for seen in setting.observed] for setting in (baseline, candidate)]
    if baseline.keys != candidate.keys and (why := other_schemes(*values)):
        yield Unverified(dimension=dimension.name, call_site=site or "", why=why)
        return
    in_time = [value.key for value in baseline.observed], [value.key for value in candidate.observed]
    if (baseline.is_change or candidate.is_change) and in_time[0] != in_time[1]:
        yield _difference(dimension, site, baseline, candidate, flag=False, note=_changes(baseline, candidate))
    elif baseline.keys != candidate.keys:
        yield _difference(dimension, site, baseline, candidate)
    elif len(baseline.keys) > 1:
        yield f"{dimension.name} {at(site)}has {len(baseline.keys)} values in each run, the same in both"
    if dimension.both_unknown == "unverified" and baseline.keys == candidate.keys:
        yield from _gaps(dimension, site, baseline, candidate)


def _gaps(
    dimension: Dimension, site: str | None, baseline: SiteSetting, candidate: SiteSetting
) -> Iterator[Unverified]:
    gaps = (("baseline", baseline.unknown_calls), ("candidate", candidate.unknown_calls))
    untold = [f"{counted(calls, 'call', 'calls')} of the {run}" for run, calls in gaps if calls]
    if untold:
        yield Unverified(dimension=dimension.name, call_site=site or "", why=f"not told by {' and '.join(untold)}")


def _seeds(dimension: Dimension, site: str | None, baseline: SiteSetting, candidate: SiteSetting) -> Iterator[Finding]:
    """Seeds are compared by what is done with them: none, one, or several. Which numbers they are only informs."""
    if _seed_policy(baseline) != _seed_policy(candidate):
        yield _difference(dimension, site, baseline, candidate)
    elif baseline.keys != candidate.keys:
        yield _difference(dimension, site, baseline, candidate, quality="informs", cost="informs")


def _seed_policy(setting: SiteSetting) -> tuple[bool, bool]:
    is_set = [value for value in setting.observed if value.value is not None]
    return len(is_set) > 1, len(is_set) < len(setting.observed)


def _changes(baseline: SiteSetting, candidate: SiteSetting) -> str:
    runs = [run for run, setting in (("baseline", baseline), ("candidate", candidate)) if setting.is_change]
    return f"changed while the {' and the '.join(runs)} went on"


def _difference(
    dimension: Dimension,
    site: str | None,
    baseline: SiteSetting,
    candidate: SiteSetting,
    *,
    quality: Severity | None = None,
    cost: Severity | None = None,
    flag: bool = True,
    note: str | None = None,
) -> SettingDifference:
    return SettingDifference(
        dimension=dimension.name,
        call_site=site,
        baseline=_side(baseline),
        candidate=_side(candidate),
        quality=quality or dimension.quality,
        cost=cost or dimension.cost,
        flag=f"--changed {dimension.name}" if flag and dimension.instead is None else None,
        note=note,
    )


def _side(setting: SiteSetting) -> Side:
    if setting.is_unknown:
        return Side(state="unknown")
    if len(setting.observed) > 1:
        state: SideState = "changes" if setting.is_change else "varies"
        return Side(state=state, value=[seen.value for seen in setting.observed], observed=setting.observed)
    [only] = setting.observed
    return Side(state="unset" if only.value is None else "set", value=only.value, observed=setting.observed)


def counted(number: int, one: str, more: str) -> str:
    """A number with its words."""
    return f"{number} {one if number == 1 else more}"


def at(site: str | None) -> str:
    """A call site within a sentence, with the space after it; nothing for calls outside of any chain."""
    return f"at {site} " if site else ""


def difference_json(difference: SettingDifference) -> dict[str, Any]:
    """One difference as `compare --json` prints it. A value of null is told by its state: unset or unknown."""
    result: dict[str, Any] = {
        "dimension": difference.dimension,
        "call_site": difference.call_site,
        "baseline": difference.baseline.value,
        "candidate": difference.candidate.value,
        "severity": difference.quality,
        "flag": difference.flag,
        "severity_cost": difference.cost,
        "declared": difference.is_declared,
        "baseline_state": difference.baseline.state,
        "candidate_state": difference.candidate.state,
        "note": difference.note,
    }
    for run, side in (("baseline", difference.baseline), ("candidate", difference.candidate)):
        if len(side.observed) > 1:
            result[f"{run}_values"] = [_observed_json(seen) for seen in side.observed]
    return result


def _observed_json(seen: Observed) -> dict[str, Any]:
    return {
        "value": seen.value,
        "count": seen.count,
        "first_case": seen.first_case,
        "last_case": seen.last_case,
        "cases": list(seen.cases),
    }


def unverified_json(unverified: Sequence[Unverified]) -> list[dict[str, Any]]:
    """What could not be verified, as `compare --json` prints it."""
    return [{"dimension": item.dimension, "call_site": item.call_site, "why": item.why} for item in unverified]
