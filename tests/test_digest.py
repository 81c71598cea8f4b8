"""A digest says by which scheme it was made, and those of two schemes cannot be compared."""

from __future__ import annotations

from dataclasses import replace

from agenttrace.comparison.gate import gate
from agenttrace.comparison.recorded_suite import RecordedSuite
from agenttrace.digest import code_digest, digest, other_schemes, schemes
from agenttrace.evaluation.cases import content_hash
from agenttrace.settings.contract import fold_calls
from tests.comparison.builders import a_call, evidence

OTHER = "at0:" + "0" * 32


def test_a_digest_carries_its_scheme() -> None:
    """Whatever is hashed for a run to keep says how."""
    assert digest(b"x").startswith("at1:")
    assert schemes([digest(b"x"), {"a": code_digest(digest)}, content_hash({"q": 1})]) == {"at1"}
    assert schemes(["a text", 1, None, "at1:short"]) == frozenset()


def test_equal_content_has_equal_digests() -> None:
    """And other content another one."""
    assert digest(b"x") == digest(b"x") != digest(b"y")
    assert content_hash({"a": 1, "b": 2}) == content_hash({"b": 2.0, "a": 1})


def test_one_scheme_can_be_compared() -> None:
    """Nothing stands in the way where both sides, or neither, name a scheme."""
    assert other_schemes(digest(b"x"), digest(b"y")) is None
    assert other_schemes("a text", digest(b"x")) is None
    assert "at0 and at1" in (other_schemes({"tool": OTHER}, {"tool": digest(b"x")}) or "")


def test_another_scheme_is_never_a_difference() -> None:
    """Code, evaluators and inputs hashed in two ways: it cannot be told whether they are the same."""
    before, after = (
        evidence(
            fold_calls(
                [a_call(1, settings={"tools.implementation": {"search": value}})], {"evaluator.code": {"exact": value}}
            ),
        )
        for value in (OTHER, digest(b"x"))
    )
    before, after = (
        replace(
            run, suite=RecordedSuite(name="qa", cases=("q1",), repetitions=1, settings={"data.cases": {"q1": value}})
        )
        for run, value in ((before, OTHER), (after, digest(b"x")))
    )
    result = gate(before, after)
    assert (result.verdict, result.differences) == ("comparable", ())
    named = {item.dimension: item.why for item in result.unverified}
    assert named.keys() == {"tools.implementation", "evaluator.code", "data.cases"}
    assert all("cannot be told" in why for why in named.values())
    assert gate(before, after, strict=True).verdict == "not_comparable"
