"""What peer.py runs in the environment of memweave: memweave with the model that Kipu uses.

All is left at its defaults but the embedding provider and the number of results.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import peer_child

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Provider:
    """What memweave asks for vectors."""

    def __init__(self, model: peer_child.Model) -> None:
        self._model = model

    async def embed_query(self, text: str) -> list[float]:
        return self._model.embed_query(text)

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return self._model.embed(texts)


class Search:
    """An open memweave."""

    def __init__(self, memory: Any, chunks: int) -> None:
        self._memory = memory
        self.chunks = chunks

    async def __call__(
        self, question: str, limit: int, min_score: float | None = None
    ) -> list[tuple[str, int, int, float]]:
        results = await self._memory.search(question, max_results=limit, min_score=min_score)
        return [(result.path, result.start_line, result.end_line, result.score) for result in results]


def speed_up() -> None:
    """Insert into the full-text index without looking through all of it first for what to delete: it is empty."""
    from memweave.storage.sqlite_store import SQLiteStore  # type: ignore[import-not-found]

    async def insert(self: Any, *, chunk_id: str, **columns: Any) -> None:
        columns["id"] = chunk_id
        marks = ", ".join("?" * len(columns))
        await self._db.execute(
            f"INSERT INTO chunks_fts ({', '.join(columns)}) VALUES ({marks})", list(columns.values())
        )

    async def nothing(self: Any, path: str) -> None:
        """Delete nothing."""

    SQLiteStore.upsert_fts = insert
    SQLiteStore.delete_fts_by_path = nothing


@asynccontextmanager
async def open_memweave(workspace: Path, model: peer_child.Model, folder: Path) -> AsyncIterator[Search]:
    """Index a workspace."""
    from memweave import MemWeave  # type: ignore[import-not-found]
    from memweave.config import MemoryConfig  # type: ignore[import-not-found]

    speed_up()
    config = MemoryConfig(workspace_dir=workspace, db_path=folder / "index.sqlite", progress=False)
    async with MemWeave(config, embedding_provider=Provider(model)) as memory:
        await memory.index()
        status = await memory.status()
        if not status.vector_available:
            raise SystemExit("memweave cannot load sqlite-vec here, and would search by words alone.")
        yield Search(memory, status.chunks)


if __name__ == "__main__":
    peer_child.run(open_memweave)
