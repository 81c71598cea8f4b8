"""Where an agent's time went, and whether its new version is worse: traces of LangChain and LangGraph agents, with evidence.

The data's way: callback → facts → parent → phases → span → journal → DuckDB → contract → gate → statistics → verdict →
report. Public names are resolved when they are first used, so that importing this package loads no heavy library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agenttrace.evaluation.cases import Case
    from agenttrace.evaluation.score import Score
    from agenttrace.evaluation.suite import Suite
    from agenttrace.judging import compare
    from agenttrace.langchain.watch import watch
    from agenttrace.prompt_label import prompt
    from agenttrace.recording import AgentTraceHandler, install, record, trace_embeddings
    from agenttrace.store.reading import open_store

__all__ = [
    "AgentTraceHandler",
    "Case",
    "Score",
    "Suite",
    "compare",
    "install",
    "open_store",
    "prompt",
    "record",
    "trace_embeddings",
    "watch",
]

_HOMES = {
    "AgentTraceHandler": "agenttrace.recording",
    "Case": "agenttrace.evaluation.cases",
    "Score": "agenttrace.evaluation.score",
    "Suite": "agenttrace.evaluation.suite",
    "compare": "agenttrace.judging",
    "install": "agenttrace.recording",
    "open_store": "agenttrace.store.reading",
    "prompt": "agenttrace.prompt_label",
    "record": "agenttrace.recording",
    "trace_embeddings": "agenttrace.recording",
    "watch": "agenttrace.langchain.watch",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'agenttrace' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
