"""The file that an accepted baseline is: everything a comparison needs of a run, as JSON that a person can review.

What decides stands on top (run, commit, reason, digest of the contract, means of the scores), then the contract, a setting a
line, then the attempts, one a line. A digest of all of it tells an edit or a bad merge from what was accepted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, Final, cast, get_args

import orjson

from agenttrace.comparison.evidence import Outcome, Repetition, RunEvidence
from agenttrace.comparison.recorded_suite import compared_settings, recorded_suite, run_settings
from agenttrace.digest import digest
from agenttrace.errors import InvalidRecord
from agenttrace.export.json_fields import MAX_SMALL, Fields, is_nested_deeper
from agenttrace.export.jsonl import MAX_NESTING, run_from_json
from agenttrace.records import OF_THE_RUN, RunRecord, SettingValue
from agenttrace.settings.canonical import Canonical
from agenttrace.settings.contract import Contract, Observed, SiteContract, SiteSetting, fold_calls
from agenttrace.steps import JSON

FORMAT: Final = "agenttrace.baseline/1"

KEPT_OF_RUN = ("run_id", "name", "start_ns", "end_ns", "tags")
"""And of its metadata what held for the run as a whole. Who used the agent and in which process is nobody's business."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedBaseline:
    """A run that was accepted as what others are compared with."""

    evidence: RunEvidence
    accepted_ns: int
    """When, since 1970 UTC."""
    reason: str | None
    file: Path | None = None
    """Where it was read; None before it is written."""

    @property
    def run(self) -> RunRecord:
        return self.evidence.run

    @property
    def contract_digest(self) -> str:
        return digest(orjson.dumps(_contract_json(self.evidence.contract), option=orjson.OPT_SORT_KEYS))

    @property
    def means(self) -> Mapping[str, float]:
        """Of each score, over the attempts that have it."""
        values: dict[str, list[float]] = {}
        for repetition in self.evidence.repetitions:
            for name, value in repetition.scores.items():
                values.setdefault(name, []).append(value)
        return {name: fmean(each) for name, each in values.items()}


def baseline_text(accepted: AcceptedBaseline) -> bytes:
    """The file's content, UTF-8."""
    evidence = accepted.evidence
    attempts = _attempts_json(evidence)
    head: dict[str, Any] = {
        "format": FORMAT,
        "accepted": {"at": _time(accepted.accepted_ns), "reason": accepted.reason},
        "contract_digest": accepted.contract_digest,
        "digest": _whole_digest(evidence),
        "cases": len(evidence.cases),
        "scores": {name: round(mean, 6) for name, mean in accepted.means.items()},
        "run": _run_json(evidence.run),
        "contract": _contract_json(evidence.contract),
    }
    lines = [
        f"  {orjson.dumps(key).decode()}: {_spread(value, 2, KEPT_DEPTH.get(key, 0))}" for key, value in head.items()
    ]
    told = ",\n".join(f"    {orjson.dumps(attempt).decode()}" for attempt in attempts)
    return ("{\n" + ",\n".join(lines) + f',\n  "attempts": [\n{told}\n  ]\n' + "}\n").encode()


KEPT_DEPTH: Final = {"accepted": 1, "scores": 1, "run": 5, "contract": 3}
"""How many levels of objects are written a key a line, so that a changed setting is a changed line."""


def _spread(value: JSON, indent: int, levels: int) -> str:
    if not levels or not isinstance(value, Mapping) or not value:
        return orjson.dumps(value).decode()
    space = " " * (indent + 2)
    inner = (
        f"{space}{orjson.dumps(key).decode()}: {_spread(item, indent + 2, levels - 1)}" for key, item in value.items()
    )
    return "{\n" + ",\n".join(inner) + "\n" + " " * indent + "}"


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).isoformat()


def _run_json(run: RunRecord) -> dict[str, Any]:
    metadata = {name: run.metadata[name] for name in OF_THE_RUN if name in run.metadata}
    return {**{name: getattr(run, name) for name in KEPT_OF_RUN}, "metadata": metadata}


def _attempts_json(evidence: RunEvidence) -> list[dict[str, Any]]:
    return [_attempt_json(repetition) for repetition in evidence.repetitions]


def _attempt_json(repetition: Repetition) -> dict[str, Any]:
    told = {
        "case": repetition.case,
        "repetition": repetition.number,
        "cluster": repetition.cluster,
        "outcome": repetition.outcome,
        "scores": dict(repetition.scores),
        "metrics": dict(repetition.metrics),
        "trace_id": repetition.trace_id,
    }
    return {name: value for name, value in told.items() if value is not None}


def _whole_digest(evidence: RunEvidence) -> str:
    whole = [_run_json(evidence.run), _contract_json(evidence.contract), _attempts_json(evidence)]
    return digest(orjson.dumps(whole, option=orjson.OPT_SORT_KEYS))


def _contract_json(contract: Contract) -> dict[str, Any]:
    """By call site: its calls and its settings. What held for the run as a whole stands in the run's metadata."""
    return {
        site.call_site: {
            "calls": site.calls,
            "settings": {name: _setting_json(setting) for name, setting in site.settings.items()},
        }
        for site in contract.sites.values()
    }


