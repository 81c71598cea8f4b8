"""Reads the result files of other evaluation tools as scored attempts: Inspect AI, promptfoo, DeepEval, pytest-json-report.

What each field becomes stands in docs/importing.md. A tool that counts what it was not told as 0 (promptfoo's tokens) is read
as not knowing it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from agenttrace.comparison.evidence import Outcome
from agenttrace.errors import InvalidRecord
from agenttrace.export.json_fields import BadRecords
from agenttrace.records import SettingValue
from agenttrace.steps import JSON
from agenttrace.store.results import ResultRecord

Tool: TypeAlias = Literal["inspect", "promptfoo", "deepeval", "pytest-json"]

INSPECT_MARKS: Mapping[str, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partially correct, incorrect, no answer: the values that Inspect's own metrics give these letters."""

INSPECT_SETTINGS: Mapping[str, str] = {
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "top_k": "sampling.top_k",
    "seed": "sampling.seed",
    "stop_seqs": "sampling.stop",
    "num_choices": "sampling.n",
    "max_tokens": "limits.max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "reasoning_tokens": "reasoning.budget",
    "parallel_tool_calls": "tools.parallel",
}

INSPECT_TOKENS: Mapping[str, str] = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "input_tokens_cache_read": "cached_tokens",
    "reasoning_tokens": "reasoning_tokens",
}

DEEPEVAL_SETTINGS: Mapping[str, str] = {
    "model": "model.requested",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "max_tokens": "limits.max_output_tokens",
    "seed": "sampling.seed",
}

PROMPTFOO_SETTINGS: Mapping[str, str] = {
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "seed": "sampling.seed",
    "max_tokens": "limits.max_output_tokens",
    "max_completion_tokens": "limits.max_output_tokens",
    "reasoning_effort": "reasoning.effort",
}

PROMPTFOO_ERROR = 2
"""`failureReason` of an attempt whose provider failed, rather than its assertions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """One run that a file holds."""

    name: str | None
    """What tells it from others in the file; None where it is the only one."""
    results: tuple[ResultRecord, ...]


def tool_of(value: object) -> Tool | None:
    """Which tool wrote a file that holds this JSON value; None where none of them did."""
    if not isinstance(value, dict):
        return None
    if {"eval", "status", "samples"} <= value.keys():
        return "inspect"
    if ("evalId" in value and isinstance(value.get("results"), dict)) or {"promptIdx", "testCase"} <= value.keys():
        return "promptfoo"
    if {"testCases", "metricsScores"} <= value.keys():
        return "deepeval"
    if {"tests", "exitcode", "summary"} <= value.keys():
        return "pytest-json"
    return None


def open_tool_file(data: bytes) -> tuple[Tool, Mapping[str, Any]] | None:
    """The tool that wrote a file, and what is in it; None where none of them did. Promptfoo's JSON Lines are gathered.

    Raises:
        InvalidRecord: it is one of Inspect's archives, which take a reader of their own.
    """
    if data.startswith(b"PK\x03\x04"):
        raise InvalidRecord(
            "This is an archive, as Inspect AI writes its logs. Write it as JSON with "
            "'inspect log convert LOG --to json --output-dir DIR', and import that; nothing was imported."
        )
    text = data.removeprefix(b"\xef\xbb\xbf")
    # Not orjson: Inspect writes NaN, which is no JSON.
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        tool = tool_of(value)
        return (tool, {"rows": [value]} if "testCase" in value else value) if tool else None
    first, _, rest = text.lstrip().partition(b"\n")
    with suppress(ValueError, RecursionError):
        if tool_of(json.loads(first)) == "promptfoo":
            return "promptfoo", {"rows": [_line(line) for line in (first, *rest.split(b"\n")) if line.strip()]}
    return None


def _line(line: bytes) -> Any:
    """A line of JSON; one that is none is kept as it is, and told as a bad attempt."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def read_tool(tool: Tool, value: Mapping[str, Any], bad: BadRecords) -> tuple[ScoredRun, ...]:
    """The runs in a tool's file, each attempt in the file's order.

    Raises:
        InvalidRecord: the file lacks what all attempts need, or attempts cannot be read and are not to be skipped.
    """
    try:
        runs = tuple(run for run in READERS[tool](value, bad) if run.results)
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidRecord(
            f"The file looks like one of {tool}, and lacks what such a file holds ({type(error).__name__}: {error}). "
            "Write it anew with a current version of the tool; nothing was imported."
        ) from error
    bad.require_none("results")
    if not runs:
        raise InvalidRecord(f"{bad.file} holds no result. Name a file of a run that was made; nothing was imported.")
    return runs


