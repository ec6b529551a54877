"""Change the index: a batch of files at a time, in one transaction that includes every strategy's tables.

Everything here runs inside a transaction of the caller, so no index is ever half updated.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import attrs

from ..sqlite import in_batches
from ..types import StoredChunk
from ..workspace.paths import date_of
from .entries import EntryDiff, Rows, entry_rows
from .filters import of_entry, of_file
from .queries import KnownFile, known_files
from .vectors import attach_cached, detach

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import aiosqlite

    from ..markdown import Entry
    from ..types import Chunk
    from ..workspace.paths import FoundFile
    from .database import Connection
    from .queries import Snapshot
    from .strategy_tables import StrategyTables


@attrs.frozen
class PreparedFile:
    """A file as the index should have it. ``chunks`` is None if they, ``entries`` and ``properties`` stay as they are.

    ``before`` is what the index had of it when this was prepared; of a renamed file, under its earlier name.
    ``problem`` is why it has no chunks.
    """

    path: str
    source: str
    size: int
    mtime_ns: int
    ctime_ns: int
    hash: str
    chunker: str
    chunks: Sequence[Chunk] | None
    added: bool = False
    problem: str | None = None
    before: KnownFile | None = None
    properties: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    entries: Sequence[Entry] = ()

    @classmethod
    def of(cls, found: FoundFile, hash: str, chunker: str, before: KnownFile | None) -> PreparedFile:
        """Return a file as it is on disk, with the chunks that it had before."""
        added, problem = (before.added, before.problem) if before else (False, None)
        stamp = (found.size, found.mtime_ns, found.ctime_ns)
        return cls(found.path, found.source, *stamp, hash, chunker, None, added=added, problem=problem, before=before)

    @property
    def renamed(self) -> bool:
        """Whether the index has the file under another name."""
        return self.before is not None and self.before.path != self.path


@attrs.define
class Batch:
    """Changes that are made together: files to add or change, and files to remove, as the index had them.

    ``fresh`` is whether no row of a chunk is kept, though its hash is the same: its text may be damaged.
    """

    files: list[PreparedFile] = attrs.field(factory=list)
    removed: list[KnownFile] = attrs.field(factory=list)
    fresh: bool = False

    @property
    def paths(self) -> list[str]:
        """The files that the batch is about."""
        return [*(file.path for file in self.files), *(file.path for file in self.removed)]


async def apply(snapshot: Snapshot, batch: Batch, tables: Sequence[StrategyTables]) -> set[str]:
    """Change the index as the batch says, and return the paths that were left as they are.

    Those are files that another process wrote since the batch was prepared: what it read may be newer, so they must be
    looked at again. Chunks that a file had before keep their rows, with new line numbers if they moved. Chunks whose
    text was embedded before get their vector at once. Strategies whose tables are not among ``tables`` miss the change:
    their records are deleted, so that they are rebuilt when they are used again.
    """
    connection = snapshot.connection
    seen = {file.path: file.before for file in batch.files} | {file.path: file for file in batch.removed}
    seen |= {file.before.path: file.before for file in batch.files if file.before is not None and file.renamed}
    seen |= {file.path: None for file in batch.files if file.renamed}
    known = await known_files(connection, list(seen))
    overtaken = {path for path, file in seen.items() if known.get(path) != file}
    ids = [file.id for file in known.values()]
    rows, entries = await _chunk_rows(connection, ids), await entry_rows(connection, ids)
    next_file, next_chunk = await _next_ids(connection)
    file_rows, diff = _FileRows(next_file), _ChunkDiff(next_chunk)
    for file in batch.files:
        if file.path in overtaken or (file.before is not None and file.before.path in overtaken):
            overtaken.add(file.path)
            continue
        file_id = file_rows.add(file)
        if file.chunks is not None:
            diff.add(file, file_id, rows.get(file_id, []), entries.get(file_id, {}), fresh=batch.fresh)
    removed = [file.id for file in batch.removed if file.path not in overtaken]
    for file_id in removed:
        diff.gone += rows.get(file_id, [])
        diff.entries.remove(file_id, entries.get(file_id, {}))
    await file_rows.write(connection)
    await diff.write(connection, tables)
    for table, column in (("file_properties", "file_id"), ("files", "id")):
        await _execute_many(connection, f"DELETE FROM {table} WHERE {column} = ?", [(id,) for id in removed])
    missed = set(snapshot.versions) - {each.key for each in tables}
    await _execute_many(connection, "DELETE FROM strategies WHERE name = ? AND space_id = ?", sorted(missed))
    return overtaken


async def _execute_many(connection: aiosqlite.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Execute a statement for each row; without rows, save the round trip."""
    if rows:
        await connection.executemany(statement, rows)


