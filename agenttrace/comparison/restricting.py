"""`--restrict DIMENSION=VALUE`: of two runs the cases that had this value throughout, where a setting changed within a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

from agenttrace.comparison.dimensions import DIMENSIONS, unknown_dimension
from agenttrace.comparison.evidence import RunEvidence
from agenttrace.errors import NothingToRestrict, UnknownDimension
from agenttrace.settings.canonical import canonical
from agenttrace.settings.contract import Contract, SiteContract, SiteSetting
from agenttrace.steps import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """Cases are kept whose calls had this value wherever their call site had several."""

    dimension: str
    value: str
    """As it was given."""

    def holds(self, value: JSON) -> bool:
        """Whether an observed value is the one that was named: as a text, or as JSON spells it."""
        return value == self.value or canonical(value) == self._as_json()

    def _as_json(self) -> bytes | None:
        try:
            return canonical(orjson.loads(self.value))
        except orjson.JSONDecodeError:
            return None


def parse_restriction(text: str) -> Restriction:
    """What `DIMENSION=VALUE` says.

    Raises:
        NothingToRestrict: there is no `=`.
        UnknownDimension: there is no dimension of that name.
    """
    dimension, equals, value = text.partition("=")
    if not equals:
        raise NothingToRestrict(f"'{text}' names no value. Give a setting and a value: 'model.served=gpt-5-mini'.")
    if dimension not in DIMENSIONS:
        raise UnknownDimension(unknown_dimension(dimension))
    return Restriction(dimension=dimension, value=value)


def restrict(
    evidence: Sequence[RunEvidence], restrictions: Sequence[str]
) -> tuple[tuple[RunEvidence, ...], tuple[str, ...]]:
    """The runs without the cases that had another value in any of them, and what a reader must know of it.

    Raises:
        NothingToRestrict: no call site of the runs has the value among several.
    """
    parsed = [parse_restriction(text) for text in dict.fromkeys(restrictions)]
    excluded: dict[str, None] = {}
    for restriction in parsed:
        excluded.update(dict.fromkeys(_excluded(restriction, evidence)))
    if not parsed:
        return tuple(evidence), ()
    kept = tuple(_without(run, parsed, frozenset(excluded)) for run in evidence)
    before = len(dict.fromkeys(case for run in evidence for case in run.cases))
    after = len(dict.fromkeys(case for run in kept for case in run.cases))
    said = " and ".join(f"{item.dimension}={item.value}" for item in parsed)
    return kept, (f"Restricted to {said}: {after} of {before} cases.",)


def _excluded(restriction: Restriction, evidence: Sequence[RunEvidence]) -> Iterable[str]:
    """Cases with another value, at call sites that have this one too."""
    found = False
    for run in evidence:
        for site in run.contract.sites.values():
            setting = site.get(restriction.dimension)
            if any(restriction.holds(seen.value) for seen in setting.observed):
                found = True
                yield from (
                    case for seen in setting.observed if not restriction.holds(seen.value) for case in seen.cases
                )
    if not found:
        raise NothingToRestrict(
            f"No call of the runs has {restriction.dimension} = {restriction.value}. "
            "'agenttrace settings RUN' shows the values that there are."
        )


def _without(run: RunEvidence, restrictions: Sequence[Restriction], excluded: frozenset[str]) -> RunEvidence:
    sites = {name: _restricted_site(site, restrictions) for name, site in run.contract.sites.items()}
    return replace(
        run,
        contract=Contract(sites=sites, run=run.contract.run),
        repetitions=tuple(repetition for repetition in run.repetitions if repetition.case not in excluded),
        suite=None if run.suite is None else replace(run.suite, cases=_kept(run.suite.cases, excluded)),
    )


def _kept(cases: Sequence[str], excluded: frozenset[str]) -> tuple[str, ...]:
    return tuple(case for case in cases if case not in excluded)


def _restricted_site(site: SiteContract, restrictions: Sequence[Restriction]) -> SiteContract:
    settings = dict(site.settings)
    for restriction in restrictions:
        setting = site.get(restriction.dimension)
        held = [seen for seen in setting.observed if restriction.holds(seen.value)]
        if held and len(setting.observed) > 1:
            settings[restriction.dimension] = SiteSetting(observed=tuple(held), unknown_calls=setting.unknown_calls)
    return replace(site, settings=settings)
