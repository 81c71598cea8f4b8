"""Ollama's durations, on the last chunk or the whole response, in nanoseconds.

`total_duration` runs from the handler's start to done. `load_duration` from the handler's start to a ready runner. The wait
for one of the runner's slots, tokenisation and templating come after that and before `prompt_eval`, so they are in what is
left of the total: an upper bound on the queue. Source: ollama server/routes.go, docs/api.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from agenttrace.phases.draft import ReportDraft, count
from agenttrace.phases.names import SERVER
from agenttrace.phases.server_report import ServerReport, TokenCounts

LOAD = (
    "handler start until the runner is ready: loading the model and, perhaps, waiting for the scheduler (load_duration)"
)
PREFILL = "evaluating the prompt (prompt_eval_duration)"
DECODE = "generating, thinking tokens and the end token included (eval_duration)"
QUEUE = "waiting for a slot of the runner; not reported, inside what is left of total_duration"

FIELDS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


def read(payload: Mapping[str, object], headers: Mapping[str, str], streamed: bool | None) -> ServerReport | None:
    """Read `total_duration` and its parts; None where none of Ollama's durations is there."""
    if not any(name in payload for name in FIELDS):
        return None
    draft = ReportDraft("ollama", payload, method="ollama.durations")
    draft.unknown("queue", definition=QUEUE)
    draft.reported("load", "load_duration", "ns", LOAD)
    draft.reported("prefill", "prompt_eval_duration", "ns", PREFILL)
    draft.reported("decode", "eval_duration", "ns", DECODE)
    draft.total(draft.duration("total_duration", "ns"), is_independent=True, raw="total_duration")
    tokens = TokenCounts(prompt=count(payload.get("prompt_eval_count")), output=count(payload.get("eval_count")))
    return draft.done(tokens=tokens, members=SERVER)
