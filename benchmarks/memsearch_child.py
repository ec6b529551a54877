"""What peer.py runs in the environment of memsearch: memsearch on Milvus Lite, with the model that Kipu uses.

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
    """What memsearch asks for vectors, of questions as of chunks."""

    model_name = "all-MiniLM-L6-v2"
    dimension = 384
    batch_size = 32

    def __init__(self, model: peer_child.Model) -> None:
        self._model = model

    async def embed(self, texts: list[str]) -> list[list[float]]:
        return [self._model.embed_query(texts[0])] if len(texts) == 1 else self._model.embed(texts)


class Search:
    """An open memsearch."""

    def __init__(self, memory: Any, workspace: Path, chunks: int) -> None:
        self._memory = memory
        self._workspace = workspace
        self.chunks = chunks

    async def __call__(self, question: str, limit: int) -> list[tuple[str, int, int, float]]:
        results = await self._memory.search(question, top_k=limit)
        root = f"{self._workspace}/"
        return [
            (result["source"].removeprefix(root), result["start_line"], result["end_line"], result["score"])
            for result in results
        ]


@asynccontextmanager
async def open_memsearch(workspace: Path, model: peer_child.Model, folder: Path) -> AsyncIterator[Search]:
    """Index the memory files of a workspace."""
    from memsearch import MemSearch, core  # type: ignore[import-not-found]

    core.get_provider = lambda *_, **__: Provider(model)
    memory = MemSearch([workspace / "memory"], milvus_uri=str(folder / "milvus.db"))
    try:
        report = await memory.index_with_report()
        if report.failed_files:
            raise SystemExit(f"memsearch could not index {report.failed_files[0]}")
        yield Search(memory, workspace, report.indexed_chunks)
    finally:
        memory.close()


if __name__ == "__main__":
    peer_child.run(open_memsearch)
