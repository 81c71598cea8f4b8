"""Equal values have one spelling, whatever wrote them; what means something else has another."""

from __future__ import annotations

import json
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from agenttrace.settings.canonical import canonical
from agenttrace.settings.tools import canonical_schema

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
SMALL = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-(2.0**53), 2.0**53) | TEXT
"""Beyond that a number's spelling, read as an integer, may be one that no float holds."""


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)


VALUES = st.recursive(LEAVES, containers, max_leaves=12)


def turned(value: Any) -> Any:
    """The same value with the keys of its objects the other way round."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@given(VALUES)
def test_the_order_of_keys_is_no_difference(value: Any) -> None:
    """Objects are equal by their keys."""
    assert canonical(turned(value)) == canonical(value)


@given(VALUES)
def test_a_round_trip_is_no_difference(value: Any) -> None:
    """Stored and read again, a value is spelt as before."""
    assert canonical(json.loads(json.dumps(value))) == canonical(value)


@given(st.recursive(SMALL, containers, max_leaves=12))
def test_the_spelling_is_itself_spelt_so(value: Any) -> None:
    """What was spelt canonically is the canonical spelling of what it says."""
    spelt = canonical(value)
    assert canonical(json.loads(spelt)) == spelt


@given(st.integers(-(2**53) + 1, 2**53 - 1))
def test_a_whole_number_is_spelt_once(number: int) -> None:
    """1, 1.0 and 1e0 are one number."""
    assert canonical(number) == canonical(float(number)) == canonical(json.loads(f"{number}e0"))


@given(st.integers(2**53, 2**70), st.integers(1, 1_000))
def test_large_seeds_stay_apart(seed: int, step: int) -> None:
    """Two integers that one number of JavaScript's would stand for are two."""
    assert canonical(seed) != canonical(seed + step)


@given(VALUES, VALUES)
def test_other_values_are_spelt_otherwise(one: Any, other: Any) -> None:
    """Equal spellings mean equal values; Python holds True and 1 for equal, JSON does not."""
    if canonical(one) == canonical(other):
        assert one == other


@tool
def search(query: str, kind: Literal["web", "notes"] = "web") -> str:
    """Search for something."""
    return query + kind


def schema_of(thing: Any) -> Any:
    return canonical_schema(convert_to_openai_tool(thing)["function"]["parameters"])


def test_what_a_schema_means_is_told_apart() -> None:
    """An enum's values and their order, a type and a description within the schema are part of it."""
    plain = convert_to_openai_tool(search)["function"]["parameters"]
    seen = {canonical(canonical_schema(plain))}
    for change in (
        {"kind": {"enum": ["notes", "web"], "type": "string"}},
        {"kind": {"enum": ["web"], "type": "string"}},
        {"kind": {"type": "integer"}},
        {"query": {"type": "string", "description": "What to search for."}},
    ):
        seen.add(canonical(canonical_schema({**plain, "properties": {**plain["properties"], **change}})))
    assert len(seen) == 5


def test_what_a_schema_does_not_mean_is_no_difference() -> None:
    """Generated titles, the order of what is required, and the names of definitions change nothing."""

    class Place(BaseModel):
        city: str
        country: str

    class Location(BaseModel):
        city: str
        country: str

    def trip(where: BaseModel) -> str:
        """Plan a trip."""
        return str(where)

    schemas = []
    for kind in (Place, Location):
        trip.__annotations__ = {"where": kind, "return": str}
        schemas.append(schema_of(tool(trip)))
    assert canonical(schemas[0]) == canonical(schemas[1])
    assert "country" in schemas[0]["properties"]["where"]["properties"]
    assert "$ref" not in json.dumps(schemas)


def test_a_schema_that_refers_to_itself_ends() -> None:
    """A tree of nodes is written out once."""
    node: Any = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    told = canonical_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert told == {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
