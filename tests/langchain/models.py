"""Fake models for tests of the handler: they answer from a list, stream in chunks, and fail when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


class FakeModel(BaseChatModel):
    """Answers each call with the next reply: a message, or an exception to raise."""

    replies: list[Any]
    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=[{"name": tool.name, "description": tool.description} for tool in tools], **kwargs)

    def _next(self) -> AIMessage:
        reply = self.replies[min(self.calls, len(self.replies) - 1)]
        self.calls += 1
        if isinstance(reply, BaseException):
            raise type(reply)(*reply.args)  # a new one: an exception that is kept keeps the frames of its call
        return reply if isinstance(reply, AIMessage) else AIMessage(str(reply))

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next())])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> Iterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=AIMessageChunk(content=""))  # the role chunk that servers begin with
        for word in str(self._next().content).split(" "):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk


class SlowModel(FakeModel):
    """Takes a while, so that a call can be cancelled or overtaken."""

    seconds: float = 0.2

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        await asyncio.sleep(self.seconds)
        return ChatResult(generations=[ChatGeneration(message=self._next())])

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for word in str(self._next().content).split(" "):
            await asyncio.sleep(self.seconds / 10)
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
