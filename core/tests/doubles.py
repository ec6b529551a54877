"""A chunker, an embedder and strategies as small as the contract allows, so that the kernel is tested by itself."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np

from kipu import Chunk, FlushConfig, Hit, MemoryConfig, SearchConfig, WritingConfig
from kipu.types import Distillation, Filtered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import aiosqlite

    from kipu import Document, Memory, Query
    from kipu.types import Index, Role, StoredChunk, Vectors, VectorSpace


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


@attrs.define
class Hashing:
    """Embeds a text by its words: each adds 1 in a dimension of its own. Does whatever ``misbehave`` makes of it.

    ``calls`` are the texts of each call. ``misbehave`` is called before each with the number of the call, from 1, and
    its texts: what it raises is raised, and what it returns other than None is returned.
    """

    destination: ClassVar[str | None] = None

    dimension: int = 64
    salt: str = ""
    languages: Sequence[str] | None = None
    batch_size: int = 64
    misbehave: Any = attrs.field(default=lambda number, texts: None, eq=False, repr=False)
    calls: list[list[str]] = attrs.field(factory=list, init=False)
    closed: int = attrs.field(default=0, init=False)

    @property
    def identity(self) -> str:
        return f"hashing-{self.dimension}{self.salt}"

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        self.calls.append(list(texts))
        answer = self.misbehave(len(self.calls), list(texts))
        if answer is not None:
            return answer  # type: ignore[no-any-return]
        return np.array([self.vector(text) for text in texts], np.float32)

    def vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimension
        for word in words(text) or [""]:
            digest = hashlib.sha256(f"{self.salt}{word}".encode()).digest()
            vector[int.from_bytes(digest[:4], "big") % self.dimension] += 1
        return vector

    async def close(self) -> None:
        self.closed += 1


@attrs.frozen
class Nearest:
    """Finds chunks by the cosine of their vectors, by a table of its own for each space."""

    schema_version: int = 1
    needs_vectors = True

    async def create(self, connection: aiosqlite.Connection, space: VectorSpace) -> None:
        await connection.execute(f"DROP TABLE IF EXISTS nearest_{space.id}")
        await connection.execute(f"CREATE TABLE nearest_{space.id} (chunk_id INTEGER PRIMARY KEY, vector BLOB)")

    async def add(
        self, connection: aiosqlite.Connection, space: VectorSpace, ids: Sequence[int], vectors: Vectors
    ) -> None:
        rows = [(id, vector.tobytes()) for id, vector in zip(ids, vectors, strict=True)]
        await connection.executemany(f"INSERT INTO nearest_{space.id} VALUES (?, ?)", rows)

    async def remove(self, connection: aiosqlite.Connection, space: VectorSpace, ids: Sequence[int]) -> None:
        await connection.executemany(f"DELETE FROM nearest_{space.id} WHERE chunk_id = ?", [(id,) for id in ids])

    async def drop(self, connection: aiosqlite.Connection, space: VectorSpace) -> None:
        await connection.execute(f"DROP TABLE nearest_{space.id}")

    async def search(self, query: Query, index: Index) -> list[Hit]:
        assert query.embedding is not None
        condition, parameters = index.where(query)
        rows = await index.connection.execute_fetchall(
            f"SELECT chunk_id, vector FROM nearest_{query.embedding.space.id} JOIN chunks ON chunks.id = chunk_id "
            f"JOIN files ON files.id = chunks.file_id WHERE {condition}",
            parameters,
        )
        vector = query.embedding.vector
        scores = {row[0]: min(1.0, max(0.0, float(np.frombuffer(row[1], np.float32) @ vector))) for row in rows}
        best = sorted((id for id in scores if scores[id]), key=lambda id: (-scores[id], id))[: query.limit]
        chunks = await index.chunks(best)
        return [Hit(chunks[id], scores[id], {"nearest": scores[id]}) for id in chunks]

    async def score(self, query: Query, index: Index, ids: Sequence[int]) -> dict[int, float]:
        assert query.embedding is not None
        have, vectors = await index.vectors(query.embedding.space, ids)
        return {id: float(np.clip(row @ query.embedding.vector, 0, 1)) for id, row in zip(have, vectors, strict=True)}


@attrs.frozen
class Both:
    """Searches with two others, and gives each chunk the higher of their scores."""

    strategies: Sequence[str] = ("near", "by-words")

    async def search(self, query: Query, index: Index) -> list[Hit]:
        found: dict[int, Hit] = {}
        for name in self.strategies:
            for hit in await index.search(name, query) or ():
                other = found.get(hit.chunk.id)
                if other is None or hit.score > other.score:
                    found[hit.chunk.id] = hit
        return sorted(found.values(), key=lambda hit: -hit.score)[: query.limit]


@attrs.define
class Other(Hashing):
    dimension: int = 32
    salt: str = "other"


def fill(write: Callable[[str, str], Path], files: int) -> None:
    for number in range(files):
        write(f"memory/{number:03}.md", f"note{number} about topic{number % 7}\n")


def always(error: Exception) -> Callable[[int, list[str]], None]:
    def misbehave(number: int, texts: list[str]) -> None:
        raise error

    return misbehave


def answering(make: Callable[[np.ndarray[Any, Any]], Any]) -> Callable[[int, list[str]], Any]:
    """An embedder whose right answer is changed."""
    right = Hashing()
    return lambda number, texts: make(np.array([right.vector(text) for text in texts], np.float32))


def named(memory: Memory, **embedders: Any) -> Memory:
    """Make embedders available by name, as a plugin would."""
    from kipu.plugins.manager import PluginInfo

    register = memory.plugins._register("embedder", PluginInfo("test", "kipu-test", "1"))
    for name, factory in embedders.items():
        register(name, factory)
    return memory


KEY = "AKIASECRET"


@attrs.frozen
class Hush:
    """Takes one key out, and what stands behind the word password."""

    def filter(self, text: str, path: str) -> Filtered:
        text = text.replace(KEY, "[redacted: key]")
        head, colon, _ = text.partition("password: ")
        said = f"{head}{colon}[redacted: password]" if colon else text
        found = "[redacted" in said
        return Filtered(said, ["A key was replaced."] if found else [], secret=found)


@attrs.frozen
class Answers:
    """A model that always says the same."""

    text: str = "- a fact"
    tokens: int = 0

    async def distill(self, messages: Any, *, instructions: str, model: str | None = None) -> Distillation:
        return Distillation(self.text, tokens=self.tokens)


def configured(workspace: Path, flusher: Any = None, **flush: Any) -> MemoryConfig:
    """A configuration that takes keys out of what is written, and has a model."""
    return MemoryConfig(
        workspace,
        search=SearchConfig(strategy=Words(), postprocessors=[]),
        writing=WritingConfig(filters=[Hush()]),
        flush=FlushConfig(flusher=flusher or Answers(), **flush),
        timezone="UTC",
    )
