"""Puts a tape between LangChain and its models: it takes down what they reply, or replies in their place.

In between are the methods that every integration implements (`_generate`, `_stream` and their async kin), below callbacks,
retries and fallbacks and above HTTP clients: so steps are recorded as ever, and no provider needs code of its own. They are
wrapped once a class, also of classes that are imported later, and pass straight through while no tape is in place.
LangChain's own cache would not do: `stream` does not ask it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from opentelemetry import trace

from agenttrace import clock
from agenttrace.errors import ReplayMiss
from agenttrace.langchain.ambient import AmbientSpan
from agenttrace.langchain.open_steps import Entry, OpenSteps
from agenttrace.steps import JSON

if TYPE_CHECKING:
    from agenttrace.langchain.asked_request import Request

Delivery: TypeAlias = Literal["whole", "stream", "events"]
"""How a reply came: at once, as LangChain's chunks, or as the events of its protocol."""


@dataclass(slots=True, kw_only=True)
class Reply:
    """What a model replied, in plain JSON (`langchain.replies`)."""

    delivery: Delivery
    result: JSON = None
    """Of a whole reply."""
    chunks: list[JSON] = field(default_factory=list)
    """Of a stream, in their order."""
    error: JSON = None
    """What the model raised, after its chunks if there are any."""
    is_whole: bool = True
    """False for a stream that its reader left, or that was cancelled."""
    took_ns: int = 0
    first_ns: int | None = None
    """From the call to the first chunk."""


class Tape(Protocol):
    """Takes replies down, or gives them. What it cannot take down it counts; an agent never hears of it."""

    is_replay: bool

    def ask(self, request: Request) -> int:
        """A call begins whose reply will be kept: its place in the order of calls."""

    def keep(self, place: int, request: Request, reply: Reply) -> None: ...

    def answer(self, request: Request, delivery: Delivery) -> Reply:
        """The recorded reply, delivered as asked or as a stream that can be put together. Raises `ReplayMiss`."""

    def count_error(self, error: Exception) -> None: ...


_scoped: ContextVar[Tape | None] = ContextVar("agenttrace_tape", default=None)
_process: list[Tape] = []
_inside: ContextVar[bool] = ContextVar("agenttrace_inside_model", default=False)
_wrapped = "__agenttrace_replay__"
_steps: list[OpenSteps] = []


def tape() -> Tape | None:
    """The one that is in place here: of the surrounding block, else of the process."""
    return _scoped.get() or (_process[-1] if _process else None)


def is_replaying() -> bool:
    """Whether a model called here would be replayed."""
    found = tape()
    return found is not None and found.is_replay


@contextmanager
def in_place(new: Tape, steps: OpenSteps, *, everywhere: bool) -> Iterator[None]:
    """Have models answer through this tape: those called in this context, or everywhere in the process.

    `steps` says where in the agent a model is called.
    """
    _wrap_models()
    _steps[:] = [steps]
    if everywhere:
        _process.append(new)
        try:
            yield
        finally:
            _process.remove(new)
        return
    token = _scoped.set(new)
    try:
        yield
    finally:
        _scoped.reset(token)


def _wrap_models() -> None:
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.language_models.llms import BaseLLM

    for base in (BaseChatModel, BaseLLM):
        if not getattr(base, _wrapped, False):
            _wrap_later_ones(base)
            setattr(base, _wrapped, True)
            _wrap_below(base)


def _wrap_later_ones(base: Any) -> None:
    def init_subclass(cls: Any, /, **kwargs: Any) -> None:
        super(base, cls).__init_subclass__(**kwargs)
        _wrap(cls)

    base.__init_subclass__ = classmethod(init_subclass)


def _wrap_below(base: Any) -> None:
    for kind in base.__subclasses__():
        _wrap(kind)
        _wrap_below(kind)


def _wrap(kind: type) -> None:
    for name, wrapper in WRAPPERS.items():
        method = vars(kind).get(name)
        is_own = isinstance(method, FunctionType) and not getattr(method, "__isabstractmethod__", False)
        if method is not None and is_own and not hasattr(method, _wrapped):
            wrapped = wrapper(method)
            setattr(wrapped, _wrapped, True)
            setattr(kind, name, wrapped)


