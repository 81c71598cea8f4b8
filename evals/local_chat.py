"""The local model as the suites use it: one server for a run, and chat models that speak to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient
from pydantic import SecretStr

from agenttrace.local_model import LocalModel, serve_local_model
from evals.prompts import load_prompt

SLOTS = 2
"""As many attempts at a time as the machine of CI has processors."""

_served: list[LocalModel] = []


@contextmanager
def local_model() -> Iterator[None]:
    """Serve the local model for as long as a suite runs."""
    with serve_local_model(threads=1, slots=SLOTS) as model:
        _served.append(model)
        try:
            yield
        finally:
            _served.clear()


def ask(label: str, *, max_tokens: int, **options: Any) -> Runnable[Any, str]:
    """The prompt of a label, the model, and its answer's text: one line of `max_tokens` at most."""
    [model] = _served
    chat = _chat(model.base_url, model.name).bind(max_completion_tokens=max_tokens, **options)
    chain = load_prompt(label) | chat | StrOutputParser()
    return chain.with_config(metadata={"prompt_label": label})


@cache
def _chat(base_url: str, model: str) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=base_url,
        model=model,
        api_key=SecretStr("not-needed"),
        temperature=0.0,
        max_retries=0,  # the suite's own retries are counted
        stop_sequences=["\n"],  # one line is an answer; the rest would be the model talking to itself
        # No proxy of the environment reaches this machine's loopback.
        http_client=DefaultHttpxClient(trust_env=False),
        http_async_client=DefaultAsyncHttpxClient(trust_env=False),
    )
