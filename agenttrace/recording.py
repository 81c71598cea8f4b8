"""The composition root of writing: `AgentTraceHandler`, `record()` and `install()`, and which run a step belongs to."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from agenttrace import clock
from agenttrace.errors import AgentTraceError
from agenttrace.export.destinations import OTLP_ENDPOINT
from agenttrace.langchain.handler import CallbackHandler
from agenttrace.langchain.hook import register_hook
from agenttrace.langchain.open_steps import OpenSteps
from agenttrace.policy import (
    DEFAULT,
    Content,
    Durability,
    RecordingPolicy,
    quiet_ns,
    recording_policy,
    survives_power_loss,
)
from agenttrace.provenance import provenance
from agenttrace.records import OF_THE_RUN, PROVENANCE, RunRecord
from agenttrace.spans.content_policy import ContentPolicy, Redact
from agenttrace.steps import JSON, StepSink
from agenttrace.store.journal import process_name
from agenttrace.store.layout import Layout, store_path
from agenttrace.store.results import ResultRecord
from agenttrace.transport.tap import install_tap
from agenttrace.writer import RunResult, Watcher, Writer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from agenttrace.langchain.embeddings import EmbeddingModel
    from agenttrace.replay.tapes import RecordingTape, ReplayTape

REMEMBERED_RUNS = 10_000

_steps = OpenSteps()
_writers: dict[Path, Writer] = {}
_writers_lock = threading.Lock()
_runs: OrderedDict[str, RunRecord] = OrderedDict()
_policies: dict[str, RecordingPolicy] = {}
"""By run, what is recorded of it, where that is not everything."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A run that is being recorded, as `record()` yields it."""

    run_id: str
    name: str
    store: Path

    def add_result(self, result: ResultRecord) -> None:
        """Store how an attempt at a case ended. Like a step, it is in the journal within 50 ms."""
        _writer(self.store).put(partial(RunResult, self.run_id, result))

    def add_metadata(self, metadata: Mapping[str, JSON]) -> None:
        """Say more of the run than was known when it began; it is stored when the run ends."""
        run = _runs[self.run_id]
        _runs[self.run_id] = replace(run, metadata={**run.metadata, **metadata})

    @contextmanager
    def watched(self, watcher: Watcher) -> Iterator[None]:
        """Have `watcher` told of every finished step that is recorded into this store meanwhile, on the writer's thread."""
        writer = _writer(self.store)
        writer.add_watcher(watcher)
        try:
            yield
        finally:
            writer.remove_watcher(watcher)


_recording: ContextVar[Recording | None] = ContextVar("agenttrace_recording", default=None)
_hook: ContextVar[CallbackHandler | None] = ContextVar("agenttrace_hook", default=None)
_installed: list[CallbackHandler] = []
_process_runs: dict[RecordingPolicy, str] = {}
_tightened_runs: list[str] = []
_untold: dict[str, Writer] = {}
"""Runs of which only the name is written so far, with who writes them."""
_process_run_name: list[str] = []