# --- A batch, worked out before it is written ----------------------------------------------------------------------


@attrs.frozen
class _ChunkRow:
    """What is compared of a chunk that the index has."""

    id: int
    hash: str
    place: tuple[int, str, int, int]
    metadata_id: int | None


class _ChunkDiff:
    """What a batch does to the chunks."""

    def __init__(self, next_id: int) -> None:
        self._next_id = next_id
        self._new: list[tuple[Any, ...]] = []
        self._moved: list[tuple[Any, ...]] = []
        self._stored: list[StoredChunk] = []
        self._renamed: list[int] = []
        self._metadata: dict[str, tuple[Any, ...]] = {}
        self._hashes: dict[int, str] = {}  # of metadata, by identity: the chunks of an entry share it
        self.entries = EntryDiff(self._add_metadata)
        self.gone: list[_ChunkRow] = []

    def add(self, file: PreparedFile, file_id: int, rows: Sequence[_ChunkRow], entries: Rows, *, fresh: bool) -> None:
        """Pair the chunks of a file with its rows: those with equal hashes, in order, keep their row."""
        self.entries.add(file.source, file_id, file.entries, entries, fresh=fresh)
        old: dict[str, list[_ChunkRow]] = {}
        for row in reversed(rows):
            old.setdefault(row.hash, []).append(row)
        source, date = file.source, date_of(file.path)
        times: dict[str, int] = {}
        for position, chunk in enumerate(file.chunks or ()):
            times[chunk.text] = times.get(chunk.text, -1) + 1
            name = _chunk_name(file.path, chunk.text, times[chunk.text])
            place = (position, name, chunk.start_line, chunk.end_line)
            metadata = self._add_metadata(chunk.metadata) if chunk.metadata else None
            hash = (attrs.evolve(chunk, metadata={"": metadata}) if metadata else chunk).hash
            same = old[hash].pop() if old.get(hash) and not fresh else None
            if same is not None and file.before and (file.before.path, file.before.source) == (file.path, source):
                if same.place != place:
                    self._moved.append((*place, same.id))
                continue
            content = (chunk.start_line, chunk.end_line, chunk.heading, chunk.heading_level, chunk.text, chunk.context)
            if same is not None:
                row_id = same.id
                self._moved.append((*place, row_id))
                self._renamed.append(row_id)
            else:
                row_id, self._next_id = self._next_id, self._next_id + 1
                self._new.append((row_id, file_id, position, name, hash, *content, metadata))
            self._stored.append(StoredChunk(row_id, name, file.path, source, date, *content, chunk.metadata))
        self.gone += [row for unmatched in old.values() for row in unmatched]

    def _add_metadata(self, metadata: Mapping[str, str]) -> str:
        """Have the metadata of an entry stored, and return its hash."""
        if (known := self._hashes.get(id(metadata))) is not None:
            return known
        text = json.dumps(dict(metadata), ensure_ascii=False)
        hash = hashlib.sha256(text.encode()).hexdigest()
        self._metadata[hash] = (hash, text, *map(metadata.get, ("superseded_by", "valid_until")), metadata)
        self._hashes[id(metadata)] = hash
        return hash

    async def write(self, connection: Connection, tables: Sequence[StrategyTables]) -> None:
        """Change the chunks, and have each strategy follow: renamed chunks are removed and added."""
        gone = [row.id for row in self.gone]
        await detach(connection, gone)
        for each in tables:
            await each.remove(connection, gone + (self._renamed if each.space is None else []))
        await _execute_many(connection, "DELETE FROM chunks WHERE id = ?", [(id,) for id in gone])
        await _execute_many(
            connection,
            "UPDATE chunks SET position = ?, chunk = ?, start_line = ?, end_line = ? WHERE id = ?",
            self._moved,
        )
        await _execute_many(
            connection,
            "INSERT OR IGNORE INTO metadata (hash, text, superseded_by, valid_until) VALUES (?, ?, ?, ?)",
            [row[:-1] for row in self._metadata.values()],
        )
        await _execute_many(
            connection,
            "INSERT OR IGNORE INTO metadata_properties SELECT id, ?, ? FROM metadata WHERE hash = ?",
            [(*pair, hash) for hash, *_, metadata in self._metadata.values() for pair in of_entry(metadata)],
        )
        await _execute_many(
            connection,
            "INSERT INTO chunks (id, file_id, position, chunk, hash, start_line, end_line, heading, heading_level, "
            "text, context, metadata_id) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT id FROM metadata WHERE hash = ?))",
            self._new,
        )
        await self.entries.write(connection)
        metadata = [(id,) for id in ({row.metadata_id for row in self.gone} | self.entries.metadata_gone) - {None}]
        await _execute_many(
            connection,
            "DELETE FROM metadata WHERE id = ? AND NOT EXISTS (SELECT 1 FROM chunks WHERE metadata_id = metadata.id) "
            "AND NOT EXISTS (SELECT 1 FROM entries WHERE metadata_id = metadata.id)",
            metadata,
        )
        await _execute_many(
            connection,
            "DELETE FROM metadata_properties WHERE metadata_id = ? AND metadata_id NOT IN (SELECT id FROM metadata)",
            metadata,
        )
        attached = await attach_cached(connection, [row[0] for row in self._new])
        for each in tables:
            await each.add_chunks(connection, self._stored)
            for space, vectors in attached.items():
                await each.add_vectors(connection, space, vectors)