def _read(
    attempts: Sequence[Any],
    read: Callable[[Any], ResultRecord | None],
    bad: BadRecords,
    where: str,
    name: str | None = None,
) -> ScoredRun:
    """Each attempt by `read`; one that it returns None for says nothing, and is left out."""
    results: list[ResultRecord] = []
    for place, attempt in enumerate(attempts):
        try:
            result = read(attempt)
            if result is None:
                continue
            _require_value(result)
        except (KeyError, TypeError, AttributeError, ValueError, InvalidRecord) as error:
            told = str(error) if isinstance(error, InvalidRecord) else f"{type(error).__name__}: {error}"
            bad.add(f"{where}[{place}]", told)
            continue
        results.append(result)
    return ScoredRun(name=name, results=tuple(_numbered(results)))


def _require_value(result: ResultRecord) -> None:
    if not result.case:
        raise InvalidRecord("the case has no name")
    if result.outcome == "scored" and not result.scores:
        raise InvalidRecord("there is no score that is a number")


def _numbered(results: Sequence[ResultRecord]) -> Iterator[ResultRecord]:
    """Repetitions by their order, where the tool does not number them (0) or numbers two alike."""
    taken: dict[str, set[int]] = {}
    for result in results:
        numbers = taken.setdefault(result.case, set())
        number = result.repetition
        if number < 1 or number in numbers:
            number = next(n for n in range(1, len(numbers) + 2) if n not in numbers)
        numbers.add(number)
        yield replace(result, repetition=number)


def _inspect(log: Mapping[str, Any], bad: BadRecords) -> Iterator[ScoredRun]:
    about = log["eval"]
    settings = _inspect_settings(about, log.get("plan") or {})

    def read(sample: Any) -> ResultRecord:
        scores, labels, reasons = _inspect_scores(sample.get("scores") or {})
        outcome: Outcome = "scored"
        if sample.get("limit"):
            outcome = "timeout" if sample["limit"].get("type") in ("time", "working") else "limit"
        if sample.get("error"):
            outcome = "agent_error"
        elif not scores and outcome == "scored":
            outcome = "grader_error"
        served = (sample.get("output") or {}).get("model")
        return ResultRecord(
            case=str(sample["id"]),
            repetition=int(sample.get("epoch") or 0),
            outcome=outcome,
            scores=scores if outcome == "scored" else {},
            metrics=_inspect_metrics(sample),
            settings={**settings, **({"model.served": _served(served)} if served else {})},
            detail=_detail(labels=labels, reasons=reasons, error=(sample.get("error") or {}).get("message")),
        )

    yield _read(log["samples"] or (), read, bad, "samples")


def _inspect_settings(about: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, SettingValue]:
    given: dict[str, Any] = {**(about.get("model_generate_config") or {}), **(plan.get("config") or {})}
    for step in plan.get("steps") or ():
        if step.get("solver") == "generate":  # what a task sets for its own calls goes before what the run sets
            given |= {key: value for key, value in (step.get("params") or {}).items() if value is not None}
    settings = _settings(given, INSPECT_SETTINGS)
    settings["model.requested"] = _requested(about["model"])
    return settings


def _inspect_scores(given: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, JSON], dict[str, JSON]]:
    scores: dict[str, float] = {}
    labels: dict[str, JSON] = {}
    reasons: dict[str, JSON] = {}
    for scorer, score in given.items():
        value = score.get("value")
        parts = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else [("", value)]
        )
        for part, held in parts:
            name = f"{scorer}.{part}" if part != "" else scorer
            number = INSPECT_MARKS.get(held) if isinstance(held, str) else _number(held)
            if number is not None:
                scores[name] = number
            elif held is not None:
                labels[name] = str(held)
        if score.get("explanation"):
            reasons[scorer] = str(score["explanation"])
    return scores, labels, reasons


