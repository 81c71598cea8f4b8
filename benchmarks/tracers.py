"""The agent that is traced, and how each tracer is switched on: all of them record messages, tools and outputs, and export
to nothing. Also run as a program, in a process of its own, to measure one tracer on one piece of work.

    python -m benchmarks.tracers TRACER TURNS REPETITIONS
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

OURS = ("untraced", "empty handler", "agenttrace")
PEERS = ("OpenInference", "Langfuse", "OpenLLMetry", "genai-langchain")

SYSTEM, ANSWER = "Answer with what you look up.", "That is the answer."
LONG, SHORT = 2_000, 40
"""Bytes of a tool's result."""

exported: list[Any] | None = None
"""What exporters were given, while somebody wants to see it."""


def build_agent(turns: int) -> Callable[[dict[str, Any]], None]:
    """An agent that calls its tool `turns` times and then answers. Returns one whole invocation."""
    from langchain.agents import create_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool

    result_bytes = SHORT if turns <= 2 else LONG

    @tool
    def look_up(key: str) -> str:
        """Look something up."""
        return (key + " ") * (result_bytes // (len(key) + 1))

    class Model(BaseChatModel):
        model_name: str = "bench-1"

        @property
        def _llm_type(self) -> str:
            return "bench"

        @property
        def _identifying_params(self) -> dict[str, Any]:
            # genai-langchain skips a model without a name.
            return {"model_name": self.model_name}

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self.bind(tools=[{"type": "function", "function": {"name": each.name}} for each in tools], **kwargs)

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
            done = sum(message.type == "tool" for message in messages)
            reply = AIMessage(ANSWER)
            if done < turns:
                calls = [{"id": f"call-{done}", "name": "look_up", "args": {"key": f"key {done}"}}]
                reply = AIMessage(f"step {done}", tool_calls=calls)
            reply.usage_metadata = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
            return ChatResult(generations=[ChatGeneration(message=reply)])

    agent: Any = create_agent(Model(), [look_up], system_prompt=SYSTEM)

    def invoke(config: dict[str, Any]) -> None:
        agent.invoke({"messages": [HumanMessage("Go.")]}, config={**config, "recursion_limit": 10_000})

    return invoke


def start(tracer: str) -> tuple[dict[str, Any], Callable[[], None]]:
    """Switch a tracer on. Returns the config it wants and what waits until it has done its work."""
    if tracer == "untraced":
        return {}, lambda: None
    if tracer == "empty handler":
        from langchain_core.callbacks import BaseCallbackHandler

        class Empty(BaseCallbackHandler):
            run_inline = True

            def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
                """Without it LangChain writes the whole conversation into one text for `on_llm_start`."""

        return {"callbacks": [Empty()]}, lambda: None
    if tracer == "agenttrace":
        from agenttrace import AgentTraceHandler
        from agenttrace.recording import flush

        return {"callbacks": [AgentTraceHandler()]}, lambda: flush(60)
    return _start_peer(tracer)


def _start_peer(tracer: str) -> tuple[dict[str, Any], Callable[[], None]]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    class Nothing(SpanExporter):
        def export(self, spans: Sequence[Any]) -> SpanExportResult:
            if exported is not None:
                exported.extend(spans)
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    if tracer == "Langfuse":
        from langfuse import Langfuse
        from langfuse.langchain import CallbackHandler

        client = Langfuse(public_key="pk", secret_key="sk", base_url="http://127.0.0.1:9",
                          tracer_provider=provider, span_exporter=Nothing())  # fmt: skip
        return {"callbacks": [CallbackHandler(public_key="pk")]}, client.flush
    provider.add_span_processor(SimpleSpanProcessor(Nothing()))
    if tracer == "OpenInference":
        from openinference.instrumentation.langchain import LangChainInstrumentor

        LangChainInstrumentor().instrument(tracer_provider=provider)
    elif tracer == "OpenLLMetry":
        from opentelemetry.instrumentation.langchain import LangchainInstrumentor

        LangchainInstrumentor().instrument(tracer_provider=provider)
    elif tracer == "genai-langchain":
        os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
        os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
        from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor as GenAI

        GenAI().instrument(tracer_provider=provider)
    return {}, lambda: None


def measure(tracer: str, turns: int, repetitions: int) -> dict[str, Any]:
    """What one run of the agent takes under a tracer, and what of it the tracer recorded."""
    global exported
    few = min(turns, 5)
    invoke, invoke_few = build_agent(turns), build_agent(few)
    config, finish = start(tracer)
    for _ in range(3):  # what is imported and compiled once
        invoke_few(config)
    finish()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(repetitions):
        invoke(config)
    finish()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    found: dict[str, Any] = {"cpu_ms": cpu / repetitions * 1e3, "wall_ms": wall / repetitions * 1e3}
    if tracer in PEERS:
        exported = []
        invoke_few(config)
        finish()
        text = " ".join(str(dict(span.attributes or {})) for span in exported)
        # Looked at in a short run: the long one's attributes take many megabytes.
        found |= {"spans": len(exported) if few == turns else None, "missing": _missing(text, few)}
    elif tracer == "agenttrace":
        found |= _journalled(turns)
    return found


def _missing(text: str, turns: int) -> list[str]:
    wanted = {
        "system message": SYSTEM, "answer": ANSWER, "tool call": f"call-{turns - 1}", "tool result": f"key {turns - 1} key"
    }  # fmt: skip
    return [name for name, words in wanted.items() if words not in text]


def _journalled(turns: int) -> dict[str, Any]:
    """What the last run left in the journal, and all contents and links: later runs find what was written already."""
    lines = [
        line
        for segment in sorted((Path(os.environ["AGENTTRACE_STORE"]) / "journal").glob("*.ndjson"))
        for line in segment.read_bytes().splitlines(keepends=True)
    ]
    rows = [json.loads(line) for line in lines]
    last = [row["trace_id"] for row in rows if row["r"] == "spans"][-1]
    mine = [row.get("trace_id") in (None, last) for row in rows]
    contents = sum(len(json.dumps(row["body"], ensure_ascii=False)) for row in rows if row["r"] == "contents")
    return {
        "spans": sum(row["r"] == "spans" and row["trace_id"] == last for row in rows),
        "journal_bytes": sum(len(line) for line, is_mine in zip(lines, mine, strict=True) if is_mine),
        "content_bytes": contents,
        "missing": _missing(b"".join(lines).decode(), turns),
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