class AgentTraceHandler(CallbackHandler):
    """Records every step of the LangChain and LangGraph runs it is given to.

    Args:
        store: The store's folder; by default that of the surrounding `record()`, else `$AGENTTRACE_STORE`, else
            `./.agenttrace`.
        exporter: An OpenTelemetry exporter that gets every finished span too, off the agent's thread.
        transport: Whether to watch the HTTP requests of model calls, which is where servers report their timings.
            `AGENTTRACE_TRANSPORT=off` switches it off everywhere.
        export: Where every finished step is sent too while the agent runs: `phoenix`, `arize-ax`, `otlp`, or the address
            of an OTLP endpoint. By default `$AGENTTRACE_OTLP_ENDPOINT`, if it is set. Raises `UsageError` where the
            destination lacks an address or a key, and `MissingExtra` where the encoder is not installed.
        sample: The share of traces that is kept, from 0 to 1; those with an error and slow ones are always kept.
        slow_s: From how many seconds on a trace is slow.
        content: What is kept of inputs, outputs, arguments and prompts: `full`, `hashes` or `off` for all of them, or a
            mapping of these.
        redact: A function that is given each text, off the agent's thread, and returns what may be kept of it.
        payload_limit: How many characters of one text, and items of one list, are kept.
        durability: `power` has the disk confirm what is written, some milliseconds a batch, off the agent's thread; by
            default a step survives the end of its process, once written. The strictest holds for all of a store.

    Each of the last six has an environment variable (docs/recording.md). Inside `record()`, its sampling counts, and of
    its content policy and the handler's the stricter.

    What cannot be recorded never reaches the agent: it is counted, and `agenttrace doctor` shows the count.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | None = None,
        *,
        exporter: SpanExporter | None = None,
        transport: bool = True,
        export: str | None = None,
        sample: float | None = None,
        slow_s: float | None = None,
        content: Content | None = None,
        redact: Redact | None = None,
        payload_limit: int | None = None,
        durability: Durability | None = None,
    ) -> None:
        self._policy = recording_policy(
            sample=sample, slow_s=slow_s, content=content, redact=redact, payload_limit=payload_limit
        )
        _steps.quiet_ns = quiet_ns()
        super().__init__(_steps, transport=transport and os.environ.get("AGENTTRACE_TRANSPORT", "on") != "off")
        self._store = None if store is None else store_path(store)
        self._default_store = store_path(store)
        if survives_power_loss(durability):
            _writer(self._default_store).survive_power_loss()
        if exporter is not None:
            _writer(self._default_store).add_exporter(exporter)
        if export is not None:
            _follow(_writer(self._default_store), export)

    @property
    def sink(self) -> StepSink:
        recording = _recording.get()
        if self._store is None and recording is not None:
            return _writer(recording.store)
        return _writer(self._default_store)

    def before_model_call(self) -> None:
        if self._transport:
            install_tap()

    def current_run(self) -> str:
        recording = _recording.get()
        if recording is None:
            return _unnamed_run(self._policy)
        self.joins(recording.run_id)
        return recording.run_id

    def joins(self, run_id: str) -> None:
        """Of all policies that take part in a run the strictest holds, from now on and for every store."""
        policy = _policies.get(run_id, DEFAULT)
        tightened = policy.tightened(self._policy)
        if tightened is not policy:
            _policies[run_id] = tightened
            if _process_runs.get(policy) == run_id:
                _tightened_runs.append(_process_runs.pop(policy))  # what follows under the old policy is another run
            for writer in list(_writers.values()):
                if writer.knows(run_id):
                    writer.put(partial(_itself, _runs[run_id]))
        untold = _untold.pop(run_id, None)
        if untold is not None:
            untold.put(partial(_itself, _runs[run_id]))


@contextmanager
def record(
    name: str,
    *,
    store: str | os.PathLike[str] | None = None,
    tags: Mapping[str, JSON] | None = None,
    metadata: Mapping[str, JSON] | None = None,
    session: str | None = None,
    user: str | None = None,
    sample: float | None = None,
    slow_s: float | None = None,
    content: Content | None = None,
    redact: Redact | None = None,
    payload_limit: int | None = None,
    durability: Durability | None = None,
    record_replies: str | os.PathLike[str] | None = None,
    replay: str | os.PathLike[str] | None = None,
) -> Iterator[Recording]:
    """Record every LangChain call made inside as one run, with or without a handler; a handler given too doubles nothing.

    The run is in the store when the block ends, also after an exception. What started inside and ends later still
    belongs to it. `tags`, `metadata`, `session` and `user` are kept with each of its traces; what a call's own config says
    wins. `sample` to `durability` are those of `AgentTraceHandler`.

    `record_replies` is a folder that gets what models reply, and holds no recording yet; `replay` the folder of a recording
    whose replies are given in place of models, which are not called.

    Raises:
        NoRecording, RecordingDamaged: the folder cannot be recorded into, or replayed from; nothing was run.
    """
    if durability is not None and survives_power_loss(durability):
        _writer(store_path(store)).survive_power_loss()
    policy = recording_policy(sample=sample, slow_s=slow_s, content=content, redact=redact, payload_limit=payload_limit)
    run = _new_run(policy, name, tags=tags or {}, metadata=metadata or {}, session=session, user=user)
    # What the run says of itself waits for the first step: the handler that records it may withhold more than is known now.
    _untold[run.run_id] = _writer(store_path(store))
    first = replace(run, tags={}, metadata={}, session=None, user=None)
    with tape_in_place(record_replies, replay), _recording_into(run, first, store, policy) as recording:
        yield recording


@contextmanager
def tape_in_place(
    recorded: str | os.PathLike[str] | None,
    replayed: str | os.PathLike[str] | None,
    *,
    runs: Sequence[str] = (),
    everywhere: bool = False,
) -> Iterator[RecordingTape | ReplayTape | None]:
    """Have what models reply recorded, or replayed: in this context, or everywhere in the process. `runs`: what it is for."""
    if recorded is None and replayed is None:
        yield None
        return
    from agenttrace.langchain.replay import in_place
    from agenttrace.replay.tapes import new_tape

    tape = new_tape(recorded, replayed, runs, _content_policy)
    try:
        with in_place(tape, _steps, everywhere=everywhere):
            yield tape
    finally:
        tape.close()


def _content_policy(run_id: str | None) -> ContentPolicy:
    return (recording_policy() if run_id is None else _policies.get(run_id, DEFAULT)).content


@contextmanager
def record_run(
    run: RunRecord, store: str | os.PathLike[str] | None = None, *, policy: RecordingPolicy | None = None
) -> Iterator[Recording]:
    """Record into a run that its caller has made, which may be one that an earlier process began.

    Without a policy the environment's holds, but for sampling: whoever judges attempts wants each of them.
    """
    with _recording_into(run, run, store, recording_policy(sample=1.0) if policy is None else policy) as recording:
        yield recording


@contextmanager
def _recording_into(
    run: RunRecord, first: RunRecord, store: str | os.PathLike[str] | None, policy: RecordingPolicy
) -> Iterator[Recording]:
    """`first`: what is written of the run before anything of it is."""
    _remember_run(run, policy)
    recording = Recording(run.run_id, run.name, store_path(store))
    writer = _writer(recording.store)
    if survives_power_loss(None):
        writer.survive_power_loss()
    writer.put(partial(_itself, first))
    register_hook(_hooked_handler)
    recording_token = _recording.set(recording)
    hook_token = _hook.set(_hook.get() or AgentTraceHandler(sample=1.0, content="full"))
    try:
        yield recording
    finally:
        _hook.reset(hook_token)
        _recording.reset(recording_token)
        _untold.pop(run.run_id, None)
        ended = _runs[run.run_id] = replace(_runs.get(run.run_id, run), end_ns=clock.wall_ns())
        writer.put(partial(_ended, ended))
        writer.flush()


def install(
    store: str | os.PathLike[str] | None = None,
    *,
    sample: float | None = None,
    slow_s: float | None = None,
    content: Content | None = None,
    redact: Redact | None = None,
    payload_limit: int | None = None,
    durability: Durability | None = None,
) -> AgentTraceHandler:
    """Record every LangChain run of this process from now on, without touching the code that makes them."""
    handler = AgentTraceHandler(
        store,
        sample=sample,
        slow_s=slow_s,
        content=content,
        redact=redact,
        payload_limit=payload_limit,
        durability=durability,
    )
    _installed[:] = [handler]
    register_hook(_hooked_handler)
    return handler


def trace_of(langchain_run: UUID) -> str | None:
    """The id of the trace that a LangChain run's step began or joined; None where it is not, or no longer, known."""
    step = _steps.known(langchain_run)
    return None if step is None else f"{step.trace_id:032x}"


