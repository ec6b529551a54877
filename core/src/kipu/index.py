"""What the index knows of files and chunks: the reading side. The writing side is in ``changes.py``."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from .types import FileInfo, StoredChunk
from .vectors import parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import aiosqlite

    from .types import Query

__all__ = [
    "CHUNKS_AND_FILES",
    "CHUNK_COLUMNS",
    "KnownFile",
    "count_chunks",
    "file_infos",
    "filters",
    "known_files",
    "load_chunks",
    "sources",
    "stored_chunk",
]

CHUNK_COLUMNS = (
    "chunks.id, chunks.chunk, files.path, files.source, files.date, chunks.start_line, chunks.end_line, "
    "chunks.heading, chunks.heading_level, chunks.text, chunks.context"
)
CHUNKS_AND_FILES = "chunks JOIN files ON files.id = chunks.file_id"
_FILE_COLUMNS = "id, path, size, mtime_ns, ctime_ns, hash, chunker, added, problem"


class KnownFile(NamedTuple):  # not attrs: one is made for every file, before every search
    """A file as the index has it. ``hash`` is the SHA-256 of its bytes; ``chunker`` tells what chunked it."""

    id: int
    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    hash: str
    chunker: str
    added: bool
    problem: str | None


def filters(query: Query) -> tuple[str, list[Any]]:
    """The query's filters as an SQL condition on ``files``, and its parameters."""
    conditions, parameters = [], []
    if query.source is not None:
        conditions.append("files.source = ?")
        parameters.append(query.source)
    if query.since is not None:
        conditions.append("files.date >= ?")
        parameters.append(query.since.isoformat())
    if query.until is not None:
        conditions.append("files.date <= ?")
        parameters.append(query.until.isoformat())
    return " AND ".join(conditions) or "1", parameters


async def load_chunks(connection: aiosqlite.Connection, ids: Iterable[int]) -> dict[int, StoredChunk]:
    """Load chunks by the ids of their rows, in the order given."""
    wanted = list(dict.fromkeys(ids))
    found: dict[int, StoredChunk] = {}
    for marks, part in parts(wanted):
        rows = await connection.execute_fetchall(
            f"SELECT {CHUNK_COLUMNS} FROM {CHUNKS_AND_FILES} WHERE chunks.id IN ({marks})", part
        )
        found.update((row[0], stored_chunk(row)) for row in rows)
    return {id: found[id] for id in wanted if id in found}


async def known_files(connection: aiosqlite.Connection, paths: Sequence[str] | None = None) -> dict[str, KnownFile]:
    """The files that the index has, by path: all of them, or those of ``paths``."""
    statement = f"SELECT {_FILE_COLUMNS} FROM files"
    if paths is None:
        rows = list(await connection.execute_fetchall(statement))
    else:
        rows = []
        for marks, part in parts(paths):
            rows += await connection.execute_fetchall(f"{statement} WHERE path IN ({marks})", part)
    return {row[1]: KnownFile._make(row) for row in rows}


async def file_infos(connection: aiosqlite.Connection) -> list[FileInfo]:
    """All files that the index has, by path, with the number of their chunks."""
    rows = await connection.execute_fetchall(
        "SELECT path, source, date, size, (SELECT count(*) FROM chunks WHERE file_id = files.id), problem "
        "FROM files ORDER BY path"
    )
    return [FileInfo(row[0], row[1], _date(row[2]), row[3], row[4], row[5]) for row in rows]


async def sources(connection: aiosqlite.Connection) -> dict[str, int]:
    """The source labels in use, sorted, with the number of their files."""
    rows = await connection.execute_fetchall(
        "SELECT source, count(*) FROM files WHERE problem IS NULL GROUP BY source ORDER BY source"
    )
    return {row[0]: row[1] for row in rows}


async def count_chunks(connection: aiosqlite.Connection) -> int:
    """How many chunks the index holds."""
    (row,) = await connection.execute_fetchall("SELECT count(*) FROM chunks")
    return int(row[0])


def stored_chunk(row: Sequence[Any]) -> StoredChunk:
    """A row of the columns `CHUNK_COLUMNS` as an object."""
    return StoredChunk(row[0], row[1], row[2], row[3], _date(row[4]), *row[5:])


def _date(text: str | None) -> date | None:
    return date.fromisoformat(text) if text else None
