"""Which recorded reply answers a request; what is said where none does; what a recording may hold."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI

from agenttrace import AgentTraceHandler, open_store, record
from agenttrace.errors import NoRecording, RecordingDamaged, ReplayMiss, UsageError
from agenttrace.replay.folder import ReplyFile
from tests.langchain.models import FakeModel


@pytest.fixture
def folder(store: Path, tmp_path: Path) -> Path:
    return tmp_path / "recording"


class Counting(BaseChatModel):
    """Says which call this is, as a model with a temperature may."""

    said: int = 0
    temperature: float = 0.7

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        self.said += 1
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"{messages[-1].content} {self.said}"))])


class Silent(Counting):
    """The same class by name, and nobody is there."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        raise AssertionError("a replayed model was called")


Silent.__name__ = "Counting"


def asks(model: BaseChatModel, name: str) -> RunnableLambda[Any, Any]:
    """A step of its own around a model."""

    def ask(text: Any) -> Any:
        return model.invoke(text)

    return RunnableLambda(ask, name=name)


def text_of(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("*.jsonl"))


def test_repetitions_of_a_request_get_their_own_replies(folder: Path) -> None:
    """The first time the first reply, the second time the second; one time more is a miss that says so."""
    with record("live", record_replies=folder):
        model = Counting()
        live = [model.invoke("a").content for _ in range(3)]
    with record("again", replay=folder):
        assert [Silent().invoke("a").content for _ in range(3)] == live == ["a 1", "a 2", "a 3"]
        with pytest.raises(ReplayMiss, match="has this request 3 times, and it is asked once more"):
            Silent().invoke("a")


class Delegating(Counting):
    """Asks the model that it holds by its method, everything named, as some integrations do."""

    held: BaseChatModel

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return self.held._generate(messages=messages, stop=stop, run_manager=run_manager, **kwargs)


def test_a_model_that_delegates_by_name_is_recorded_once_and_replayed(folder: Path) -> None:
    """The outermost model's reply is the one kept; a wrapped method takes its arguments however they are named."""
    with record("live", record_replies=folder):
        assert Delegating(held=Counting()).invoke("a").content == "a 1"
    assert Counting()._generate(messages=[HumanMessage("b")]).generations[0].message.content == "b 1"
    with record("again", replay=folder):
        assert Delegating(held=Silent()).invoke("a").content == "a 1"


def test_call_sites_do_not_share_replies(folder: Path) -> None:
    """The same request elsewhere in the agent is another one."""

    def chains(model: BaseChatModel) -> tuple[Any, Any]:
        return asks(model, "planner"), asks(model, "writer")

    with record("live", record_replies=folder):
        planner, writer = chains(Counting())
        assert (planner.invoke("a").content, writer.invoke("a").content) == ("a 1", "a 2")
    with record("again", replay=folder):
        planner, writer = chains(Silent())
        assert (writer.invoke("a").content, planner.invoke("a").content) == ("a 2", "a 1")
        with pytest.raises(ReplayMiss, match="at critic") as caught:
            asks(Silent(), "critic").invoke("a")
    assert "call site: recorded 'planner', asked 'critic'" in str(caught.value)


def test_parallel_calls_with_one_request_get_its_replies_in_order(folder: Path) -> None:
    """A sample of several replies to one prompt is the same sample again."""
    with record("live", record_replies=folder):
        live = [message.content for message in Counting().batch(["a"] * 8)]
    with record("again", replay=folder):
        again = [message.content for message in Silent().batch(["a"] * 8)]
    assert sorted(live) == sorted(again) == [f"a {number}" for number in range(1, 9)]


def test_a_miss_shows_the_nearest_request_and_what_differs(folder: Path) -> None:
    """The difference is told by its place: which message, which parameter."""
    long = "Answer in one word. " * 40
    with record("live", record_replies=folder):
        Counting().invoke([SystemMessage(long + "Be kind."), HumanMessage("Capital of Peru?")])
        Counting().invoke("something else")
    with record("again", replay=folder):
        with pytest.raises(ReplayMiss) as caught:
            Silent().invoke([SystemMessage(long + "Be brief."), HumanMessage("Capital of Peru?")])
        assert "message 1 of 2 (system), content: recorded '…" in str(caught.value)
        assert "Be kind.'" in str(caught.value)
        assert "Be brief.'" in str(caught.value)
        with pytest.raises(ReplayMiss, match=r"temperature: recorded 0\.7, asked 0\.2"):
            Silent(temperature=0.2).invoke([SystemMessage(long + "Be kind."), HumanMessage("Capital of Peru?")])
        with pytest.raises(ReplayMiss, match=r"tools: only asked, \[{"):
            Silent().bind(tools=[{"name": "add"}]).invoke("something else")
        with pytest.raises(ReplayMiss, match="messages: recorded 2, asked 3; the first that is only asked"):
            Silent().invoke([SystemMessage(long + "Be kind."), HumanMessage("Capital of Peru?"), HumanMessage("?")])


