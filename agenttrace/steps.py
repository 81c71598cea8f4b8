"""Facts about the steps of an agent, and the one place where the room that observes hands them over.

Two halves. On the agent's thread lives an `OpenStep`: ids, a start time, and what is seen while the step runs; it is cheap.
Off the agent's thread a `Step` is built from it: framework-free, complete, ready to be recorded. `StepSink` joins the two.
No framework and no OpenTelemetry here.
"""

from __future__ import annotations

import os
import random
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from agenttrace.clock import Anchor

JSON: TypeAlias = Mapping[str, "JSON"] | Sequence["JSON"] | str | int | float | bool | None

Kind: TypeAlias = Literal["model", "tool", "retriever", "embedding", "chain", "agent", "prompt", "parser"]

State: TypeAlias = Literal[
    "ok", "error", "cancelled", "abandoned", "interrupted", "handed_off", "timed_out", "unfinished"
]
"""How a step ended (D2). `unfinished`: the process ended first, or the step is still running."""

EVALUATOR = "agenttrace_evaluator"
"""Metadata key of steps that an evaluator takes: its name."""

TOOL_CALL_ID = "tool_call_id"
"""Metadata key of a tool's step: the id under which a model asked for it."""

EVALUATOR_SITE = "evaluator:"
"""How call sites begin at which an evaluator calls a model."""

_ids = random.Random(os.urandom(32))

# A forked child would otherwise hand out its parent's ids.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _ids.seed(os.urandom(32)))


def new_trace_id() -> int:
    """128 random bits, never zero (OpenTelemetry's invalid id)."""
    return _ids.getrandbits(128) or 1


def new_span_id() -> int:
    """64 random bits, never zero."""
    return _ids.getrandbits(64) or 1


@dataclass(slots=True)
class OpenAttempt:
    """An HTTP request under way, marked by the transport tap. All times are monotonic nanoseconds, None until seen."""

    start: int
    host: str
    path: str
    connect_start: int | None = None
    connect_end: int | None = None
    send_start: int | None = None
    """A connection was there, and sending began."""
    sent: int | None = None
    headers_at: int | None = None
    first_byte: int | None = None
    end: int | None = None
    status: int | None = None
    read_times: array[int] = field(default_factory=lambda: array("q"))
    """When each read of the body came; bounded, `reads` counts on."""
    read_sizes: array[int] = field(default_factory=lambda: array("q"))
    """How many bytes each read brought."""
    reads: int = 0
    error: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    request_body: bytes | None = None
    content_type: str = ""
    content_encoding: str = ""
    head: list[bytes] = field(default_factory=list)
    """The beginning of a streamed body: bounded, and empty where `body` holds it all."""
    head_bytes: int = 0
    body: deque[bytes] = field(default_factory=deque)
    """The body as it was read; of a stream its end, which is where a server's report stands. Bounded."""
    body_bytes: int = 0


@dataclass(slots=True, eq=False)
class FailedAttempt:
    """A step that failed, and what another attempt at it would have in common with it."""

    number: int
    kind: Kind
    name: str
    tags: Sequence[str]
    task: str | None
    """The tool call or graph task it worked on; None where it worked on nothing that has an id."""
    given: object


