"""The table of dimensions (D7): what a difference in each one means, and what `--changed` may name.

`quality` says what an undeclared difference does to scores, `cost` what it does to times and tokens. `one_unknown` says
what it means when one run tells a dimension and the other does not, `both_unknown` when neither does: an unconfirmed
match is no match, so what decides about quality leaves the verdict unverified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeAlias

from agenttrace.errors import UndeclarableDimension, UnknownDimension

Severity: TypeAlias = Literal["blocks", "warns", "informs"]

SEVERITIES: Sequence[Severity] = ("blocks", "warns", "informs")
"""Gravest first."""

Unknown: TypeAlias = Literal["unverified", "accepted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One named setting."""

    name: str
    quality: Severity
    cost: Severity
    one_unknown: Severity
    both_unknown: Unknown = "accepted"
    is_in_group: bool = True
    """Whether the part of its name before the dot declares it too."""
    treatment: str | None = None
    """A name shared by dimensions that are one thing when they change together; None: this one is one by itself."""
    instead: str | None = None
    """What to do instead of declaring it; None where it may be declared."""

    @property
    def group(self) -> str | None:
        """What declares it together with its like: `sampling` for `sampling.top_p`."""
        return self.name.partition(".")[0] if "." in self.name and self.is_in_group else None


def _rows(names: str, quality: Severity, cost: Severity, one: Severity, both: Unknown) -> Iterator[Dimension]:
    for name in names.split():
        yield Dimension(name=name, quality=quality, cost=cost, one_unknown=one, both_unknown=both)


SAME_CASES = "Record both runs over the same cases."
ALL_LIVE = "Record both runs live, or replay both."
RESCORE = "'agenttrace rescore SUITE BASELINE CANDIDATE' scores the stored outputs of both with one suite; compare what it stores."

TABLE: tuple[Dimension, ...] = (
    *(
        Dimension(
            name=name,
            quality="blocks",
            cost="blocks",
            one_unknown="blocks",
            both_unknown="unverified",
            treatment="model",
        )
        for name in ("model.requested", "model.served")
    ),
    *_rows("provider api", "blocks", "blocks", "warns", "accepted"),
    *_rows(
        "sampling.temperature sampling.top_p sampling.top_k sampling.min_p sampling.n sampling.stop sampling.penalties "
        "sampling.logit_bias sampling.seed",
        "blocks",
        "warns",
        "blocks",
        "unverified",
    ),
    *_rows(
        "limits.max_output_tokens limits.context reasoning.effort reasoning.budget",
        "blocks",
        "blocks",
        "blocks",
        "unverified",
    ),
    *_rows("output.format output.schema tools.choice tools.parallel", "blocks", "warns", "warns", "accepted"),
    *_rows("tools.names tools.parameters tools.descriptions", "blocks", "warns", "blocks", "unverified"),
    # Only `watch(tool)` tells which code stands behind a tool's name, so that it is untold says nothing about a run.
    *_rows("tools.implementation", "blocks", "warns", "warns", "accepted"),
    *_rows("tools.order", "warns", "warns", "warns", "accepted"),
    Dimension(
        name="prompt.content",
        quality="blocks",
        cost="blocks",
        one_unknown="blocks",
        both_unknown="unverified",
        treatment="prompt",
    ),
    Dimension(name="prompt.label", quality="blocks", cost="blocks", one_unknown="warns", treatment="prompt"),
    *_rows("agent.limits", "blocks", "blocks", "warns", "accepted"),
    *(
        Dimension(name=name, quality="blocks", cost="blocks", one_unknown="blocks", instead=SAME_CASES)
        for name in ("data.cases", "data.expected")
    ),
    *(
        Dimension(name=name, quality="blocks", cost="informs", one_unknown="blocks", instead=RESCORE)
        for name in ("evaluator.code", "evaluator.judge")
    ),
    # What does not say that it was replayed was not: `differences` reads it so.
    Dimension(name="replay", quality="blocks", cost="blocks", one_unknown="blocks", instead=ALL_LIVE),
    *_rows("delivery.streamed service_tier endpoint engine load", "warns", "blocks", "warns", "accepted"),
    # Not part of `--changed model`: a fingerprint moves by itself, and is no choice of anyone who compares.
    Dimension(name="model.fingerprint", quality="informs", cost="informs", one_unknown="informs", is_in_group=False),
    *_rows("code.commit code.packages environment", "informs", "informs", "informs", "accepted"),
)

DIMENSIONS = {dimension.name: dimension for dimension in TABLE}

GROUPS = {
    group: tuple(dimension for dimension in TABLE if dimension.group == group)
    for group in dict.fromkeys(dimension.group for dimension in TABLE)
    if group is not None
}

ORDER = {dimension.name: place for place, dimension in enumerate(TABLE)}


def dimension_of(name: str) -> Dimension:
    """The dimension of a setting. One that is not in the table is another tool's: a difference is said, no more."""
    return DIMENSIONS.get(name) or Dimension(
        name=name, quality="warns", cost="warns", one_unknown="informs", instead="It is no dimension of agenttrace."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What one `--changed` says: these dimensions differ on purpose."""

    text: str
    """As it was given."""
    dimensions: tuple[Dimension, ...]
    call_site: str | None
    """None: at every call site."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(dimension.name for dimension in self.dimensions)

    @property
    def treatment(self) -> tuple[str, str | None]:
        """What counts as one change: a labelled prompt and its label are one, and so are a model's two names."""
        name = self.text.partition(":")[0]
        return (self.dimensions[0].treatment or name) if len(self.dimensions) == 1 else name, self.call_site


def resolve(text: str) -> Declaration:
    """What `DIMENSION[:CALL_SITE]` declares, where DIMENSION is a dimension or a group of them.

    Raises:
        UnknownDimension: there is none of that name; the nearest one is named.
        UndeclarableDimension: it decides what is measured.
    """
    name, colon, call_site = text.partition(":")
    dimensions = (DIMENSIONS[name],) if name in DIMENSIONS else GROUPS.get(name, ())
    if not dimensions:
        raise UnknownDimension(unknown_dimension(name, (*DIMENSIONS, *GROUPS)))
    instead = dimensions[0].instead
    if instead is not None:
        raise UndeclarableDimension(f"{name} cannot be declared with --changed: it decides what is measured. {instead}")
    return Declaration(text=text, dimensions=dimensions, call_site=call_site if colon else None)


def unknown_dimension(name: str, known: Sequence[str] = tuple(DIMENSIONS)) -> str:
    """That there is no setting `name`, with the nearest one of those that are known; all of them where none is near."""
    last_parts = {name.rpartition(".")[2]: name for name in reversed(tuple(DIMENSIONS))}
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    near = near or [last_parts[part] for part in get_close_matches(name.lower(), last_parts, n=1, cutoff=0.75)]
    advice = f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(known)}."
    return f"There is no setting '{name}'. {advice}"
