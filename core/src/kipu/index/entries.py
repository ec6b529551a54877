"""The entries of the index: which lines of which file each one is, and the id by which callers name it.

The kernel finds them itself, whatever the chunker. An id is stored in full: that of the metadata of an entry, or one
derived from its source and text. A derived id is shown, and named, by as many characters as tell it from the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..sqlite import in_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import aiosqlite

    from ..markdown import Entry
    from .database import Connection

_FEWEST_CHARACTERS = 8
_AFTER = "{"  # comes after every character of a derived id
_DERIVED = "is_derived AND entries.id >= ? AND entries.id < ?"


class FoundEntry(NamedTuple):
    """An entry as the index has it, with its full id."""

    path: str
    start_line: int
    end_line: int
    id: str
    is_derived: bool


def named_by(name: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the conditions on ``entries`` that a name of an entry makes, the first that finds one wins."""
    conditions: list[tuple[str, tuple[str, ...]]] = [("entries.id = ?", (name,))]
    if len(name) >= _FEWEST_CHARACTERS:
        conditions.append((_DERIVED, (name, name + _AFTER)))
    return conditions


def names_of(id: str, *, is_derived: bool) -> list[str]:
    """Return all names of an entry with that full id."""
    return [id[:length] for length in range(_FEWEST_CHARACTERS, len(id) + 1)] if is_derived else [id]


async def find_entries(connection: Connection, name: str, sources: Sequence[str] = ()) -> list[FoundEntry]:
    """Return the entries with an id, or else those whose derived id begins so, in all sources or in some."""
    for condition, parameters in named_by(name):
        rows = await connection.execute_fetchall(
            "SELECT path, start_line, end_line, entries.id, is_derived FROM entries JOIN files ON files.id = file_id "
            f"WHERE {condition} AND {_in(sources)} ORDER BY path, start_line",
            (*parameters, *sources),
        )
        if rows:
            return [FoundEntry(*row) for row in rows]
    return []


async def ids_at(
    connection: Connection, places: Sequence[tuple[str, int, int]], sources: Sequence[str] = ()
) -> list[str | None]:
    """Return for lines of files (path, first, last) the id, as it is shown, of the entry that all of them are in."""
    found: dict[int, tuple[str, bool]] = {}
    for start in range(0, len(places), 200):
        part = [value for number, place in enumerate(places[start : start + 200], start) for value in (number, *place)]
        rows = await connection.execute_fetchall(
            f"WITH wanted(number, path, first, last) AS (VALUES {', '.join(['(?, ?, ?, ?)'] * (len(part) // 4))}) "
            "SELECT number, entries.id, is_derived FROM wanted CROSS JOIN files ON files.path = wanted.path "
            "CROSS JOIN entries ON file_id = files.id AND start_line = "
            "(SELECT max(start_line) FROM entries WHERE file_id = files.id AND start_line <= first) "
            "WHERE end_line >= last",
            part,
        )
        found |= {row[0]: (row[1], row[2]) for row in rows}
    shown = await shown_ids(connection, [id for id, is_derived in found.values() if is_derived], sources)
    full = [found[number][0] if number in found else None for number in range(len(places))]
    return [id and shown.get(id, id) for id in full]


async def shown_ids(connection: Connection, ids: Iterable[str], sources: Sequence[str] = ()) -> dict[str, str]:
    """Return for full derived ids what each is shown as: 8 characters, or as many as tell it from other entries."""
    shown = {id: id[:_FEWEST_CHARACTERS] for id in ids}
    for _, batch in in_batches(list(shown)):
        rows = await connection.execute_fetchall(
            f"WITH wanted(id) AS (VALUES {', '.join(['(?)'] * len(batch))}) "
            "SELECT DISTINCT wanted.id, entries.id, is_derived FROM wanted CROSS JOIN entries "
            f"ON entries.id >= substr(wanted.id, 1, {_FEWEST_CHARACTERS}) "
            f"AND entries.id < substr(wanted.id, 1, {_FEWEST_CHARACTERS}) || '{_AFTER}' AND entries.id != wanted.id "
            f"JOIN files ON files.id = file_id WHERE {_in(sources)}",
            (*batch, *sources),
        )
        for id, other, is_derived in rows:
            # An explicit id is named in full only, so that it takes one length of the derived one.
            common = len(other) if id.startswith(other) else is_derived and _common_length(id, other)
            shown[id] = id[: max(len(shown[id]), common + 1)]
    return shown


def _common_length(one: str, other: str) -> int:
    return next(place for place, (char, its) in enumerate(zip(one, other, strict=False)) if char != its)


def _in(sources: Sequence[str]) -> str:
    return f"files.source IN ({', '.join('?' * len(sources))})" if sources else "1"


# --- Writing ---------------------------------------------------------------------------------------------------------

Rows = dict[tuple[Any, ...], Any]  # lines, id, whether it is derived and hash of metadata: id of the row of metadata


async def entry_rows(connection: aiosqlite.Connection, file_ids: Sequence[int]) -> dict[int, Rows]:
    """Return the rows of the entries of files, by the ids of the files."""
    found: dict[int, Rows] = {}
    for marks, batch in in_batches(file_ids):
        for file_id, *row, metadata_id in await connection.execute_fetchall(
            "SELECT file_id, start_line, end_line, entries.id, is_derived, metadata.hash, metadata_id "
            f"FROM entries LEFT JOIN metadata ON metadata.id = metadata_id WHERE file_id IN ({marks})",
            batch,
        ):
            found.setdefault(file_id, {})[tuple(row)] = metadata_id
    return found


class EntryDiff:
    """What a batch does to the entries. Those that stay as they are keep their rows.

    :param add_metadata: has metadata stored, and returns its hash.
    """

    def __init__(self, add_metadata: Callable[[Mapping[str, str]], str]) -> None:
        self._add_metadata = add_metadata
        self._new: list[tuple[Any, ...]] = []
        self._gone: list[tuple[int, int]] = []
        self.metadata_gone: set[int | None] = set()

    def add(self, source: str, file_id: int, entries: Iterable[Entry], rows: Rows, *, fresh: bool) -> None:
        """Compare the entries of a file with its rows, of which none is kept if they must be ``fresh``."""
        wanted = set()
        for entry in entries:
            if entry.has_id:
                id = entry.id_in(source)
                hash = self._add_metadata(entry.metadata) if entry.metadata else None
                wanted.add((entry.start_line, entry.end_line, id, id != entry.metadata.get("id"), hash))
        kept = set() if fresh else wanted & rows.keys()
        self._new += [(file_id, *row) for row in wanted - kept]
        self.remove(file_id, {row: rows[row] for row in rows.keys() - kept})

    def remove(self, file_id: int, rows: Rows) -> None:
        """Remove entries of a file."""
        self._gone += [(file_id, row[0]) for row in rows]
        self.metadata_gone.update(rows.values())

    async def write(self, connection: Connection) -> None:
        """Change the rows. Metadata must be stored before."""
        if self._gone:
            await connection.executemany("DELETE FROM entries WHERE file_id = ? AND start_line = ?", self._gone)
        if self._new:
            await connection.executemany(
                "INSERT INTO entries (file_id, start_line, end_line, id, is_derived, metadata_id) "
                "VALUES (?, ?, ?, ?, ?, (SELECT id FROM metadata WHERE hash = ?))",
                self._new,
            )
