"""Whose doing an exception is, with the exceptions that real libraries raise."""

from __future__ import annotations

import errno
from typing import Any

import anthropic
import httpx
import openai
import pytest
from langgraph.errors import GraphRecursionError

from agenttrace.comparison.evidence import Outcome
from agenttrace.evaluation.outcomes import may_be_retried, outcome_of

REQUEST: Any = httpx.Request("POST", "http://127.0.0.1/")


def answered(kind: Any, status: int, body: Any = None) -> Exception:
    error: Exception = kind("no", response=httpx.Response(status, request=REQUEST), body=body)
    return error


def raised_from(cause: Exception) -> Exception:
    error = ValueError("the tool failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "outcome", "again"),
    [
        (ValueError("bug"), "agent_error", False),
        (GraphRecursionError("25"), "limit", False),
        (openai.APIConnectionError(request=REQUEST), "infra_error", True),
        (openai.APITimeoutError(request=REQUEST), "infra_error", True),
        (answered(openai.RateLimitError, 429), "infra_error", True),
        (answered(openai.InternalServerError, 503), "infra_error", True),
        (answered(anthropic.APIStatusError, 529), "infra_error", True),
        (answered(openai.AuthenticationError, 401), "infra_error", False),
        (answered(openai.PermissionDeniedError, 403), "infra_error", False),
        (answered(openai.BadRequestError, 400), "agent_error", False),
        (answered(openai.BadRequestError, 400, {"code": "context_length_exceeded"}), "limit", False),
        (answered(openai.BadRequestError, 400, {"code": "content_filter"}), "refusal", False),
        (httpx.ReadError("cut"), "infra_error", True),
        (httpx.ReadTimeout("slow"), "infra_error", True),
        (ConnectionResetError(), "infra_error", True),
        (OSError(errno.ENOSPC, "full"), "infra_error", True),
        (FileNotFoundError("notes.txt"), "agent_error", False),
        (TimeoutError(), "timeout", False),
        (raised_from(httpx.ConnectError("refused")), "infra_error", True),
    ],
)
def test_exceptions_are_told_apart(error: Exception, outcome: Outcome, again: bool) -> None:
    """The agent's own, a limit's, a refusal, the infrastructure's; only the last are tried again, and not without permission."""
    assert (outcome_of(error), may_be_retried(error)) == (outcome, again)