@dataclass(slots=True)
class OpenStep:
    """A step that has started and not ended: what the agent's thread keeps of it."""

    trace_id: int
    span_id: int
    parent: OpenStep | None
    outer_span_id: int | None
    """The user's own span around the root, when there is one: the root's parent in OpenTelemetry."""
    kind: Kind
    name: str
    start: int
    """Monotonic nanoseconds."""
    anchor: Anchor
    run_id: str
    call_site: str | None
    owner: object
    """The handler whose start callback came first; another handler's callbacks for the same step count nothing."""
    is_open: bool = True
    attempt: int = 1
    """Counts from 1 where the step is tried again after it failed."""
    failed: list[FailedAttempt] | None = None
    """What failed right below it, while it is open."""
    last_child: int | None = None
    """The key of what started last right below it."""
    traceparent_flags: int = 1
    first_byte: int | None = None
    first_reasoning: int | None = None
    first_content: int | None = None
    first_tool: int | None = None
    last_content: int | None = None
    chunks: int = 0
    arrivals: array[int] | None = None
    """When each chunk that held something came, monotonic nanoseconds; bounded, `chunks` counts on."""
    attempts: list[OpenAttempt] | None = None
    loop_lag: int = 0
    """By how much the event loop was late at the most while the call was open; nanoseconds."""
    own_ns: int = 0
    """What our own callbacks took between the chunks of a stream."""
    asked_at: int | None = None
    """Of a tool: when the model call that asked for it ended. Monotonic nanoseconds."""
    tool_asks: dict[str, int] | None = None
    """Of a root: tool call id to the end of the model call that asked. Monotonic nanoseconds."""
    tools_started: set[str] | None = None
    """Of a root: the ids of the tool calls that became steps."""
    is_replayed: bool = False
    """Of a model call: a recording answers in the model's place."""
    by_tokens: bool = False
    """Whether a stream comes as tokens; the same stream may come as events too."""
    usages: list[Mapping[str, JSON]] | None = None
    """Token counts that single chunks reported."""
    served_models: list[str] | None = None
    """The models that chunks of a stream named, each once, in their order."""
    paused_at: str | None = None
    """Of a graph that was interrupted: the checkpoint where it paused."""
    resumed_from: str | None = None
    """Of a graph that goes on after an interrupt: the checkpoint where it had paused."""
    prompt: tuple[Mapping[str, object] | None, Mapping[str, object], object] | None = None
    """The last prompt that was rendered right below it: as the framework serialises it, its metadata, and what came out."""
    seen_input: tuple[JSON] | None = None
    """What went in, as it was when the start was recorded: agents change their messages."""
    labels: Mapping[str, JSON] | None = None
    """Of a root: what the config says of session and user, where only steps below the root are told."""

    @property
    def parent_id(self) -> int | None:
        return self.outer_span_id if self.parent is None else self.parent.span_id


current_model_call: ContextVar[OpenStep | None] = ContextVar("agenttrace_current_model_call", default=None)
"""The model call that an HTTP request made now belongs to. It stays set after the call, so readers check `is_open`."""


current_prompt: ContextVar[str | None] = ContextVar("agenttrace_current_prompt", default=None)
"""The label of the prompt that model calls made now are made with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One HTTP request of a model call. Times are nanoseconds since 1970, None where not seen."""

    start_ns: int
    end_ns: int | None
    host: str
    path: str = ""
    status: int | None = None
    connect_start_ns: int | None = None
    connect_end_ns: int | None = None
    send_start_ns: int | None = None
    """A connection was there, and sending began; before it the request waited for one."""
    sent_ns: int | None = None
    headers_ns: int | None = None
    first_byte_ns: int | None = None
    reads: int = 0
    read_times_ns: Sequence[int] = ()
    """When each read came, from the attempt's start; bounded."""
    read_bytes: int | None = None
    error: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    sent_settings: Mapping[str, JSON] = field(default_factory=dict)
    """Allow-listed keys of the request body."""
    report: Mapping[str, JSON] = field(default_factory=dict)
    """Allow-listed keys of the response body: the server's report."""


@dataclass(slots=True, kw_only=True)  # not frozen: that takes 2.5 times as long to make, and every step makes one
class Step:
    """What is known of a step, started or ended; framework-free. Times are nanoseconds since 1970."""

    trace_id: int
    span_id: int
    parent_id: int | None
    run_id: str
    kind: Kind
    name: str
    start_ns: int
    state: State = "unfinished"
    end_ns: int | None = None
    call_site: str | None = None
    attempt: int = 1
    input: JSON = None
    output: JSON = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    error_type: str | None = None
    error_message: str | None = None
    events: tuple[tuple[str, int, JSON], ...] = ()
    """(name, nanoseconds since 1970, data)."""
    paused_at: str | None = None
    resumed_from: str | None = None
    is_root: bool = False
    """Whether the agent's invocation begins here; a user's own span may be around it."""