def test_how_a_request_travels_does_not_matter(folder: Path) -> None:
    """Another port, key or timeout asks for the same; a message's own id is no part of it."""

    def model(port: int, key: str, timeout: float) -> ChatOpenAI:
        return ChatOpenAI(model="m", base_url=f"http://127.0.0.1:{port}/v1", api_key=key, timeout=timeout)  # type: ignore[arg-type]  # a text will do

    from tests.model_server import chat_completion, serve

    with serve(chat_completion) as server, record("live", record_replies=folder):
        model(server.server_address[1], "one", 5).invoke([HumanMessage("a", id="1")])
    with record("again", replay=folder):
        assert model(9, "another", 60).invoke([HumanMessage("a", id="2")]).content == "hello you there"


def test_a_stream_also_answers_as_a_whole_and_not_the_other_way(folder: Path) -> None:
    """Chunks can be put together; where a whole reply would have been cut nobody knows."""
    with record("live", record_replies=folder):
        list(FakeModel(replies=["one two"]).stream("a"))
        FakeModel(replies=["whole"]).invoke("b")
    with record("again", replay=folder):
        assert FakeModel(replies=["no"]).invoke("a").content == "onetwo"
        with pytest.raises(ReplayMiss, match="recorded as a whole reply, and is asked for as a stream"):
            list(FakeModel(replies=["no"]).stream("b"))


def test_a_stream_that_was_left_ends_where_it_was_left(folder: Path) -> None:
    """Who stops at the same place gets the same; who reads on is told."""
    with record("live", record_replies=folder):
        for chunk in FakeModel(replies=["one two three"]).stream("a"):
            if chunk.content == "two":
                break
        del chunk
        gc.collect()
    with record("again", replay=folder):
        stream = FakeModel(replies=["no"]).stream("a")
        assert [next(stream).content for _ in range(3)] == ["", "one", "two"]
        with pytest.raises(ReplayMiss, match="ends after 3 chunks: its reader left it there"):
            next(stream)


def test_a_cancelled_call_is_not_kept(folder: Path) -> None:
    """It had no reply; the next one to the same request is the first."""

    class Slow(Counting):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
            if not self.said:
                self.said += 1
                await asyncio.sleep(60)
            return self._generate(*args, **kwargs)

    async def ask() -> str:
        model = Slow()
        task = asyncio.create_task(model.ainvoke("a"))
        await asyncio.sleep(0)
        while not model.said:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return str((await model.ainvoke("a")).content)

    with record("live", record_replies=folder):
        assert asyncio.run(ask()) == "a 2"
    Silent.__name__ = "Slow"
    try:
        with record("again", replay=folder):
            assert Silent().invoke("a").content == "a 2"
    finally:
        Silent.__name__ = "Counting"


SECRET = "sk-" + "a1B2c3D4" * 4


class Leaky(FakeModel):
    """Streams a secret in pieces, in its text and in the arguments of a tool call."""

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        for piece in ("key: ", SECRET[:9], SECRET[9:], " end"):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        for number, piece in enumerate(('{"api_key": "zeb', 'ra7zebra77"}')):
            call: Any = {"index": 0, "id": None if number else "c1", "name": None if number else "login", "args": piece}
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[call]))


def test_secrets_never_land_in_a_recording(folder: Path) -> None:
    """Neither of requests nor of replies, nor where a stream divides one; and the request is found again all the same."""

    def ask(model: BaseChatModel) -> list[Any]:
        bound = model.bind(api_key=SECRET, extra_body={"password": "correct horse"})
        whole = model.invoke([SystemMessage(f"use {SECRET}"), HumanMessage("password=swordfish")])
        return [whole.content, *(chunk.content for chunk in bound.stream("b"))]

    with record("live", record_replies=folder):
        live = ask(Leaky(replies=[f"the key is {SECRET}"]))
    assert SECRET in live[0]
    text = text_of(folder)
    for piece in (SECRET, SECRET[:9], SECRET[9:], "swordfish", "correct horse", "zeb", "ra7"):
        assert piece not in text
    with record("again", replay=folder):
        again = ask(Leaky(replies=["no"]))
    assert again[0].startswith("the key is [redacted:")
    assert "".join(again[1:]).startswith("key: [redacted:")
    assert "".join(again[1:]).endswith(" end")
    assert len(again) == len(live)


