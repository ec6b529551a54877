"""Rank superseded and expired entries below their replacements, and label them.

The metadata of an entry says until when it is valid (``valid_until``) and what supersedes it (``superseded_by``: the
``id`` of another entry, or the path of a file). Both are judged as of the day of the search, or of another day. What is
in a conflict copy of another file ranks lower, too.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import attrs

from ..index.entries import named_by
from ..index.filters import source_filter
from ..index.queries import CHUNKS_AND_FILES, admit, known_files, select_chunks
from ..markdown import leading_headings
from ..types import Hit
from ..workspace.paths import find_conflicts, original_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import aiosqlite

    from ..index.queries import Snapshot
    from ..types import Query, StoredChunk

VALIDITY = "validity"
"""The name of this stage in an explanation."""

# The share of its score that an outdated entry keeps.
_OUTDATED_SHARE = 0.5
# How many successors are followed from an entry to the one that is valid now.
_LONGEST_LINE = 20
# The chunks of an entry, and those of the file with a path.
_NAMED = (
    "SELECT chunks.id FROM entries CROSS JOIN chunks ON chunks.file_id = entries.file_id "
    "AND chunks.start_line <= entries.end_line AND chunks.end_line >= entries.start_line WHERE {entry} "
    "UNION ALL SELECT chunks.id FROM files CROSS JOIN chunks ON file_id = files.id WHERE files.path = ?"
)


def is_outdatable(chunk: StoredChunk) -> bool:
    """Return whether a chunk may be outdated: by its metadata, or as a part of a conflict copy."""
    return not chunk.metadata.keys().isdisjoint(("valid_until", "superseded_by")) or bool(original_of(chunk.path))


async def by_validity(snapshot: Snapshot, query: Query, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, best first, with each successor above what it supersedes: added if it was not found."""
    ranking = _Ranking(snapshot, query)
    if query.as_of is not None:
        since = await _valid_since(snapshot.connection, query.sources)
        hits = [hit for hit in hits if since.get(hit.chunk.metadata.get("id", ""), date.min) <= query.as_of]
    names = {name for hit in hits for name in (hit.chunk.path, original_of(hit.chunk.path)) if name}
    copies = find_conflicts(await known_files(snapshot.connection, sorted(names)))
    best: dict[str, float] = {}
    for hit in hits:
        best[hit.chunk.path] = max(hit.score, best.get(hit.chunk.path, 0.0))
    for hit in hits:
        # A name such as "chapter 2.md" may be no copy: what its original does not answer keeps its score.
        most = best.get(copies.get(hit.chunk.path, ""), hit.score)
        ranking.hits[hit.chunk.id] = attrs.evolve(hit, score=min(hit.score, most))
        if hit.chunk.path in copies:
            ranking.steps[hit.chunk.id] = 1
    for hit in [*ranking.hits.values()]:
        if is_outdatable(hit.chunk):
            await ranking.judge(hit, hit.score)
    return ranking.best_first()


async def _valid_since(connection: aiosqlite.Connection, sources: Sequence[str]) -> dict[str, date]:
    """Return since when entries are valid that supersede others, by their ids: the day until which the others were.

    The file of an entry may have no date, and then nothing else tells it.

    :param sources: those that are searched: entries of others do not count.
    """
    since: dict[str, date] = {}
    condition, parameters = source_filter(sources)
    rows = await connection.execute_fetchall(
        "SELECT superseded_by, valid_until FROM metadata WHERE superseded_by IS NOT NULL AND EXISTS "
        f"(SELECT 1 FROM {CHUNKS_AND_FILES} WHERE metadata_id = metadata.id AND {condition})",
        parameters,
    )
    for id, until in rows:
        day = _day(until)
        if day is not None and id:
            since[id] = min(day, since.get(id, day))
    return since


class _Ranking:
    """The hits of one search while they are judged, by the ids of their chunks."""

    def __init__(self, snapshot: Snapshot, query: Query) -> None:
        self._snapshot = snapshot
        self._query = query
        self._day = query.as_of or query.today or date.max
        self.steps: dict[int, int] = {}  # of hits with the same score, those with fewer come first
        self.hits: dict[int, Hit] = {}

    def best_first(self) -> list[Hit]:
        """Return the hits by score; of two with the same score, first the one that supersedes the other."""
        return sorted(self.hits.values(), key=lambda hit: (-hit.score, self.steps.get(hit.chunk.id, 0)))

    async def judge(self, hit: Hit, score: float) -> None:
        """Lower the score of an outdated hit, and give its successor at least the original score."""
        seen = [hit.chunk.id]
        while is_outdatable(hit.chunk) and len(seen) < _LONGEST_LINE:
            successor, reason = await self._successor(hit.chunk)
            reasons = [reason] if reason else []
            reasons += expiry(hit.chunk.metadata, self._day)
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
            self.steps |= {id: max(step, self.steps.get(id, 0)) for step, id in enumerate(reversed(seen))}
            hit = self.hits.get(successor.id) or Hit(successor, score)
            if not hit.outdated and hit.score < score:
                hit = attrs.evolve(hit, score=score)
            self.hits[successor.id] = hit

    async def _successor(self, chunk: StoredChunk) -> tuple[StoredChunk | None, str]:
        """Return what supersedes a chunk, if the search may find it, and a phrase about it; "" if nothing does."""
        name = chunk.metadata.get("superseded_by")
        until = _day(chunk.metadata.get("valid_until"))
        if not name or (self._query.as_of and until and self._query.as_of < until):
            return None, ""  # it was valid on that day
        filtered, sources = source_filter(self._query.sources)
        for condition, parameters in named_by(name):
            found = await select_chunks(
                self._snapshot.connection,
                f"WHERE chunks.id IN ({_NAMED.format(entry=condition)}) AND chunks.id != ? AND {filtered} "
                "ORDER BY files.path = ?, files.source != ?, chunks.id LIMIT 1",
                (*parameters, name, chunk.id, *sources, name, chunk.source),
            )
            if found:
                break
        else:
            return None, f"superseded by {name}, which does not exist"
        successor = found[0]
        if self._query.as_of and successor.date and successor.date > self._query.as_of:
            return None, ""  # the successor was written later
        reason = f"superseded by {successor.path}:{successor.start_line + leading_headings(successor.text)}"
        return successor if await admit(self._snapshot, self._query, [Hit(successor, 0.0)]) else None, reason


def expiry(metadata: Mapping[str, str], day: date) -> list[str]:
    """Return a phrase on until when an entry was valid, if that is before a day."""
    last = _day(metadata.get("valid_until"))
    return [f"valid until {last.isoformat()}"] if last and last < day else []


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        return None  # not a date: people write these lines too, and it is shown as it is
