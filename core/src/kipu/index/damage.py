"""Stored vectors that reads ignore: what `kipu doctor` names, and `kipu index --force` has embedded again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .queries import read_snapshot
from .vectors import BYTES_PER_NUMBER, decode_vectors

if TYPE_CHECKING:
    from .database import Connection

_READ_AT_A_TIME = 1000


async def find_damaged(connection: Connection) -> list[int]:
    """Return the ids of stored vectors that have not the dimension of their space or not the length 1."""
    damaged: list[int] = []
    for known in (await read_snapshot(connection)).spaces.values():
        size, last = BYTES_PER_NUMBER * known.space.dimension, 0
        while rows := list(
            await connection.execute_fetchall(
                "SELECT id, vector FROM embeddings WHERE space_id = ? AND id > ? ORDER BY id LIMIT ?",
                (known.space.id, last, _READ_AT_A_TIME),
            )
        ):
            last = rows[-1][0]
            vectors = [(row[0], row[1]) for row in rows if len(row[1]) == size > 0]
            intact = set(decode_vectors(vectors, known.space.dimension)[0]) if vectors else set()
            damaged += [row[0] for row in rows if row[0] not in intact]
    return damaged


async def drop_damaged(connection: Connection) -> None:
    """Delete damaged vectors, and mark all chunks pending that have no vector."""
    damaged = [(id,) for id in await find_damaged(connection)]
    await connection.executemany("DELETE FROM embeddings WHERE id = ?", damaged)
    await connection.execute(
        "INSERT OR IGNORE INTO unembedded (space_id, chunk_id) SELECT spaces.id, chunks.id FROM spaces "
        "CROSS JOIN chunks WHERE NOT EXISTS "
        "(SELECT 1 FROM embeddings WHERE space_id = spaces.id AND embeddings.hash = chunks.hash)"
    )
