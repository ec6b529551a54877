"""The vectors of the index: in which spaces, of which texts, and which chunks are still to be embedded.

A vector belongs to a text, not to a chunk: it is stored once for all chunks with that text, and cached when they are
gone, so that a text that comes back is not embedded again. The table ``unembedded`` names the chunks that are pending
in each space, so that no search has to compare all chunks with all vectors.

All functions run within a transaction or a snapshot of the caller. Most joins are a ``CROSS JOIN``, in which SQLite
keeps the order of the tables: it does not know the number of rows, and would often begin with all vectors of a space.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from ..errors import EmbedderError
from ..sqlite import in_batches
from ..types import VectorSpace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    import aiosqlite

    from ..types import Vectors

BYTES_PER_NUMBER = 4
"""The size of a number in a stored vector: float32."""

# Vectors are stored with the length 1. If the square of a length is further from 1 than this, the vector is damaged.
_TOLERANCE = 2e-3
_PAGE = 1024


class KnownSpace(NamedTuple):
    """A space, with dimension 0 until the first vector is stored, and the recipe for its embedder: JSON, no secrets."""

    space: VectorSpace
    recipe: str


class PendingText(NamedTuple):
    """What is to be embedded of a chunk, and where it is."""

    chunk_id: int
    hash: str
    path: str
    start_line: int
    heading: str
    context: str
    text: str


class Stored(NamedTuple):
    """The chunks that got a vector, by their ids, and those among them that had another one before."""

    vectors: list[tuple[int, bytes]]
    replaced: list[int]


# --- Spaces --------------------------------------------------------------------------------------------------------


async def make_space(
    connection: aiosqlite.Connection, known: KnownSpace | None, identity: str, recipe: str, dimension: int = 0
) -> VectorSpace:
    """Return the space of an embedder with its recipe and dimension. In a new space, every chunk is pending.

    :param known: the space as it is, None if there is none.
    :param dimension: that of the vectors about to be stored, 0 before the first.
    :raises EmbedderError: the space has another dimension.
    """
    if known is None:
        cursor = await connection.execute(
            "INSERT INTO spaces (identity, dimension, recipe) VALUES (?, ?, ?)", (identity, dimension, recipe)
        )
        space = VectorSpace(int(cursor.lastrowid or 0), identity, dimension)
        await mark_all_pending(connection, space)
        return space
    if known.recipe != recipe:
        await connection.execute("UPDATE spaces SET recipe = ? WHERE id = ?", (recipe, known.space.id))
    if dimension in (0, known.space.dimension):
        return known.space
    if known.space.dimension > 0:
        raise EmbedderError(
            f"The embedder returned vectors of dimension {dimension}, but those that the index has of {identity} are "
            f"of dimension {known.space.dimension}: none was stored. Another process may be embedding with another "
            "model."
        )
    return await reset_space(connection, known.space, dimension)


async def reset_space(connection: aiosqlite.Connection, space: VectorSpace, dimension: int) -> VectorSpace:
    """Give a space another dimension: drop its vectors and the tables of strategies, and mark all chunks pending."""
    await connection.execute("DELETE FROM embeddings WHERE space_id = ?", (space.id,))
    await connection.execute("DELETE FROM strategies WHERE space_id = ?", (space.id,))
    await connection.execute("UPDATE spaces SET dimension = ? WHERE id = ?", (dimension, space.id))
    await mark_all_pending(connection, space)
    return VectorSpace(space.id, space.identity, dimension)


async def mark_all_pending(connection: aiosqlite.Connection, space: VectorSpace) -> None:
    """Have every chunk embedded again. The stored vectors go on answering until they are replaced."""
    await connection.execute(
        "INSERT OR IGNORE INTO unembedded (space_id, chunk_id) SELECT ?, id FROM chunks", (space.id,)
    )


# --- What is pending -----------------------------------------------------------------------------------------------


def of_sources(sources: Sequence[str]) -> str:
    """Return the SQL condition that a chunk is of one of the sources, which are its parameters; without any, "1"."""
    marks = ", ".join("?" * len(sources))
    return f"chunks.file_id IN (SELECT id FROM files WHERE source IN ({marks}))" if sources else "1"


async def pending_texts(
    connection: aiosqlite.Connection,
    space: VectorSpace,
    limit: int,
    *,
    before: int = sys.maxsize,
    refused: bool = False,
    sources: Sequence[str] = (),
) -> list[PendingText]:
    """Return a page of the chunks that are pending in a space, newest first.

    :param before: only chunks with a smaller id.
    :param refused: return those that the embedder refused, not the others.
    :param sources: only chunks of these sources; all if there are none.
    """
    rows = await connection.execute_fetchall(
        "SELECT chunks.id, chunks.hash, files.path, chunks.start_line, chunks.heading, chunks.context, chunks.text "
        "FROM unembedded CROSS JOIN chunks ON space_id = ? AND chunks.id = chunk_id "
        "JOIN files ON files.id = chunks.file_id "
        f"WHERE chunk_id < ? AND unembedded.problem IS {'NOT ' if refused else ''}NULL AND {of_sources(sources)} "
        "ORDER BY chunk_id DESC LIMIT ?",
        (space.id, before, *sources, min(limit, _PAGE)),
    )
    return [PendingText._make(row) for row in rows]


async def refuse(connection: aiosqlite.Connection, space: VectorSpace, problems: Mapping[str, str]) -> None:
    """Record why the texts with these hashes got no vector. Only indexing retries them."""
    await connection.executemany(
        "UPDATE unembedded SET problem = ? WHERE space_id = ? AND chunk_id IN (SELECT id FROM chunks WHERE hash = ?)",
        [(problem, space.id, hash) for hash, problem in problems.items()],
    )


# --- What is stored ------------------------------------------------------------------------------------------------


async def store(connection: aiosqlite.Connection, space: VectorSpace, vectors: Mapping[str, bytes]) -> Stored:
    """Store vectors by the hash of their text, and return the chunks that got one.

    Texts that are not pending any more are left out: another process has embedded them, or they are gone.
    """
    rows: list[Any] = []
    for marks, batch in in_batches(list(vectors)):
        rows += await connection.execute_fetchall(
            "SELECT chunks.id, chunks.hash, embeddings.id IS NOT NULL FROM chunks "
            "CROSS JOIN unembedded ON unembedded.space_id = ? AND chunk_id = chunks.id "
            "LEFT JOIN embeddings ON embeddings.space_id = unembedded.space_id AND embeddings.hash = chunks.hash "
            f"WHERE chunks.hash IN ({marks})",
            (space.id, *batch),
        )
    now = time.time_ns()
    await connection.executemany(
        "INSERT OR REPLACE INTO embeddings (space_id, hash, vector, used) VALUES (?, ?, ?, ?)",
        [(space.id, hash, vectors[hash], now) for hash in {row[1] for row in rows}],
    )
    await connection.executemany(
        "DELETE FROM unembedded WHERE space_id = ? AND chunk_id = ?", [(space.id, row[0]) for row in rows]
    )
    return Stored([(row[0], vectors[row[1]]) for row in rows], [row[0] for row in rows if row[2]])


async def attach_cached(
    connection: aiosqlite.Connection, chunk_ids: Sequence[int]
) -> dict[VectorSpace, list[tuple[int, bytes]]]:
    """Return the vectors that the index has of new chunks already; mark the chunks pending in all other spaces."""
    attached: dict[VectorSpace, list[tuple[int, bytes]]] = {}
    used: list[tuple[int, int]] = []
    now = time.time_ns()
    for marks, batch in in_batches(chunk_ids):
        for row in await connection.execute_fetchall(
            "SELECT spaces.id, identity, dimension, chunks.id, vector, embeddings.id FROM chunks CROSS JOIN spaces "
            "CROSS JOIN embeddings ON space_id = spaces.id AND embeddings.hash = chunks.hash "
            f"WHERE chunks.id IN ({marks}) AND length(vector) = {BYTES_PER_NUMBER} * dimension",
            batch,
        ):
            attached.setdefault(VectorSpace(*row[:3]), []).append((row[3], row[4]))
            used.append((now, row[5]))
        await connection.execute(
            "INSERT OR IGNORE INTO unembedded (space_id, chunk_id) SELECT spaces.id, chunks.id "
            f"FROM spaces CROSS JOIN chunks WHERE chunks.id IN ({marks}) AND NOT EXISTS (SELECT 1 FROM embeddings "
            "WHERE space_id = spaces.id AND embeddings.hash = chunks.hash "
            f"AND length(vector) = {BYTES_PER_NUMBER} * dimension)",
            batch,
        )
    if used:
        await connection.executemany("UPDATE embeddings SET used = ? WHERE id = ?", used)
    return attached


async def detach(connection: aiosqlite.Connection, chunk_ids: Sequence[int]) -> None:
    """Drop the pending entries of chunks that are about to be deleted, and note when their vectors were used last."""
    if not chunk_ids:
        return
    await connection.executemany(
        "DELETE FROM unembedded WHERE space_id IN (SELECT id FROM spaces) AND chunk_id = ?",
        [(id,) for id in chunk_ids],
    )
    now = time.time_ns()
    await connection.executemany(
        "UPDATE embeddings SET used = ? "
        "WHERE space_id IN (SELECT id FROM spaces) AND hash = (SELECT hash FROM chunks WHERE id = ?)",
        [(now, id) for id in chunk_ids],
    )


async def forget_vectors(connection: aiosqlite.Connection) -> None:
    """Delete the vectors of texts that no chunk has any more, in every space: all that the cache has."""
    await connection.execute("DELETE FROM embeddings WHERE hash NOT IN (SELECT hash FROM chunks)")


async def evictable(connection: aiosqlite.Connection, space: VectorSpace, cache_bytes: int) -> list[int]:
    """Return the ids of cached vectors beyond the size of the cache, least recently used first to go.

    Cached is every vector that no chunk needs in ``space``: those of deleted texts, and all of other spaces.
    """
    rows = await connection.execute_fetchall(
        "SELECT id, length(vector) FROM embeddings WHERE NOT (space_id = ? AND hash IN (SELECT hash FROM chunks)) "
        "ORDER BY used DESC, id DESC",
        (space.id,),
    )
    size, ids = 0, []
    for id, length in rows:
        size += length
        if size > cache_bytes:
            ids.append(id)
    return ids


async def evict(connection: aiosqlite.Connection, ids: Sequence[int]) -> None:
    """Delete vectors by their ids. Chunks that lose one are pending again."""
    gone = [(id,) for id in ids]
    if not gone:
        return
    await connection.executemany(
        "INSERT OR IGNORE INTO unembedded (space_id, chunk_id) SELECT space_id, chunks.id FROM embeddings "
        "JOIN chunks USING (hash) WHERE embeddings.id = ?",
        gone,
    )
    await connection.executemany("DELETE FROM embeddings WHERE id = ?", gone)


# --- Reading -------------------------------------------------------------------------------------------------------


async def read_vectors(
    connection: aiosqlite.Connection, space: VectorSpace, ids: Iterable[int]
) -> tuple[list[int], Vectors]:
    """Return the ids of the chunks that have a vector, in the order given, and a matrix with a row for each."""
    wanted = list(dict.fromkeys(ids))
    found: dict[int, bytes] = {}
    for marks, batch in in_batches(wanted):
        rows = await connection.execute_fetchall(
            "SELECT chunks.id, vector FROM chunks CROSS JOIN embeddings "
            f"ON space_id = ? AND embeddings.hash = chunks.hash WHERE chunks.id IN ({marks}) "
            f"AND {has_right_length(space)}",
            (space.id, *batch),
        )
        found.update((row[0], row[1]) for row in rows)
    return decode_vectors([(id, found[id]) for id in wanted if id in found], space.dimension)


def has_right_length(space: VectorSpace) -> str:
    """Return the SQL condition that a stored vector is as long as the dimension of its space says."""
    return f"length(vector) = {BYTES_PER_NUMBER * space.dimension}"


def decode_vectors(vectors: Sequence[tuple[int, bytes]], dimension: int) -> tuple[list[int], Vectors]:
    """Return the ids of vectors in the order given, and a matrix with a row for each. Damaged ones are left out.

    :param vectors: stored vectors by some id, all of them as long as the dimension says.
    """
    import numpy as np

    rows = np.frombuffer(b"".join(vector for _, vector in vectors), "<f4").reshape(len(vectors), dimension)
    with np.errstate(all="ignore"):  # the numbers of a damaged vector may be anything
        rows = rows.astype(np.float32, copy=False)
        is_intact = np.abs(np.einsum("ij,ij->i", rows, rows) - 1.0) < _TOLERANCE
    ids = [id for (id, _), intact in zip(vectors, is_intact.tolist(), strict=True) if intact]
    return ids, rows if len(ids) == len(vectors) else rows[is_intact]