def trace_embeddings(model: EmbeddingModel) -> EmbeddingModel:
    """The embedding model with each of its calls recorded, where LangChain would tell nobody.

    It records where a handler given to a chain would: into the surrounding `record()`, else where `install()` says, else
    into the default store; inside a step it is that step's child.
    """
    from agenttrace.langchain.embeddings import TracedEmbeddings

    own = AgentTraceHandler()
    return TracedEmbeddings(model, lambda: _hooked_handler() or own)


def flush(timeout_s: float = 5.0) -> None:
    """Wait until what was observed so far is in the journals."""
    for writer in list(_writers.values()):
        writer.flush(timeout_s)


def _hooked_handler() -> CallbackHandler | None:
    """The handler for a run that starts here: that of the surrounding `record()`, else the installed one."""
    return _hook.get() or (_installed[0] if _installed else None)


def _writer(store: Path) -> Writer:
    writer = _writers.get(store)
    if writer is None:
        with _writers_lock:
            writer = _writers.get(store)
            if writer is None:
                writer = Writer(Layout(store), _runs, _policies)
                if os.environ.get(OTLP_ENDPOINT):
                    _follow_environment(writer)
                _writers[store] = writer
                atexit.register(writer.close)
    return writer


def _follow(writer: Writer, export: str) -> None:
    """Send what the writer records on to a destination, by its name or its address."""
    from agenttrace.export.destinations import KINDS, destination
    from agenttrace.export.live import LiveExport

    kind = next((kind for kind in KINDS if kind == export), None)
    place = destination(kind) if kind else destination("otlp", endpoint=export)
    writer.add_follower(LiveExport(place, lambda confirmed: writer.put(lambda: confirmed)))


