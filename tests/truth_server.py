"""A model server on loopback that really waits, prefills and decodes, and writes down what it took; its reports may lie."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.model_server import Exchange, Reply

Report = Callable[["Truth"], dict[str, Any]]


@dataclass
class Truth:
    """What one request really took at the server, in nanoseconds."""

    queue: int = 0
    prefill: int = 0
    decode: int = 0
    user: str = ""
    """What the request named itself."""


def llama_cpp(truth: Truth) -> dict[str, Any]:
    return {"timings": {"prompt_n": 5, "cache_n": 0, "prompt_ms": truth.prefill / 1e6, "predicted_n": 4,
                        "predicted_ms": truth.decode / 1e6}}  # fmt: skip


def vllm(truth: Truth) -> dict[str, Any]:
    return {
        "metrics": {
            "queue_time_ms": truth.queue / 1e6,
            "time_to_first_token_ms": truth.prefill / 1e6,
            "generation_time_ms": truth.decode / 1e6,
        }
    }


def groq(truth: Truth) -> dict[str, Any]:
    usage = {"prompt_tokens": 5, "completion_tokens": 4, "queue_time": truth.queue / 1e9, "prompt_time": truth.prefill / 1e9,
             "completion_time": truth.decode / 1e9, "total_time": (truth.prefill + truth.decode) / 1e9}  # fmt: skip
    return {"usage": usage, "x_groq": {"id": "r", "usage": usage}}


def nothing(truth: Truth) -> dict[str, Any]:
    return {}


def wrong_unit(truth: Truth) -> dict[str, Any]:
    """Microseconds where milliseconds are meant."""
    return {
        "timings": {
            "prompt_n": 5,
            "prompt_ms": truth.prefill / 1e3,
            "predicted_n": 4,
            "predicted_ms": truth.decode / 1e3,
        }
    }


def timed(
    truths: list[Truth], report: Report, *, drop: bool = False, packed: bool = False, stall_s: float = 0.0
) -> Reply:
    """Answer like a model server: wait, prefill, then four tokens in two bursts, then the report.

    `drop` hangs up after the first burst, `stall_s` stands still after each burst, `packed` packs a body that is no stream.
    """

    def answer(exchange: Exchange) -> None:
        scale = float(exchange.body.get("seed") or 1)
        start = time.perf_counter_ns()
        time.sleep(0.02 * scale)
        begun = time.perf_counter_ns()
        time.sleep(0.03)
        first = time.perf_counter_ns()
        truth = Truth(queue=begun - start, prefill=first - begun, user=str(exchange.body.get("user")))
        truths.append(truth)
        if not exchange.body.get("stream"):
            time.sleep(0.04)
            truth.decode = time.perf_counter_ns() - first
            message = {"role": "assistant", "content": "one two three four"}
            document = {
                "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                **report(truth),
            }
            exchange.send(document, packed=packed)
            return
        exchange.begin_stream()
        exchange.part(b": keep-alive\n\n")
        exchange.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for burst in ("one two ", "three four"):
            for word in burst.split():
                exchange.event({"choices": [{"index": 0, "delta": {"content": word}}]})
            truth.decode = time.perf_counter_ns() - first
            if drop:
                exchange.close_connection = True
                return
            time.sleep(0.02)
            time.sleep(stall_s)
        exchange.event({"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **report(truth)})
        exchange.event(b"[DONE]")
        exchange.end_stream()

    return answer
