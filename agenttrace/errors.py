"""Every error a user can meet, each with the docs section that explains it and the exit code it ends a command with.

AgentTraceError
├── UsageError               exit 2   the command line or an argument is wrong
│   ├── ScriptNotFound
│   ├── UnknownDimension              `--changed` names no setting
│   ├── UnknownCallSite               `--changed` names a call site that neither run has
│   ├── UndeclarableDimension         `--changed` names what can never differ on purpose
│   ├── NothingToRestrict             `--restrict` names no value, or one that no call has
│   ├── UnknownMetric                 a metric that was to decide is in no run
│   ├── InvalidPolicy                 margins, alpha or another rule of comparing cannot be used
│   ├── InvalidConfiguration          `[tool.agenttrace]` of pyproject.toml is not right
│   ├── InvalidSuite                  a suite cannot be run as it is
│   ├── InvalidCases                  its cases cannot be used
│   ├── SuiteChanged                  it is another one than the run that is to be gone on with
│   └── InvalidRecord        exit 3   a line of an imported file cannot be read
├── NoModelCalls             exit 12  a run has nothing that could be compared
├── NotComparable            exit 11  two runs are not alike, where they must be
├── UnfitBaseline            exit 12  a run that cannot be judged cannot be accepted either
├── NoBaseline               exit 13  there is nothing to compare with
├── StoreError               exit 3
│   ├── StoreNotFound
│   ├── NotAStore
│   ├── NewerSchema
│   ├── StoreLocked
│   ├── StoreUnwritable
│   ├── TraceNotFound
│   ├── RunNotFound
│   ├── QueryFailed          exit 2   SQL that cannot be run, or may not
│   └── QueryStopped                  it took too long, or too much memory
├── LocalModelError          exit 3
│   ├── ModelNotHealthy
│   └── WeightsNotFound
├── ExportError              exit 3
│   ├── EndpointUnreachable
│   ├── EndpointRefused
│   ├── PhoenixNotHealthy
│   ├── PhoenixRunning
│   └── PhoenixIncomplete
├── EvaluationError          exit 3
│   ├── CasesUnreachable
│   └── RunUnderWay                   another process is at this run
├── ReplayError              exit 3
│   ├── NoRecording
│   ├── RecordingDamaged
│   ├── ReplayMiss                    what is asked of a model is not in the recording
│   └── NotReproducible               a recorded call or task cannot be made again
├── PortInUse                exit 3
└── MissingExtra             exit 3   an optional part is not installed

A message is one sentence that says what was found and one that says what to do.
"""

from __future__ import annotations

DISTRIBUTION = "agenttrace-lab"
"""The name to install; `agenttrace` on the package index is somebody else's (D14)."""


class AgentTraceError(Exception):
    """Base of all errors raised on purpose. `slug` names a section of docs/messages.md."""

    slug = "error"
    exit_code = 3


class UsageError(AgentTraceError):
    """What was asked cannot be done as it was asked."""

    slug = "usage"
    exit_code = 2


class ScriptNotFound(UsageError):
    """`agenttrace run` was given a file or module that is not there."""

    slug = "script-not-found"


class UnknownDimension(UsageError):
    """No setting has the name that was given."""

    slug = "unknown-dimension"


class UnknownCallSite(UsageError):
    """Neither run calls a model at the place that was named."""

    slug = "unknown-call-site"


class UndeclarableDimension(UsageError):
    """What was declared to differ decides what is measured, so it can never be what is tested."""

    slug = "undeclarable-dimension"


class NothingToRestrict(UsageError):
    """`--restrict` names a value that no call has, so there is nothing to keep."""

    slug = "nothing-to-restrict"


class UnknownMetric(UsageError):
    """No run has the metric that was named."""

    slug = "unknown-metric"


class InvalidPolicy(UsageError):
    """A rule of comparing (margin, alpha, minimum of cases) cannot be used."""

    slug = "invalid-policy"


class InvalidConfiguration(UsageError):
    """`[tool.agenttrace]` of pyproject.toml has a key or value that is not right; nothing was done."""

    slug = "invalid-configuration"


class InvalidSuite(UsageError):
    """A suite cannot be imported, or cannot be run as it is; nothing was run."""

    slug = "invalid-suite"


class InvalidCases(UsageError):
    """The cases of a suite cannot be used; nothing was run."""

    slug = "invalid-cases"


class SuiteChanged(UsageError):
    """The suite is not the one that began the run; nothing was run."""

    slug = "suite-changed"


class InvalidRecord(UsageError):
    """A line of an imported file is not a record; nothing was imported."""

    slug = "invalid-record"
    exit_code = 3


