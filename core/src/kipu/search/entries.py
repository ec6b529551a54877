"""List entries: which there are is asked of the index, and what they say is read from their files."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from contextlib import closing
from datetime import date
from typing import TYPE_CHECKING

import attrs

from ..index.entries import shown_ids
from ..index.filters import filters
from ..index.queries import CHUNKS_AND_FILES
from ..index.recovery import recovering
from ..markdown import entries
from ..types import Listing, StoredEntry
from ..workspace.paths import date_of
from ..workspace.reader import OpenFolder
from ..workspace.text import NotTextError, decode
from .validity import expiry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..index.database import Connection
    from ..markdown import Entry
    from ..types import Query
    from ..workspace.paths import Workspace
    from .service import SearchService


@recovering
async def list_entries(service: SearchService, query: Query) -> Listing[StoredEntry]:
    """Return the entries that pass the filters of a query, by path and line. See `kipu.Memory.entries`.

    An entry passes if the chunk that it begins in does.
    """
    context = service.context
    await service.synchronizer.before_search(sync=True, lenient=True)
    async with context.database.snapshot() as snapshot:
        connection = snapshot.connection
        chunks = await _passing_chunks(connection, query, archived=snapshot.has_archive)
        of_files = attrs.evolve(query, tags=(), where=())
        condition, parameters = filters(of_files, archived=snapshot.has_archive)
        rows = await connection.execute_fetchall(
            "SELECT path, file_id, start_line, entries.id, is_derived FROM files CROSS JOIN entries "
            f"ON file_id = files.id WHERE {condition} ORDER BY path, start_line",
            parameters,
        )
        await service.add_notices(snapshot, query, found=bool(chunks))
        shown = await shown_ids(connection, [row[3] for row in rows if row[4]], context.scope.sources)
    headings: dict[tuple[str, str], deque[str | None]] = {}  # of those that pass, by path and id, in order
    for path, file_id, line, id, _ in rows:
        heading = _heading_at(chunks.get(file_id, []), line)
        headings.setdefault((path, id), deque()).append("" if heading is None and query == of_files else heading)
    today, listed = query.today or date.max, []
    # As the files are now: lines may have moved since.
    for path, entry in await asyncio.to_thread(_read, context.workspace, list(dict.fromkeys(row[0] for row in rows))):
        source = context.workspace.source_of(path)
        full = entry.id_in(source)
        heading = in_order.popleft() if (in_order := headings.get((path, full))) else None
        if heading is not None:
            place = (path, entry.start_line, entry.end_line)
            origin = (source, date_of(path), heading)
            outdated = _outdated(entry.metadata, today)
            listed.append(StoredEntry(shown.get(full, full), *place, entry.text, *origin, entry.metadata, outdated))
    return Listing(listed)


def _read(workspace: Workspace, paths: list[str]) -> list[tuple[str, Entry]]:
    found: list[tuple[str, Entry]] = []
    with closing(OpenFolder()) as folder:
        for path in paths:
            try:
                text = decode(workspace.read(workspace.locate(path), folder))
            except (OSError, NotTextError):
                continue  # removed since, or a notice names it
            found += [(path, entry) for entry in entries(text.split("\n")) if entry.has_id]
    return found


async def _passing_chunks(
    connection: Connection, query: Query, *, archived: bool
) -> dict[int, list[tuple[int, int, str]]]:
    """Return the lines and the headings of the chunks that pass, in order, by the ids of their files."""
    condition, parameters = filters(query, archived=archived)
    passing: dict[int, list[tuple[int, int, str]]] = {}
    for file_id, *chunk in await connection.execute_fetchall(
        f"SELECT file_id, start_line, end_line, heading FROM {CHUNKS_AND_FILES} WHERE {condition} "
        "ORDER BY file_id, position",
        parameters,
    ):
        passing.setdefault(file_id, []).append((chunk[0], chunk[1], chunk[2]))
    return passing


def _heading_at(chunks: list[tuple[int, int, str]], line: int) -> str | None:
    """Return the heading of the chunk that a line is in; None if it is in none."""
    place = bisect_right(chunks, line, key=lambda chunk: chunk[0])
    return chunks[place - 1][2] if place and chunks[place - 1][1] >= line else None


def _outdated(metadata: Mapping[str, str], today: date) -> str:
    reasons = [f"superseded by {metadata['superseded_by']}"] if metadata.get("superseded_by") else []
    return ", ".join([*reasons, *expiry(metadata, today)])
