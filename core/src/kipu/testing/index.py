"""An index without files, for the tests of one strategy."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..index import schema
from ..index.database import Connection
from ..index.filters import filters, register_functions
from ..index.queries import load_chunks
from ..index.vectors import read_vectors
from ..sqlite import choose_driver
from ..types import Query, QueryEmbedding, VectorSpace
from ..workspace.paths import source_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from datetime import date

    from ..types import Hit, StoredChunk, Vectors


class ScratchIndex:
    """The `kipu.types.Index` of one strategy, in a database with the kernel's tables and views::

        async with ScratchIndex.open(WordStrategy()) as index:
            await index.add("We chose Redis.", path="memory/cache.md")
            assert [hit.chunk.text for hit in await index.search("redis")] == ["We chose Redis."]

    The strategy's tables are changed as the kernel does: in a transaction that they cannot end. With a ``dimension``,
    each chunk has a vector, in the space ``space``.
    """

    def __init__(self, connection: Connection, strategy: Any, dimension: int) -> None:
        self.connection = connection
        self.strategy = strategy
        self.space = VectorSpace(1, f"test-{dimension}", dimension) if dimension else None
        self.id = "scratch"
        self.folder = Path()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, strategy: Any, *, dimension: int = 0, path: str = ":memory:", create: bool = True
    ) -> AsyncIterator[Self]:
        """Open an index, and make the strategy's tables in it.

        :param strategy: the strategy; it may be without an index of its own.
        :param dimension: the length of the vectors of chunks, if they have any.
        :param path: a file, for an index that is opened again.
        :param create: whether to make the strategy's tables.
        """
        driver = choose_driver()

        def connect() -> Any:
            connected = driver.connect(path, isolation_level=None)
            register_functions(connected)
            return connected

        connection = Connection(connect, iter_chunk_size=64)
        async with connection:
            await connection.set_authorizer(connection.authorize)
            index = cls(connection, strategy, dimension)
            if not list(await connection.execute_fetchall("SELECT 1 FROM sqlite_master LIMIT 1")):
                for statement in schema.TABLES.split(";"):
                    await connection.execute(statement)
            if create and hasattr(strategy, "create"):
                await index.change("create")
            yield index

    # --- what the kernel does --------------------------------------------------------------------------------------

    async def add(
        self,
        *texts: str,
        path: str = "memory/notes.md",
        date: date | None = None,
        heading: str = "",
        context: str = "",
        vectors: Any = None,
    ) -> list[int]:
        """Store texts as chunks of a file, have the strategy index them, and return their ids.

        :param vectors: rows, one for each text; they are scaled to length 1. Without texts, each row has an empty one.
        """
        rows: Any = [] if vectors is None else _unit(vectors)
        await self.connection.execute(
            "INSERT OR IGNORE INTO files (path, source, date, size, mtime_ns, ctime_ns, hash, chunker) "
            "VALUES (?, ?, ?, 0, 0, 0, '', '')",
            (path, source_of(path), date and date.isoformat()),
        )
        ids: list[int] = []
        for number, text in enumerate(texts or [""] * len(rows)):
            data = rows[number].tobytes() if len(rows) else text.encode()
            digest = hashlib.sha256(data).hexdigest()
            cursor = await self.connection.execute(
                "INSERT INTO chunks (file_id, position, chunk, hash, start_line, end_line, heading, heading_level, "
                "text, context) SELECT id, (SELECT count(*) FROM chunks WHERE file_id = files.id), ?, ?, 1, "
                "1, ?, 0, ?, ? FROM files WHERE path = ?",
                (digest[:16], digest, heading, text, context, path),
            )
            ids.append(cursor.lastrowid or 0)
            if self.space is not None:
                await self.connection.execute(
                    "INSERT OR IGNORE INTO embeddings (space_id, hash, vector, used) VALUES (?, ?, ?, 0)",
                    (self.space.id, digest, data),
                )
        if hasattr(self.strategy, "add"):
            await self.change("add", *([ids, rows] if self.space else [list((await self.chunks(ids)).values())]))
        return ids

    async def remove(self, ids: Sequence[int]) -> None:
        """Have the strategy remove chunks, and then delete them."""
        if hasattr(self.strategy, "remove"):
            await self.change("remove", ids)
        await self.connection.executemany("DELETE FROM chunks WHERE id = ?", [(id,) for id in ids])

    async def change(self, method: str, *arguments: Any) -> None:
        """Call a method of the strategy that changes its tables, in a transaction."""
        space = () if self.space is None else (self.space,)
        await self.connection.execute("BEGIN IMMEDIATE")
        self.connection.is_guarded = True
        try:
            await getattr(self.strategy, method)(self.connection, *space, *arguments)
        except BaseException:
            self.connection.is_guarded = False
            await self.connection.execute("ROLLBACK")
            raise
        self.connection.is_guarded = False
        await self.connection.execute("COMMIT")

    async def rename(self, path: str, new_path: str) -> None:
        """Give a file another path, without telling the strategy."""
        await self.connection.execute("UPDATE files SET path = ? WHERE path = ?", (new_path, path))

    async def replace_vector(self, chunk_id: int, vector: bytes) -> None:
        """Replace the vector of a chunk, such as by a damaged one, without telling the strategy."""
        await self.connection.execute(
            "UPDATE embeddings SET vector = ? WHERE hash = (SELECT hash FROM chunks WHERE id = ?)", (vector, chunk_id)
        )

    def query(self, text: str = "", vector: Any = None, **options: Any) -> Query:
        """Return a query, with an embedding if a vector is given."""
        embedding = QueryEmbedding(self.space, _unit(vector)[0]) if self.space and vector is not None else None
        return Query(text, embedding=embedding, **options)

    async def search(self, text: str = "", vector: Any = None, **options: Any) -> list[Hit]:
        """Return the hits of the strategy."""
        hits: list[Hit] = await self.strategy.search(self.query(text, vector, **options), self)
        return hits

    # --- kipu.types.Index ------------------------------------------------------------------------------------------

    def where(self, query: Query) -> tuple[str, list[Any]]:
        """Return the query's filters as an SQL condition on ``kipu_files`` and ``kipu_chunks``, and its parameters."""
        return filters(query, archived=False, prefix="kipu_")

    async def chunks(self, ids: Iterable[int]) -> dict[int, StoredChunk]:
        """Load chunks by the ids of their rows, in the order given."""
        return await load_chunks(self.connection, ids)

    async def vectors(self, space: VectorSpace, ids: Sequence[int]) -> tuple[list[int], Vectors]:
        """Load the vectors of chunks: the ids that have one, and a matrix with a row for each."""
        return await read_vectors(self.connection, space, ids)


def _unit(rows: Any) -> Vectors:
    import numpy as np

    vectors = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    scaled: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return scaled
