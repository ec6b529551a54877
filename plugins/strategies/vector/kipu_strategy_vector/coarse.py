"""An index of small vectors, in a vec0 table of sqlite-vec, which finds candidates for the exact comparison.

A vector of length 1 is kept as whole numbers from -127 to 127: a byte for each, where the kernel's own copy has four.
The cosine does not depend on the scale, so each vector has its own, the finest that it can have. What is lost is the
*error*: the distance between the vector and the one that is kept, scaled back to length 1.

That makes the answer provable. For the query *q* and a vector *v*, and *q'* and *v'* as they are kept, the inequality
of Cauchy and Schwarz gives ``q·v - q'·v' = q·(v - v') + (q - q')·v' <= |v - v'| + |q - q'|``. So a chunk that is no
candidate, and therefore has a coarse cosine of no more than the last candidate's, has an exact one of no more than
that, plus the error of the query, plus the largest error in the table, which is kept beside it.

A table for another kind of index, an approximate one too, needs the functions of this module and no others.
"""

from __future__ import annotations

import logging
import math
import sqlite3
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kipu.types import sqlite_driver

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import aiosqlite
    import numpy as np
    from numpy.typing import NDArray

    from kipu.types import QueryEmbedding, Vectors, VectorSpace

__all__ = ["Candidates", "add", "candidates", "create", "drop", "is_available", "remove", "takes"]

_logger = logging.getLogger("kipu.vector")

_CANDIDATES_PER_HIT = 4
_FEWEST_CANDIDATES = 200
_MOST_CANDIDATES = 4096
"""What vec0 returns at most."""

_MOST_DIMENSIONS = 8192
"""What vec0 takes at most."""

_SHADOWS = ("chunks", "rowids", "vector_chunks00")
"""The tables in which vec0 keeps the rows of a table."""


class Candidates(NamedTuple):
    """Chunks that may be nearest to a query, and the highest cosine that any other one can have."""

    ids: list[int]
    highest_other: float


_PROVE_NOTHING = Candidates([], math.inf)


# --- sqlite-vec ----------------------------------------------------------------------------------------------------


@cache
def is_available() -> bool:
    """Return whether the SQLite that Kipu uses in this process can load sqlite-vec."""
    try:
        import sqlite_vec  # type: ignore[import-untyped]
    except ImportError:  # some platforms have no wheel
        return False
    connection = sqlite_driver().connect(":memory:")
    try:
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
    except (AttributeError, sqlite3.Error, sqlite_driver().Error):  # a build without extensions
        return False
    finally:
        connection.close()
    return True


def takes(space: VectorSpace) -> bool:
    """Return whether vectors of a space can be indexed here; where they cannot, all of them are compared."""
    return is_available() and space.dimension <= _MOST_DIMENSIONS


async def _load(connection: aiosqlite.Connection) -> None:
    """Load sqlite-vec into a connection, unless it is there."""
    import sqlite_vec

    functions = "SELECT 1 FROM pragma_function_list WHERE name = 'vec_version' LIMIT 1"
    if not list(await connection.execute_fetchall(functions)):
        await connection.enable_load_extension(True)
        try:
            await connection.load_extension(sqlite_vec.loadable_path())
        finally:
            await connection.enable_load_extension(False)


# --- The tables ----------------------------------------------------------------------------------------------------


def _names(space: VectorSpace) -> tuple[str, str]:
    """Return the names of the vec0 table of a space, and of the table with its largest error."""
    return f"vector_coarse_{space.id}", f"vector_error_{space.id}"


async def create(connection: aiosqlite.Connection, space: VectorSpace) -> None:
    """Create empty tables; there must be none."""
    await _load(connection)
    table, error = _names(space)
    await connection.execute(
        f"CREATE VIRTUAL TABLE {table} USING vec0(vector int8[{space.dimension}] distance_metric=cosine)"
    )
    await connection.execute(f"CREATE TABLE {error}(largest REAL NOT NULL)")
    await connection.execute(f"INSERT INTO {error}(largest) VALUES (0)")


async def add(connection: aiosqlite.Connection, space: VectorSpace, ids: Sequence[int], vectors: Vectors) -> None:
    """Index vectors; what was indexed under the same ids is replaced."""
    if not ids:
        return
    await remove(connection, space, ids)
    table, error = _names(space)
    kept, errors = _coarsen(vectors)
    rows = [(chunk_id, row.tobytes()) for chunk_id, row in zip(ids, kept, strict=True)]
    await connection.executemany(f"INSERT INTO {table}(rowid, vector) VALUES (?, vec_int8(?))", rows)
    await connection.execute(f"UPDATE {error} SET largest = max(largest, ?)", (float(errors.max()),))


