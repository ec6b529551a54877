"""Finds vectors in the index that cannot be right, and puts their chunks among those that are still to be embedded.

There are none unless a disk has lost bits, another program has changed the index, or an earlier version of Kipu was at
fault. The tables that strategies make of vectors are not looked at here: see `kipu.tables`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..types import VectorSpace
from .vectors import BYTES_PER_NUMBER, sound, usable

if TYPE_CHECKING:
    import aiosqlite

__all__ = ["mend", "something_lost"]

_READ_AT_A_TIME = 1000
_WITHOUT_VECTOR = (
    "NOT EXISTS (SELECT 1 FROM embeddings WHERE space_id = :space AND embeddings.hash = chunks.hash) "
    "AND NOT EXISTS (SELECT 1 FROM unembedded WHERE space_id = :space AND chunk_id = chunks.id)"
)


async def something_lost(connection: aiosqlite.Connection, space: VectorSpace) -> bool:
    """Whether a vector is of another length than those of its space, or a chunk has none and is not pending.

    No vector is read for it: those that have the right length and cannot be all the same, only `mend` finds.
    """
    if space.dimension < 1:
        return True
    (row,) = await connection.execute_fetchall(
        f"SELECT EXISTS (SELECT 1 FROM embeddings WHERE space_id = :space AND NOT {sound(space)}) "
        f"OR EXISTS (SELECT 1 FROM chunks WHERE {_WITHOUT_VECTOR})",
        {"space": space.id},
    )
    return bool(row[0])


async def mend(connection: aiosqlite.Connection, space: VectorSpace) -> VectorSpace:
    """Throw away the vectors that cannot be of a space, and have embedded again what has none.

    :return: the space, with the dimension that most of its vectors have if it had none.
    """
    if space.dimension < 1:
        space = await _with_dimension(connection, space)
    await connection.execute(f"DELETE FROM embeddings WHERE space_id = ? AND NOT {sound(space)}", (space.id,))
    last = 0
    while True:
        rows = [
            (row[0], row[1])
            for row in await connection.execute_fetchall(
                "SELECT id, vector FROM embeddings WHERE id > ? AND space_id = ? ORDER BY id LIMIT ?",
                (last, space.id, _READ_AT_A_TIME),
            )
        ]
        if not rows:
            break
        last = rows[-1][0]
        good = set(usable(rows, space.dimension)[0])
        bad = [(id,) for id, _ in rows if id not in good]
        await connection.executemany("DELETE FROM embeddings WHERE id = ?", bad)
    await connection.execute(
        f"INSERT INTO unembedded (space_id, chunk_id) SELECT :space, id FROM chunks WHERE {_WITHOUT_VECTOR}",
        {"space": space.id},
    )
    return space


async def _with_dimension(connection: aiosqlite.Connection, space: VectorSpace) -> VectorSpace:
    """A space with the dimension that most of its vectors have, and without the tables that were made for another."""
    rows = await connection.execute_fetchall(
        f"SELECT length(vector) / {BYTES_PER_NUMBER} AS dimension FROM embeddings WHERE space_id = ? "
        "GROUP BY dimension ORDER BY count(*) DESC, dimension LIMIT 1",
        (space.id,),
    )
    dimension = next((int(row[0]) for row in rows), 0)  # 0 is for the first vector to change
    await connection.execute("UPDATE spaces SET dimension = ? WHERE id = ?", (dimension, space.id))
    await connection.execute("DELETE FROM strategies WHERE space_id = ?", (space.id,))
    return VectorSpace(space.id, space.identity, dimension)
