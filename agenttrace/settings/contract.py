"""Folds the settings of a run's model calls into its contract: per call site and dimension, the values that were seen.

In: model calls with their settings, in any order. Out: a `Contract`. What a contract says of a dimension is one of: a
value, several values with their counts, known to be unset (the value None), or unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from agenttrace.records import SettingValue, SpanRecord
from agenttrace.settings.canonical import Canonical
from agenttrace.steps import JSON

PROMPT = "prompt.content"
"""The dimension whose values may hold the input of the case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCall:
    """One model call as the contract needs it."""

    call_site: str
    settings: Mapping[str, SettingValue]
    """Calls with equal settings share one object where they can: then it is looked at once."""
    own: Mapping[str, SettingValue] = field(default_factory=dict)
    """What this call has besides: kept apart where it varies from call to call and the rest does not."""
    trace_id: str
    case: str | None
    """The case its trace answers; None where the trace names none."""
    start_ns: int
    is_answered: bool = True
    """A call that failed cannot say what would have served it: what it does not tell is no gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One value that a dimension had at a call site."""

    value: JSON
    """None: known to be unset."""
    key: bytes
    """Equal for equal values: their canonical spelling, or its digest where that is long."""
    count: int
    """Model calls."""
    voices: tuple[str, ...]
    sources: tuple[str, ...]
    first_case: str | None
    last_case: str | None
    cases: tuple[str, ...]
    """In the order of their first call with this value; empty where it is the only value: then it is all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSetting:
    """One dimension at one call site."""

    observed: tuple[Observed, ...]
    """In the order of their first call. Empty: unknown."""
    unknown_calls: int = 0
    """Answered calls that do not tell this dimension, at a call site where others do or did."""
    is_change: bool = False
    """The values follow one another in time: a setting was changed while the run went on."""
    rendered: int = 0
    """How many texts there were of a prompt that is rendered with the input; 0 for all other settings."""
    note: str | None = None

    @property
    def is_unknown(self) -> bool:
        return not self.observed

    @property
    def keys(self) -> frozenset[bytes]:
        return frozenset(observed.key for observed in self.observed)


UNKNOWN = SiteSetting(observed=())


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteContract:
    """What was seen at one call site."""

    call_site: str
    calls: int
    settings: Mapping[str, SiteSetting]
    """Only dimensions that at least one call told; sorted."""

    def get(self, dimension: str) -> SiteSetting:
        """The dimension as it was seen here; unknown where no call told it."""
        return self.settings.get(dimension, UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The settings of a run."""

    sites: Mapping[str, SiteContract] = field(default_factory=dict)
    """By call site, in the order of their first call."""
    run: Mapping[str, SiteSetting] = field(default_factory=dict)
    """By dimension, what held for the run as a whole."""

    @property
    def calls(self) -> int:
        return sum(site.calls for site in self.sites.values())


def fold(spans: Sequence[SpanRecord]) -> Contract:
    """The contract of a run's spans. A trace's case is its root's `metadata["case"]`."""
    roots: dict[str, SpanRecord] = {}
    for span in spans:
        root = roots.setdefault(span.trace_id, span)
        if (span.parent_id is not None, span.start_ns) < (root.parent_id is not None, root.start_ns):
            roots[span.trace_id] = span
    cases = {trace_id: _case(root.metadata.get("case")) for trace_id, root in roots.items()}
    return fold_calls(
        ObservedCall(
            call_site=span.call_site or "",
            settings=span.settings,
            trace_id=span.trace_id,
            case=cases[span.trace_id],
            start_ns=span.start_ns,
            is_answered=span.state == "ok",
        )
        for span in spans
        if span.kind == "model" and span.state != "unfinished"
    )


def _case(named: JSON) -> str | None:
    return None if named is None else str(named)


def fold_calls(calls: Iterable[ObservedCall], run: Mapping[str, JSON] = MappingProxyType({})) -> Contract:
    """The contract of model calls, and of what held for their run as a whole."""
    by_site: dict[str, list[ObservedCall]] = {}
    for call in sorted(calls, key=lambda call: call.start_ns):
        by_site.setdefault(call.call_site, []).append(call)
    canonical = Canonical()
    return Contract(
        sites={site: _fold_site(site, group, canonical) for site, group in by_site.items()},
        run={name: _of_run(value, canonical) for name, value in run.items()},
    )


def _of_run(value: JSON, canonical: Canonical) -> SiteSetting:
    setting = SettingValue(value=value, voice="requested", source="run")
    only = _Gathered(value, {"requested": None}, {"run": None}, [])
    return SiteSetting(observed=(_observed(canonical.key(setting), only, (), with_cases=False),))


@dataclass(slots=True)
class _Gathered:
    """One value while a call site is being folded."""

    value: JSON
    voices: dict[str, None] = field(default_factory=dict)
    sources: dict[str, None] = field(default_factory=dict)
    positions: list[int] = field(default_factory=list)
    """Of its calls among those of the site, which are in the order of time."""