async def remove(connection: aiosqlite.Connection, space: VectorSpace, ids: Sequence[int]) -> None:
    """Remove chunks; ids that are not indexed are ignored."""
    await _load(connection)
    table, error = _names(space)
    # Where one of its tables is missing, vec0 may end the process.
    needed = ", ".join(f"{table}_{shadow}" for shadow in _SHADOWS)
    await connection.execute_fetchall(f"SELECT 1 FROM {error}, {needed} LIMIT 0")
    await connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", [(chunk_id,) for chunk_id in ids])


async def drop(connection: aiosqlite.Connection, space: VectorSpace) -> None:
    """Drop the tables, if they exist; also where sqlite-vec, which made them, is not available."""
    table, error = _names(space)
    await connection.execute(f"DROP TABLE IF EXISTS {error}")
    if is_available():
        await _load(connection)
        try:
            await connection.execute(f"DROP TABLE IF EXISTS {table}")
        except (sqlite3.Error, sqlite_driver().Error):
            pass  # the tables in which vec0 keeps its rows are damaged
        else:
            return
    rows = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB ?"
    for (name,) in list(await connection.execute_fetchall(rows, (f"{table}_*",))):
        await connection.execute(f"DROP TABLE IF EXISTS {name}")
    # The virtual table itself has no pages, only an entry.
    await connection.execute("PRAGMA writable_schema = 1")
    await connection.execute("DELETE FROM sqlite_schema WHERE name = ?", (table,))
    await connection.execute("PRAGMA writable_schema = RESET")


def _is_of_tables(error: Exception) -> bool:
    """Return whether SQLite complains of a statement or a table, and not of the file, a lock or the disk."""
    generic = 1  # https://www.sqlite.org/rescode.html
    return getattr(error, "sqlite_errorcode", generic) == generic


# --- Searching -----------------------------------------------------------------------------------------------------


async def candidates(
    connection: aiosqlite.Connection, embedding: QueryEmbedding, where: tuple[str, Sequence[Any]], limit: int
) -> Candidates:
    """Return chunks that pass the filter and may be the ``limit`` nearest ones; none where that proves nothing.

    Few chunks prove nothing: the table may lack some, and few are quickly compared.
    """
    await _load(connection)
    table, error = _names(embedding.space)
    condition, parameters = where
    filtered = f"""AND rowid IN (
        SELECT kipu_chunks.id FROM kipu_chunks JOIN kipu_files ON kipu_files.id = file_id WHERE {condition}
    )"""
    wanted = min(_MOST_CANDIDATES, max(_FEWEST_CANDIDATES, _CANDIDATES_PER_HIT * limit))
    [query], [query_error] = _coarsen(embedding.vector[None, :])
    statement = (
        f"SELECT rowid, distance FROM {table} WHERE vector MATCH vec_int8(?) AND k = ? "
        f"{'' if condition == '1' else filtered}"
    )
    try:
        rows = list(await connection.execute_fetchall(statement, [query.tobytes(), wanted, *parameters]))
    except (sqlite3.OperationalError, sqlite_driver().OperationalError) as error_of_sqlite:
        if not _is_of_tables(error_of_sqlite) or "no such table" in str(error_of_sqlite):  # the kernel rebuilds those
            raise
        _logger.warning("The index of vectors is damaged (%s). To rebuild it: kipu index --force", error_of_sqlite)
        return _PROVE_NOTHING
    distances = [row[1] for row in rows if row[1] is not None and math.isfinite(row[1])]
    errors = [row[0] for row in await connection.execute_fetchall(f"SELECT largest FROM {error}")]
    if len(distances) < wanted or len(errors) != 1:
        return _PROVE_NOTHING
    # sqlite-vec computes with float32 numbers, whose rounding adds up over the dimensions.
    rounding = embedding.space.dimension * 2.0**-23 + 1e-6
    lowest = 1.0 - max(distances)
    return Candidates([row[0] for row in rows], lowest + errors[0] + float(query_error) + rounding)


def _coarsen(vectors: Vectors) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Return vectors of length 1 as whole numbers from -127 to 127, and the error of each."""
    import numpy as np

    exact = vectors.astype(np.float64)
    kept = np.rint(exact * (127 / np.abs(exact).max(axis=1, keepdims=True)))
    errors = np.linalg.norm(exact - kept / np.linalg.norm(kept, axis=1, keepdims=True), axis=1)
    return kept.astype(np.int8), errors
