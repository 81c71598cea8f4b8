"""Whose doing an exception is: the agent's, the infrastructure's, or a limit's. By name, so that no SDK has to be loaded."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping

from agenttrace.comparison.evidence import Outcome
from agenttrace.errors import ReplayMiss

BY_NAME: Mapping[str, Outcome] = {
    # What ends an agent by a limit that it was given.
    "GraphRecursionError": "limit",
    "LengthFinishReasonError": "limit",
    "ContextOverflowError": "limit",
    "ModelCallLimitExceededError": "limit",
    "ToolCallLimitExceededError": "limit",
    # What a provider or model declines to do.
    "ContentFilterFinishReasonError": "refusal",
    "OpenAIRefusalError": "refusal",
    "ContentPolicyViolationError": "refusal",
    # What never reached a model, or never came back. A client's timeout of one request is the network's.
    "APIConnectionError": "infra_error",
    "APITimeoutError": "infra_error",
    "ServiceUnavailableError": "infra_error",
    "RateLimitError": "infra_error",
    "OverloadedError": "infra_error",
    "InternalServerError": "infra_error",
    "ResourceExhausted": "infra_error",
    "EndpointConnectionError": "infra_error",
    "ThrottlingException": "infra_error",
    "TransportError": "infra_error",
    "TimeoutException": "infra_error",
    "ConnectionError": "infra_error",
    "ReplayMiss": "infra_error",
    "ConnectTimeout": "infra_error",
    "ReadTimeout": "infra_error",
    "ClientConnectionError": "infra_error",
    "TimeoutError": "timeout",
}
"""By the name of an exception's class, or of one that it derives from; the nearest one decides."""

BY_STATUS: Mapping[int, Outcome] = {401: "infra_error", 403: "infra_error", 408: "infra_error", 429: "infra_error"}
"""By the status of a server's answer; 5xx are the infrastructure's too."""

BY_CODE: Mapping[str, Outcome] = {
    "context_length_exceeded": "limit",
    "content_filter": "refusal",
    "content_policy_violation": "refusal",
    "insufficient_quota": "infra_error",
}
"""By the code that a server gives for its refusal."""

HOPELESS = frozenset((401, 403))
"""Statuses that another attempt does not change."""

REFUSED = frozenset(("content_filter", "refusal", "SAFETY", "PROHIBITED_CONTENT"))
"""Finish reasons of a model that declined to answer."""

DISK = frozenset((errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EDQUOT))


def outcome_of(error: BaseException) -> Outcome:
    """How an attempt that ended with this exception counts. What nobody knows is the agent's own."""
    for cause in _causes(error):
        code = getattr(cause, "code", None)
        if isinstance(code, str) and code in BY_CODE:
            return BY_CODE[code]
        status = status_of(cause)
        if status is not None and (status in BY_STATUS or status >= 500):
            return "infra_error"
        if isinstance(cause, OSError) and cause.errno in DISK:
            return "infra_error"
        for kind in type(cause).__mro__:
            if kind.__name__ in BY_NAME:
                return BY_NAME[kind.__name__]
    return "agent_error"


def may_be_retried(error: BaseException) -> bool:
    """Whether another attempt may go better: the infrastructure failed, and not for want of permission or of a recorded reply."""
    return outcome_of(error) == "infra_error" and not any(_is_hopeless(cause) for cause in _causes(error))


def _is_hopeless(cause: BaseException) -> bool:
    return isinstance(cause, ReplayMiss) or status_of(cause) in HOPELESS


def status_of(error: BaseException) -> int | None:
    """The status of the answer that an exception tells of."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            status = getattr(holder, name, None)
            if isinstance(status, int) and 100 <= status < 600:
                return status
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, and what it was raised from on purpose."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__