def _fold_site(site: str, calls: Sequence[ObservedCall], canonical: Canonical) -> SiteContract:
    groups: dict[int, list[int]] = {}
    for position, call in enumerate(calls):
        groups.setdefault(id(call.settings), []).append(position)
    told = [(calls[positions[0]].settings, positions) for positions in groups.values()]
    told += [(call.own, [position]) for position, call in enumerate(calls) if call.own]
    gathered: dict[str, dict[bytes, _Gathered]] = {}
    for group, positions in told:
        for dimension, setting in group.items():
            values = gathered.setdefault(dimension, {})
            key = canonical.key(setting)
            value = values.get(key)
            if value is None:
                value = values[key] = _Gathered(setting.value)
            value.voices[setting.voice] = None
            value.sources[setting.source] = None
            value.positions.extend(positions)
    settings = {name: _site_setting(name, gathered[name], calls) for name in sorted(gathered)}
    return SiteContract(call_site=site, calls=len(calls), settings=settings)


def _site_setting(dimension: str, values: Mapping[bytes, _Gathered], calls: Sequence[ObservedCall]) -> SiteSetting:
    known = sum(len(value.positions) for value in values.values())
    unknown = 0 if known == len(calls) else _untold(values.values(), calls)
    if len(values) == 1:
        [(key, value)] = values.items()
        return SiteSetting(observed=(_observed(key, value, calls, with_cases=False),), unknown_calls=unknown)
    for value in values.values():
        value.positions.sort()
    is_change = _is_change(list(values.values()), calls)
    if dimension == PROMPT and not is_change:
        note = f"rendered with the input: {len(values)} texts, so whether the prompt itself is the same is not known"
        return SiteSetting(observed=(), unknown_calls=unknown, rendered=len(values), note=note)
    ordered = sorted(values.items(), key=lambda item: item[1].positions[0])
    return SiteSetting(
        observed=tuple(_observed(key, value, calls, with_cases=True) for key, value in ordered),
        unknown_calls=unknown,
        is_change=is_change,
    )


def _untold(values: Iterable[_Gathered], calls: Sequence[ObservedCall]) -> int:
    told = {position for value in values for position in value.positions}
    return sum(1 for position, call in enumerate(calls) if call.is_answered and position not in told)


def _observed(key: bytes, value: _Gathered, calls: Sequence[ObservedCall], *, with_cases: bool) -> Observed:
    cases = dict.fromkeys(case for at in value.positions if (case := calls[at].case) is not None) if with_cases else {}
    first = calls[min(value.positions)].case if value.positions else None
    last = calls[max(value.positions)].case if value.positions else None
    return Observed(
        value=value.value,
        key=key,
        count=len(value.positions),
        voices=tuple(value.voices),
        sources=tuple(value.sources),
        first_case=first,
        last_case=last,
        cases=tuple(cases),
    )


def _is_change(values: Sequence[_Gathered], calls: Sequence[ObservedCall]) -> bool:
    """Whether the values follow one another in time, rather than coming with the input or from the agent's own code.

    Each value has one stretch of time to itself, and there are traces enough to tell: with a trace or two to each
    value, or one case to each, another input explains the other value as well.
    """
    order = sorted((position, number) for number, value in enumerate(values) for position in value.positions)
    changes = sum(1 for before, after in pairwise(order) if before[1] != after[1])
    if changes != len(values) - 1:
        return False
    traces = {calls[position].trace_id for position, _ in order}
    return len(traces) > 2 * changes and not _is_one_case_each(values, calls)


def _is_one_case_each(values: Sequence[_Gathered], calls: Sequence[ObservedCall]) -> bool:
    cases = [{calls[position].case for position in value.positions} for value in values]
    named: set[str | None] = set().union(*cases)
    return None not in named and len(named) == len(values) and all(len(group) == 1 for group in cases)


def contract_json(contract: Contract) -> list[dict[str, Any]]:
    """The contract as `settings --json` prints it: one object a call site."""
    return [
        {
            "call_site": site.call_site,
            "calls": site.calls,
            "settings": {name: _setting_json(setting) for name, setting in site.settings.items()},
        }
        for site in contract.sites.values()
    ]


def run_json(contract: Contract) -> dict[str, Any]:
    """What held for the run as a whole, as `settings --json` prints it: a value by dimension."""
    return {name: seen.value for name, setting in contract.run.items() for seen in setting.observed}


def _setting_json(setting: SiteSetting) -> dict[str, Any]:
    return {
        "values": [
            {
                "value": observed.value,
                "count": observed.count,
                "voices": list(observed.voices),
                "sources": list(observed.sources),
                "first_case": observed.first_case,
                "last_case": observed.last_case,
            }
            for observed in setting.observed
        ],
        "unknown_calls": setting.unknown_calls,
        "changes_in_time": setting.is_change,
        "note": setting.note,
    }
