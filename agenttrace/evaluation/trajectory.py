"""Evaluators of the way to the answer: which tools were offered and called, in what order, with what; what was retrieved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from agenttrace.errors import InvalidSuite
from agenttrace.evaluation.cases import Case
from agenttrace.evaluation.score import Score
from agenttrace.evaluation.trace import CalledTool, Trace

Order = Literal["ordered", "unordered", "subset"]

SHOWN_TOOLS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTrajectory:
    """Whether the tools were called as expected: names, or names with arguments (`{"name": …, "arguments": {…}}`).

    `ordered`: these and no others, in this order. `unordered`: these and no others. `subset`: these, and others may be
    among them. Arguments that are expected must be there with equal values; others may be there besides, unless
    `exact_arguments`.
    """

    order: Order = "ordered"
    exact_arguments: bool = False
    key: str = "tools"
    """The key of the case's metadata, or of what it expects, that holds the tools. Where it expects a list, that is it."""
    name: str = "trajectory"
    is_quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.order not in ("ordered", "unordered", "subset"):
            raise InvalidSuite(f"'{self.order}' is no order of tools. There are: ordered, unordered, subset.")

    def __call__(self, case: Case, output: Any, trace: Trace) -> Score:
        wanted = [_wanted(item) for item in expected_list(case, self.key)]
        _require_whole(trace)
        called = list(trace.tools_called)
        if self.order == "ordered":
            is_right = len(called) == len(wanted) and all(map(self._fits, wanted, called))
        else:
            left = list(called)
            is_right = all(self._take(item, left) for item in wanted) and (self.order == "subset" or not left)
        reason = None if is_right else f"called {_shown(called)} instead of {_shown(wanted)}"
        return Score(value=is_right, reason=reason)

    def _take(self, wanted: CalledTool, left: list[CalledTool]) -> bool:
        found = next((tool for tool in left if self._fits(wanted, tool)), None)
        if found is None:
            return False
        left.remove(found)
        return True

    def _fits(self, wanted: CalledTool, called: CalledTool) -> bool:
        if wanted.name != called.name:
            return False
        if wanted.arguments is None:
            return True
        if self.exact_arguments or not isinstance(wanted.arguments, Mapping):
            return wanted.arguments == called.arguments
        given = called.arguments if isinstance(called.arguments, Mapping) else {}
        return all(key in given and given[key] == value for key, value in wanted.arguments.items())


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """Whether a tool was offered to the model, and whether it was called: two scores."""

    tool: str | None = None
    """None: the first that the case expects, under `tools`."""
    name: str = "tool"
    is_quick: ClassVar[bool] = True

    def __call__(self, case: Case, output: Any, trace: Trace) -> list[Score]:
        tool = self.tool or _wanted(expected_list(case, "tools")[0]).name
        _require_whole(trace)
        names = [called.name for called in trace.tools_called]
        offered, called = tool in trace.tools_offered, tool in names
        return [
            Score(
                name="offered", value=offered, reason=None if offered else f"{tool} was not offered to any model call"
            ),
            Score(
                name="called", value=called, reason=None if called else f"{tool} was not called, but {names or 'none'}"
            ),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsRetrieved:
    """Which share of the expected documents the retrievers brought, told by id, else by a metadata key or their text."""

    key: str = "documents"
    """The key of the case's metadata, or of what it expects, that holds the ids."""
    id_key: str | None = None
    """The metadata key that names a document; None: its own id."""
    name: str = "retrieved"
    is_quick: ClassVar[bool] = True

    def __call__(self, case: Case, output: Any, trace: Trace) -> Score:
        wanted = [str(item) for item in expected_list(case, self.key)]
        _require_whole(trace)
        found = {self._name(document) for document in trace.documents}
        missing = [name for name in wanted if name not in found]
        brought = ", ".join(sorted(found - {""})) or "nothing"
        reason = f"lacks {', '.join(missing)}; brought {brought}" if missing else None
        return Score(value=1 - len(missing) / len(wanted), reason=reason)

    def _name(self, document: Mapping[str, Any]) -> str:
        if self.id_key is not None:
            return str((document.get("metadata") or {}).get(self.id_key, ""))
        return str(document.get("id") or document.get("content") or document.get("page_content") or "")


def expected_list(case: Case, key: str) -> Sequence[Any]:
    """What a case expects under a key: of its metadata, of its expected object, or its whole expectation if a list.

    Raises:
        ValueError: it expects nothing of that kind, so that nothing can be judged.
    """
    expected = case.expected
    found = case.metadata.get(key)
    if found is None:
        found = expected.get(key) if isinstance(expected, Mapping) else expected
    if isinstance(found, (list, tuple)) and found:
        return found
    raise ValueError(f"case '{case.id}' names no '{key}' that are expected")


def _wanted(item: Any) -> CalledTool:
    if isinstance(item, Mapping) and "name" in item:
        return CalledTool(name=str(item["name"]), arguments=item.get("arguments"))
    return CalledTool(name=str(item), arguments=None)


def _require_whole(trace: Trace) -> None:
    if not trace.is_whole:
        raise RuntimeError("the attempt's trace could not be recorded in time, so its steps are not known")


def _shown(tools: Sequence[CalledTool]) -> str:
    texts = [tool.name if tool.arguments is None else f"{tool.name}({tool.arguments})" for tool in tools]
    return ", ".join(texts[:SHOWN_TOOLS]) or "no tool"
