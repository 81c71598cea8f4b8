"""What is recorded and what is not: content, samples, payloads; by arguments and environment, for whole agents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from agenttrace import AgentTraceHandler, open_store, record
from agenttrace.errors import UsageError
from agenttrace.policy import RecordingPolicy, recording_policy
from agenttrace.recording import flush
from agenttrace.records import SpanRecord
from tests.langchain.models import FakeModel

QUESTION = "how deep is lake zurich"
ANSWER = "one hundred thirty six"
ARGUMENT = "bathymetry of zurich"
RESULT = "sounding says deep"


def ask_agent(handler: AgentTraceHandler | None = None) -> None:
    """A real agent: a model that calls a tool, and answers from its result."""
    from langchain.agents import create_agent

    @tool
    def look_up(query: str) -> str:
        """Look something up."""
        return RESULT

    call = AIMessage("", tool_calls=[{"id": "c1", "name": "look_up", "args": {"query": ARGUMENT}}])
    agent: Any = create_agent(FakeModel(replies=[call, ANSWER]), [look_up], system_prompt="You know lakes.")
    agent.invoke(
        {"messages": [("user", QUESTION)]},
        config={"callbacks": [] if handler is None else [handler], "configurable": {"thread_id": "t1"}},
    )


def written(store: Path) -> str:
    """Everything that is on disk: what the journals hold, before a database compresses it."""
    flush()
    return "".join(file.read_text(errors="replace") for file in store.rglob("*") if file.is_file())


WHERE = {"inputs": (), "prompts": (QUESTION, "You know lakes"), "arguments": (ARGUMENT,), "outputs": (ANSWER, RESULT)}


@pytest.mark.parametrize("keep", ["hashes", "off"])
@pytest.mark.parametrize("kind", ["prompts", "arguments", "outputs"])
def test_content_that_is_not_kept_is_nowhere(store: Path, kind: str, keep: Any) -> None:
    """A kind of content that is withheld is in no file of the store, wherever an agent repeats it; other kinds stay."""
    ask_agent(AgentTraceHandler(content={kind: keep}))
    text = written(store)
    for name, contents in WHERE.items():
        for content in contents:
            assert (content in text) == (name != kind), content


def test_everything_is_kept_by_default(store: Path) -> None:
    """Without a policy all content is there, and the run says nothing of one."""
    ask_agent(AgentTraceHandler())
    text = written(store)
    assert all(content in text for contents in WHERE.values() for content in contents)
    assert open_store().runs()[0].policy == {}


def test_all_content_off_leaves_times_and_structure(store: Path) -> None:
    """A trace without content still says which steps ran, how they ended and how long they took."""
    with record("quiet", content="off") as run:
        ask_agent()
    text = written(store)
    assert not any(content in text for contents in WHERE.values() for content in contents)
    spans = open_store().run_spans(run.run_id)
    assert {span.kind for span in spans} >= {"agent", "model", "tool"}
    assert all(span.state == "ok" and span.end_ns for span in spans)
    policy = open_store().run("quiet").policy
    assert policy["content"] == {"inputs": "off", "outputs": "off", "arguments": "off", "prompts": "off"}


def model_calls() -> list[SpanRecord]:
    return [
        span for trace in open_store().traces() for span in open_store().trace(trace.trace_id) if span.kind == "model"
    ]


def test_hashes_tell_the_same_prompt_from_another(store: Path) -> None:
    """Equal messages have equal hashes, others have others, and roles and lengths stay readable."""
    handler = AgentTraceHandler(content="hashes")
    for question in ("a", "a", "b"):
        FakeModel(replies=["x"]).invoke([("system", "Be brief."), ("user", question)], config={"callbacks": [handler]})
    flush()
    inputs: list[Any] = [call.input for call in model_calls()]
    assert inputs.count(inputs[0]) + inputs.count(inputs[1]) + inputs.count(inputs[2]) == 1 + 2 + 2
    assert [message["role"] for message in inputs[0]] == ["system", "user"]
    assert inputs[0][0]["content"]["length"] == len("Be brief.")
    assert len({str(call.settings["prompt.content"].value) for call in model_calls()}) == 1


def test_a_prompt_that_is_off_is_not_known_to_be_equal(store: Path) -> None:
    """What was not kept cannot match: its setting is unknown rather than the same."""
    FakeModel(replies=["x"]).invoke([("system", "Be brief.")], config={"callbacks": [AgentTraceHandler(content="off")]})
    flush()
    assert "prompt.content" not in model_calls()[0].settings


def test_what_an_error_says_is_an_output(store: Path) -> None:
    """An exception may repeat content: where outputs are withheld its type stays and its text does not."""
    with pytest.raises(ValueError, match="4711"):
        FakeModel(replies=[ValueError("account 4711")]).invoke(
            "x", config={"callbacks": [AgentTraceHandler(content={"outputs": "off"})]}
        )
    assert "4711" not in written(store)
    assert open_store().trace("last")[0].error is not None


def test_a_redaction_function_sees_every_text(store: Path) -> None:
    """Inputs, outputs, arguments, metadata, tags, session and user pass the function before they are written."""
    handler = AgentTraceHandler(redact=lambda text: text.replace("zurich", "[lake]").replace("deep", "[d]"))
    with record("zurich-run", metadata={"place": "zurich"}, tags={"lake": "zurich"}, user="zurich", session="zurich"):
        flush()  # the writer gets to the run before the handler that withholds is known
        ask_agent(handler)
    assert set(re.findall("zurich.{0,4}", written(store))) == {"zurich-run"}
    assert "how [d] is lake [lake]" in written(store)


def test_a_redaction_that_fails_withholds_and_is_counted(store: Path) -> None:
    """An error in the function never lets content through, and never reaches the agent."""

    def broken(text: str) -> str:
        raise RuntimeError(text)

    ask_agent(AgentTraceHandler(redact=broken))
    text = written(store)
    assert not any(content in text for contents in WHERE.values() for content in contents)
    [counters] = open_store().counters()
    assert counters.capture_errors > 0


def test_a_redaction_that_returns_no_text_withholds(store: Path) -> None:
    """A function that forgets to return lets nothing through."""
    ask_agent(AgentTraceHandler(redact=lambda text: None))  # type: ignore[arg-type, return-value]  # the mistake
    assert QUESTION not in written(store)


def test_a_long_text_is_cut_and_says_so(store: Path) -> None:
    """A cut text has its beginning, its whole length and a hash; equal texts have equal hashes."""
    handler = AgentTraceHandler(payload_limit=10)
    for letter in "aab":
        FakeModel(replies=["ok"]).invoke(letter * 50, config={"callbacks": [handler]})
    flush()
    contents: list[Any] = [call.input[0]["content"] for call in model_calls()]  # type: ignore[index, call-overload]  # JSON
    assert sorted((content["cut"], content["length"]) for content in contents) == [
        ("a" * 10, 50), ("a" * 10, 50), ("b" * 10, 50),
    ]  # fmt: skip
    assert len({content["hash"] for content in contents}) == 2
    assert open_store().runs()[0].policy["payload_limit"] == 10


def test_a_cut_leaves_no_half_of_a_key(store: Path) -> None:
    """A secret is taken out before the text is cut: half of it would no longer be known for one."""
    FakeModel(replies=["ok"]).invoke(
        "key sk-abcdefghijklmnopqrstuvwxyz", config={"callbacks": [AgentTraceHandler(payload_limit=20)]}
    )
    assert "sk-abcdefghij" not in written(store)


def test_the_stricter_of_two_policies_holds(store: Path, tmp_path: Path) -> None:
    """A handler that keeps less, given inside `record()` or beside another store's handler, is obeyed by all."""
    with record("open"):
        ask_agent(AgentTraceHandler(content="off"))
    assert QUESTION not in written(store)
    other = tmp_path / "other"
    full, strict = AgentTraceHandler(), AgentTraceHandler(store=other, content="off")
    FakeModel(replies=["ok"]).invoke(QUESTION, config={"callbacks": [full, strict]})
    assert QUESTION not in written(other)


