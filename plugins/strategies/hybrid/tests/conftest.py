"""A small stand-in for the kernel: `kipu.types.Arms` whose strategies answer from a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from kipu.types import Hit, Query, StoredChunk

if TYPE_CHECKING:
    from collections.abc import Callable


def stored(id: int, path: str, mark: str) -> StoredChunk:
    return StoredChunk(id, f"chunk {id}", path, "memory", None, id, id, "", 0, f"{mark}text {id}", "")


@attrs.define
class Answers:
    """What strategies find, by name: the scores of chunks by id, or None where one cannot answer.

    ``judgements`` are a strategy's scores of chunks that it did not find, and ``files`` those of files. A chunk is in
    the file that ``paths`` gives by its id, or else in one that all others are in. ``neighbours`` are ids of two
    chunks, and how far the second is from the first. ``mark`` begins each text. Only "vector" needs vectors.
    """

    found: Mapping[str, Mapping[int, float] | None]
    judgements: Mapping[str, Mapping[int, float]] = attrs.field(factory=dict)
    files: Mapping[str, Mapping[str, float]] = attrs.field(factory=dict)
    paths: Mapping[int, str] = attrs.field(factory=dict)
    neighbours: Sequence[tuple[int, int, int]] = ()
    mark: str = ""
    asked: list[str] = attrs.field(factory=list)
    asked_of_files: list[str] = attrs.field(factory=list)

    @property
    def connection(self) -> Answers:
        return self

    async def execute_fetchall(self, statement: str, ids: Sequence[int]) -> list[tuple[int, int, int]]:
        return [row for row in self.neighbours if row[0] in ids]

    def needs_vectors(self, strategy: str) -> bool:
        return strategy == "vector"

    async def search(self, strategy: str, query: Query) -> list[Hit] | None:
        self.asked.append(strategy)
        scores = self.found[strategy]
        if scores is None:
            return None
        ranked = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
        return [
            Hit(stored(id, self.paths.get(id, "memory/notes.md"), self.mark), score, {strategy: score})
            for id, score in ranked[: query.limit]
        ]

    async def score(self, strategy: str, query: Query, ids: Sequence[int]) -> dict[int, float]:
        known = self.judgements.get(strategy, {})
        return {id: known[id] for id in ids if id in known}

    async def score_files(self, strategy: str, query: Query, paths: Sequence[str]) -> dict[str, float]:
        self.asked_of_files.append(strategy)
        known = self.files.get(strategy, {})
        return {path: known[path] for path in paths if path in known}


@pytest.fixture(scope="session")
def answers() -> Callable[..., Any]:
    """Make an index from the answers of its strategies."""
    return Answers
