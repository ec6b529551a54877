"""The vectors that the kernel keeps, compared with that of a query one by one.

The cosine of two vectors of length 1 is their inner product. It is computed in float64 and rounded to six decimals,
which is as much as float32 numbers tell: so that equal vectors get equal cosines wherever they stand in a matrix, and
the same chunk the same one from a scan as from a candidate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import aiosqlite

    from kipu.types import Index, QueryEmbedding, Vectors

__all__ = ["DECIMALS", "best", "cosines", "cosines_of_files", "scan"]

DECIMALS = 6

_BLOCK = 4096
"""How many vectors are in memory at once in a scan: 6 MB of 384 numbers."""


_NO_COSINE = 1.001
"""From here on it is not rounding, but damage."""

_SAMPLE = 16
"""How many chunks stand for a file, at most, evenly spread. More change no figure that we measure."""

_PARAMETERS = 900  # of one statement: some builds of SQLite take no more than 999


def cosines(vectors: Vectors, query: Vectors) -> list[float]:
    """Return the cosine of the query with each of the vectors, all of length 1; 0 for one that is damaged."""
    import numpy as np

    with np.errstate(all="ignore"):  # a damaged vector may hold any number
        exact = vectors.astype(np.float64) @ query.astype(np.float64)
        exact = np.where(np.abs(exact) < _NO_COSINE, exact, 0.0)
    rounded: list[float] = np.clip(exact.round(DECIMALS), -1.0, 1.0).tolist()
    return rounded


def best(found: Mapping[int, float], limit: int) -> list[tuple[int, float]]:
    """Return the ids with the highest cosines, if positive, highest first; of equal ones, the lower id first."""
    positive = [(chunk_id, cosine) for chunk_id, cosine in found.items() if cosine > 0]
    return sorted(positive, key=lambda pair: (-pair[1], pair[0]))[:limit]


async def scan(
    connection: aiosqlite.Connection, embedding: QueryEmbedding, where: tuple[str, Sequence[Any]], limit: int
) -> list[tuple[int, float]]:
    """Compare the query with every vector that passes the filter, and return the `best` of them."""
    import numpy as np

    condition, parameters = where
    # CROSS JOIN keeps SQLite from going through all vectors once for each file.
    filtered = (
        "kipu_files CROSS JOIN kipu_chunks ON kipu_chunks.file_id = kipu_files.id "
        "CROSS JOIN kipu_vectors ON kipu_vectors.chunk_id = kipu_chunks.id"
    )
    statement = f"""
        SELECT chunk_id, vector FROM {"kipu_vectors" if condition == "1" else filtered}
        WHERE space_id = ? AND ({condition}) AND length(vector) = {4 * embedding.space.dimension}"""
    nearest: list[tuple[int, float]] = []
    async with connection.execute(statement, [embedding.space.id, *parameters]) as cursor:
        rows = None
        while rows is None or len(rows) == _BLOCK:
            rows = list(await cursor.fetchmany(_BLOCK))
            ids = [row[0] for row in rows]
            data = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f4")
            found = cosines(data.reshape(len(rows), embedding.space.dimension), embedding.vector)
            nearest = best(dict(nearest) | dict(zip(ids, found, strict=True)), limit)
    return nearest


async def cosines_of_files(index: Index, embedding: QueryEmbedding, paths: Sequence[str]) -> dict[str, float]:
    """Return the cosine of the query with the mean of the vectors of each file, by path."""
    import numpy as np

    path_of = await _samples(index.connection, paths)
    found, vectors = await index.vectors(embedding.space, list(path_of))
    rows: dict[str, list[int]] = {}
    for row, chunk_id in enumerate(found):
        rows.setdefault(path_of[chunk_id], []).append(row)
    if not rows:
        return {}
    means = np.array([vectors[of_file].mean(axis=0) for of_file in rows.values()])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    means = (means / np.where(lengths, lengths, 1)).astype(np.float32)
    return dict(zip(rows, cosines(means, embedding.vector), strict=True))


async def _samples(connection: aiosqlite.Connection, paths: Sequence[str]) -> dict[int, str]:
    """Return chunks that stand for files, with the paths of these: all of a short file, some of a long one."""
    path_of: dict[int, str] = {}
    for start in range(0, len(paths), _PARAMETERS):
        some = paths[start : start + _PARAMETERS]
        # Each is looked up by its position: this takes the same time in a file of any length.
        statement = f"""
            WITH RECURSIVE step(number) AS (
                SELECT 0 UNION ALL SELECT number + 1 FROM step WHERE number < {_SAMPLE - 1}
            ),
            long(id, path, length) AS MATERIALIZED (
                SELECT id, path, (SELECT max(position) + 1 FROM kipu_chunks WHERE file_id = kipu_files.id)
                FROM kipu_files WHERE path IN ({", ".join("?" * len(some))})
            )
            SELECT DISTINCT kipu_chunks.id, long.path FROM long CROSS JOIN step CROSS JOIN kipu_chunks
            ON file_id = long.id AND position = (2 * number + 1) * length / {2 * _SAMPLE}"""
        path_of.update(await connection.execute_fetchall(statement, some))  # type: ignore[arg-type]
    return path_of
