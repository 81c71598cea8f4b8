"""Repeats a recorded model call, or the task of a recorded attempt, and says how often the outputs agree.

What could not be reproduced is measured and not guessed: the settings of the repetitions are recorded as ever, and compared
with those of the original.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from agenttrace.comparison.differences import contract_difference
from agenttrace.errors import NotReproducible
from agenttrace.evaluation.suite import Suite
from agenttrace.recording import flush, record
from agenttrace.records import SpanRecord
from agenttrace.settings.canonical import canonical
from agenttrace.settings.contract import fold
from agenttrace.steps import JSON
from agenttrace.store.reading import open_store

NO_AGENT = ("agent.limits", "prompt.label")
"""Dimensions of the agent around a call: a call that is repeated alone has none."""

NO_SETTING = ("data.cases", "data.expected", "evaluator.code", "evaluator.judge", "load")

NUMBERS = ("id", "tool_call_id")
"""Keys whose values are drawn anew with each answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReproduced:
    """A setting that the repetitions did not have as the original had it."""

    dimension: str
    call_site: str | None
    recorded: JSON
    """None: unset or unknown, as `recorded_state` says."""
    repeated: JSON
    recorded_state: str
    repeated_state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """Where a repetition first parts from what was recorded."""

    repetition: int
    """From 1: the first one that differs."""
    at: int
    """Characters that the two texts have in common from their beginning."""
    recorded: str
    repeated: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """What repeating one call, or one task, came to."""

    what: str
    """`call` or `task`."""
    span_id: str
    name: str
    call_site: str | None
    asked: int
    """Repetitions that were asked for."""
    answered: int
    """Those that ended well."""
    agreed: int
    """Those whose output is the recorded one."""
    distinct: int
    """Different outputs among the repetitions."""
    first_difference: FirstDifference | None
    not_reproduced: tuple[NotReproduced, ...]
    error: str | None = None
    """What the first repetition that failed ended with."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def reproduce_calls(
    spans: Sequence[SpanRecord], times: int, *, store: str | os.PathLike[str] | None, base_url: str | None
) -> list[Reproduction]:
    """Repeat each of the model calls, in their order. Raises `NotReproducible`, before any call is made."""
    from agenttrace.langchain.rebuilding import RebuiltCall

    rebuilt = [(span, RebuiltCall(span, base_url)) for span in spans]
    found = []
    for span, call in rebuilt:
        with record(f"reproduce {span.trace_id[:12]}", store=store, tags={"reproduces": span.span_id}) as run:
            for _ in range(times):
                _ask(call.ask)
        flush()
        repeated = [one for one in open_store(store).run_spans(run.run_id) if one.kind == "model"]
        alike = [replace(one, call_site=span.call_site) for one in repeated]
        found.append(_reproduction("call", span, [span], repeated, alike, times, NO_AGENT))
    return found


def _ask(call: Any) -> None:
    """A call that fails is a repetition that did not answer; its trace says why."""
    with suppress(Exception):
        call()


def reproduce_task(
    suite: Suite, trace: Sequence[SpanRecord], task: str | None, times: int, *, store: str | os.PathLike[str] | None
) -> Reproduction:
    """Repeat the task of a recorded attempt at its case. Raises `NotReproducible`: the trace answers no case of the suite."""
    from agenttrace.evaluation.runner import Arm, RunOptions, run_suite

    root = next((span for span in trace if span.parent_id is None), trace[0])
    case = root.metadata.get("case")
    if case is None or str(case) not in {one.id for one in suite.loaded_cases}:
        told = "answers no case" if case is None else f"answers case '{case}', which suite '{suite.name}' has not"
        raise NotReproducible(f"Trace {root.trace_id[:12]} {told}. Name the suite that made it, or leave --suite away.")
    arm = Arm(task=suite.task_name(task), run_name=f"reproduce {root.trace_id[:12]}")
    [ran] = run_suite(suite, [arm], RunOptions(store=store, cases=[str(case)], repetitions=times, is_new=True))
    flush()
    spans = open_store(store).run_spans(ran.run_id)
    roots = [span for span in spans if span.parent_id is None and "case" in span.metadata]
    return _reproduction("task", root, trace, roots, spans, times, NO_SETTING)


def _reproduction(
    what: str,
    original: SpanRecord,
    recorded: Sequence[SpanRecord],
    repeated: Sequence[SpanRecord],
    spans: Sequence[SpanRecord],
    times: int,
    apart: Sequence[str],
) -> Reproduction:
    answered = [span for span in repeated if span.state == "ok"]
    wanted = comparable(original.output)
    outputs = [comparable(span.output) for span in answered]
    failed = next((span.error for span in repeated if span.error is not None), None)
    differing = next((number for number, output in enumerate(outputs, 1) if output != wanted), None)
    differences = contract_difference(fold(recorded), fold(spans)).differences
    return Reproduction(
        what=what,
        span_id=original.span_id,
        name=original.name,
        call_site=original.call_site,
        asked=times,
        answered=len(answered),
        agreed=outputs.count(wanted),
        distinct=len(set(outputs)),
        first_difference=None if differing is None else _parting(wanted, outputs[differing - 1], differing),
        not_reproduced=tuple(
            NotReproduced(
                dimension=item.dimension,
                call_site=item.call_site,
                recorded=item.baseline.value,
                repeated=item.candidate.value,
                recorded_state=item.baseline.state,
                repeated_state=item.candidate.state,
            )
            for item in differences
            if item.dimension not in apart
        ),
        error=None if failed is None else f"{failed.type}: {failed.message}",
    )


def comparable(output: JSON) -> str:
    """An output as a text: that of a message that calls no tool, else its JSON, without ids."""
    if isinstance(output, Mapping) and not output.get("tool_calls") and isinstance(output.get("content"), str):
        return str(output["content"])
    return output if isinstance(output, str) else canonical(_without_ids(output)).decode()


def _without_ids(value: JSON) -> JSON:
    if isinstance(value, Mapping):
        return {key: _without_ids(item) for key, item in value.items() if key not in NUMBERS}
    return [_without_ids(item) for item in value] if isinstance(value, (list, tuple)) else value


def _parting(recorded: str, repeated: str, repetition: int) -> FirstDifference:
    from agenttrace.replay.nearest import around

    pairs = enumerate(zip(recorded, repeated, strict=False))
    at = next((place for place, pair in pairs if pair[0] != pair[1]), min(len(recorded), len(repeated)))
    before, after = around(recorded, repeated)
    return FirstDifference(repetition=repetition, at=at, recorded=before, repeated=after)
