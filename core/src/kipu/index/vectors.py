"""The vectors that the index has: in which spaces, of which texts, and which chunks still lack one.

A vector belongs to a text, not to a chunk: it is kept once for all chunks that say the same, and stays when they are
gone, so that what comes back need not be embedded again. Which chunks lack one is written down when chunks change, so
that a search can tell without looking at all of them.

All functions run within a transaction or a snapshot of the caller's. SQLite, which knows nothing of how many rows there
are, would often begin a join with all vectors of a space: ``CROSS JOIN`` has it begin with the few that are meant.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..errors import EmbedderError
from ..types import VectorSpace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    import aiosqlite

    from ..types import Vectors

__all__ = [
    "AWAITED",
    "BYTES_PER_NUMBER",
    "KnownSpace",
    "PendingText",
    "State",
    "count_lacking",
    "count_pending",
    "count_vectors",
    "evict",
    "expect_all",
    "forget_vectors",
    "keep_room",
    "known_spaces",
    "let_go",
    "make_space",
    "parts",
    "pending_texts",
    "read_vectors",
    "refuse",
    "sound",
    "space_of",
    "start_anew",
    "still_pending",
    "store",
    "take_in",
    "usable",
]


State = Literal["new", "suspect", "refused"]
"""What is known of a pending text: nothing, that a call with it failed, or that its vector could not be used."""

_ALL_STATES: tuple[State, ...] = ("new", "suspect", "refused")
AWAITED: tuple[State, ...] = ("new", "suspect")
"""The states of what will be embedded by itself; what was refused takes somebody who asks for it."""

_STATES: dict[str, str] = {
    "new": "unembedded.problem IS NULL",
    "suspect": "unembedded.problem = ''",
    "refused": "unembedded.problem > ''",
}


BYTES_PER_NUMBER = 4
"""Of a vector as it is kept: float32."""

# How far the square of a length may be from 1. Vectors are kept with the length 1, and are damaged where they have not.
_TOLERANCE = 2e-3


class KnownSpace(NamedTuple):
    """A space that the index has vectors in, and the recipe for its embedder: JSON, without secrets."""

    space: VectorSpace
    recipe: str


class PendingText(NamedTuple):
    """What is to be embedded of a chunk, and where it stands."""

    chunk_id: int
    hash: str
    path: str
    start_line: int
    heading: str
    context: str
    text: str


async def known_spaces(connection: aiosqlite.Connection) -> dict[str, KnownSpace]:
    """The spaces that the index has, by the identity of their embedder."""
    rows = await connection.execute_fetchall("SELECT id, identity, dimension, recipe FROM spaces ORDER BY id")
    return {row[1]: KnownSpace(VectorSpace(row[0], row[1], row[2]), row[3]) for row in rows}


async def space_of(connection: aiosqlite.Connection, identity: str) -> VectorSpace:
    """The space of an embedder. Before its first vector it has no dimension, and its id is below 0.

    The id is made of the identity, so that what is written down of texts before is not taken for another embedder's.
    """
    known = (await known_spaces(connection)).get(identity)
    if known is not None:
        return known.space
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest()
    return VectorSpace(-1 - int.from_bytes(digest[:7]), identity, 0)


async def make_space(connection: aiosqlite.Connection, identity: str, dimension: int, recipe: str) -> VectorSpace:
    """The space of an embedder; where it is new, every chunk lacks a vector in it.

    :raises EmbedderError: the space has another dimension.
    """
    known = (await known_spaces(connection)).get(identity)
    if known is not None:
        if known.space.dimension < 1:  # it was lost
            await start_anew(connection, known.space, dimension)
            return VectorSpace(known.space.id, identity, dimension)
        if known.space.dimension != dimension:
            raise EmbedderError(
                f"Vectors of dimension {dimension} came, and those that the index has of {identity} are of dimension "
                f"{known.space.dimension}: none was stored. Another process may be embedding with another model."
            )
        if known.recipe != recipe:
            await connection.execute("UPDATE spaces SET recipe = ? WHERE id = ?", (recipe, known.space.id))
        return known.space
    before = await space_of(connection, identity)
    cursor = await connection.execute(
        "INSERT INTO spaces (identity, dimension, recipe) VALUES (?, ?, ?)", (identity, dimension, recipe)
    )
    space = VectorSpace(int(cursor.lastrowid or 0), identity, dimension)
    await connection.execute(
        "INSERT INTO unembedded (space_id, chunk_id, problem) SELECT ?, chunks.id, problem FROM chunks "
        "LEFT JOIN unembedded ON space_id = ? AND chunk_id = chunks.id",
        (space.id, before.id),
    )
    await connection.execute("DELETE FROM unembedded WHERE space_id = ?", (before.id,))
    return space


async def start_anew(connection: aiosqlite.Connection, space: VectorSpace, dimension: int) -> None:
    """Give a space another dimension. Its vectors, which nothing can be compared with any more, go at once.

    The tables that strategies made of them are made anew with the first vector.
    """
    await connection.execute("DELETE FROM embeddings WHERE space_id = ?", (space.id,))
    await connection.execute("DELETE FROM strategies WHERE space_id = ?", (space.id,))
    await connection.execute("UPDATE spaces SET dimension = ? WHERE id = ?", (dimension, space.id))
    await expect_all(connection, space)


async def expect_all(connection: aiosqlite.Connection, space: VectorSpace) -> None:
    """Have every chunk embedded anew. The vectors that there are go on answering until they are replaced."""
    await connection.execute(
        "INSERT OR IGNORE INTO unembedded (space_id, chunk_id) SELECT ?, id FROM chunks", (space.id,)
    )


# --- What is pending -----------------------------------------------------------------------------------------------


async def count_pending(
    connection: aiosqlite.Connection, space: VectorSpace | None, states: Sequence[State] = _ALL_STATES
) -> int:
    """How many chunks are to be embedded in a space; all of them where the space was never made."""
    if space is None or space.id < 0:
        rows = await connection.execute_fetchall("SELECT count(*) FROM chunks")
    else:
        wanted = " OR ".join(_STATES[state] for state in states)
        rows = await connection.execute_fetchall(
            f"SELECT count(*) FROM unembedded WHERE space_id = ? AND ({wanted})", (space.id,)
        )
    return int(next(iter(rows))[0])


async def count_lacking(
    connection: aiosqlite.Connection, space: VectorSpace, states: Sequence[State] = _ALL_STATES
) -> int:
    """How many chunks have no vector in a space: of those that are pending, some may be embedded anew."""
    wanted = " OR ".join(_STATES[state] for state in states)
    (row,) = await connection.execute_fetchall(
        f"SELECT count(*) FROM unembedded JOIN chunks ON chunks.id = chunk_id WHERE space_id = ? AND ({wanted}) "
        "AND NOT EXISTS "
        "(SELECT 1 FROM embeddings WHERE embeddings.space_id = unembedded.space_id AND embeddings.hash = chunks.hash)",
        (space.id,),
    )
    return int(row[0])


async def count_vectors(connection: aiosqlite.Connection) -> dict[str, int]:
    """How many chunks have a vector, by the identity of its embedder."""
    chunks = await count_pending(connection, None)
    known = await known_spaces(connection)
    return {identity: chunks - await count_lacking(connection, each.space) for identity, each in known.items()}


async def pending_texts(
    connection: aiosqlite.Connection, space: VectorSpace, state: State, *, before: int, limit: int
) -> list[PendingText]:
    """Chunks that have no vector in a space, newest first: what was written last is asked for first.

    :param state: only those that were not tried yet, or whose call failed, or whose vector was refused.
    :param before: only chunks with a smaller id, to go through them in several steps.
    """
    columns = "chunks.id, chunks.hash, files.path, chunks.start_line, chunks.heading, chunks.context, chunks.text"
    id = "chunks.id" if space.id < 0 else "chunk_id"  # that of the table that SQLite begins with
    rows = await connection.execute_fetchall(
        f"SELECT {columns} FROM {_pending_chunks(space)} JOIN files ON files.id = chunks.file_id "
        f"WHERE {id} < ? AND {_STATES[state]} ORDER BY {id} DESC LIMIT ?",
        (space.id, before, limit),
    )
    return [PendingText._make(row) for row in rows]


async def still_pending(
    connection: aiosqlite.Connection, space: VectorSpace, state: State, texts: Sequence[PendingText]
) -> list[PendingText]:
    """Those of the texts that have no vector yet: meanwhile somebody else may have embedded some, or deleted them."""
    found: set[int] = set()
    for marks, part in parts([text.chunk_id for text in texts]):
        rows = await connection.execute_fetchall(
            f"SELECT chunks.id FROM {_pending_chunks(space)} WHERE chunks.id IN ({marks}) AND {_STATES[state]}",
            (space.id, *part),
        )
        found.update(row[0] for row in rows)
    return [text for text in texts if text.chunk_id in found]


def _pending_chunks(space: VectorSpace) -> str:
    """The chunks that have no vector in a space. All are pending in one that was never made."""
    if space.id < 0:
        return "chunks LEFT JOIN unembedded ON space_id = ? AND chunk_id = chunks.id"
    return "unembedded CROSS JOIN chunks ON space_id = ? AND chunks.id = chunk_id"


async def refuse(connection: aiosqlite.Connection, space: VectorSpace, problems: Mapping[str, str]) -> None:
    """Write down why the texts with these hashes got no vector: a search does not try them again by itself.

    An empty reason is for a call that failed: one of its texts may be at fault, so the others go first from now on.
    It is written down also before there is a space, which is made with the first vector.
    """
    if space.id < 0:
        statement = (
            f"INSERT OR REPLACE INTO unembedded (problem, space_id, chunk_id) SELECT ?, {space.id}, id FROM chunks "
            "WHERE hash = ?"
        )
    else:
        statement = (
            f"UPDATE unembedded SET problem = ? WHERE space_id = {space.id} "
            "AND chunk_id IN (SELECT id FROM chunks WHERE hash = ?)"
        )
    await connection.executemany(statement, [(problem, hash) for hash, problem in problems.items()])


# --- What is kept --------------------------------------------------------------------------------------------------


async def store(
    connection: aiosqlite.Connection, space: VectorSpace, vectors: Mapping[str, bytes]
) -> list[tuple[int, bytes]]:
    """Keep vectors by the hash of their text, and return the chunks that got theirs by it.

    What no chunk waits for any more is not kept: another process has embedded it, or its text is gone.
    """
    got: list[Any] = []
    for marks, part in parts(list(vectors)):
        got += await connection.execute_fetchall(
            "SELECT chunks.id, chunks.hash FROM chunks CROSS JOIN unembedded ON chunks.id = chunk_id "
            f"WHERE chunks.hash IN ({marks}) AND space_id = ?",
            (*part, space.id),
        )
    now = time.time_ns()
    await connection.executemany(
        "INSERT OR REPLACE INTO embeddings (space_id, hash, vector, used) VALUES (?, ?, ?, ?)",
        [(space.id, hash, vectors[hash], now) for hash in {row[1] for row in got}],
    )
    await connection.executemany(
        "DELETE FROM unembedded WHERE space_id = ? AND chunk_id = ?", [(space.id, row[0]) for row in got]
    )
    return [(row[0], vectors[row[1]]) for row in got]


async def keep_room(connection: aiosqlite.Connection, size: int) -> None:
    """Take as many bytes of the disk as are about to be stored; with 0, give them back, for the index to use.

    Each takes a transaction of its own: what is gone at its end is never written.
    """
    await connection.execute("DELETE FROM embeddings WHERE space_id = 0")
    if size:
        await connection.execute(
            "INSERT INTO embeddings (space_id, hash, vector, used) VALUES (0, '', zeroblob(?), 0)", (size,)
        )


def sound(space: VectorSpace) -> str:
    """The condition in SQL that a vector of a space is as long as it must be."""
    return f"length(vector) = {BYTES_PER_NUMBER * space.dimension}"


async def take_in(
    connection: aiosqlite.Connection, chunk_ids: Sequence[int]
) -> dict[VectorSpace, list[tuple[int, bytes]]]:
    """Look up the vectors of new chunks. Returns those that there are; the others are pending in that space."""
    had: dict[VectorSpace, list[tuple[int, bytes]]] = {}
    for known in (await known_spaces(connection)).values():
        space = known.space
        found: list[Any] = []
        for marks, part in parts(chunk_ids):
            found += await connection.execute_fetchall(
                "SELECT chunks.id, vector, embeddings.id FROM chunks CROSS JOIN embeddings "
                f"ON space_id = ? AND embeddings.hash = chunks.hash WHERE chunks.id IN ({marks}) AND {sound(space)}",
                (space.id, *part),
            )
        with_vector = {row[0] for row in found}
        await connection.executemany(
            "INSERT OR IGNORE INTO unembedded (space_id, chunk_id) VALUES (?, ?)",
            [(space.id, id) for id in chunk_ids if id not in with_vector],
        )
        now = time.time_ns()
        await connection.executemany("UPDATE embeddings SET used = ? WHERE id = ?", [(now, row[2]) for row in found])
        if found:
            had[space] = [(row[0], row[1]) for row in found]
    return had


async def let_go(connection: aiosqlite.Connection, chunk_ids: Sequence[int]) -> None:
    """Forget that chunks are pending, and that their texts are in use. They are still in the table ``chunks``."""
    spaces = [row[0] for row in await connection.execute_fetchall("SELECT id FROM spaces")]
    spaces += [
        row[0]
        for row in await connection.execute_fetchall("SELECT DISTINCT space_id FROM unembedded WHERE space_id < 0")
    ]
    await connection.executemany(
        "DELETE FROM unembedded WHERE space_id = ? AND chunk_id = ?",
        [(space, id) for space in spaces for id in chunk_ids],
    )
    now = time.time_ns()
    await connection.executemany(
        "UPDATE embeddings SET used = ? WHERE space_id = ? AND hash = (SELECT hash FROM chunks WHERE id = ?)",
        [(now, space, id) for space in spaces for id in chunk_ids],
    )


async def forget_vectors(connection: aiosqlite.Connection, hashes: Sequence[str]) -> None:
    """Delete the vectors of texts that no chunk has any more, in every space."""
    await connection.executemany(
        "DELETE FROM embeddings WHERE hash = ? AND hash NOT IN (SELECT hash FROM chunks)", [(hash,) for hash in hashes]
    )


async def evict(connection: aiosqlite.Connection, space: VectorSpace, most_bytes: int) -> int:
    """Delete vectors that no chunk needs in ``space``, those first that were used longest ago, and return how many.

    Vectors of other spaces count among them: the chunks that lose one are pending there again.

    :param most_bytes: how much of them may stay.
    """
    rows = list(
        await connection.execute_fetchall(
            "SELECT id, length(vector) FROM embeddings WHERE NOT (space_id = ? AND hash IN (SELECT hash FROM chunks)) "
            "ORDER BY used DESC, id DESC",
            (space.id,),
        )
    )
    kept, gone = 0, []
    for id, size in rows:
        kept += size
        if kept > most_bytes:
            gone.append((id,))
    await connection.executemany(
        "INSERT OR IGNORE INTO unembedded (space_id, chunk_id) SELECT space_id, chunks.id FROM embeddings "
        "JOIN chunks USING (hash) WHERE embeddings.id = ?",
        gone,
    )
    await connection.executemany("DELETE FROM embeddings WHERE id = ?", gone)
    return len(gone)


async def read_vectors(
    connection: aiosqlite.Connection, space: VectorSpace, ids: Iterable[int]
) -> tuple[list[int], Vectors]:
    """The vectors of chunks: those of the ids that have one, in the order given, and a matrix with a row for each."""
    wanted = list(dict.fromkeys(ids))
    found: dict[int, bytes] = {}
    for marks, part in parts(wanted):
        rows = await connection.execute_fetchall(
            "SELECT chunks.id, vector FROM chunks CROSS JOIN embeddings "
            f"ON space_id = ? AND embeddings.hash = chunks.hash WHERE chunks.id IN ({marks}) AND {sound(space)}",
            (space.id, *part),
        )
        found.update((row[0], row[1]) for row in rows)
    return usable([(id, found[id]) for id in wanted if id in found], space.dimension)


def usable(vectors: Sequence[tuple[int, bytes]], dimension: int) -> tuple[list[int], Vectors]:
    """The ids of vectors that are whole, in the order given, and a matrix with a row for each.

    :param vectors: as they are kept, all of them as long as the dimension says.
    """
    import numpy as np

    rows = np.frombuffer(b"".join(vector for _, vector in vectors), "<f4").reshape(len(vectors), dimension)
    with np.errstate(all="ignore"):  # where bits were lost, a number may be anything
        rows = rows.astype(np.float32, copy=False)
        whole = np.abs(np.einsum("ij,ij->i", rows, rows) - 1.0) < _TOLERANCE
    ids = [id for (id, _), is_whole in zip(vectors, whole.tolist(), strict=True) if is_whole]
    return ids, rows if len(ids) == len(vectors) else rows[whole]


def parts(values: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Values in pieces that one statement can take, each with the question marks for it.

    SQLite's limit on parameters was 999 until version 3.32, and some builds still have it.
    """
    for start in range(0, len(values), 900):
        part = values[start : start + 900]
        yield ", ".join("?" * len(part)), part
