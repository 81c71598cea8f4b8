"""The table of dimensions is that of the design, and `--changed` names what is in it."""

from __future__ import annotations

import pytest

from agenttrace.comparison.dimensions import DIMENSIONS, GROUPS, TABLE, dimension_of, resolve, unknown_dimension
from agenttrace.errors import UndeclarableDimension, UnknownDimension

DESIGN = """
model.requested model.served provider api: blocks blocks
sampling.temperature sampling.top_p sampling.top_k sampling.min_p sampling.n sampling.stop: blocks warns
sampling.penalties sampling.logit_bias sampling.seed: blocks warns
limits.max_output_tokens limits.context reasoning.effort reasoning.budget: blocks blocks
output.format output.schema tools.choice tools.parallel: blocks warns
tools.names tools.parameters tools.descriptions tools.implementation: blocks warns
tools.order: warns warns
prompt.content prompt.label: blocks blocks
agent.limits: blocks blocks
data.cases data.expected: blocks blocks
evaluator.code evaluator.judge: blocks informs
replay: blocks blocks
delivery.streamed service_tier endpoint engine load: warns blocks
model.fingerprint code.commit code.packages environment: informs informs
"""
"""D7, line by line: dimensions, what a difference does to quality, what to time and cost."""


def test_the_table_is_the_designs() -> None:
    """Every dimension of D7 is there with its two severities, and no other one."""
    designed = {}
    for line in DESIGN.strip().splitlines():
        names, severities = line.split(": ")
        designed.update({name: tuple(severities.split()) for name in names.split()})
    assert {item.name: (item.quality, item.cost) for item in TABLE} == designed


@pytest.mark.parametrize("name", [item.name for item in TABLE if item.instead is None])
def test_a_dimension_declares_itself(name: str) -> None:
    """`--changed` takes every dimension that may differ on purpose."""
    declared = resolve(name)
    assert declared.names == {name}
    assert declared.call_site is None


def test_a_group_declares_its_members() -> None:
    """A group is the part before the dot; a fingerprint moves by itself and belongs to none."""
    assert resolve("tools").names == {
        "tools.choice", "tools.parallel", "tools.names", "tools.parameters", "tools.descriptions",
        "tools.implementation", "tools.order",
    }  # fmt: skip
    assert resolve("model").names == {"model.requested", "model.served"}
    assert {"sampling", "prompt", "limits", "reasoning", "output", "delivery"} <= GROUPS.keys()


def test_a_call_site_narrows() -> None:
    """What follows the first colon is a call site, whatever it holds."""
    declared = resolve("prompt:outer/inner:2")
    assert declared.names == {"prompt.content", "prompt.label"}
    assert declared.call_site == "outer/inner:2"


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("sampling.temprature", "sampling.temperature"),
        ("temperature", "sampling.temperature"),
        ("Sampling.Temperature", "sampling.temperature"),
        ("model.serverd", "model.served"),
        ("promt", "prompt"),
        ("top_p", "sampling.top_p"),
        ("tool", "tools"),
        ("max_output_token", "limits.max_output_tokens"),
        ("stream", "delivery.streamed"),
    ],
)
def test_a_misspelt_dimension_names_the_nearest(given: str, nearest: str) -> None:
    """A typing error costs one look."""
    with pytest.raises(UnknownDimension, match=f"Did you mean '{nearest}'") as caught:
        resolve(given)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("given", ["", "xyzzy", ":planner", "sampling.", "."])
def test_a_dimension_like_none_lists_them_all(given: str) -> None:
    """Where nothing is near, all are named."""
    with pytest.raises(UnknownDimension, match=r"There is no setting .*(There are: .*model\.served|Did you mean)"):
        resolve(given)


@pytest.mark.parametrize(
    "given", ["data.cases", "data.expected", "data", "evaluator.code", "evaluator", "evaluator.judge:x"]
)
def test_what_is_measured_cannot_be_declared(given: str) -> None:
    """Other cases or another evaluator measure something else; the message says what to do instead."""
    with pytest.raises(UndeclarableDimension, match="cannot be declared") as caught:
        resolve(given)
    assert caught.value.exit_code == 2


def test_another_tools_dimension_only_warns() -> None:
    """A setting that is not in the table is compared and never forbids."""
    assert dimension_of("retriever.k").quality == "warns"
    assert "retriever.k" not in DIMENSIONS


def test_the_nearest_can_be_asked_for_without_groups() -> None:
    """A scored file has dimensions and no groups."""
    assert "'sampling'?" not in unknown_dimension("samplin")
