"""A strategy for Kipu with a table of its own: the newest dated notes that have all words of a query."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, ClassVar

import attrs

from kipu import Hit, hookimpl
from kipu.options import number, option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import aiosqlite

    from kipu import Query
    from kipu.types import Index, StoredChunk


@attrs.frozen
class Newest:
    """Find the dated notes that have all words of the query, the newest first.

    The newest one scores 1, and one that is older by ``half_life_days`` half as much. Evergreen files are not found.
    """

    half_life_days: float = option(30.0, number(above=0), "After how many days a score is halved.")
    schema_version: ClassVar[int] = 1

    async def create(self, connection: aiosqlite.Connection) -> None:
        """Create the empty table: which chunk has which words."""
        await connection.execute("DROP TABLE IF EXISTS newest")
        await connection.execute("CREATE TABLE newest (word TEXT, chunk_id INTEGER)")
        await connection.execute("CREATE INDEX newest_by_word ON newest(word, chunk_id)")
        await connection.execute("CREATE INDEX newest_by_chunk ON newest(chunk_id)")

    async def add(self, connection: aiosqlite.Connection, chunks: Sequence[StoredChunk]) -> None:
        """Add the words of chunks of dated files."""
        rows = [(word, chunk.id) for chunk in chunks if chunk.date for word in words(f"{chunk.heading} {chunk.text}")]
        await connection.executemany("INSERT INTO newest VALUES (?, ?)", rows)

    async def remove(self, connection: aiosqlite.Connection, chunk_ids: Sequence[int]) -> None:
        """Remove chunks."""
        await connection.executemany("DELETE FROM newest WHERE chunk_id = ?", [(id,) for id in chunk_ids])

    async def search(self, query: Query, index: Index) -> list[Hit]:
        """Return the newest chunks that have every word of the query."""
        terms = words(query.text)
        condition, parameters = index.where(query)
        rows = await index.connection.execute_fetchall(
            "SELECT chunk_id FROM newest JOIN kipu_chunks ON kipu_chunks.id = chunk_id "
            "JOIN kipu_files ON kipu_files.id = file_id "
            f"WHERE word IN (SELECT value FROM json_each(?)) AND {condition} "
            "GROUP BY chunk_id HAVING count(*) = ? ORDER BY date DESC, chunk_id LIMIT ?",
            [json.dumps(terms), *parameters, len(terms), query.limit],
        )
        chunks = list((await index.chunks(row[0] for row in rows)).values())
        days = [chunk.date.toordinal() for chunk in chunks if chunk.date]
        scores = [0.5 ** ((days[0] - day) / self.half_life_days) for day in days]
        return [Hit(chunk, score, {"newest": score}) for chunk, score in zip(chunks, scores, strict=True)]


def words(text: str) -> list[str]:
    """Return the different words of a text, in lower case."""
    return sorted(set(re.findall(r"\w+", text.lower())))


@hookimpl
def kipu_register_strategies(register: Callable[[str, type[Newest]], None]) -> None:
    """Register the strategy "newest"."""
    register("newest", Newest)
