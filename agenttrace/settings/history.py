"""How the settings of an agent moved over time: at which call site which setting changed, and when.

In: the model calls of one run or of many. Out: by call site and dimension the values that it had, and where one followed another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from agenttrace.settings.canonical import Canonical
from agenttrace.settings.contract import ObservedCall
from agenttrace.steps import JSON

FEW_SWITCHES: Final = 6
"""With more of them, values take turns, and single switches say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueHistory:
    """One value that a setting had."""

    value: JSON
    """None: known to be unset."""
    times_ns: tuple[int, ...]
    """When the calls with it began, in order; since 1970 UTC."""
    first_trace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """From this call on, another value."""

    at_ns: int
    before: JSON
    after: JSON
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingHistory:
    """A setting that had more than one value at a call site."""

    call_site: str
    dimension: str
    values: tuple[ValueHistory, ...]
    """In the order of their first calls."""
    switches: tuple[Switch, ...]
    """Empty where the values take turns."""
    asked_for: JSON = None
    """Of a served model that moved: the name under which it was asked for all the time; None where that moved too."""

    @property
    def takes_turns(self) -> bool:
        return not self.switches


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteHistory:
    """One call site."""

    call_site: str
    calls: int
    first_ns: int
    last_ns: int
    changed: tuple[SettingHistory, ...]
    unchanged: tuple[str, ...]
    """Dimensions that had one value wherever they were told."""


def settings_history(calls: Iterable[ObservedCall]) -> tuple[SiteHistory, ...]:
    """By call site, in the order of their first calls."""
    sites: dict[str, list[ObservedCall]] = {}
    for call in sorted(calls, key=lambda call: call.start_ns):
        sites.setdefault(call.call_site, []).append(call)
    canonical = Canonical()
    return tuple(_site_history(name, group, canonical) for name, group in sites.items())


def _site_history(name: str, calls: Sequence[ObservedCall], canonical: Canonical) -> SiteHistory:
    seen: dict[str, dict[bytes, tuple[JSON, list[int]]]] = {}
    for settings, positions in _by_settings(calls):
        for dimension, setting in settings.items():
            values = seen.setdefault(dimension, {})
            _, held = values.setdefault(canonical.key(setting), (setting.value, []))
            held.extend(positions)
    one = {dimension: next(iter(values.values()))[0] for dimension, values in seen.items() if len(values) == 1}
    return SiteHistory(
        call_site=name,
        calls=len(calls),
        first_ns=calls[0].start_ns,
        last_ns=calls[-1].start_ns,
        changed=tuple(
            _setting_history(dimension, list(seen[dimension].values()), calls, one)
            for dimension in sorted(seen.keys() - one.keys())
        ),
        unchanged=tuple(sorted(one)),
    )


def _by_settings(calls: Sequence[ObservedCall]) -> Iterator[tuple[Mapping[str, Any], Sequence[int]]]:
    """Settings with the positions of their calls: those that calls share are looked at once."""
    shared: dict[int, list[int]] = {}
    for position, call in enumerate(calls):
        shared.setdefault(id(call.settings), []).append(position)
    for positions in shared.values():
        yield calls[positions[0]].settings, positions
    for position, call in enumerate(calls):
        if call.own:
            yield call.own, (position,)


def _setting_history(
    dimension: str, values: list[tuple[JSON, list[int]]], calls: Sequence[ObservedCall], one: Mapping[str, JSON]
) -> SettingHistory:
    for _, positions in values:
        positions.sort()
    values.sort(key=lambda item: item[1][0])
    order = sorted((position, number) for number, (_, positions) in enumerate(values) for position in positions)
    switches = [
        Switch(
            at_ns=calls[position].start_ns,
            before=values[before][0],
            after=values[after][0],
            trace_id=calls[position].trace_id,
        )
        for (_, before), (position, after) in pairwise(order)
        if before != after
    ]
    return SettingHistory(
        call_site=calls[0].call_site,
        dimension=dimension,
        values=tuple(
            ValueHistory(
                value=value,
                times_ns=tuple(calls[position].start_ns for position in positions),
                first_trace=calls[positions[0]].trace_id,
            )
            for value, positions in values
        ),
        switches=tuple(switches) if len(switches) <= FEW_SWITCHES else (),
        asked_for=one.get("model.requested") if dimension == "model.served" else None,
    )


def history_json(sites: Sequence[SiteHistory]) -> list[dict[str, Any]]:
    """The history as `settings --since --json` prints it; times in nanoseconds since 1970 UTC."""
    return [
        {
            "call_site": site.call_site,
            "calls": site.calls,
            "first_ns": site.first_ns,
            "last_ns": site.last_ns,
            "changed": [_changed_json(setting) for setting in site.changed],
            "unchanged": list(site.unchanged),
        }
        for site in sites
    ]


def _changed_json(setting: SettingHistory) -> dict[str, Any]:
    return {
        "dimension": setting.dimension,
        "values": [
            {
                "value": value.value,
                "calls": len(value.times_ns),
                "first_ns": value.times_ns[0],
                "last_ns": value.times_ns[-1],
                "first_trace": value.first_trace,
            }
            for value in setting.values
        ],
        "switches": [
            {"at_ns": item.at_ns, "before": item.before, "after": item.after, "trace_id": item.trace_id}
            for item in setting.switches
        ],
        "takes_turns": setting.takes_turns,
        "asked_for": setting.asked_for,
    }