def _setting_json(setting: SiteSetting) -> dict[str, Any]:
    observed = [
        {
            "value": seen.value,
            "count": seen.count,
            "voices": list(seen.voices),
            "sources": list(seen.sources),
            "first_case": seen.first_case,
            "last_case": seen.last_case,
            "cases": list(seen.cases),
        }
        for seen in setting.observed
    ]
    told = {
        "observed": observed,
        "unknown_calls": setting.unknown_calls,
        "is_change": setting.is_change,
        "rendered": setting.rendered,
        "note": setting.note,
    }
    return {name: value for name, value in told.items() if value or name == "observed"}


def unwritable_values(evidence: RunEvidence) -> tuple[str, ...]:
    """Scores and metrics that are no numbers (NaN, infinity), which JSON cannot hold."""
    names = {
        name
        for repetition in evidence.repetitions
        for told in (repetition.scores, repetition.metrics)
        for name, value in told.items()
        if not math.isfinite(value)
    }
    return tuple(sorted(names))


def is_baseline(text: bytes) -> bool:
    """Whether this begins as such a file does."""
    return FORMAT.encode() in text[:100]


def read_baseline(text: bytes, file: Path) -> AcceptedBaseline:
    """The baseline in a file's content. Raises `InvalidRecord` for what is none, or is not what was accepted."""
    try:
        return replace(_baseline(text), file=file)
    except InvalidRecord as error:
        raise InvalidRecord(
            f"{file} is no baseline that was accepted: {error}. Take it from version control, or accept a run again."
        ) from error


def _baseline(text: bytes) -> AcceptedBaseline:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidRecord(f"it is no JSON ({error})") from error
    if is_nested_deeper(value, MAX_NESTING):
        raise InvalidRecord(f"its lists and objects are nested more than {MAX_NESTING} deep")
    fields = Fields(value)
    fields.one_of("format", (FORMAT,))
    run = run_from_json(fields.json("run"))
    repetitions = tuple(_attempt(attempt) for attempt in fields.objects("attempts"))
    sites = fields.object("contract").items(_site)
    evidence = RunEvidence(
        run=run,
        contract=Contract(sites=sites, run=fold_calls((), compared_settings(run)).run),
        repetitions=repetitions,
        suite=recorded_suite(run),
    )
    accepted = fields.object("accepted")
    baseline = AcceptedBaseline(
        evidence=evidence, accepted_ns=_moment(accepted.text("at")), reason=accepted.text_or_none("reason")
    )
    if (baseline.contract_digest, _whole_digest(evidence)) != (fields.text("contract_digest"), fields.text("digest")):
        raise InvalidRecord("it was changed after it was accepted (its digest does not match)")
    return baseline


def _moment(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp()) * 1_000_000_000
    except (ValueError, OverflowError) as error:
        raise InvalidRecord(f"'accepted.at' is {text[:60]!r}, expected a time") from error


def _attempt(fields: Fields) -> Repetition:
    return Repetition(
        case=fields.text("case"),
        number=fields.integer("repetition", low=1, high=MAX_SMALL),
        cluster=fields.text_or_none("cluster"),
        outcome=cast(Outcome, fields.one_of("outcome", get_args(Outcome))),
        scores=fields.object("scores").items(Fields.number),
        metrics=fields.object("metrics").items(Fields.number),
        trace_id=fields.text_or_none("trace_id"),
    )


def _site(sites: Fields, name: str) -> SiteContract:
    fields = sites.object(name)
    return SiteContract(
        call_site=name, calls=fields.integer("calls"), settings=fields.object("settings").items(_site_setting)
    )


def _site_setting(settings: Fields, name: str) -> SiteSetting:
    fields = settings.object(name)
    return SiteSetting(
        observed=tuple(_observed(observed) for observed in fields.objects("observed")),
        unknown_calls=fields.integer_or("unknown_calls", 0),
        is_change=fields.json("is_change") is True,
        rendered=fields.integer_or("rendered", 0),
        note=fields.text_or_none("note"),
    )


def _observed(fields: Fields) -> Observed:
    value = fields.json("value")
    return Observed(
        value=value,
        key=Canonical().key(SettingValue(value=value, voice="requested", source="")),
        count=fields.integer("count"),
        voices=fields.texts("voices"),
        sources=fields.texts("sources"),
        first_case=fields.text_or_none("first_case"),
        last_case=fields.text_or_none("last_case"),
        cases=fields.texts("cases"),
    )


def shown_baseline(accepted: AcceptedBaseline) -> Iterator[tuple[str, JSON]]:
    """What a list of baselines tells of one."""
    run = accepted.run
    yield "run_id", run.run_id
    yield "run", run.name
    yield "file", None if accepted.file is None else str(accepted.file)
    yield "accepted_at", _time(accepted.accepted_ns)
    yield "recorded_at", _time(run.end_ns or run.start_ns)
    yield "reason", accepted.reason
    yield "commit", run_settings(run).get("code.commit")
    yield "contract_digest", accepted.contract_digest
    yield "cases", len(accepted.evidence.cases)
    yield "attempts", len(accepted.evidence.repetitions)
    yield "scores", dict(accepted.means)
