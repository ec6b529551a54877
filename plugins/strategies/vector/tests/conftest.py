"""A small stand-in for the kernel: its tables in a real database, and an `Index` over them."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

import aiosqlite
import attrs
import numpy as np
import pytest

from kipu.types import Hit, Query, QueryEmbedding, StoredChunk, VectorSpace, sqlite_driver
from kipu_strategy_vector import Vector, coarse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

_SCHEMA = """
CREATE TABLE IF NOT EXISTS kipu_files(
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, source TEXT NOT NULL, date TEXT
);
CREATE TABLE IF NOT EXISTS kipu_chunks(id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL, position INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS chunks_by_file ON kipu_chunks(file_id, position);
CREATE TABLE IF NOT EXISTS kipu_vectors(
    space_id INTEGER NOT NULL, chunk_id INTEGER NOT NULL, file_id INTEGER NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (space_id, chunk_id)
);
"""


def _within_the_transaction(action: int, *_: object) -> int:
    """As in the kernel: nothing that a strategy calls may commit or roll back."""
    transaction, savepoint = 22, 32
    return sqlite3.SQLITE_DENY if action in (transaction, savepoint) else sqlite3.SQLITE_OK


def unit(rows: Any) -> Any:
    """Vectors of length 1, float32, in the direction of those given."""
    vectors = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@attrs.define
class Workspace:
    """An index that holds the vectors it is given, each that of a chunk."""

    connection: aiosqlite.Connection
    space: VectorSpace
    strategy: Vector = attrs.field(factory=Vector)

    async def change(self, method: str, *arguments: Any) -> None:
        """Call a method of the strategy as the kernel does: within a transaction that it cannot end."""
        await self.connection.execute("BEGIN IMMEDIATE")
        await self.connection.set_authorizer(_within_the_transaction)
        try:
            await getattr(self.strategy, method)(self.connection, self.space, *arguments)
        finally:
            await self.connection.set_authorizer(None)
        await self.connection.execute("COMMIT")

    async def add(self, rows: Any, path: str = "memory/notes.md", when: date | None = None) -> list[int]:
        """Store vectors as those of new chunks of a file, and index them; return the ids of the chunks."""
        source = path.split("/")[1] if path.count("/") > 1 else "memory"
        vectors = unit(rows)
        await self.connection.execute(
            "INSERT OR IGNORE INTO kipu_files(path, source, date) VALUES (?, ?, ?)",
            (path, source, when and when.isoformat()),
        )
        ids = []
        for vector in vectors:
            cursor = await self.connection.execute(
                "INSERT INTO kipu_chunks(file_id, position) "
                "SELECT id, (SELECT count(*) FROM kipu_chunks WHERE file_id = kipu_files.id) "
                "FROM kipu_files WHERE path = ?",
                (path,),
            )
            assert cursor.lastrowid is not None
            ids.append(cursor.lastrowid)
            await self.connection.execute(
                "INSERT INTO kipu_vectors SELECT ?, id, file_id, ? FROM kipu_chunks WHERE id = ?",
                (self.space.id, vector.tobytes(), cursor.lastrowid),
            )
        await self.change("add", ids, vectors)
        return ids

    async def remove(self, ids: Sequence[int]) -> None:
        """Take chunks out of the strategy's index and then out of the kernel's, as the kernel does."""
        await self.change("remove", ids)
        await self.connection.executemany("DELETE FROM kipu_vectors WHERE chunk_id = ?", [(id,) for id in ids])

    def query(self, row: Any, **options: Any) -> Query:
        """Return a query for a vector."""
        return Query("anything", embedding=QueryEmbedding(self.space, unit(row)[0]), **options)

    async def search(self, row: Any, **options: Any) -> list[Hit]:
        """Search with the strategy."""
        return await self.strategy.search(self.query(row, **options), self)

    async def found(self, row: Any, **options: Any) -> list[tuple[int, float]]:
        """Return the ids and scores of what a search finds, best first."""
        return [(hit.chunk.id, hit.score) for hit in await self.search(row, **options)]

    # --- What the kernel gives a strategy ---

    def where(self, query: Query) -> tuple[str, list[Any]]:
        given = {"source = ?": query.source, "date >= ?": query.since, "date <= ?": query.until}
        conditions = {f"kipu_files.{name}": str(value) for name, value in given.items() if value is not None}
        return " AND ".join(conditions) or "1", list(conditions.values())

    async def chunks(self, ids: Iterable[int]) -> dict[int, StoredChunk]:
        found: dict[int, StoredChunk] = {}
        for chunk_id in ids:
            statement = (
                "SELECT path, source, date FROM kipu_chunks JOIN kipu_files ON kipu_files.id = file_id "
                "WHERE kipu_chunks.id = ?"
            )
            for path, source, when in await self.connection.execute_fetchall(statement, (chunk_id,)):
                day = when and date.fromisoformat(when)
                found[chunk_id] = StoredChunk(chunk_id, "", path, source, day, 1, 1, "", 0, "", "")
        return found

    async def vectors(self, space: VectorSpace, ids: Sequence[int]) -> tuple[list[int], Any]:
        found, rows = [], []
        for chunk_id in ids:
            statement = "SELECT vector FROM kipu_vectors WHERE space_id = ? AND chunk_id = ?"
            for (data,) in await self.connection.execute_fetchall(statement, (space.id, chunk_id)):
                found.append(chunk_id)
                rows.append(np.frombuffer(data, dtype="<f4"))
        return found, np.array(rows, dtype=np.float32).reshape(len(rows), space.dimension)


@asynccontextmanager
async def open_workspace(
    dimension: int = 4, path: str = ":memory:", *, create: bool = True
) -> AsyncIterator[Workspace]:
    """Open a workspace with the driver that the kernel chooses."""
    driver = sqlite_driver() if coarse.is_available() else sqlite3
    async with aiosqlite.Connection(
        lambda: driver.connect(path, isolation_level=None), iter_chunk_size=64
    ) as connection:
        await connection.executescript(_SCHEMA)
        workspace = Workspace(connection, VectorSpace(7, "test", dimension))
        if create:
            await workspace.change("create")
        yield workspace


def _skip_without_sqlite_vec() -> None:
    if not coarse.is_available():
        pytest.skip("neither sqlite3 nor pysqlite3 can load sqlite-vec here")


@pytest.fixture
def with_sqlite_vec() -> None:
    """For a test that is about the table of sqlite-vec."""
    _skip_without_sqlite_vec()


@pytest.fixture(params=["vec0", "numpy"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test where sqlite-vec can be loaded, and where it cannot."""
    if request.param == "numpy":
        monkeypatch.setattr(coarse, "is_available", lambda: False)
    else:
        _skip_without_sqlite_vec()


@pytest.fixture
async def workspace(either_way: None) -> AsyncIterator[Workspace]:
    """Open an empty workspace for vectors of four numbers."""
    async with open_workspace() as opened:
        yield opened


@pytest.fixture(scope="session")
def new_workspace() -> Callable[..., AbstractAsyncContextManager[Workspace]]:
    """Return what opens an empty workspace: for tests that need many, or one with other vectors."""
    return open_workspace
