"""How far the vectors of each space cover the chunks of the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .vectors import of_sources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import aiosqlite

    from ..types import VectorSpace


@attrs.frozen
class Coverage:
    """How many chunks there are, and, by the id of a space, how many of them it does not cover yet.

    ``pending`` chunks are to be embedded; those that are ``lacking`` have no vector, the others one that is to be
    replaced; ``awaited`` are lacking ones that were not refused.
    """

    chunks: int
    pending: Mapping[int, int]
    lacking: Mapping[int, int]
    awaited: Mapping[int, int]


async def read_coverage(connection: aiosqlite.Connection, sources: Sequence[str] = ()) -> Coverage:
    """Read the coverage of all spaces, in one statement, since each is a round trip to another thread.

    :param sources: count only chunks of these sources; all if there are none.
    """
    rows = await connection.execute_fetchall(
        f"WITH counted AS (SELECT id, hash FROM chunks WHERE {of_sources(sources)}) "
        "SELECT 0, count(*), 0, 0 FROM counted UNION ALL "
        "SELECT space_id, count(*), sum(lacking), sum(lacking AND awaited) FROM (SELECT space_id, "
        "problem IS NULL AS awaited, NOT EXISTS (SELECT 1 FROM embeddings AS e WHERE e.space_id = unembedded.space_id "
        "AND e.hash = counted.hash) AS lacking FROM unembedded CROSS JOIN counted ON counted.id = chunk_id) "
        "GROUP BY space_id",
        tuple(sources),
    )
    (_, count, *_), *spaces = sorted(rows)
    pending, lacking, awaited = ({row[0]: row[place] for row in spaces} for place in (1, 2, 3))
    return Coverage(count, pending, lacking, awaited)


async def count_pending(
    connection: aiosqlite.Connection, space: VectorSpace, sources: Sequence[str] = ()
) -> tuple[int, int]:
    """Return how many chunks are pending in a space, and how many of them the embedder refused.

    :param sources: count only chunks of these sources; all if there are none.
    """
    chosen = f"chunk_id IN (SELECT id FROM chunks WHERE {of_sources(sources)})" if sources else "1"
    ((pending, refused),) = await connection.execute_fetchall(
        f"SELECT count(*), count(problem) FROM unembedded WHERE space_id = ? AND {chosen}", (space.id, *sources)
    )
    return pending, refused
