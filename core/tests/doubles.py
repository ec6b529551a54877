"""A chunker and a strategy that are as small as the contract allows, so that the kernel is tested by itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from kipu import Chunk, Hit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import aiosqlite

    from kipu import Document, Query
    from kipu.types import Index, StoredChunk


@attrs.frozen
class Paragraphs:
    """Each run of lines that are not blank is a chunk; the heading is the last line that began with ``#``."""

    schema_version: int = 1

    def chunk(self, document: Document) -> list[Chunk]:
        chunks: list[Chunk] = []
        heading, lines = "", document.text.split("\n")
        start = None
        for number, line in enumerate([*lines, ""], 1):
            if line.startswith("#"):
                heading = line.lstrip("# ")
            if line.strip() and start is None:
                start = number
            elif not line.strip() and start is not None:
                text = "\n".join(lines[start - 1 : number - 1])
                chunks.append(Chunk(text, start, number - 1, heading, 1 if heading else 0))
                start = None
        return chunks


@attrs.frozen
class Words:
    """Finds chunks by the share of the query's words that they have, by a table of its own."""

    schema_version: int = 1

    async def create(self, connection: aiosqlite.Connection) -> None:
        await connection.execute("DROP TABLE IF EXISTS words")
        await connection.execute("CREATE TABLE words (chunk_id INTEGER PRIMARY KEY, words TEXT, path TEXT)")

    async def add(self, connection: aiosqlite.Connection, chunks: Sequence[StoredChunk]) -> None:
        rows = [(chunk.id, f" {' '.join(words(chunk.text))} ", chunk.path) for chunk in chunks]
        await connection.executemany("INSERT INTO words VALUES (?, ?, ?)", rows)

    async def remove(self, connection: aiosqlite.Connection, chunk_ids: Sequence[int]) -> None:
        await connection.executemany("DELETE FROM words WHERE chunk_id = ?", [(id,) for id in chunk_ids])

    async def search(self, query: Query, index: Index) -> list[Hit]:
        asked = words(query.text)
        condition, parameters = index.where(query)
        rows = await index.connection.execute_fetchall(
            "SELECT chunk_id, words.words FROM words JOIN chunks ON chunks.id = chunk_id "
            f"JOIN files ON files.id = chunks.file_id WHERE {condition}",
            parameters,
        )
        scores = {row[0]: sum(f" {word} " in row[1] for word in asked) / max(1, len(asked)) for row in rows}
        best = sorted((id for id in scores if scores[id]), key=lambda id: (-scores[id], id))[: query.limit]
        chunks = await index.chunks(best)
        return [Hit(chunks[id], scores[id], {"words": scores[id]}) for id in chunks]


def words(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\w+", text.lower())))