class NoModelCalls(AgentTraceError):
    """The run called no model and has no results, so there is nothing to compare."""

    slug = "no-model-calls"
    exit_code = 12


class NotComparable(AgentTraceError):
    """Two runs differ in what must be the same for what was asked."""

    slug = "settings-differ"
    exit_code = 11


class UnfitBaseline(AgentTraceError):
    """The run is unfinished, was not recorded whole, or judged nothing: it cannot be accepted."""

    slug = "invalid-run"
    exit_code = 12


class NoBaseline(AgentTraceError):
    """There is no such run to compare with."""

    slug = "no-baseline"
    exit_code = 13


class StoreError(AgentTraceError):
    """The store cannot be read or written."""

    slug = "store"


class StoreNotFound(StoreError):
    """There is no store where one was looked for."""

    slug = "store-not-found"


class NotAStore(StoreError):
    """The path holds something that is no store of ours, or a damaged one."""

    slug = "not-a-store"


class NewerSchema(StoreError):
    """The store was written by a newer release."""

    slug = "newer-schema"


class StoreLocked(StoreError):
    """Another program holds the database, and went on holding it for as long as we were ready to wait."""

    slug = "store-locked"


class StoreUnwritable(StoreError):
    """The store's folder cannot be created or written."""

    slug = "store-unwritable"


class TraceNotFound(StoreError):
    """No trace in the store has this id, or more than one begins with it."""

    slug = "trace-not-found"


class RunNotFound(StoreError):
    """No run in the store has this id or name."""

    slug = "run-not-found"


class QueryFailed(StoreError):
    """The database does not understand a query, or it is about more than reading the store."""

    slug = "query-failed"
    exit_code = 2


class QueryStopped(StoreError):
    """A query took longer, or more memory, than it was given."""

    slug = "query-stopped"


class LocalModelError(AgentTraceError):
    """The local model server cannot serve."""

    slug = "local-model"


class ModelNotHealthy(LocalModelError):
    """The local model server ended, or did not become healthy in time."""

    slug = "model-not-healthy"


class WeightsNotFound(LocalModelError):
    """The package that holds the local model's weights is not installed."""

    slug = "weights-not-found"


class ExportError(AgentTraceError):
    """Spans could not be brought to where they were to go; the store still has them."""

    slug = "export"


class EndpointUnreachable(ExportError):
    """Nobody takes spans at the endpoint, or nobody did for as long as we were ready to try."""

    slug = "endpoint-unreachable"

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """How long the endpoint asked to be left alone; zero where it did not ask."""


class EndpointRefused(ExportError):
    """The endpoint answered, and does not take these spans."""

    slug = "endpoint-refused"


class PhoenixNotHealthy(ExportError):
    """Phoenix ended, was not healthy in time, or does not answer as Phoenix does."""

    slug = "phoenix-not-healthy"


class PhoenixRunning(ExportError):
    """Phoenix shows this store already, started by another command."""

    slug = "phoenix-running"

    def __init__(self, address: str) -> None:
        super().__init__(
            f"Phoenix shows this store already, at {address}, started by another command. Open that, or stop it first."
        )
        self.address = address


class PhoenixIncomplete(ExportError):
    """Phoenix acknowledged spans and does not have them."""

    slug = "phoenix-incomplete"


class EvaluationError(AgentTraceError):
    """An evaluation cannot begin, or cannot go on."""

    slug = "evaluation"


class CasesUnreachable(EvaluationError):
    """The cases lie on a server that does not give them."""

    slug = "cases-unreachable"


class RunUnderWay(EvaluationError):
    """Another process is at the same run, or the same shard of it."""

    slug = "run-under-way"


class ReplayError(AgentTraceError):
    """Replies of models cannot be recorded, or not be replayed."""

    slug = "replay"


class NoRecording(ReplayError):
    """The folder holds no recording, or none of a kind that can be read; or it holds one where a new one was to be made."""

    slug = "no-recording"


class RecordingDamaged(ReplayError):
    """A line of a recording is not as it was written."""

    slug = "recording-damaged"


class ReplayMiss(ReplayError):
    """A model was asked what the recording has no reply to."""

    slug = "replay-miss"


class NotReproducible(ReplayError):
    """A recorded call or task cannot be made again from what its trace holds."""

    slug = "not-reproducible"


class PortInUse(AgentTraceError):
    """The port that was asked for is taken."""

    slug = "port-in-use"


class MissingExtra(AgentTraceError):
    """An optional part of the product is needed and not installed."""

    slug = "missing-extra"

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the extra '{extra}', which is not installed. "
            f"Install it: pip install '{DISTRIBUTION}[{extra}]'"
        )