@dataclass(slots=True, kw_only=True)
class ModelCall(Step):
    """A call of a chat or text model."""

    params: Mapping[str, JSON] = field(default_factory=dict)
    """The framework's parameters of this call, plain JSON."""
    options: Mapping[str, JSON] = field(default_factory=dict)
    """Per-call options: stop words, structured output."""
    serialized: Mapping[str, JSON] = field(default_factory=dict)
    """The model object as the framework serialises it: `kwargs`, its constructor's arguments, or `repr`, a text."""
    watched: Mapping[str, JSON] = field(default_factory=dict)
    """What `watch` read from the model object; a value of None is known to be unset."""
    prompt_label: str | None = None
    """What whoever wrote the prompt calls this version of it."""
    prompt_template: str | None = None
    """The template that the prompt was rendered from, with what does not change with the input."""
    recursion_limit: int | None = None
    """Of the graph around it."""
    response: Mapping[str, JSON] = field(default_factory=dict)
    """The framework's response metadata of the last message."""
    tokens: Mapping[str, int | None] = field(default_factory=dict)
    """Keys of `records.Usage` as the framework read them."""
    finish_reason: str | None = None
    served_models: Sequence[str] = ()
    """The models that chunks of a stream named, each once; more than one where the server changed over to another."""
    is_streamed: bool = False
    is_replayed: bool = False
    """A recording answered in the model's place."""
    is_local: bool = False
    """The engine runs inside this process: no network, no queue."""
    first_byte_ns: int | None = None
    first_reasoning_ns: int | None = None
    first_content_ns: int | None = None
    first_tool_ns: int | None = None
    last_content_ns: int | None = None
    loop_lag_ns: int = 0
    """By how much the event loop was late at the most: marks may be late by that."""
    own_ns: int = 0
    """What our own callbacks took while the call streamed."""
    chunks: int | None = None
    arrivals_ns: Sequence[int] = ()
    """When each chunk that held something came, from the call's start; bounded."""
    attempts: tuple[Attempt, ...] = ()
    seen_attempts: tuple[OpenAttempt, ...] = ()
    """The attempts as the tap left them, not read yet; `anchor` turns their times into times of day."""
    anchor: Anchor | None = None

    @property
    def report(self) -> Mapping[str, JSON]:
        """The server's own report: of the last attempt where the tap saw it, else what the framework kept."""
        return (self.attempts[-1].report if self.attempts else None) or self.response


@dataclass(slots=True, kw_only=True)
class ToolCall(Step):
    """One execution of a tool."""

    tool_call_id: str | None = None
    asked_ns: int | None = None
    """When the model call that asked for it ended; None where the asking call is not known."""
    definition: Mapping[str, JSON] = field(default_factory=dict)
    """`description`, `parameters` (a JSON schema) and `implementation` (a digest of its code), as far as they are known."""


@dataclass(slots=True, kw_only=True)
class Retrieval(Step):
    """A retriever's lookup."""


@dataclass(slots=True, kw_only=True)
class ChainStep(Step):
    """A chain, graph node, prompt or parser."""


Fact: TypeAlias = Callable[[], Step | None]
"""Builds a step from what the agent's thread saw; None if there is nothing to say. Called once, off that thread; may raise."""


class StepSink(Protocol):
    """Takes what was observed. Never blocks, never raises."""

    def put(self, fact: Fact) -> None:
        """Queue a fact for the writer."""

    def put_unnoticed(self, fact: Fact) -> None:
        """Queue a fact without waking the writer: for where no lock may be taken."""

    def count_error(self, error: BaseException) -> None:
        """Count an exception that capture swallowed."""
