"""The annotations of the index: of which texts they are, by which annotator, and which chunks have none yet.

An annotation belongs to a heading and a text: it is stored once for all chunks that have both, replaced by that of
another annotator, and cached when they are gone. All functions run within a transaction or a snapshot of the caller.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import attrs

from ..sqlite import in_batches
from .vectors import of_sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import aiosqlite

    from ..types import StoredChunk

OF_NO_CHUNK = "hash NOT IN (SELECT annotation_hash(heading, text) FROM chunks)"
"""The SQL condition that no chunk has the text of an annotation any more."""


def annotated_text(heading: str, text: str) -> str:
    """Return what is annotated of a chunk: not its context, so that a new neighbour costs no further call."""
    return f"{heading}\n{text}" if heading else text


def annotation_hash(heading: str, text: str) -> str:
    """Return what the annotation of a chunk is stored by; also an SQL function."""
    return hashlib.sha256(annotated_text(heading, text).encode("utf-8", "surrogatepass")).hexdigest()


async def with_annotations(connection: aiosqlite.Connection, chunks: Iterable[StoredChunk]) -> list[StoredChunk]:
    """Return chunks with the annotations that the index has of them."""
    hashed = [(chunk, annotation_hash(chunk.heading, chunk.text)) for chunk in chunks]
    found: dict[str, str] = {}
    for marks, batch in in_batches(list({hash for _, hash in hashed})):
        statement = f"SELECT hash, annotation FROM annotations WHERE hash IN ({marks})"
        found |= {row[0]: row[1] for row in await connection.execute_fetchall(statement, batch)}
    return [attrs.evolve(chunk, annotation=found[hash]) if hash in found else chunk for chunk, hash in hashed]


async def pending_annotations(
    connection: aiosqlite.Connection, identity: str, sources: Sequence[str] = ()
) -> dict[str, list[int]]:
    """Return the chunks that an annotator has not annotated, newest first, by the hash of their text.

    :param sources: only chunks of these sources; all if there are none.
    """
    pending: dict[str, list[int]] = {}
    for id, hash in await connection.execute_fetchall(
        "SELECT chunks.id, annotation_hash(heading, text) AS text_hash FROM chunks WHERE NOT EXISTS (SELECT 1 FROM "
        f"annotations WHERE hash = text_hash AND identity = ?) AND {of_sources(sources)} ORDER BY chunks.id DESC",
        (identity, *sources),
    ):
        pending.setdefault(hash, []).append(id)
    return pending


async def store_annotations(
    connection: aiosqlite.Connection, identity: str, annotations: Mapping[str, str]
) -> list[int]:
    """Store annotations by the hash of their text, "" where there is none, and return the chunks with these texts."""
    await connection.executemany(
        "INSERT OR REPLACE INTO annotations (hash, identity, annotation) VALUES (?, ?, ?)",
        [(hash, identity, annotation) for hash, annotation in annotations.items()],
    )
    statement = f"SELECT id FROM chunks WHERE annotation_hash(heading, text) IN ({', '.join('?' * len(annotations))})"
    return [row[0] for row in await connection.execute_fetchall(statement, list(annotations))]


async def evict_annotations(connection: aiosqlite.Connection, cache_bytes: int) -> None:
    """Delete annotations of texts that no chunk has any more, beyond the size of the cache, the oldest first."""
    await connection.execute(
        "DELETE FROM annotations WHERE id IN (SELECT id FROM (SELECT id, sum(length(annotation) + 1) "
        f"OVER (ORDER BY id DESC) AS size FROM annotations WHERE {OF_NO_CHUNK}) WHERE size > ?)",
        (cache_bytes,),
    )
