"""Ranks what is not believed any more below what took its place, and says so.

An entry says in its metadata until when it was believed (``valid_until``), and what took its place (``superseded_by``:
the ``id`` of another entry, or the path of a file). Each is looked at as of the day of the search, or of another day.
"""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import attrs

from ..index.queries import CHUNK_COLUMNS, CHUNKS_AND_FILES, stored_chunk
from ..markdown import below_headings
from ..types import Hit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import aiosqlite

    from ..types import Query, StoredChunk

__all__ = ["VALIDITY", "by_validity", "is_outdatable"]

VALIDITY = "validity"
"""What this step is called in an explanation."""

# What is left of the score of an entry that is not believed any more.
_OUTDATED_SHARE = 0.5
# How far a line of successors is followed, from what is found to what is believed now.
_LONGEST_LINE = 20


def is_outdatable(chunk: StoredChunk) -> bool:
    """Whether a chunk says until when it is believed, or what took its place."""
    return bool(chunk.metadata) and ("valid_until" in chunk.metadata or "superseded_by" in chunk.metadata)


async def by_validity(
    connection: aiosqlite.Connection, query: Query, hits: Sequence[Hit], where: tuple[str, list[Any]]
) -> list[Hit]:
    """The hits, best first, each successor above what it took the place of; it is put there where it was not found.

    :param where: the filters of the query, which what is put there must pass as well.
    """
    ranking = _Ranking(connection, query, where)
    if query.as_of is not None:
        since = await _believed_since(connection, query.source)
        hits = [hit for hit in hits if since.get(hit.chunk.metadata.get("id", ""), date.min) <= query.as_of]
    for hit in hits:
        ranking.hits[hit.chunk.id] = hit
    for hit in hits:
        if is_outdatable(hit.chunk):
            await ranking.judge(hit, hit.score)
    return ranking.best_first()


async def _believed_since(connection: aiosqlite.Connection, source: str | None) -> dict[str, date]:
    """Since when entries are believed that took the place of others, by their ids.

    That is until when the others were believed. Where the file of an entry has no date, nothing else tells it.

    :param source: the source that is searched: what others say of its entries does not count.
    """
    since: dict[str, date] = {}
    rows = await connection.execute_fetchall(
        f"SELECT metadata FROM {CHUNKS_AND_FILES} WHERE instr(metadata, 'superseded_by') AND ? IN ('', files.source)",
        (source or "",),
    )
    for (text,) in rows:
        metadata = json.loads(text)
        day = _day(metadata.get("valid_until"))
        if day is not None and (id := metadata.get("superseded_by")):
            since[id] = min(day, since.get(id, day))
    return since


class _Ranking:
    """The hits of one search while they are judged, by the ids of their chunks."""

    def __init__(self, connection: aiosqlite.Connection, query: Query, where: tuple[str, list[Any]]) -> None:
        self._connection = connection
        self._query = query
        self._condition, self._parameters = where
        self._day = query.as_of or query.today or date.max
        self._steps: dict[int, int] = {}
        self.hits: dict[int, Hit] = {}

    def best_first(self) -> list[Hit]:
        """The hits by their score, and of two with the same one, first what took the place of the other."""
        return sorted(self.hits.values(), key=lambda hit: (-hit.score, self._steps.get(hit.chunk.id, 0)))

    async def judge(self, hit: Hit, score: float) -> None:
        """Lower a hit that is not believed any more, and see to it that its successor has its score at least."""
        seen = [hit.chunk.id]
        while is_outdatable(hit.chunk) and len(seen) < _LONGEST_LINE:
            successor, said = await self._successor(hit.chunk)
            reasons = [said] if said else []
            if (last := _day(hit.chunk.metadata.get("valid_until"))) and last < self._day:
                reasons.append(f"valid until {last.isoformat()}")
            if not reasons:
                return
            if not self.hits[hit.chunk.id].outdated:
                lowered = self.hits[hit.chunk.id]
                self.hits[hit.chunk.id] = attrs.evolve(
                    lowered, score=lowered.score * _OUTDATED_SHARE, outdated=", ".join(reasons)
                )
            if successor is None or successor.id in seen:
                return
            seen.append(successor.id)
            self._steps |= {id: max(step, self._steps.get(id, 0)) for step, id in enumerate(reversed(seen))}
            hit = self.hits.get(successor.id) or Hit(successor, score)
            if not hit.outdated and hit.score < score:
                hit = attrs.evolve(hit, score=score)
            self.hits[successor.id] = hit

    async def _successor(self, chunk: StoredChunk) -> tuple[StoredChunk | None, str]:
        """What took the place of a chunk, where the search may find it, and a sentence about it; "" if nothing did."""
        name = chunk.metadata.get("superseded_by")
        until = _day(chunk.metadata.get("valid_until"))
        if not name or (self._query.as_of and until and self._query.as_of < until):
            return None, ""  # it was believed then, whatever took its place later
        scope = "files.source = ?" if self._query.source is not None else "1"
        statement = (
            f"SELECT {CHUNK_COLUMNS}, ({self._condition}) FROM {CHUNKS_AND_FILES} "
            f"WHERE (chunks.entry = ? OR files.path = ?) AND chunks.id != ? AND {scope} "
            "ORDER BY chunks.entry IS NULL, files.source != ?, chunks.id LIMIT 1"
        )
        source = [self._query.source] if self._query.source is not None else []
        parameters = [*self._parameters, name, name, chunk.id, *source, chunk.source]
        rows = list(await self._connection.execute_fetchall(statement, parameters))
        if not rows:
            return None, f"superseded by {name}, which is not there"
        successor, allowed = stored_chunk(rows[0]), rows[0][-1]
        if self._query.as_of and successor.date and successor.date > self._query.as_of:
            return None, ""  # that was not known yet
        said = f"superseded by {successor.path}:{successor.start_line + below_headings(successor.text)}"
        return successor if allowed else None, said


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        return None  # a person wrote something that is no date: it is shown as it stands
