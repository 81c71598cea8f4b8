"""Comparisons for the tests of reports: one that regressed, and one whose every recorded text is hostile."""

from __future__ import annotations

from functools import cache

from agenttrace.comparison.compare import compare
from agenttrace.comparison.outcome import Comparison
from agenttrace.comparison.policy import Policy
from tests.comparison.builders import changed_to, evidence, repetitions

HOSTILE = (
    "</details><script>alert(1)</script>|`` @octocat #1 [x](http://e) ]]>\n::error::x \x1b[31m\x00\ufffe\ud800\u202e"
)


@cache
def regressed(cases: int = 30, *, prefix: str = "q", name: str = "branch", text: str = "Other.") -> Comparison:
    """Right in the baseline; in the candidate wrong from the fourth case on."""
    before = repetitions({f"{prefix}{n}": [1.0] * 5 for n in range(cases)})
    after = repetitions({f"{prefix}{n}": [1.0 if n < 3 else 0.0] * 5 for n in range(cases)})
    return compare(
        evidence(changed_to(), name="main", repetitions=before),
        evidence(changed_to(prompt__content=text), name=name, repetitions=after),
        ["prompt.content"],
    )


@cache
def hostile(cases: int = 30) -> Comparison:
    return regressed(cases, prefix=HOSTILE, name=HOSTILE, text=HOSTILE.replace("\ud800", ""))


@cache
def refused() -> Comparison:
    """Another temperature that nobody declared."""
    return compare(evidence(changed_to()), evidence(changed_to(sampling__temperature=0.7)))


@cache
def undecided(*, on_inconclusive: str = "fail") -> Comparison:
    """Too few cases."""
    assert on_inconclusive in ("fail", "warn")
    policy = Policy(on_inconclusive="warn" if on_inconclusive == "warn" else "fail")
    return compare(evidence(), evidence(), policy=policy)
