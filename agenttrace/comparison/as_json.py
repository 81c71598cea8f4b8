"""A comparison as `compare --json` prints it. Its schema is docs/comparison.schema.json; a change of shape is a new version."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from agenttrace.comparison.differences import difference_json, unverified_json
from agenttrace.comparison.outcome import Comparison, MetricComparison
from agenttrace.comparison.pairing import PairedCase

SCHEMA = "agenttrace.comparison/1"


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain values."""
    return {
        "schema": SCHEMA,
        "verdict": comparison.verdict,
        "exit_code": comparison.exit_code,
        "reasons": list(comparison.reasons),
        "unverified": bool(comparison.unverified),
        "confounded": comparison.gate.confounded,
        "changed": list(comparison.gate.changed),
        "baseline": {"run_id": comparison.baseline.run_id, "run": comparison.baseline.name},
        "candidate": {"run_id": comparison.candidate.run_id, "run": comparison.candidate.name},
        "policy": {
            **asdict(comparison.policy),
            "primary": list(comparison.policy.primary),
            "margins": dict(comparison.policy.margins),
        },
        "differences": [difference_json(difference) for difference in comparison.differences],
        "unverified_settings": unverified_json(comparison.unverified),
        "metrics": [metric_json(metric) for metric in comparison.metrics],
        "cases": [_case_json(case, comparison) for case in comparison.cases],
        "notes": list(comparison.notes),
    }


def metric_json(metric: MetricComparison) -> dict[str, Any]:
    """One metric; what is no finite number is null."""
    told = {name: getattr(metric, name) for name in MetricComparison.__dataclass_fields__}
    told["p_values"] = dict(metric.p_values)
    told["needed"] = None if metric.needed is None else asdict(metric.needed)
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in told.items()
    }


def _case_json(case: PairedCase, comparison: Comparison) -> dict[str, Any]:
    values: dict[str, dict[str, dict[str, float]]] = {"scores": {}, "metrics": {}}
    for key, value in case.values.items():
        values["scores" if key.is_score else "metrics"][key.name] = {
            "baseline": value.baseline,
            "candidate": value.candidate,
            "delta": value.delta,
        }
    before, after = comparison.traces.get(case.case, ((), ()))
    parting = comparison.partings.get(case.case)
    return {
        "case": case.case,
        "k_baseline": case.k_baseline,
        "k_candidate": case.k_candidate,
        **values,
        "flags": [asdict(flag) for flag in comparison.flags.get(case.case, ())],
        "traces": {"baseline": list(before), "candidate": list(after)},
        "parted": None if parting is None else {**asdict(parting), "parts": list(parting.parts)},
    }
