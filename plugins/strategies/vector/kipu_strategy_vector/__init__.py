"""Search by meaning, for Kipu: the strategy ``vector``.

The kernel keeps the vector of each chunk once, as float32 numbers. Where SQLite can load sqlite-vec, an index of bytes
finds candidates (`coarse`), which are compared again by the vectors themselves (`exact`). Where it cannot, or where the
candidates prove nothing, all vectors are compared. The results are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

import attrs

from kipu import hookimpl
from kipu.types import Hit, StrategyBase

from . import coarse, exact

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import aiosqlite

    from kipu.types import Index, Query, QueryEmbedding, Register, Strategy, Vectors, VectorSpace

Key = TypeVar("Key")

__all__ = ["Vector", "kipu_register_strategies"]


@attrs.frozen
class Vector(StrategyBase):
    """Searches by meaning: the chunks whose vectors are nearest to that of the query.

    The score is the cosine of the angle between the two, 0 where it is negative; such chunks are not returned. Where
    the embedder does not know the language of the query, all cosines are high and say little: the score is down to a
    fifth of them (`kipu.types.QueryEmbedding.confidence`). Chunks that have no vector yet are not found. The result is
    exact, also for vectors that are almost alike, and the same with sqlite-vec as without it; chunks that are equally
    near come in the order of their rows.
    """

    needs_vectors: ClassVar[bool] = True

    @property
    def schema_version(self) -> str:
        """The version of the tables, which are empty where SQLite cannot load sqlite-vec."""
        return "vec0-1" if coarse.is_available() else "numpy-1"

    async def create(self, connection: aiosqlite.Connection, space: VectorSpace) -> None:
        """Create empty tables for a space."""
        await self.drop(connection, space)
        if coarse.takes(space):
            await coarse.create(connection, space)

    async def add(
        self, connection: aiosqlite.Connection, space: VectorSpace, ids: Sequence[int], vectors: Vectors
    ) -> None:
        """Index the vectors of chunks; what was indexed under the same ids is replaced."""
        if coarse.takes(space):
            await coarse.add(connection, space, ids, vectors)

    async def remove(self, connection: aiosqlite.Connection, space: VectorSpace, ids: Sequence[int]) -> None:
        """Remove chunks."""
        if coarse.takes(space):
            await coarse.remove(connection, space, ids)

    async def scrub(self, connection: aiosqlite.Connection, space: VectorSpace) -> None:
        """Leave nothing of what was removed: sqlite-vec has overwritten it with zeros."""

    async def drop(self, connection: aiosqlite.Connection, space: VectorSpace) -> None:
        """Drop the tables for a space."""
        await coarse.drop(connection, space)

    async def search(self, query: Query, index: Index) -> list[Hit]:
        """Return the chunks nearest to the query that pass its filters, nearest first."""
        if query.embedding is None or query.limit < 1:
            return []
        nearest = await self._nearest(query, query.embedding, index)
        chunks = await index.chunks([chunk_id for chunk_id, _ in nearest])
        return [
            Hit(chunk=chunks[chunk_id], score=score, scores={"vector": score})
            for chunk_id, score in _scores(nearest, query.embedding).items()
            if chunk_id in chunks
        ]

    async def score(self, query: Query, index: Index, ids: Sequence[int]) -> dict[int, float]:
        """Return the scores of those of the chunks that have a vector."""
        if query.embedding is None:
            return {}
        cosines = await _cosines(query.embedding, index, ids)
        return _scores(cosines.items(), query.embedding)

    async def score_files(self, query: Query, index: Index, paths: Sequence[str]) -> dict[str, float]:
        """Return the cosine of the query with the mean of the vectors of each file's chunks.

        Of a long file, 16 chunks stand for all of them. A file without vectors is left out.
        """
        if query.embedding is None:
            return {}
        found = await exact.cosines_of_files(index, query.embedding, paths)
        return _scores(found.items(), query.embedding)

    async def _nearest(self, query: Query, embedding: QueryEmbedding, index: Index) -> list[tuple[int, float]]:
        where = index.where(query)
        if coarse.takes(embedding.space):
            candidates = await coarse.candidates(index.connection, embedding, where, query.limit)
            cosines = await _cosines(embedding, index, candidates.ids) if candidates.ids else {}
            nearest = exact.best(cosines, query.limit)
            # Chunks that are no candidates cannot be as near as the last of these.
            if candidates.highest_other < (nearest[-1][1] if len(nearest) == query.limit else 0.0):
                return nearest
        return await exact.scan(index.connection, embedding, where, query.limit)


def _scores(cosines: Iterable[tuple[Key, float]], embedding: QueryEmbedding) -> dict[Key, float]:
    """Return the scores that cosines are worth."""
    return {key: max(0.0, cosine) * embedding.confidence for key, cosine in cosines}


async def _cosines(embedding: QueryEmbedding, index: Index, ids: Sequence[int]) -> dict[int, float]:
    """Return the cosines of the query with the chunks that have a vector."""
    found, vectors = await index.vectors(embedding.space, ids)
    return dict(zip(found, exact.cosines(vectors, embedding.vector), strict=True)) if found else {}


@hookimpl
def kipu_register_strategies(register: Register[Strategy]) -> None:
    """Register the strategy ``vector``."""
    register("vector", Vector)
