"""Published payloads with their right answers: every expectation of every file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttrace.phases.chunks import longest_gap_bounds_ns
from agenttrace.phases.explain import explain_response, explanation_json

FOLDER = Path(__file__).parents[2] / "fixtures" / "oracles" / "phases"
ORACLES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
SECOND = 1_000_000_000


def close(value: Any) -> Any:
    """Published numbers are rounded to about six digits; a nanosecond is our own resolution."""
    return value if value is None else pytest.approx(value, rel=5e-6, abs=2e-9)


def explained(name: str) -> dict[str, Any]:
    document: dict[str, Any] = explanation_json(explain_response(ORACLES[name]))
    return document


def _phases(found: dict[str, Any], expected: Any) -> None:
    for phase, seconds in expected.items():
        assert found["phases"][phase]["seconds"] == close(seconds), phase


def _sources(found: dict[str, Any], expected: Any) -> None:
    for phase, source in expected.items():
        assert found["phases"][phase]["source"] == source, phase


def _bounds(found: dict[str, Any], expected: Any) -> None:
    for phase, (low, high) in expected.items():
        assert (found["phases"][phase]["low"], found["phases"][phase]["high"]) == (close(low), close(high)), phase


def _parts(found: dict[str, Any], expected: Any) -> None:
    for part, seconds in expected.items():
        assert found["server_parts_s"][part] == close(seconds), part


def _same(key: str) -> Any:
    def check(found: dict[str, Any], expected: Any) -> None:
        assert found[key] == close(expected)

    return check


def _tokens(found: dict[str, Any], expected: Any) -> None:
    assert {name: found["tokens"][name] for name in expected} == expected


def _rates(found: dict[str, Any], expected: Any) -> None:
    for rate, value in expected.items():
        assert found["rates"][rate] == close(value), rate


def _rejected(found: dict[str, Any], expected: Any) -> None:
    assert set(found["rejected"]) == set(expected)


def _spec(found: dict[str, Any], expected: Any) -> None:
    assert {name: found["speculation"][name] for name in expected} == expected


def _chunk_gaps(found: dict[str, Any], expected: Any) -> None:
    assert found["inter_chunk_s"] == pytest.approx([gap / 1000 for gap in expected])


def _burst(found: dict[str, Any], expected: Any) -> None:
    """A silence is no token's time: the mean is a rate over it, one token took at most all of it, and no phase is guessed."""
    runs = ORACLES["anthropic_toolargs_burst"]["payload"]["runs"]
    rates = [run["longest_silence_s"] / run["output_tokens"] for run in runs]
    assert rates == pytest.approx([run["ms_per_output_token"] / 1000 for run in runs], rel=2e-3)
    silence = round(runs[0]["longest_silence_s"] * SECOND)
    assert longest_gap_bounds_ns([(silence, None)]) == (0, silence)
    known = longest_gap_bounds_ns([(silence, runs[0]["output_tokens"])])
    assert known is not None
    assert known[0] == pytest.approx(0.00918 * SECOND, rel=2e-3)
    assert all(phase["seconds"] is None for phase in found["phases"].values())


def _retry(found: dict[str, Any], expected: Any) -> None:
    """The wait between two requests is a retry of the client's, never the server's queue."""
    first, last = ORACLES["openai_sdk_retry_measured"]["payload"]["attempts"]
    waited = (last["start_after_callback_ms"] - first["start_after_callback_ms"]) / 1000
    assert found["phases"]["retry_backoff"]["seconds"] == pytest.approx(waited)
    assert found["phases"]["retry_backoff"]["source"] == "client-observed"
    assert found["phases"]["client_prep"]["seconds"] == pytest.approx(first["start_after_callback_ms"] / 1000)
    assert found["phases"]["queue"]["seconds"] is None


CHECKS: dict[str, Any] = {
    "phases_s": _phases,
    "sources": _sources,
    "bounds_s": _bounds,
    "server_parts_s": _parts,
    "server_total_s": _same("server_total_s"),
    "server_ttft_s": _same("server_ttft_s"),
    "resolution_s": _same("resolution_s"),
    "tokens": _tokens,
    "rates": _rates,
    "rejected": _rejected,
    "spec": _spec,
    "inter_chunk_latency_ms": _chunk_gaps,
    "itl_bounds_rule": _burst,
    "derived_ms_per_token": lambda found, expected: None,  # checked with its rule
    "rule": _retry,
}


def test_all_oracles_are_here() -> None:
    """The copy is whole."""
    assert len(ORACLES) == 35


@pytest.mark.parametrize("name", ORACLES)
def test_oracle(name: str) -> None:
    """A published payload reads as its published answer says; every key of the answer is checked."""
    found = explained(name)
    for key, expected in ORACLES[name]["expected"].items():
        CHECKS[key](found, expected)


@pytest.mark.parametrize("name", ORACLES)
def test_oracle_without_its_provider(name: str) -> None:
    """The name of a provider is a hint: a payload reads the same by its shape alone."""
    anonymous = {key: value for key, value in ORACLES[name].items() if key != "provider"}
    found = explanation_json(explain_response(anonymous))
    for key, expected in ORACLES[name]["expected"].items():
        CHECKS[key](found, expected)


@pytest.mark.parametrize("name", ORACLES)
def test_oracle_prints_as_json(name: str) -> None:
    """What is printed is plain JSON, without NaN."""
    json.dumps(explained(name), allow_nan=False)
