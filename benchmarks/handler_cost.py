"""What tracing adds to an agent: CPU and wall time of agenttrace beside other tracers, on the same work, in one run.

    python benchmarks/handler_cost.py [--peers PYTHON] [--rounds N] [--json]

Each figure is the difference to the same agent untraced, measured in processes that alternate (A B A B …), as a median over
rounds. The others record the same messages, tools and outputs and export to nothing; agenttrace writes its journal. Peers live in
an environment of their own: `--peers` names its Python, which needs langchain and the tracers of `benchmarks/peers.txt`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OURS = ("untraced", "empty handler", "agenttrace")
PEERS = ("OpenInference", "Langfuse", "OpenLLMetry", "genai-langchain")
SCENARIOS = {
    "small": "2 model calls, 2 tool calls",
    "long80": "80 turns, 2 KB tool results",
    "long160": "160 turns, 2 KB tool results",
}


def build_agent(turns: int, result_bytes: int) -> Callable[[dict[str, Any]], None]:
    """An agent that calls its tool `turns` times and then answers. Returns one whole invocation."""
    from langchain.agents import create_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool

    @tool
    def look_up(key: str) -> str:
        """Look something up."""
        return (key + " ") * (result_bytes // (len(key) + 1))

    class Model(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "bench"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self.bind(tools=[{"type": "function", "function": {"name": each.name}} for each in tools], **kwargs)

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
            done = sum(message.type == "tool" for message in messages)
            reply = AIMessage("the answer")
            if done < turns:
                calls = [{"id": f"call-{done}", "name": "look_up", "args": {"key": f"key {done}"}}]
                reply = AIMessage(f"step {done}", tool_calls=calls)
            reply.usage_metadata = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
            return ChatResult(generations=[ChatGeneration(message=reply)])

    agent: Any = create_agent(Model(), [look_up], system_prompt="Answer with what you look up.")

    def invoke(config: dict[str, Any]) -> None:
        agent.invoke({"messages": [HumanMessage("Go.")]}, config={**config, "recursion_limit": 10_000})

    return invoke


def start(tracer: str) -> tuple[dict[str, Any], Callable[[], None]]:
    """Switch a tracer on. Returns the config it wants and what waits until it has done its work."""
    if tracer == "untraced":
        return {}, lambda: None
    if tracer == "empty handler":
        from langchain_core.callbacks import BaseCallbackHandler

        handler = BaseCallbackHandler()
        handler.run_inline = True
        return {"callbacks": [handler]}, lambda: None
    if tracer == "agenttrace":
        from agenttrace import AgentTraceHandler
        from agenttrace.recording import flush

        return {"callbacks": [AgentTraceHandler()]}, lambda: flush(60)
    return _start_peer(tracer)


def _start_peer(tracer: str) -> tuple[dict[str, Any], Callable[[], None]]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    class Nothing(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
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
    elif tracer == "Langfuse":
        from langfuse import Langfuse
        from langfuse.langchain import CallbackHandler

        Langfuse(
            public_key="pk",
            secret_key="sk",
            base_url="http://127.0.0.1:9",
            tracer_provider=provider,
            span_exporter=Nothing(),
        )
        return {"callbacks": [CallbackHandler(public_key="pk")]}, lambda: None
    return {}, lambda: None


def work(tracer: str, scenario: str) -> None:
    """In a process of its own: run the agent under one tracer and print what a run took."""
    turns, repetitions = (2, 60) if scenario == "small" else (int(scenario.removeprefix("long")), 2)
    invoke = build_agent(turns, 40 if scenario == "small" else 2_000)
    config, finish = start(tracer)
    for _ in range(3 if scenario == "small" else 1):
        invoke(config)
    finish()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(repetitions):
        invoke(config)
    finish()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    journal = Path(os.environ["AGENTTRACE_STORE"]) / "journal"
    size = sum(file.stat().st_size for file in journal.glob("*")) if journal.is_dir() else 0
    print(json.dumps({"cpu_ms": cpu / repetitions * 1e3, "wall_ms": wall / repetitions * 1e3, "journal": size}))


def measure(python: str, tracer: str, scenario: str) -> dict[str, float] | None:
    with tempfile.TemporaryDirectory() as store:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "AGENTTRACE_STORE": store,
            "LANGSMITH_TRACING": "false",
        }
        result = subprocess.run(
            [python, __file__, "--worker", tracer, "--scenario", scenario],
            capture_output=True, text=True, env=environment, check=False,
        )  # fmt: skip
    try:
        return dict(json.loads(result.stdout.splitlines()[-1]))
    except (IndexError, json.JSONDecodeError):
        print(f"{tracer} could not run: {(result.stderr.splitlines() or ['no output'])[-1]}", file=sys.stderr)
        return None


def compare(scenario: str, python: str, peers: bool, rounds: int) -> dict[str, dict[str, float]]:
    """Per tracer the median time added to a run, in milliseconds."""
    tracers = [*OURS, *(PEERS if peers else ())]
    samples: dict[str, list[dict[str, float]]] = {tracer: [] for tracer in tracers}
    for number in range(rounds):
        for tracer in tracers:
            found = measure(python, tracer, scenario)
            if found:
                samples[tracer].append(found)
        print(f"{scenario}: round {number + 1} of {rounds}", file=sys.stderr)
    base = {key: statistics.median(sample[key] for sample in samples["untraced"]) for key in ("cpu_ms", "wall_ms")}
    return {
        tracer: {key: statistics.median(sample[key] for sample in found) - base[key] for key in base}
        | {"base_cpu_ms": base["cpu_ms"], "journal": statistics.median(sample["journal"] for sample in found)}
        for tracer, found in samples.items()
        if found
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="PYTHON", help="the Python of an environment that has the other tracers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scenario", choices=SCENARIOS, action="append")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", metavar="TRACER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.scenario[0])
        return
    results = {
        scenario: compare(scenario, options.peers or sys.executable, bool(options.peers), options.rounds)
        for scenario in options.scenario or SCENARIOS
    }
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for scenario, tracers in results.items():
        ours = tracers["agenttrace"]["cpu_ms"]
        print(f"\n{SCENARIOS[scenario]}: untraced {tracers['untraced']['base_cpu_ms']:.1f} ms CPU a run")
        for tracer, added in tracers.items():
            ratio = f"agenttrace is {ours / added['cpu_ms']:.2f} of it" if added["cpu_ms"] > 0 else ""
            print(f"  {tracer:16} +{added['cpu_ms']:8.2f} ms CPU  +{added['wall_ms']:8.2f} ms wall   {ratio}")
        print(f"  journal: {tracers['agenttrace']['journal'] / 1e6:.2f} MB in all repetitions")


if __name__ == "__main__":
    main()