class _FileRows:
    """What a batch does to the files."""

    def __init__(self, next_id: int) -> None:
        self._next_id = next_id
        self._new: list[tuple[Any, ...]] = []
        self._changed: list[tuple[Any, ...]] = []
        self._properties: dict[int, set[tuple[str, str]]] = {}

    def add(self, file: PreparedFile) -> int:
        """Add a file, in place of what the index had of it, and return the id of its row."""
        date = date_of(file.path)
        values: tuple[Any, ...] = (file.path, file.source, date.isoformat() if date else None)
        values += (file.size, file.mtime_ns, file.ctime_ns, file.hash, file.chunker, file.added, file.problem)
        if file.before is not None:
            id = file.before.id
            self._changed.append((*values, id))
        else:
            id, self._next_id = self._next_id, self._next_id + 1
            self._new.append((*values, id))
        if file.chunks is not None:
            self._properties[id] = of_file(file.properties)
        return id

    async def write(self, connection: aiosqlite.Connection) -> None:
        """Change the rows."""
        await _execute_many(
            connection,
            "UPDATE files SET path = ?, source = ?, date = ?, size = ?, mtime_ns = ?, ctime_ns = ?, hash = ?, "
            "chunker = ?, added = ?, problem = ? WHERE id = ?",
            self._changed,
        )
        await _execute_many(
            connection,
            "INSERT INTO files (path, source, date, size, mtime_ns, ctime_ns, hash, chunker, added, problem, id) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self._new,
        )
        await _execute_many(
            connection, "DELETE FROM file_properties WHERE file_id = ?", [(id,) for id in self._properties]
        )
        await _execute_many(
            connection,
            "INSERT INTO file_properties VALUES (?, ?, ?)",
            [(id, *pair) for id, pairs in self._properties.items() for pair in pairs],
        )


def _chunk_name(path: str, text: str, times_before: int) -> str:
    """Return the public name of a chunk: stable while its text and its file stay, and unique."""
    return hashlib.sha256(f"{path}\0{times_before}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


async def _next_ids(connection: aiosqlite.Connection) -> tuple[int, int]:
    """Return the ids of the next file and of the next chunk."""
    last: dict[str, int] = dict(await connection.execute_fetchall("SELECT name, seq FROM sqlite_sequence"))  # type: ignore[arg-type]
    return last.get("files", 0) + 1, last.get("chunks", 0) + 1


async def _chunk_rows(connection: aiosqlite.Connection, file_ids: Sequence[int]) -> dict[int, list[_ChunkRow]]:
    found: dict[int, list[_ChunkRow]] = {}
    for marks, batch in in_batches(file_ids):
        for row in await connection.execute_fetchall(
            "SELECT file_id, id, hash, position, chunk, start_line, end_line, metadata_id FROM chunks "
            f"WHERE file_id IN ({marks}) ORDER BY file_id, position",
            batch,
        ):
            found.setdefault(row[0], []).append(_ChunkRow(row[1], row[2], tuple(row[3:7]), row[7]))
    return found
