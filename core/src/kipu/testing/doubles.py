"""The doubles: each the smallest component that keeps the contract of its kind."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..types import Chunk, Distillation, Hit

if TYPE_CHECKING:
    import aiosqlite

    from ..types import Arms, Document, Index, Message, Query, Role, StoredChunk, Vectors, VectorSpace


@attrs.frozen
class ParagraphChunker:
    """A chunker for which each run of lines that are not blank is a chunk, under the last line that began with ``#``.

    :param schema_version: the version of its chunks; another one makes the kernel chunk all files again.
    """

    schema_version: int = 1

    def chunk(self, document: Document) -> list[Chunk]:
        """Return the paragraphs of a document."""
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


@attrs.define
class HashingEmbedder:
    """An embedder that counts words: each adds 1 in the dimension that its hash selects.

    Texts that share words are near each other, and the same text always has the same vector, in every process.

    :param dimension: the length of the vectors.
    :param salt: part of the hash and of the identity; another salt is another model.
    :param languages: the languages that it says it knows.
    :param batch_size: the most texts in a call.
    """

    destination: ClassVar[str | None] = None

    dimension: int = 64
    salt: str = ""
    languages: Sequence[str] | None = None
    batch_size: int = 64
    calls: list[list[str]] = attrs.field(factory=list, init=False)  # the texts of each call
    closed: int = attrs.field(default=0, init=False)  # how often it was closed

    @property
    def identity(self) -> str:
        """Two embedders with the same identity give the same vectors."""
        return f"hashing-{self.dimension}{self.salt}"

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Return a vector for each text, and note the call."""
        self.calls.append(list(texts))
        return self.vectors(texts)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each text."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in _words(text) or [""]:
                digest = hashlib.sha256(f"{self.salt}{word}".encode()).digest()
                row[int.from_bytes(digest[:4], "big") % self.dimension] += 1
        return rows

    async def close(self) -> None:
        """Count the call."""
        self.closed += 1