def _inspect_metrics(sample: Mapping[str, Any]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    if (seconds := _number(sample.get("total_time"))) is not None:
        metrics["latency_s"] = seconds
    usages = list((sample.get("model_usage") or {}).values())
    for theirs, ours in INSPECT_TOKENS.items():
        counts = [usage[theirs] for usage in usages if _number(usage.get(theirs)) is not None]
        if counts:
            metrics[ours] = float(sum(counts))
    return metrics


def _promptfoo(value: Mapping[str, Any], bad: BadRecords) -> Iterator[ScoredRun]:
    """One run for each prompt and provider, since those are what is compared."""
    rows = []
    for place, row in enumerate(value["rows"] if "rows" in value else value["results"]["results"]):
        if isinstance(row, dict) and isinstance(row.get("testIdx"), int):
            rows.append(row)
        else:
            bad.add(f"results[{place}]", "this is no attempt of promptfoo")
    about = value.get("results") or {}
    templates = {prompt.get("id"): prompt.get("raw") for prompt in about.get("prompts") or ()}
    configs = _promptfoo_configs(value.get("config") or {})
    groups: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        groups.setdefault((_provider_name(row.get("provider") or {}), str(row.get("promptId"))), []).append(row)
    names = _promptfoo_cases(rows)
    providers, prompts = (list(dict.fromkeys(key[place] for key in groups)) for place in (0, 1))
    for (provider, prompt), group in groups.items():
        parts = [provider] if len(providers) > 1 else []
        parts += [f"prompt-{prompts.index(prompt) + 1}"] if len(prompts) > 1 else []

        def read(row: Any) -> ResultRecord:
            config = configs.get(_provider_name(row.get("provider") or {}), {})
            return _promptfoo_result(row, names[row["testIdx"]], templates.get(row.get("promptId")), config)

        yield _read(group, read, bad, "results", "-".join(parts) or None)


def _provider_name(provider: Mapping[str, Any]) -> str:
    return str(provider.get("label") or provider.get("id"))


def _promptfoo_configs(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """By provider, what it was configured with; its attempts do not tell it."""
    providers = config.get("providers")
    return {
        _provider_name(provider): provider.get("config") or {}
        for provider in (providers if isinstance(providers, list) else ())
        if isinstance(provider, dict)
    }


def _promptfoo_cases(rows: Sequence[Any]) -> dict[int, str]:
    """By test, its description, else its variables; both where several tests have one description. `--repeat` writes a test
    several times: what has the same description and variables is one case.
    """
    described: dict[str, set[str]] = {}
    told: dict[int, tuple[str, str]] = {}
    for row in rows:
        case = row.get("testCase") or {}
        variables = ", ".join(f"{key}={_short(held)}" for key, held in sorted((case.get("vars") or {}).items()))
        told[row["testIdx"]] = description, _ = case.get("description") or "", variables
        described.setdefault(description, set()).add(variables)
    return {
        place: (description if len(described[description]) == 1 else f"{description} ({variables})") or "test"
        if description
        else variables or f"test {place + 1}"
        for place, (description, variables) in told.items()
    }


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _promptfoo_result(
    row: Mapping[str, Any], case: str, template: str | None, config: Mapping[str, Any]
) -> ResultRecord:
    response, provider = row.get("response") or {}, row.get("provider") or {}
    scores = {
        name: number for name, held in (row.get("namedScores") or {}).items() if (number := _number(held)) is not None
    }
    if (score := _number(row.get("score"))) is not None:
        scores["score"] = score
    scores["pass"] = float(bool(row["success"]))
    is_error = row.get("failureReason") == PROMPTFOO_ERROR
    metrics: dict[str, float] = {}
    if (latency := _number(row.get("latencyMs"))) is not None and not response.get("cached"):
        metrics["latency_s"] = latency / 1e3
    usage = response.get("tokenUsage") or {}
    for theirs, ours in (("prompt", "input_tokens"), ("completion", "output_tokens")):
        if (count := _number(usage.get(theirs))) and not response.get("cached"):
            metrics[ours] = count
    if cost := _number(row.get("cost")):
        metrics["cost_usd"] = cost
    settings = _settings({**config, **((row.get("prompt") or {}).get("config") or {})}, PROMPTFOO_SETTINGS)
    if provider.get("id"):
        settings["model.requested"] = _requested(provider["id"])
    if template:
        settings["prompt.content"] = _requested(template)
    reason = (row.get("gradingResult") or {}).get("reason")
    return ResultRecord(
        case=case,
        repetition=0,
        outcome="infra_error" if is_error else "scored",
        scores={} if is_error else scores,
        metrics={} if is_error else metrics,
        settings=settings,
        detail=_detail(reasons={"score": reason} if reason else {}, error=row.get("error") if is_error else None),
    )


def _deepeval(value: Mapping[str, Any], bad: BadRecords) -> Iterator[ScoredRun]:
    settings = _settings(value.get("hyperparameters") or {}, DEEPEVAL_SETTINGS)

    def read(case: Any) -> ResultRecord:
        judged = case.get("metricsData") or ()
        scores = {metric["name"]: number for metric in judged if (number := _number(metric.get("score"))) is not None}
        errors = {metric["name"]: metric["error"] for metric in judged if metric.get("error")}
        metrics = {
            ours: number
            for theirs, ours in (("completionTime", "latency_s"), ("tokenCost", "cost_usd"))
            if (number := _number(case.get(theirs))) is not None
        }
        return ResultRecord(
            case=str(case["name"]),
            repetition=0,
            outcome="scored" if scores and not errors else "grader_error",
            scores={} if errors else scores,
            metrics=metrics,
            settings=settings,
            detail=_detail(
                reasons={metric["name"]: metric["reason"] for metric in judged if metric.get("reason")},
                error="; ".join(f"{name}: {error}" for name, error in errors.items()) or None,
            ),
        )

    yield _read([*value["testCases"], *(value.get("conversationalTestCases") or ())], read, bad, "testCases")


def _pytest(value: Mapping[str, Any], bad: BadRecords) -> Iterator[ScoredRun]:
    def read(test: Any) -> ResultRecord | None:
        ended = test["outcome"]
        if ended not in ("passed", "failed", "error", "xpassed"):
            return None  # skipped, or expected to fail: it says nothing of the agent
        told = test.get("metadata") or {}
        scores = {name: number for name, held in told.items() if (number := _number(held)) is not None}
        seconds = _number((test.get("call") or {}).get("duration"))
        crash = ((test.get("call") or test.get("setup") or {}).get("crash") or {}).get("message")
        return ResultRecord(
            case=test["nodeid"],
            repetition=0,
            outcome="infra_error" if ended == "error" else "scored",
            scores={} if ended == "error" else {**scores, "passed": float(ended != "failed")},
            metrics={} if seconds is None else {"latency_s": seconds},
            detail=_detail(reasons={"passed": crash} if crash else {}),
        )

    yield _read(value["tests"], read, bad, "tests")


READERS: Mapping[Tool, Callable[[Mapping[str, Any], BadRecords], Iterator[ScoredRun]]] = {
    "inspect": _inspect,
    "promptfoo": _promptfoo,
    "deepeval": _deepeval,
    "pytest-json": _pytest,
}


def _settings(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, SettingValue]:
    return {
        ours: _requested(_unquoted(given[theirs])) for theirs, ours in names.items() if given.get(theirs) is not None
    }


def _unquoted(value: Any) -> JSON:
    """DeepEval writes every hyperparameter as a text: a number is one again."""
    if isinstance(value, str):
        try:
            number = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return number if _number(number) is not None else value
    return value  # type: ignore[no-any-return]  # it came out of JSON


def _requested(value: JSON) -> SettingValue:
    return SettingValue(value=value, voice="requested", source="import")


def _served(value: JSON) -> SettingValue:
    return SettingValue(value=value, voice="served", source="import")


def _number(value: Any) -> float | None:
    """A finite number; what is none is None."""
    return float(value) if isinstance(value, (bool, int, float)) and math.isfinite(value) else None


def _detail(*, labels: Any = None, reasons: Any = None, error: Any = None) -> dict[str, JSON]:
    told = {"labels": labels, "reasons": reasons, "errors": {"tool": str(error)} if error else None}
    return {name: held for name, held in told.items() if held}
