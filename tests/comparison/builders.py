"""Small real contracts and evidence: give what matters, the rest is a plain agent that is known in full."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agenttrace.comparison.dimensions import TABLE
from agenttrace.comparison.evidence import Repetition, RunEvidence
from agenttrace.records import SettingValue
from agenttrace.settings.contract import Contract, ObservedCall, fold_calls
from agenttrace.steps import JSON
from tests.builders import NOON, SECOND, a_run

UNTOLD = object()
"""A dimension that a call does not tell."""

KNOWN: Mapping[str, JSON] = {
    **{item.name: None for item in TABLE if item.both_unknown == "unverified"},
    "provider": "openai",
    "model.requested": "gpt-5-mini",
    "model.served": "gpt-5-mini-2026-08-07",
    "sampling.temperature": 0.0,
    "prompt.content": "Answer in one sentence.",
    "delivery.streamed": False,
    "endpoint": "api.openai.com",
}
"""Every dimension that decides about quality."""


def settings_of(values: Mapping[str, Any]) -> dict[str, SettingValue]:
    return {
        name: SettingValue(value=value, voice="served" if name == "model.served" else "requested", source="test")
        for name, value in values.items()
        if value is not UNTOLD
    }


def a_call(number: int, site: str = "planner", *, case: str | None = None, **fields: Any) -> ObservedCall:
    """The call of one trace; settings are given as `settings={…}` on top of `KNOWN`."""
    given = fields.pop("settings", {})
    return ObservedCall(
        **{
            "call_site": site,
            "settings": settings_of({**KNOWN, **given}),
            "trace_id": f"{number:032x}",
            "case": case,
            "start_ns": NOON + number * SECOND,
            **fields,
        }
    )


def a_contract(*changes: Mapping[str, Any], site: str = "planner", cases: Sequence[str] = ()) -> Contract:
    """One call a trace at one call site; each of `changes` is what that call has besides `KNOWN`."""
    given = changes or ({},)
    return fold_calls(
        a_call(number, site, settings=change, case=cases[number % len(cases)] if cases else None)
        for number, change in enumerate(given)
    )


def sites(*contracts: Contract) -> Contract:
    """Several call sites of one run."""
    return Contract(sites={name: site for contract in contracts for name, site in contract.sites.items()})


def repetitions(scores: Mapping[str, Iterable[float]], **fields: Any) -> tuple[Repetition, ...]:
    """Attempts by case, each with a score named `correct`."""
    return tuple(
        Repetition(case=case, number=number, scores={"correct": score}, **fields)
        for case, values in scores.items()
        for number, score in enumerate(values, 1)
    )


def evidence(contract: Contract | None = None, *, name: str = "nightly", **fields: Any) -> RunEvidence:
    return RunEvidence(
        **{
            "run": a_run(run_id=f"{name}1234", name=name, end_ns=NOON + 100 * SECOND),
            "contract": a_contract() if contract is None else contract,
            "repetitions": repetitions({"q1": [1.0], "q2": [1.0]}),
            **fields,
        }
    )


def changed_to(**values: Any) -> Contract:
    """A contract of one call; dots in dimensions are written as two underscores."""
    return a_contract({name.replace("__", "."): value for name, value in values.items()})