@attrs.define
class ScriptedEmbedder(HashingEmbedder):
    """A `HashingEmbedder` whose answers follow a script.

    Each call takes the next step; the last one repeats. A step is None for the right vectors, an exception to raise,
    what to return instead, or a function of the texts that returns one of these and may be ``async``::

        ScriptedEmbedder(script=[EmbedderError("The key was refused (401).")])  # fails always
        ScriptedEmbedder(script=[EmbedderBusyError("Overloaded (503)."), None])  # fails once

    :param script: the steps; without any, every call is answered.
    """

    script: Sequence[Any] = attrs.field(default=(), kw_only=True, eq=False, repr=False)

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Return what the script says."""
        vectors = await HashingEmbedder.embed(self, texts, role=role)
        answer = await _follow(self.script, len(self.calls), list(texts))
        return vectors if answer is None else answer


@attrs.define
class ScriptedAnnotator:
    """An annotator whose answers follow a script, and which sends nothing anywhere unless it says so.

    Each call takes the next step; the last one repeats. A step is None for ``{"words": [...]}`` with the words of each
    text, a list of answers, an exception to raise, or a function of the texts that returns one of these and may be
    ``async``.

    :param script: the steps; without any, every call is answered.
    :param salt: part of the identity; another salt is another model.
    :param destination: where it says that it sends texts.
    """

    script: Sequence[Any] = ()
    salt: str = ""
    destination: str | None = None
    batch_size: int = 8
    calls: list[list[str]] = attrs.field(factory=list, init=False)  # the texts of each call

    @property
    def identity(self) -> str:
        """Two annotators with the same identity give the same annotations."""
        return f"scripted{self.salt}"

    async def annotate(self, texts: Sequence[str]) -> list[str]:
        """Return what the script says, and note the call."""
        self.calls.append(list(texts))
        answer = await _follow(self.script, len(self.calls), list(texts))
        return [json.dumps({"words": _words(text)}) for text in texts] if answer is None else answer


@attrs.define
class ScriptedFlusher:
    """A flusher whose answers follow a script.

    Each call takes the next step; the last one repeats. A step is the text of an answer, a `Distillation`, an exception
    to raise, or a function of the messages that returns one of these and may be ``async``.

    :param script: the steps.
    :param window: what fits into a call, in tokens; None for anything.
    """

    script: Sequence[Any] = ("- a fact",)
    window: int | None = None
    calls: list[list[Message]] = attrs.field(factory=list, init=False)  # the messages of each call
    instructions: list[str] = attrs.field(factory=list, init=False)  # those of each call

    async def distill(
        self, messages: Sequence[Message], *, instructions: str, model: str | None = None
    ) -> Distillation:
        """Return what the script says, and note the call."""
        self.calls.append(list(messages))
        self.instructions.append(instructions)
        answer = await _follow(self.script, len(self.calls), list(messages))
        return Distillation(answer) if isinstance(answer, str) else answer


@attrs.frozen
class WordStrategy:
    """A strategy that scores a chunk by the share of the query's words in it. Its table is ``words``.

    :param schema_version: the version of its table; another one makes the kernel fill it again.
    """

    schema_version: int = 1

    async def create(self, connection: aiosqlite.Connection) -> None:
        """Make the table."""
        await connection.execute("DROP TABLE IF EXISTS words")
        await connection.execute("CREATE TABLE words (chunk_id INTEGER PRIMARY KEY, words TEXT, path TEXT)")

    async def add(self, connection: aiosqlite.Connection, chunks: Sequence[StoredChunk]) -> None:
        """Add chunks to the table."""
        rows = [(chunk.id, f" {' '.join(_words(chunk.text))} ", chunk.path) for chunk in chunks]
        await connection.executemany("INSERT INTO words VALUES (?, ?, ?)", rows)

    async def remove(self, connection: aiosqlite.Connection, chunk_ids: Sequence[int]) -> None:
        """Remove chunks from the table."""
        await connection.executemany("DELETE FROM words WHERE chunk_id = ?", [(id,) for id in chunk_ids])

    async def search(self, query: Query, index: Index) -> list[Hit]:
        """Return the chunks with the most words of the query."""
        asked = _words(query.text)
        condition, parameters = index.where(query)
        rows = await index.connection.execute_fetchall(
            "SELECT chunk_id, words.words FROM words JOIN kipu_chunks ON kipu_chunks.id = chunk_id "
            f"JOIN kipu_files ON kipu_files.id = file_id WHERE {condition}",
            parameters,
        )
        scores = {row[0]: sum(f" {word} " in row[1] for word in asked) / max(1, len(asked)) for row in rows}
        return await _hits(scores, query, index, "words")


@attrs.frozen
class VectorStrategy:
    """A strategy that scores a chunk by the cosine of its vector. It has a table ``nearest_ID`` for each space.

    :param schema_version: the version of its tables; another one makes the kernel fill them again.
    """

    schema_version: int = 1
    needs_vectors = True

    async def create(self, connection: aiosqlite.Connection, space: VectorSpace) -> None:
        """Make the table of a space."""
        await connection.execute(f"DROP TABLE IF EXISTS nearest_{space.id}")
        await connection.execute(f"CREATE TABLE nearest_{space.id} (chunk_id INTEGER PRIMARY KEY, vector BLOB)")

    async def add(
        self, connection: aiosqlite.Connection, space: VectorSpace, ids: Sequence[int], vectors: Vectors
    ) -> None:
        """Add the vectors of chunks to the table of their space."""
        rows = [(id, vector.tobytes()) for id, vector in zip(ids, vectors, strict=True)]
        await connection.executemany(f"INSERT INTO nearest_{space.id} VALUES (?, ?)", rows)

    async def remove(self, connection: aiosqlite.Connection, space: VectorSpace, ids: Sequence[int]) -> None:
        """Remove chunks from the table of a space."""
        await connection.executemany(f"DELETE FROM nearest_{space.id} WHERE chunk_id = ?", [(id,) for id in ids])

    async def drop(self, connection: aiosqlite.Connection, space: VectorSpace) -> None:
        """Drop the table of a space."""
        await connection.execute(f"DROP TABLE nearest_{space.id}")

    async def search(self, query: Query, index: Index) -> list[Hit]:
        """Return the chunks that are nearest to the query."""
        import numpy as np

        space, vector = _embedding(query)
        condition, parameters = index.where(query)
        rows = await index.connection.execute_fetchall(
            f"SELECT chunk_id, vector FROM nearest_{space.id} JOIN kipu_chunks ON kipu_chunks.id = chunk_id "
            f"JOIN kipu_files ON kipu_files.id = file_id WHERE {condition}",
            parameters,
        )
        scores = {row[0]: min(1.0, max(0.0, float(np.frombuffer(row[1], np.float32) @ vector))) for row in rows}
        return await _hits(scores, query, index, "nearest")

    async def score(self, query: Query, index: Index, ids: Sequence[int]) -> dict[int, float]:
        """Return the scores of chunks."""
        import numpy as np

        space, vector = _embedding(query)
        have, vectors = await index.vectors(space, ids)
        return {id: float(np.clip(row @ vector, 0, 1)) for id, row in zip(have, vectors, strict=True)}


@attrs.frozen
class CombinedStrategy:
    """A strategy that asks others, and gives each chunk the highest of their scores.

    :param strategies: the names of the others.
    """

    strategies: Sequence[str] = ("near", "by-words")

    async def search(self, query: Query, index: Arms) -> list[Hit]:
        """Return the best chunks of all strategies."""
        best: dict[int, Hit] = {}
        for name in self.strategies:
            for hit in await index.search(name, query) or ():
                other = best.get(hit.chunk.id)
                if other is None or hit.score > other.score:
                    best[hit.chunk.id] = hit
        return sorted(best.values(), key=lambda hit: -hit.score)[: query.limit]


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\w+", text.lower())))


def _embedding(query: Query) -> tuple[VectorSpace, Vectors]:
    if query.embedding is None:
        raise ValueError("A query without an embedding cannot be compared with vectors.")
    return query.embedding.space, query.embedding.vector


async def _hits(scores: dict[int, float], query: Query, index: Index, detail: str) -> list[Hit]:
    """Return the chunks with the highest scores, but those with none."""
    best = sorted((id for id in scores if scores[id]), key=lambda id: (-scores[id], id))[: query.limit]
    chunks = await index.chunks(best)
    return [Hit(chunks[id], scores[id], {detail: scores[id]}) for id in chunks]


async def _follow(script: Sequence[Any], number: int, asked: Any) -> Any:
    """Return, or raise, what a script says for a call, counted from 1."""
    step = script[min(number, len(script)) - 1] if script else None
    if callable(step):
        step = step(asked)
        if inspect.isawaitable(step):
            step = await step
    if isinstance(step, BaseException):
        raise step
    return step
