"""What speed.py runs in processes of its own: one system, one workspace. Each prints its figures as JSON.

Its arguments: one of the functions below, the workspace, how often to repeat, and the queries as a list in JSON.
"""

from __future__ import annotations

import asyncio
import json
import platform
import shutil
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# Indexing from scratch is repeated, but not what takes minutes.
LONG_SECONDS = 30
ROUNDS = 5


async def timed(work: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """CPU time of all threads and wall time of one call, in seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    return time.process_time() - cpu, time.perf_counter() - wall


async def figures(
    make_memory: Callable[[], Any],
    index_folder: Path,
    runs: int,
    search: Callable[[Any, str], Awaitable[Any]],
    queries: list[str],
) -> dict[str, float]:
    """Index from scratch, index again, and search; return the median of each."""
    fresh: list[tuple[float, float]] = []
    while len(fresh) < min(runs, 3) and sum(wall for _, wall in fresh) < LONG_SECONDS:
        shutil.rmtree(index_folder, ignore_errors=True)
        async with make_memory() as memory:
            fresh.append(await timed(memory.index))
    async with make_memory() as memory:
        again = [await timed(memory.index) for _ in range(runs + 1)][1:]
        found = [await search(memory, query) for query in queries]
        assert all(found), "a query without results: the comparison would be unfair"
        searches = [await timed(partial(search, memory, query)) for _ in range(ROUNDS) for query in queries]
    walls = sorted(wall for _, wall in searches)
    return {
        "index_cpu": statistics.median(cpu for cpu, _ in fresh),
        "index_wall": statistics.median(wall for _, wall in fresh),
        "again_cpu": statistics.median(cpu for cpu, _ in again),
        "again_wall": statistics.median(wall for _, wall in again),
        "search_cpu": statistics.median(cpu for cpu, _ in searches),
        "search_p50": walls[len(walls) // 2],
        "search_p95": walls[int(len(walls) * 0.95)],
    }


async def kipu(workspace: Path, runs: int, queries: list[str]) -> dict[str, Any]:
    """Kipu with its defaults."""
    from kipu import Memory

    measured = await figures(
        lambda: Memory(workspace), workspace / ".kipu", runs, lambda memory, query: memory.search(query), queries
    )
    async with Memory(workspace) as memory:
        status = await memory.status()
    return {**measured, "chunks": status.chunks, "sqlite": status.sqlite}


async def memweave(workspace: Path, runs: int, queries: list[str]) -> dict[str, Any]:
    """Open the peer, by words: without vectors, with chunks like Kipu's, and with a provider that costs it nothing."""
    import sqlite3

    from memweave import MemWeave  # type: ignore[import-not-found]
    from memweave.config import (  # type: ignore[import-not-found]
        CacheConfig,
        ChunkingConfig,
        MemoryConfig,
        VectorConfig,
    )

    class NoVectors:
        """memweave asks for vectors even if they are switched off: it gets empty ones, which it leaves out."""

        async def embed_batch(self, texts: list[str]) -> list[list[float]]:
            return [[] for _ in texts]

        async def embed_query(self, text: str) -> list[float]:
            return []

    config = MemoryConfig(
        workspace_dir=workspace,
        chunking=ChunkingConfig(tokens=100, overlap=0),
        vector=VectorConfig(enabled=False),
        cache=CacheConfig(enabled=False),
        progress=False,
    )
    measured = await figures(
        lambda: MemWeave(config, embedding_provider=NoVectors()),
        workspace / ".memweave",
        runs,
        lambda memory, query: memory.search(query, strategy="keyword", min_score=0.0),
        queries,
    )
    async with MemWeave(config, embedding_provider=NoVectors()) as memory:
        status = await memory.status()
    return {**measured, "chunks": status.chunks, "sqlite": sqlite3.sqlite_version, "python": platform.python_version()}


async def sweep(workspace: Path, runs: int, queries: list[str]) -> dict[str, float]:
    """Time Kipu's search with and without the sync of the files."""
    from kipu import Memory

    async with Memory(workspace) as memory:
        await memory.index()

        async def median(sync: bool | None) -> float:
            spent = [await timed(partial(memory.search, query, sync=sync)) for query in queries]
            return statistics.median(cpu for cpu, _ in spent)

        await median(None)
        return {"sync": await median(None), "no_sync": await median(False)}


if __name__ == "__main__":
    systems = {"kipu": kipu, "memweave": memweave, "sweep": sweep}
    name, path, count, asked = sys.argv[1:]
    print(json.dumps(asyncio.run(systems[name](Path(path), int(count), json.loads(asked)))))