class _Call:
    """One call of a model while a tape is in place."""

    def __init__(self, found: Tape, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        from agenttrace.langchain.asked_request import Place, request

        named = dict(zip(("given", "stop", "run_manager"), args, strict=False)) | dict(kwargs)
        given = next(named.pop(name) for name in ("given", "messages", "prompts", "prompt") if name in named)
        stop, self.manager = named.pop("stop", None), named.pop("run_manager", None)
        entry = _entry(self.manager)
        place = Place(metadata={}) if entry is None else _place(entry)
        self.tape = found
        self.request = request(model, [given] if isinstance(given, str) else given, stop, named, place)
        self.start = clock.monotonic_ns()
        self.number = 0 if found.is_replay else found.ask(self.request)

    def keep(self, reply: Reply) -> None:
        reply.took_ns = clock.monotonic_ns() - self.start
        self.tape.keep(self.number, self.request, reply)

    def keep_result(self, result: Any) -> None:
        from agenttrace.langchain.replies import result_out

        self.keep(Reply(delivery="whole", result=result_out(result)))

    def keep_error(self, error: Exception, reply: Reply | None = None) -> None:
        from agenttrace.langchain.replies import error_out

        reply = reply or Reply(delivery="whole")
        reply.error = error_out(error)
        self.keep(reply)

    def add(self, reply: Reply, chunk: Any) -> None:
        """A chunk as it came: LangChain changes it in place once it has it."""
        from agenttrace.langchain.replies import chunk_out

        if reply.first_ns is None:
            reply.first_ns = clock.monotonic_ns() - self.start
        reply.chunks.append(chunk_out(chunk))

    def guarded(self, keep: Callable[..., None], *args: Any) -> None:
        """What cannot be taken down is counted, and the agent goes on."""
        try:
            keep(*args)
        except Exception as error:
            self.tape.count_error(error)

    def replayed_result(self) -> Any:
        from agenttrace.langchain.replies import chunk_in, error_in, merged, result_in

        reply = self.tape.answer(self.request, "whole")
        if reply.error is not None:
            raise error_in(reply.error)
        return result_in(reply.result) if reply.delivery == "whole" else merged([chunk_in(one) for one in reply.chunks])

    def replayed_chunks(self, delivery: Delivery) -> Iterator[Any]:
        from agenttrace.langchain.replies import chunk_in, error_in

        reply = self.tape.answer(self.request, delivery)
        yield from (chunk_in(chunk) for chunk in reply.chunks)
        if reply.error is not None:
            raise error_in(reply.error)
        if not reply.is_whole:
            raise ReplayMiss(
                f"The recorded stream{at(self.request)} ends after {len(reply.chunks)} chunks: its reader left it there "
                "while it was recorded. Record again with what reads it now."
            )


def at(request: Request) -> str:
    """Where a request stands, within a sentence, with the space before it."""
    told = ", ".join(f"{name} {value}" for name, value in request.scope.items())
    return (f" at {request.site}" if request.site else "") + (f" ({told})" if told else "")


def _entry(manager: Any) -> Entry | None:
    """The step of this call: of its run manager, which a stream is not given; else the step that is current."""
    run_id = getattr(manager, "run_id", None)
    if run_id is not None:
        return _steps[0].get(run_id.int)
    span = trace.get_current_span()
    return _steps[0].get(span.run_key) if isinstance(span, AmbientSpan) and span.step.kind == "model" else None


def _place(entry: Entry) -> Any:
    from agenttrace.langchain.asked_request import Place

    return Place(site=entry.step.call_site or "", metadata=entry.start.metadata, run_id=entry.step.run_id)


def _begin(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Call | None:
    """The call, where a tape is in place and this is the outermost of a model's methods; a fault of ours is no call."""
    found = tape()
    if found is None or _inside.get():
        return None
    try:
        return _Call(found, model, args, kwargs)
    except Exception as error:
        if found.is_replay:
            raise
        found.count_error(error)
        return None


@contextmanager
def _within() -> Iterator[None]:
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


def _generate(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, args, kwargs)
        if call is None:
            return original(self, *args, **kwargs)
        if call.tape.is_replay:
            return call.replayed_result()
        try:
            with _within():
                result = original(self, *args, **kwargs)
        except Exception as error:
            call.guarded(call.keep_error, error)
            raise
        call.guarded(call.keep_result, result)
        return result

    return generate


def _agenerate(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def agenerate(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, args, kwargs)
        if call is None:
            return await original(self, *args, **kwargs)
        if call.tape.is_replay:
            return call.replayed_result()
        try:
            with _within():
                result = await original(self, *args, **kwargs)
        except Exception as error:
            call.guarded(call.keep_error, error)
            raise
        call.guarded(call.keep_result, result)
        return result

    return agenerate


def _streaming(delivery: Delivery) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def stream(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
            call = _begin(self, args, kwargs)
            if call is None:
                yield from original(self, *args, **kwargs)
                return
            if call.tape.is_replay:
                for chunk in call.replayed_chunks(delivery):
                    if call.manager is not None and delivery == "stream":  # integrations tell it themselves
                        call.manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
                return
            reply = Reply(delivery=delivery, is_whole=False)
            chunks = iter(original(self, *args, **kwargs))
            try:
                while True:
                    with _within():  # around each step only: what is set in a generator is set for its reader too
                        chunk = next(chunks, None)
                    if chunk is None:
                        break
                    call.guarded(call.add, reply, chunk)
                    yield chunk
                reply.is_whole = True
            except Exception as error:
                reply.is_whole = True
                call.guarded(call.keep_error, error, reply)
                raise
            finally:
                if reply.error is None:
                    call.guarded(call.keep, reply)
                if hasattr(chunks, "close"):
                    chunks.close()

        return stream

    return wrapper


def _astreaming(delivery: Delivery) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        async def astream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            call = _begin(self, args, kwargs)
            if call is None:
                async for chunk in original(self, *args, **kwargs):
                    yield chunk
                return
            if call.tape.is_replay:
                for chunk in call.replayed_chunks(delivery):
                    if call.manager is not None and delivery == "stream":
                        await call.manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
                return
            reply = Reply(delivery=delivery, is_whole=False)
            chunks = aiter(original(self, *args, **kwargs))
            try:
                while True:
                    with _within():
                        chunk = await anext(chunks, None)
                    if chunk is None:
                        break
                    call.guarded(call.add, reply, chunk)
                    yield chunk
                reply.is_whole = True
            except Exception as error:
                reply.is_whole = True
                call.guarded(call.keep_error, error, reply)
                raise
            finally:
                if reply.error is None:
                    call.guarded(call.keep, reply)
                if hasattr(chunks, "aclose"):
                    await chunks.aclose()

        return astream

    return wrapper


WRAPPERS: Mapping[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "_generate": _generate,
    "_agenerate": _agenerate,
    "_stream": _streaming("stream"),
    "_astream": _astreaming("stream"),
    "_stream_chat_model_events": _streaming("events"),
    "_astream_chat_model_events": _astreaming("events"),
}
"""Methods of model classes to what stands in for them."""
