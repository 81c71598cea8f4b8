"""A real transformers model in this process: no queue, no network, and the time to the first token is the prefill."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenttrace import AgentTraceHandler, open_store
from agenttrace.recording import flush
from agenttrace.records import SpanRecord
from tests.conftest import require

NEW_TOKENS = 24


@pytest.fixture(scope="module")
def engine() -> Any:
    """A pipeline on a model of two layers with random weights, and a tokenizer trained on one line."""
    for package in ("torch", "transformers", "langchain_huggingface"):
        require(importlib.util.find_spec(package) is not None, f"{package} ('make engines' installs it)")
    # Loaded by name: these packages may be missing, and what the type checker says must not depend on that.
    tokenizers, transformers = (importlib.import_module(name) for name in ("tokenizers", "transformers"))
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    trained.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>", "<eos>"])
    trained.train_from_iterator(["hello you there, how are you today"], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained, eos_token="<eos>", unk_token="<unk>", pad_token="<eos>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    end = tokenizer.eos_token_id
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_layer=2, n_head=2, n_embd=64, n_positions=512, eos_token_id=end, bos_token_id=end
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    generate = transformers.pipeline(
        "text-generation", model=model, tokenizer=tokenizer, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS,
        do_sample=False,
    )  # fmt: skip
    return importlib.import_module("langchain_huggingface").HuggingFacePipeline(pipeline=generate, model_id="tiny")


def recorded(ask: Callable[[dict[str, Any]], object]) -> SpanRecord:
    ask({"callbacks": [AgentTraceHandler()]})
    flush()
    [span] = [span for span in open_store().trace("last") if span.kind == "model"]
    return span


def seconds(span: SpanRecord) -> dict[str, int]:
    return {phase.name: phase.ns for phase in span.phases if phase.ns is not None and phase.included_in is None}


def sources(span: SpanRecord) -> dict[str, str]:
    return {phase.name: phase.source for phase in span.phases}


def test_the_time_to_the_first_token_is_prefill(store: Path, engine: Any) -> None:
    """Streamed: prefill until the first token, decode to the last, and together with the rest the whole call."""
    read: list[str] = []
    span = recorded(lambda config: read.extend(engine.stream("hello", config=config)))
    assert span.marks is not None
    assert seconds(span)["prefill"] == span.marks.first_token_ns
    assert seconds(span)["decode"] > 0
    assert sum(seconds(span).values()) == span.duration_ns
    assert {sources(span)[name] for name in ("queue", "connect", "delivery", "retry_backoff")} == {"not-applicable"}
    assert span.marks.chunks == sum(1 for text in read if text)  # an engine holds a word back until it is whole


def test_without_a_stream_only_the_sum_is_known(store: Path, engine: Any) -> None:
    """Nobody saw the first token: prefill and decode are one entry, and still no queue."""
    span = recorded(lambda config: engine.invoke("hello", config=config))
    assert seconds(span) == {"prefill_plus_decode": span.duration_ns}
    assert sources(span)["queue"] == "not-applicable"


def test_a_chat_model_on_a_local_pipeline_is_local(store: Path, engine: Any) -> None:
    """ChatHuggingFace serves endpoints and pipelines alike: what it holds decides."""
    huggingface = importlib.import_module("langchain_huggingface")
    chat = huggingface.ChatHuggingFace(llm=engine, tokenizer=engine.pipeline.tokenizer, model_id="tiny")
    span = recorded(lambda config: chat.invoke("hello", config=config))
    assert sources(span)["queue"] == "not-applicable"
    assert sum(seconds(span).values()) == span.duration_ns


def test_a_pipelines_settings_are_not_taken_for_unset(store: Path, engine: Any) -> None:
    """The pipeline samples as it was built to: what the call does not say is unknown, not unset."""
    span = recorded(lambda config: engine.invoke("hello", config=config))
    assert "sampling.temperature" not in span.settings
