"""How the index changes: a batch of files at a time, in one transaction that takes every strategy's tables along.

Everything here runs inside of a transaction of the caller's; so no index is ever half updated, whatever happens.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import attrs

from ..types import StoredChunk
from ..workspace.scan import date_of, source_of
from .queries import KnownFile, known_files
from .vectors import let_go, parts, take_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    import aiosqlite

    from ..types import Chunk
    from ..workspace.scan import FoundFile
    from .strategy_tables import Tables

__all__ = ["Batch", "PreparedFile", "apply"]


@attrs.frozen
class PreparedFile:
    """A file as it is to stand in the index. ``chunks`` is None where they stay as they are.

    ``before`` is what the index had of it when this was prepared; of a file that was renamed, under its earlier name.
    ``problem`` is why it has no chunks.
    """

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    hash: str
    chunker: str
    chunks: Sequence[Chunk] | None
    added: bool = False
    problem: str | None = None
    before: KnownFile | None = None

    @classmethod
    def of(cls, found: FoundFile, hash: str, chunker: str, before: KnownFile | None) -> PreparedFile:
        """A file as it is on disk, with the chunks that it had before."""
        added, problem = (before.added, before.problem) if before else (False, None)
        stamp = (found.size, found.mtime_ns, found.ctime_ns)
        return cls(found.path, *stamp, hash, chunker, None, added=added, problem=problem, before=before)

    @property
    def renamed(self) -> bool:
        """Whether the index has the file under another name."""
        return self.before is not None and self.before.path != self.path


@attrs.define
class Batch:
    """Changes to the index that are made together: files to put in, and files to take out, as the index had them."""

    files: list[PreparedFile] = attrs.field(factory=list)
    removed: list[KnownFile] = attrs.field(factory=list)


async def apply(connection: aiosqlite.Connection, batch: Batch, tables: Sequence[Tables]) -> set[str]:
    """Change the index as the batch says, and return the paths that were left as they are.

    Those are files that another process wrote since the batch was prepared: what it read may be newer, so they are to
    be looked at again. Chunks that a file had before keep their rows, with new line numbers where they moved. A
    strategy whose tables are not among ``tables`` misses the change; they are forgotten here, and backfilled when it is
    used again. Chunks whose text was embedded before get their vector at once.
    """
    seen = {file.path: file.before for file in batch.files} | {file.path: file for file in batch.removed}
    seen |= {file.before.path: file.before for file in batch.files if file.before is not None and file.renamed}
    seen |= {file.path: None for file in batch.files if file.renamed}
    known = await known_files(connection, list(seen))
    overtaken = {path for path, file in seen.items() if known.get(path) != file}
    rows = await _chunk_rows(connection, [file.id for file in known.values()])
    plan = _Plan(await _next_id(connection, "chunks"))
    file_rows = _FileRows(await _next_id(connection, "files"))
    for file in batch.files:
        if file.path in overtaken or (file.before is not None and file.before.path in overtaken):
            overtaken.add(file.path)
            continue
        file_id = file_rows.put(file)
        if file.chunks is not None:
            plan.put(file, file_id, rows.get(file_id, []))
    removed = [file.id for file in batch.removed if file.path not in overtaken]
    plan.gone += [row.id for file_id in removed for row in rows.get(file_id, [])]
    await file_rows.write(connection)
    await plan.write(connection, tables)
    await connection.executemany("DELETE FROM files WHERE id = ?", [(file_id,) for file_id in removed])
    recorded = await connection.execute_fetchall("SELECT name, space_id FROM strategies")
    forgotten = {(row[0], row[1]) for row in recorded} - {each.key for each in tables}
    await connection.executemany("DELETE FROM strategies WHERE name = ? AND space_id = ?", sorted(forgotten))
    return overtaken


# --- A batch, worked out before it is written ----------------------------------------------------------------------


@attrs.frozen
class _ChunkRow:
    """What is compared of a chunk that the index has."""

    id: int
    hash: str
    place: tuple[int, str, int, int]


class _Plan:
    """What a batch does to the chunks."""

    def __init__(self, next_id: int) -> None:
        self._next_id = next_id
        self._new: list[tuple[Any, ...]] = []
        self._moved: list[tuple[Any, ...]] = []
        self._stored: list[StoredChunk] = []
        self._renamed: list[int] = []
        self.gone: list[int] = []

    def put(self, file: PreparedFile, file_id: int, rows: Sequence[_ChunkRow]) -> None:
        """Pair the chunks of a file with the rows that it has: those with equal hashes, in order, keep their row."""
        old: dict[str, list[_ChunkRow]] = {}
        for row in reversed(rows):
            old.setdefault(row.hash, []).append(row)
        source, date = source_of(file.path), date_of(file.path)
        times: dict[str, int] = {}
        for position, chunk in enumerate(file.chunks or ()):
            times[chunk.text] = times.get(chunk.text, -1) + 1
            name = _chunk_name(file.path, chunk.text, times[chunk.text])
            place, hash = (position, name, chunk.start_line, chunk.end_line), chunk.hash
            kept = old[hash].pop() if old.get(hash) else None
            if kept is not None and not file.renamed:
                if kept.place != place:
                    self._moved.append((*place, kept.id))
                continue
            said = (chunk.start_line, chunk.end_line, chunk.heading, chunk.heading_level, chunk.text, chunk.context)
            if kept is not None:
                id = kept.id
                self._moved.append((*place, id))
                self._renamed.append(id)
            else:
                id, self._next_id = self._next_id, self._next_id + 1
                metadata = json.dumps(dict(chunk.metadata), ensure_ascii=False) if chunk.metadata else ""
                self._new.append((id, file_id, position, name, hash, *said, metadata, chunk.metadata.get("id")))
            self._stored.append(StoredChunk(id, name, file.path, source, date, *said, chunk.metadata))
        self.gone += [row.id for left in old.values() for row in left]

    async def write(self, connection: aiosqlite.Connection, tables: Sequence[Tables]) -> None:
        """Change the chunks, and let each strategy follow: it is told of renamed chunks as if they came anew."""
        await let_go(connection, self.gone)
        for each in tables:
            await each.remove(connection, self.gone + (self._renamed if each.space is None else []))
        await connection.executemany("DELETE FROM chunks WHERE id = ?", [(id,) for id in self.gone])
        await connection.executemany(
            "UPDATE chunks SET position = ?, chunk = ?, start_line = ?, end_line = ? WHERE id = ?", self._moved
        )
        await connection.executemany(
            "INSERT INTO chunks (id, file_id, position, chunk, hash, start_line, end_line, heading, heading_level, "
            "text, context, metadata, entry) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self._new,
        )
        had = await take_in(connection, [row[0] for row in self._new])
        for each in tables:
            await each.add_chunks(connection, self._stored)
            for space, vectors in had.items():
                await each.add_vectors(connection, space, vectors)


class _FileRows:
    """What a batch does to the files."""

    def __init__(self, next_id: int) -> None:
        self._next_id = next_id
        self._new: list[tuple[Any, ...]] = []
        self._changed: list[tuple[Any, ...]] = []

    def put(self, file: PreparedFile) -> int:
        """Take a file in, in place of what the index had of it; the id of its row."""
        date = date_of(file.path)
        values: tuple[Any, ...] = (file.path, source_of(file.path), date.isoformat() if date else None)
        values += (file.size, file.mtime_ns, file.ctime_ns, file.hash, file.chunker, file.added, file.problem)
        if file.before is not None:
            self._changed.append((*values, file.before.id))
            return file.before.id
        id, self._next_id = self._next_id, self._next_id + 1
        self._new.append((*values, id))
        return id

    async def write(self, connection: aiosqlite.Connection) -> None:
        await connection.executemany(
            "UPDATE files SET path = ?, source = ?, date = ?, size = ?, mtime_ns = ?, ctime_ns = ?, hash = ?, "
            "chunker = ?, added = ?, problem = ? WHERE id = ?",
            self._changed,
        )
        await connection.executemany(
            "INSERT INTO files (path, source, date, size, mtime_ns, ctime_ns, hash, chunker, added, problem, id) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self._new,
        )


def _chunk_name(path: str, text: str, times_before: int) -> str:
    """What callers call a chunk: the same as long as its text and its file stay, and no two are alike."""
    return hashlib.sha256(f"{path}\0{times_before}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


async def _next_id(connection: aiosqlite.Connection, table: str) -> int:
    (row,) = await connection.execute_fetchall(
        "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0) + 1", (table,)
    )
    return int(row[0])


async def _chunk_rows(connection: aiosqlite.Connection, file_ids: Sequence[int]) -> dict[int, list[_ChunkRow]]:
    found: dict[int, list[_ChunkRow]] = {}
    for marks, part in parts(file_ids):
        for row in await connection.execute_fetchall(
            "SELECT file_id, id, hash, position, chunk, start_line, end_line FROM chunks "
            f"WHERE file_id IN ({marks}) ORDER BY file_id, position",
            part,
        ):
            found.setdefault(row[0], []).append(_ChunkRow(row[1], row[2], tuple(row[3:7])))
    return found
