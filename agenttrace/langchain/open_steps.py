"""Which steps are open, by LangChain's run id, and where a new one belongs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from agenttrace.langchain.ambient import AmbientSpan, running_step_key
from agenttrace.langchain.partial import Partial
from agenttrace.langchain.payloads import StartFacts
from agenttrace.steps import EVALUATOR, EVALUATOR_SITE, OpenStep, StepSink

REMEMBERED = 10_000
"""How many ended steps are remembered as parents: children may outlive them."""

MAX_OPEN = 4_096
"""Open steps beyond which the quietest traces are set aside, however short they have been quiet."""

FIRST_LOOK = 1_024
"""Open steps below which nobody looks for quiet traces."""

SET_ASIDE = 1_024
"""Steps of quiet traces that a late end still finds. What is older stays unfinished in the store."""


@dataclass(slots=True)
class Entry:
    """An open step and what the handler needs to end it."""

    step: OpenStep
    start: StartFacts
    proxy: AmbientSpan
    sinks: list[StepSink]
    """Who records it: more than one when handlers of several stores see the same step."""
    events: list[tuple[str, int, Any]]
    watch: object = None
    """Held as long as the step is open: says when its call is gone."""
    partial: Partial | None = None
    """What a stream brought so far: all there is, if nobody ends it."""
    interrupted: bool = False
    """An interrupt was raised below it: the graph pauses here, which is no error and no completion."""


class OpenSteps:
    """The open steps of one recording. Keys are `run_id.int`: the UUID objects are LangChain's own and are not kept."""

    def __init__(self) -> None:
        self._open: dict[int, Entry] = {}
        self._ended: OrderedDict[int, OpenStep] = OrderedDict()
        self._aside: OrderedDict[int, Entry] = OrderedDict()
        self._look_at = FIRST_LOOK
        self.quiet_ns = 600_000_000_000
        """How long nothing may start in a trace before its open steps are set aside."""

    def __len__(self) -> int:
        return len(self._open) + len(self._aside)

    def add(self, key: int, entry: Entry) -> None:
        self._open[key] = entry
        if len(self._open) >= self._look_at:
            self._set_quiet_aside(entry.step.start)

    def get(self, key: int) -> Entry | None:
        return self._open.get(key) or self._aside.get(key)

    def _set_quiet_aside(self, now: int) -> None:
        """Set aside what will probably never end. Each look costs as much as the steps that came since the last one."""
        latest: dict[int, int] = {}
        # Keys first: garbage collection may end steps while this runs.
        entries = [(key, entry) for key in list(self._open) if (entry := self._open.get(key)) is not None]
        ended = [step for key in list(self._ended) if (step := self._ended.get(key)) is not None]
        for step in (*(entry.step for _, entry in entries), *ended):
            seen = max(step.start, step.last_content or 0)
            latest[step.trace_id] = max(latest.get(step.trace_id, 0), seen)
        entries.sort(key=lambda item: latest[item[1].step.trace_id])
        too_many = len(entries) - MAX_OPEN // 2 if len(entries) >= MAX_OPEN else 0
        for number, (key, entry) in enumerate(entries):
            if number >= too_many and now - latest[entry.step.trace_id] < self.quiet_ns:
                break
            if self._open.pop(key, None) is not None:
                self._aside[key] = entry
        while len(self._aside) > SET_ASIDE:
            _, forgotten = self._aside.popitem(last=False)
            forgotten.step.is_open = False
            forgotten.proxy.saved = None  # else each context that a step was left in keeps all those before it
        self._look_at = min(MAX_OPEN, max(FIRST_LOOK, 2 * len(self._open)))

    def pop(self, key: int) -> Entry | None:
        """Take out a step that ends; it stays known as a parent."""
        entry = self._open.pop(key, None) or self._aside.pop(key, None)
        if entry is not None:
            entry.step.is_open = False
            entry.step.failed = None
            self._ended[key] = entry.step
            if len(self._ended) > REMEMBERED:
                self._ended.popitem(last=False)
        return entry

    def parent(self, given: UUID | None) -> OpenStep | None:
        """The parent of a step that starts now.

        LangChain loses parents in two places (fallbacks; a handler passed again inside a node): there, its own context
        still tells which step is running, and is believed where the given parent is none or an ancestor of that step.
        """
        told = None if given is None else self._step(given.int)
        running_key = running_step_key()
        running = None if running_key is None else self._step(running_key)
        if running is None or running is told:
            return told
        if told is None or _is_ancestor(told, running):
            return running
        return told

    def known(self, run: UUID) -> OpenStep | None:
        """The step of a LangChain run, open or ended lately."""
        return self._step(run.int)

    def is_within_sequence(self, key: int | None) -> bool:
        """Whether a step is open that is a part of a sequence."""
        entry = None if key is None else self._open.get(key)
        return entry is not None and any(str(tag).startswith("seq:step:") for tag in entry.start.tags)

    def mark_interrupted_above(self, step: OpenStep) -> None:
        """An interrupt travels up: the step above an interrupted one is interrupted too, even if it ends quietly."""
        for entry in list(self._open.values()):  # garbage collection may end steps while this runs
            if entry.step is step.parent:
                entry.interrupted = True

    def _step(self, key: int) -> OpenStep | None:
        entry = self.get(key)
        return entry.step if entry is not None else self._ended.get(key)


def _is_ancestor(candidate: OpenStep, step: OpenStep) -> bool:
    above = step.parent
    while above is not None:
        if above is candidate:
            return True
        above = above.parent
    return False


class Placed(Protocol):
    """A step that stands below another."""

    @property
    def name(self) -> str: ...
    @property
    def parent(self) -> Placed | None: ...


def call_site(metadata: Mapping[str, Any], parent: Placed | None) -> str:
    """Where in the agent a step stands: its LangGraph node, else the names of the chains above it.

    A subgraph's node carries its outer nodes: `outer/inner`, from LangGraph's `outer:uuid|inner:uuid`. A call that judges
    an agent is no call of the agent: its place begins with its evaluator.
    """
    evaluator = metadata.get(EVALUATOR)
    if isinstance(evaluator, str):
        return "/".join([f"{EVALUATOR_SITE}{evaluator}", *filter(None, [_place(metadata, parent)])])
    return _place(metadata, parent)


def _place(metadata: Mapping[str, Any], parent: Placed | None) -> str:
    namespace = metadata.get("langgraph_checkpoint_ns")
    if isinstance(namespace, str) and namespace:
        return "/".join(part.split(":", 1)[0] for part in namespace.split("|"))
    node = metadata.get("langgraph_node")
    if isinstance(node, str):
        return node
    names: list[str] = []
    while parent is not None:
        names.append(parent.name)
        parent = parent.parent
    return "/".join(reversed(names))
