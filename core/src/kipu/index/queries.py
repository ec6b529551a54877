"""Read files, chunks and facts from the index. The writing side is in `batch`."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from ..sqlite import IndexDamageError, in_batches
from ..types import FileInfo, StoredChunk, VectorSpace
from .filters import IN_ARCHIVE, filters, source_filter
from .vectors import KnownSpace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import aiosqlite

    from ..types import Hit, Query
    from .database import Connection

CHUNKS_AND_FILES = "chunks JOIN files ON files.id = chunks.file_id"
_SELECT_CHUNKS = (
    "SELECT chunks.id, chunks.chunk, files.path, files.source, files.date, chunks.start_line, chunks.end_line, "
    f"chunks.heading, chunks.heading_level, chunks.text, chunks.context, chunks.metadata_id FROM {CHUNKS_AND_FILES}"
)
_FILE_COLUMNS = "id, path, size, mtime_ns, ctime_ns, hash, chunker, added, problem, source"


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
    source: str


@attrs.frozen
class Snapshot:
    """A connection inside a transaction, and the facts about the index that most operations need.

    ``index_id`` names the index, empty before it exists; ``spaces`` are the vector spaces by the identity of their
    embedder; ``versions`` says by which version of a strategy each of its sets of tables was made, by the name of its
    class and the id of the space (0 if none); ``has_archive`` is whether there are archived files;
    ``loaded`` are the chunks that were loaded so far, by id.
    """

    connection: Connection
    index_id: str
    spaces: Mapping[str, KnownSpace]
    versions: Mapping[tuple[str, int], str]
    has_archive: bool
    loaded: dict[int, StoredChunk] = attrs.field(factory=dict)

    def on(self, connection: Connection) -> Snapshot:
        """Return the same facts with another connection."""
        return attrs.evolve(self, connection=connection)

    async def chunks(self, ids: Iterable[int]) -> dict[int, StoredChunk]:
        """Load chunks by the ids of their rows, in the order given, each once."""
        wanted = list(ids)
        found = await load_chunks(self.connection, [id for id in wanted if id not in self.loaded])
        for id, chunk in found.items():
            self.loaded.setdefault(id, chunk)
        return {id: self.loaded[id] for id in wanted if id in self.loaded}


async def read_snapshot(connection: Connection) -> Snapshot:
    """Read the facts about the index: in one statement, since each is a round trip to another thread."""
    rows = await connection.execute_fetchall(
        "SELECT 'space', id, identity, dimension, recipe FROM spaces "
        "UNION ALL SELECT 'version', space_id, name, 0, schema_version FROM strategies "
        "UNION ALL SELECT 'index', 0, id, 0, '' FROM index_identity "
        f"UNION ALL SELECT 'archive', EXISTS (SELECT 1 FROM files WHERE {IN_ARCHIVE.format(files='files')}), '', 0, ''"
    )
    spaces: dict[str, KnownSpace] = {}
    versions: dict[tuple[str, int], str] = {}
    index_id, has_archive = "", False
    for kind, number, name, dimension, text in rows:
        if kind == "space":
            if not isinstance(dimension, int):
                raise IndexDamageError("the dimension of a space is not a number")
            spaces[name] = KnownSpace(VectorSpace(number, name, dimension), text)
        elif kind == "version":
            versions[name, number] = text
        elif kind == "index":
            index_id = name
        else:
            has_archive = bool(number)
    return Snapshot(connection, index_id, dict(sorted(spaces.items(), key=_space_id)), versions, has_archive)


def _space_id(item: tuple[str, KnownSpace]) -> int:
    return item[1].space.id


async def select_chunks(
    connection: aiosqlite.Connection, clauses: str, parameters: Sequence[Any] = ()
) -> list[StoredChunk]:
    """Return the chunks that the clauses after ``FROM`` select. The metadata of an entry is read once.

    :param clauses: such as ``WHERE chunks.chunk = ?``; the tables are ``chunks`` and ``files``.
    :raises IndexDamageError: a row is not as it was written.
    """
    rows = list(await connection.execute_fetchall(f"{_SELECT_CHUNKS} {clauses}", parameters))
    if any(type(value) is not str for row in rows for value in (*row[1:4], row[7], *row[9:11])):
        raise IndexDamageError("a text of a chunk is not text")
    found: list[Any] = []
    for marks, batch in in_batches(list({row[11] for row in rows} - {None})):
        found += await connection.execute_fetchall(f"SELECT id, text FROM metadata WHERE id IN ({marks})", batch)
    try:
        metadata = {id: json.loads(text) for id, text in found}
        full: list[Any] = [[*row[:4], _date(row[4]), *row[5:11], metadata[row[11]] if row[11] else {}] for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise IndexDamageError(f"the metadata of a chunk cannot be read: {error}") from error
    return [StoredChunk(*row) for row in full]


async def load_chunks(connection: aiosqlite.Connection, ids: Iterable[int]) -> dict[int, StoredChunk]:
    """Load chunks by the ids of their rows, in the order given."""
    wanted = list(dict.fromkeys(ids))
    found: dict[int, StoredChunk] = {}
    for marks, batch in in_batches(wanted):
        found |= {chunk.id: chunk for chunk in await select_chunks(connection, f"WHERE chunks.id IN ({marks})", batch)}
    return {id: found[id] for id in wanted if id in found}


async def known_files(connection: aiosqlite.Connection, paths: Sequence[str] | None = None) -> dict[str, KnownFile]:
    """Return the files that the index has, by path: all of them, or those of ``paths``."""
    statement = f"SELECT {_FILE_COLUMNS} FROM files"
    if paths is None:
        rows = list(await connection.execute_fetchall(statement))
    else:
        rows = []
        for marks, batch in in_batches(paths):
            rows += await connection.execute_fetchall(f"{statement} WHERE path IN ({marks})", batch)
    if any(type(row[1]) is not str for row in rows):
        raise IndexDamageError("the path of a file is not text")
    return {row[1]: KnownFile._make(row) for row in rows}


async def file_infos(connection: aiosqlite.Connection, query: Query | None = None) -> list[FileInfo]:
    """Return the files that the index has, by path, with the number of their chunks: all, or what passes filters.

    :param query: its filters; archived files pass if it names no sources.
    """
    condition, parameters = filters(query, archived=False) if query else ("1", [])
    rows = await connection.execute_fetchall(
        "SELECT path, source, date, size, (SELECT count(*) FROM chunks WHERE file_id = files.id), problem FROM files "
        f"WHERE EXISTS (SELECT 1 FROM (SELECT 1) LEFT JOIN chunks ON file_id = files.id WHERE {condition}) "
        "ORDER BY path",
        parameters,
    )
    return [FileInfo(row[0], row[1], _date(row[2]), row[3], row[4], row[5]) for row in rows]


async def sources(connection: aiosqlite.Connection) -> dict[str, int]:
    """Return the source labels in use, sorted, with the number of their files."""
    rows = await connection.execute_fetchall(
        "SELECT source, count(*) FROM files WHERE problem IS NULL GROUP BY source ORDER BY source"
    )
    return {row[0]: row[1] for row in rows}


async def count_chunks(connection: aiosqlite.Connection, sources: Sequence[str] = ()) -> int:
    """Return how many chunks the index holds, of all sources or of some."""
    statement = "SELECT count(*) FROM chunks"
    if sources:
        statement = f"SELECT count(*) FROM {CHUNKS_AND_FILES} WHERE source IN ({', '.join('?' * len(sources))})"
    (row,) = await connection.execute_fetchall(statement, tuple(sources))
    return int(row[0])


async def passing_ids(
    connection: aiosqlite.Connection, query: Query, ids: Iterable[int], *, archived: bool
) -> set[int]:
    """Return the ids of those chunks that pass the filters of a query.

    :param archived: whether archived ones must be left out, unless the query asks for them.
    """
    condition, parameters = filters(query, archived=archived)
    wanted, passing = list(ids), set[int]()
    if condition == "1":
        return set(wanted)
    for marks, batch in in_batches(wanted):
        statement = f"SELECT chunks.id FROM {CHUNKS_AND_FILES} WHERE chunks.id IN ({marks}) AND {condition}"
        passing.update(row[0] for row in await connection.execute_fetchall(statement, [*batch, *parameters]))
    return passing


async def admit(snapshot: Snapshot, query: Query, hits: Iterable[Hit]) -> list[Hit]:
    """Return those hits of a component that pass the query's filters, each with its chunk as the index has it.

    So do all steps of its chain, or it has none.
    """
    hits = list(hits)
    chunks = await snapshot.chunks(hit.chunk.id for hit in hits)
    passing = await passing_ids(snapshot.connection, query, chunks, archived=snapshot.has_archive)
    places = await _passing_places(snapshot, query, {step.chunk for hit in hits for step in hit.chain})
    return [
        hit if hit.chunk is chunk and not hit.chain else attrs.evolve(hit, chunk=chunk, **_chain_of(hit, places))
        for hit in hits
        if (chunk := chunks.get(hit.chunk.id)) is not None and chunk.id in passing
    ]


async def _passing_places(snapshot: Snapshot, query: Query, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return where those chunks are that pass the filters of a query, by their names."""
    condition, parameters = filters(query, archived=snapshot.has_archive)
    places: dict[str, dict[str, Any]] = {}
    for marks, batch in in_batches(list(names)):
        rows = await snapshot.connection.execute_fetchall(
            "SELECT chunk, path, start_line, end_line "
            f"FROM {CHUNKS_AND_FILES} WHERE chunk IN ({marks}) AND {condition}",
            [*batch, *parameters],
        )
        places |= {row[0]: {"path": row[1], "start_line": row[2], "end_line": row[3]} for row in rows}
    return places


def _chain_of(hit: Hit, places: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the chain of a hit, with what says it in a line; an empty one if a step has no place."""
    if hit.chain and not all(step.chunk in places for step in hit.chain):
        return {"chain": (), "why": ""}
    return {"chain": tuple(attrs.evolve(step, **places[step.chunk]) for step in hit.chain)}


async def known_properties(connection: aiosqlite.Connection, sources: Sequence[str]) -> list[tuple[str, str]]:
    """Return the keys and values of properties in some sources, or in all: 10,000 at most."""
    condition, parameters = source_filter(sources)
    rows = await connection.execute_fetchall(
        f"SELECT key, value FROM file_properties JOIN files ON files.id = file_id WHERE {condition} UNION "
        f"SELECT key, value FROM metadata_properties JOIN chunks USING (metadata_id) JOIN files ON files.id = file_id "
        f"WHERE {condition} LIMIT 10000",
        [*parameters, *parameters],
    )
    return [(row[0], row[1]) for row in rows]


def _date(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except (TypeError, ValueError) as error:
        raise IndexDamageError(f"the date of a file cannot be read: {error}") from error
