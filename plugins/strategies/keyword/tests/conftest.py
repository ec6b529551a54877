"""A small stand-in for the kernel: its two tables in a real database, and an `Index` over them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

import aiosqlite
import attrs
import pytest

from kipu.types import Hit, Query, StoredChunk
from kipu_strategy_keyword import Keyword

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

_SCHEMA = """
CREATE TABLE kipu_files(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, source TEXT NOT NULL, date TEXT);
CREATE TABLE kipu_chunks(
    id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL, chunk TEXT NOT NULL, start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL, heading TEXT NOT NULL, heading_level INTEGER NOT NULL, text TEXT NOT NULL,
    context TEXT NOT NULL
);
"""


@attrs.define
class Workspace:
    """An index that holds the chunks it is given; every text is a chunk, and ``path`` names its file."""

    connection: aiosqlite.Connection
    strategy: Keyword

    async def add(
        self, *texts: str, path: str = "memory/notes.md", when: date | None = None, heading: str = "", context: str = ""
    ) -> list[int]:
        """Store texts as chunks of one file and index them; return their ids."""
        source = path.split("/")[1] if path.count("/") > 1 else "memory"
        await self.connection.execute(
            "INSERT OR IGNORE INTO kipu_files(path, source, date) VALUES (?, ?, ?)",
            (path, source, when and when.isoformat()),
        )
        ids = []
        for text in texts:
            cursor = await self.connection.execute(
                "INSERT INTO kipu_chunks(file_id, chunk, start_line, end_line, heading, heading_level, text, context) "
                "SELECT id, '', 1, 1, ?, 0, ?, ? FROM kipu_files WHERE path = ?",
                (heading, text, context, path),
            )
            assert cursor.lastrowid is not None
            ids.append(cursor.lastrowid)
        await self.strategy.add(self.connection, list((await self.chunks(ids)).values()))
        return ids

    async def remove(self, ids: Sequence[int]) -> None:
        """Take chunks out of the strategy's index and then out of the kernel's, as the kernel does."""
        await self.strategy.remove(self.connection, ids)
        await self.connection.executemany("DELETE FROM kipu_chunks WHERE id = ?", [(chunk_id,) for chunk_id in ids])

    async def search(self, text: str, **options: Any) -> list[Hit]:
        """Search with the strategy."""
        return await self.strategy.search(Query(text=text, **options), self)

    async def score(self, text: str, ids: Sequence[int], **options: Any) -> dict[int, float]:
        """Ask the strategy for the scores of chunks."""
        return await self.strategy.score(Query(text=text, **options), self, ids)

    async def score_files(self, text: str, paths: Sequence[str]) -> dict[str, float]:
        """Ask the strategy for the scores of files."""
        return await self.strategy.score_files(Query(text=text), self, paths)

    async def texts(self, text: str, **options: Any) -> list[str]:
        """Return the texts that a search finds, best first."""
        return [hit.chunk.text for hit in await self.search(text, **options)]

    def where(self, query: Query) -> tuple[str, list[Any]]:
        """Return the filters of a query, as the kernel gives them."""
        given = {"source = ?": query.source, "date >= ?": query.since, "date <= ?": query.until}
        conditions = {f"kipu_files.{name}": str(value) for name, value in given.items() if value is not None}
        return " AND ".join(conditions) or "1", list(conditions.values())

    async def chunks(self, ids: Iterable[int]) -> dict[int, StoredChunk]:
        """Load chunks, as the kernel does."""
        found: dict[int, StoredChunk] = {}
        for chunk_id in ids:
            statement = """
                SELECT kipu_chunks.id, chunk, path, source, date, start_line, end_line, heading, heading_level, text,
                    context
                FROM kipu_chunks JOIN kipu_files ON kipu_files.id = file_id WHERE kipu_chunks.id = ?"""
            async with self.connection.execute(statement, (chunk_id,)) as cursor:
                async for number, chunk, path, source, when, *rest in cursor:
                    found[chunk_id] = StoredChunk(number, chunk, path, source, when and date.fromisoformat(when), *rest)
        return found


@asynccontextmanager
async def open_workspace(strategy: Keyword | None = None) -> AsyncIterator[Workspace]:
    """Open an empty workspace in memory."""
    async with aiosqlite.connect(":memory:") as connection:
        await connection.executescript(_SCHEMA)
        workspace = Workspace(connection, strategy or Keyword())
        await workspace.strategy.create(connection)
        yield workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    """Open an empty workspace."""
    async with open_workspace() as opened:
        yield opened


@pytest.fixture(scope="session")
def new_workspace() -> Callable[..., AbstractAsyncContextManager[Workspace]]:
    """Return what opens an empty workspace: for tests that need many, or one with options."""
    return open_workspace