def _follow_environment(writer: Writer) -> None:
    """As the environment asks. A wrong variable must not keep an agent from running."""
    try:
        _follow(writer, "otlp")
    except AgentTraceError as error:
        logging.getLogger("agenttrace").warning("agenttrace sends nothing on: %s", error)


def _new_run(policy: RecordingPolicy, name: str, **fields: Any) -> RunRecord:
    run = RunRecord(run_id=secrets.token_hex(8), name=name, start_ns=clock.wall_ns(), process=process_name(), **fields)
    _remember_run(run, policy)
    return run


def _remember_run(run: RunRecord, policy: RecordingPolicy) -> None:
    if policy != DEFAULT:
        _policies[run.run_id] = policy
    _runs[run.run_id] = run
    if len(_runs) > REMEMBERED_RUNS:
        forgotten, _ = _runs.popitem(last=False)
        _policies.pop(forgotten, None)


def _unnamed_run(policy: RecordingPolicy) -> str:
    """The run of a process that records without `record()`, named after its script; one for each policy."""
    if policy not in _process_runs:
        script = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c", "-m") else ""
        if not _process_runs and not _tightened_runs:
            atexit.register(
                _end_process_runs
            )  # after the writers' own exit handlers were registered, so before they run
        _process_runs[policy] = _new_run(policy, (_process_run_name or [script])[0] or "python").run_id
    return _process_runs[policy]


def name_process_run(name: str) -> None:
    """The name that this process's unnamed run will get, in place of its script's."""
    _process_run_name[:] = [name]


def recorded_runs() -> dict[Path, tuple[str, ...]]:
    """By store, the ids of the runs that this process has recorded into it, oldest first."""
    return {store: tuple(run for run in _runs if writer.knows(run)) for store, writer in _writers.items()}


def lost() -> int:
    """How many records this process could not keep."""
    return sum(writer.dropped for writer in _writers.values())


def _end_process_runs() -> None:
    flush()
    for run_id in (*_process_runs.values(), *_tightened_runs):
        ended = _runs[run_id] = replace(_runs[run_id], end_ns=clock.wall_ns())
        for writer in _writers.values():
            if writer.knows(run_id):
                writer.put(partial(_ended, ended))


def _forget_process_runs() -> None:
    _process_runs.clear()
    _tightened_runs.clear()


def _itself(run: RunRecord) -> RunRecord:
    """A run as a fact: the writer takes what builds a record."""
    return run


def _ended(run: RunRecord) -> RunRecord:
    """A run at its end, with what held for it as a whole. On the writer's thread: it asks git, and reads what is installed."""
    if any(key in run.metadata for key in OF_THE_RUN):
        return run
    return replace(run, metadata={**run.metadata, PROVENANCE: provenance(Path())})


if hasattr(os, "register_at_fork"):
    # A child is a run of its own, except under `agenttrace run`, where the program is the run.
    os.register_at_fork(after_in_child=lambda: None if _process_run_name else _forget_process_runs())