def test_a_bare_policy_is_a_run_of_its_own(store: Path) -> None:
    """Two handlers with different policies do not share the process's unnamed run: a run has one policy."""
    for handler in (AgentTraceHandler(), AgentTraceHandler(content="off")):
        FakeModel(replies=["ok"]).invoke("x", config={"callbacks": [handler]})
    flush()
    assert sorted(bool(run.policy) for run in open_store().runs()) == [False, True]


def test_the_environment_says_it_too(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every setting has a variable, and an argument wins over it."""
    monkeypatch.setenv("AGENTTRACE_CONTENT", "prompts=hashes, arguments=off")
    monkeypatch.setenv("AGENTTRACE_SAMPLE", "0.25")
    monkeypatch.setenv("AGENTTRACE_SLOW_S", "3")
    monkeypatch.setenv("AGENTTRACE_PAYLOAD_LIMIT", "100")
    monkeypatch.setenv("AGENTTRACE_REDACT", "os.path:basename")
    policy = recording_policy(slow_s=4)
    assert (policy.content.prompts, policy.content.arguments, policy.content.outputs) == ("hashes", "off", "full")
    assert (policy.sample, policy.slow_s, policy.content.limit) == (0.25, 4, 100)
    assert policy.content.redact is not None
    assert policy.content.redact("a/b") == "b"


@pytest.mark.parametrize(
    "wrong",
    [{"sample": 2}, {"sample": "all"}, {"content": "some"}, {"content": {"answers": "off"}}, {"payload_limit": -1},
     {"slow_s": True}, {"redact": "name"}],
)  # fmt: skip
def test_a_policy_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    """A policy that was misunderstood would keep what must not be kept: it is an error where it is given."""
    with pytest.raises(UsageError):
        AgentTraceHandler(**wrong)


def test_no_policy_is_the_default() -> None:
    """Nothing given is everything kept, and costs no filter."""
    assert recording_policy() == RecordingPolicy()
