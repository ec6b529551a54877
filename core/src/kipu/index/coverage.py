"""How far the vectors of each space cover the chunks of the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import aiosqlite

    from ..types import VectorSpace

__all__ = ["Coverage", "count_pending", "read_coverage"]


async def count_pending(
    connection: aiosqlite.Connection,
    space: VectorSpace | None,
    *,
    refused: bool = True,
    only_lacking: bool = False,
    sources: Sequence[str] = (),
) -> int:
    """Return how many chunks are pending in a space; all chunks if there is no space.

    :param refused: count also texts that the embedder refused, which only indexing retries.
    :param only_lacking: count only chunks without a vector, not those whose vector is to be replaced.
    :param sources: count only chunks of these sources.
    """
    tables, conditions = "chunks", ["1"]
    parameters: list[Any] = []
    if space is not None:
        tables = "unembedded CROSS JOIN chunks ON space_id = ? AND chunks.id = chunk_id"
        parameters.append(space.id)
        if not refused:
            conditions.append("unembedded.problem IS NULL")
        if only_lacking:
            conditions.append(
                "NOT EXISTS (SELECT 1 FROM embeddings AS e WHERE e.space_id = ? AND e.hash = chunks.hash)"
            )
            parameters.append(space.id)
    if sources:
        tables += " JOIN files ON files.id = file_id"
        conditions.append(f"source IN ({', '.join('?' * len(sources))})")
        parameters += sources
    (row,) = await connection.execute_fetchall(
        f"SELECT count(*) FROM {tables} WHERE {' AND '.join(conditions)}", parameters
    )
    return int(row[0])


@attrs.frozen
class Coverage:
    """How many chunks the index has, and, by the id of a space, how many of them it does not cover yet.

    ``pending`` chunks are to be embedded; those that are ``lacking`` have no vector, the others one that is to be
    replaced; ``awaited`` are lacking ones that were not refused.
    """

    chunks: int
    pending: Mapping[int, int]
    lacking: Mapping[int, int]
    awaited: Mapping[int, int]


async def read_coverage(connection: aiosqlite.Connection) -> Coverage:
    """Read how far each space covers the chunks: in one statement, since each is a round trip to another thread."""
    rows = await connection.execute_fetchall(
        "SELECT 0, count(*), 0, 0 FROM chunks UNION ALL "
        "SELECT space_id, count(*), sum(lacking), sum(lacking AND awaited) FROM (SELECT space_id, "
        "problem IS NULL AS awaited, NOT EXISTS (SELECT 1 FROM embeddings AS e WHERE e.space_id = unembedded.space_id "
        "AND e.hash = chunks.hash) AS lacking FROM unembedded CROSS JOIN chunks ON chunks.id = chunk_id) "
        "GROUP BY space_id"
    )
    (_, chunks, *_), *spaces = sorted(rows)
    pending, lacking, awaited = ({row[0]: row[place] for row in spaces} for place in (1, 2, 3))
    return Coverage(chunks, pending, lacking, awaited)
