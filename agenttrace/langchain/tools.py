"""The tool behind a tool step: what it takes, and which code it is.

LangChain's callback names a tool and leaves it out. But it is the tool that calls back, so it stands in the frames above.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from agenttrace.digest import code_digest
from agenttrace.langchain.messages import plain
from agenttrace.settings.tools import canonical_schema
from agenttrace.steps import JSON

TOOL: Final = "agenttrace_tool"
"""Under which a tool step's facts keep the tool."""

FRAMES: Final = 12
"""How far up the tool is looked for."""

KNOWN_TOOLS: Final = 1_024

_known: OrderedDict[int, tuple[weakref.ref[Any], object, Mapping[str, JSON]]] = OrderedDict()


def running_tool() -> Any:
    """The tool whose start callback this is; None where it cannot be told."""
    module = sys.modules.get("langchain_core.tools.base")
    file = getattr(module, "__file__", None)
    frame = sys._getframe(1)
    for _ in range(FRAMES):
        if frame.f_code.co_filename == file and frame.f_code.co_name in ("run", "arun"):
            return frame.f_locals.get("self")
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def described(tool: Any) -> Mapping[str, JSON]:
    """A tool's `description`, `parameters` (the JSON schema a model is shown) and `implementation` (a digest of its code)."""
    code = _code(tool)
    known = _known.get(id(tool))
    if known is not None and known[0]() is tool and known[1] is code:
        return known[2]
    facts = {
        "description": plain(getattr(tool, "description", None)),
        "parameters": canonical_schema(_schema(tool)),
        "implementation": code_digest(code),
    }
    _known[id(tool)] = weakref.ref(tool), code, facts
    if len(_known) > KNOWN_TOOLS:
        _known.popitem(last=False)
    return facts


def implementation(tool: Any) -> str:
    """Equal for tools that are the same code."""
    return code_digest(_code(tool))


def _code(tool: Any) -> Any:
    return getattr(tool, "func", None) or getattr(tool, "coroutine", None) or type(tool)._run


def _schema(tool: Any) -> JSON:
    """Without what is filled in beside the model: its state, its config."""
    schema = getattr(tool, "tool_call_schema", None)
    if isinstance(schema, Mapping):
        return plain(schema)
    make = getattr(schema, "model_json_schema", None) or getattr(schema, "schema", None)
    return plain(make()) if callable(make) else None
