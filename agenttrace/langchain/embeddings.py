"""Embedding models, which LangChain gives no callbacks: the same interface with each call a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from langchain_core.embeddings import Embeddings

if TYPE_CHECKING:
    from agenttrace.langchain.handler import CallbackHandler

EmbeddingModel: TypeAlias = Embeddings
"""LangChain's interface, under a name that may be used above this room."""

NAMES = ("model", "model_name", "model_id", "deployment")
"""Where embedding models say which one they are."""


class TracedEmbeddings(Embeddings):
    """An embedding model whose calls are steps of the surrounding agent. In every other respect it is the model.

    Texts are recorded as any input; of the vectors only how many there were, and of how many dimensions.
    """

    def __init__(self, model: Embeddings, handler: Callable[[], CallbackHandler]) -> None:
        self._model = model
        self._handler = handler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        with self._step("embed_documents", texts) as ended:
            return ended(self._model.embed_documents(texts))

    def embed_query(self, text: str) -> list[float]:
        with self._step("embed_query", text) as ended:
            return ended([self._model.embed_query(text)])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        with self._step("embed_documents", texts) as ended:
            return ended(await self._model.aembed_documents(texts))

    async def aembed_query(self, text: str) -> list[float]:
        with self._step("embed_query", text) as ended:
            return ended([await self._model.aembed_query(text)])[0]

    @contextmanager
    def _step(self, method: str, texts: str | list[str]) -> Iterator[Callable[[list[list[float]]], list[list[float]]]]:
        """A step around one call. What is handed to `ended` comes back as it is."""
        run_id, handler = uuid4(), self._handler()
        seen: list[Any] = [None]

        def ended(vectors: list[list[float]]) -> list[list[float]]:
            seen[0] = _shape(vectors)
            return vectors

        handler.start_embedding(type(self._model).__name__, texts, self._metadata(method), run_id)
        try:
            yield ended
        except BaseException as error:
            handler.end_embedding(run_id, None, error)
            raise
        handler.end_embedding(run_id, seen[0], None)

    def _metadata(self, method: str) -> dict[str, Any]:
        name = next((held for key in NAMES if isinstance(held := getattr(self._model, key, None), str) and held), None)
        provider = type(self._model).__name__.removesuffix("Embeddings").lower()
        found = {"ls_provider": provider or None, "ls_model_name": name, "ls_model_type": "embedding", "method": method}
        return {key: value for key, value in found.items() if value is not None}


def _shape(vectors: Sequence[Sequence[float]]) -> Any:
    """How many vectors there are, and of how many dimensions; None where that cannot be told."""
    try:
        return {"vectors": len(vectors), "dimensions": len(vectors[0]) if len(vectors) else None}
    except TypeError:
        return None