def test_log_probabilities_keep_their_tokens(folder: Path) -> None:
    """A piece of text that a model weighed is no secret for being called a token."""
    told = {"logprobs": {"content": [{"token": "Lima", "logprob": -0.1, "bytes": [76]}]}, "api_key": "q" * 9}
    reply = AIMessage("Lima", response_metadata=told)
    with record("live", record_replies=folder):
        FakeModel(replies=[reply]).invoke("a")
    assert "q" * 9 not in text_of(folder)
    with record("again", replay=folder):
        again = FakeModel(replies=["no"]).invoke("a")
    assert again.response_metadata["logprobs"] == told["logprobs"]


def test_your_own_redaction_holds_for_a_recording(folder: Path) -> None:
    """The function that spans are redacted with; requests are found by what it leaves."""
    with record("live", record_replies=folder, redact=lambda text: text.replace("Ada", "[name]")):
        assert FakeModel(replies=["Hello Ada"]).invoke("I am Ada").content == "Hello Ada"
    assert "Ada" not in text_of(folder)
    with record("again", replay=folder, redact=lambda text: text.replace("Ada", "[name]")):
        assert FakeModel(replies=["no"]).invoke("I am Ada").content == "Hello [name]"


def test_what_may_not_be_kept_in_full_is_not_recorded(folder: Path) -> None:
    """A handler that withholds content withholds it from a recording too."""
    with record("live", record_replies=folder):
        FakeModel(replies=["secret"]).invoke("a", config={"callbacks": [AgentTraceHandler(content="hashes")]})
    assert "secret" not in text_of(folder)


@pytest.fixture
def recorded(folder: Path) -> Path:
    with record("live", record_replies=folder):
        Counting().invoke("a")
        Counting().invoke("b")
    [path] = folder.glob("*.jsonl")
    return path


def cut(text: bytes) -> bytes:
    return text[:-20]


def changed(text: bytes) -> bytes:
    return text.replace(b"a 1", b"a 2")


def without_a_line(text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    return b"".join(lines[:2] + lines[3:])


def swapped(text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    return b"".join([lines[0], lines[2], lines[1], *lines[3:]])


@pytest.mark.parametrize(
    ("harm", "line"),
    [(cut, 6), (changed, 4), (without_a_line, 3), (swapped, 2), (lambda _: b"", 1), (lambda _: b"\x00\xff\n", 1)],
)
def test_a_damaged_recording_is_refused_with_its_place(
    recorded: Path, folder: Path, harm: Callable[[bytes], bytes], line: int
) -> None:
    """File and line, before anything is replayed."""
    recorded.write_bytes(harm(recorded.read_bytes()))
    with pytest.raises(RecordingDamaged) as caught, record("again", replay=folder):
        raise AssertionError("replayed")
    assert f"{recorded}, line {line}, is damaged" in str(caught.value)


def test_a_folder_without_a_recording_is_refused(folder: Path, recorded: Path) -> None:
    """As is recording into one that holds one, and both at once."""
    with pytest.raises(NoRecording, match="There is no recording in"), record("x", replay=folder / "nowhere"):
        pass
    with pytest.raises(NoRecording, match="holds a recording already"), record("x", record_replies=folder):
        pass
    with pytest.raises(UsageError, match="not both"), record("x", record_replies=folder, replay=folder):
        pass


def test_a_conversation_is_recorded_once(folder: Path) -> None:
    """Twice the turns take about twice the space: a message is kept once, however often it is sent again."""
    sizes = []
    for turns in (20, 40):
        place = folder / str(turns)
        with record("live", record_replies=place):
            messages: list[Any] = []
            for number in range(turns):
                messages.append(HumanMessage(f"{number} " + "x" * 2000))
                messages.append(FakeModel(replies=["y" * 2000]).invoke(messages))
        sizes.append(sum(path.stat().st_size for path in place.glob("*.jsonl")))
    assert sizes[1] < 2.2 * sizes[0]


def test_threads_record_whole_lines(folder: Path) -> None:
    """Any number of threads may call models at the same time."""
    with record("live", record_replies=folder):
        model = FakeModel(replies=["ok"])
        callers = [asks(model, f"caller {number}") for number in range(8)]
        for _ in range(5):
            for caller in callers:
                caller.batch([f"{number}" for number in range(8)])
    with record("again", replay=folder):  # read whole, and checked
        again = [asks(FakeModel(replies=["no"]), "caller 0").invoke(f"{number}").content for number in range(8)]
    assert again == ["ok"] * 8


def test_what_cannot_be_recorded_never_reaches_the_agent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that refuses costs the recording, and nothing else."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with record("live", record_replies=folder):
        monkeypatch.setattr(ReplyFile, "_write", refuse)
        assert FakeModel(replies=["ok"]).invoke("a").content == "ok"
    assert open_store().runs()
