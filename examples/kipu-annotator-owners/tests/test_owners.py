from __future__ import annotations

import json

import attrs

from kipu import IndexConfig, MemoryConfig, SearchConfig
from kipu.sync import Memory
from kipu.testing import WordStrategy


@attrs.frozen
class Related(WordStrategy):
    """Find chunks by the names in their relations."""

    needs_annotations = True

    async def add(self, connection, chunks):
        said = [" ".join(part for each in relations(chunk.annotation) for part in each.values()) for chunk in chunks]
        pairs = zip(chunks, said, strict=True)
        await WordStrategy.add(self, connection, [attrs.evolve(chunk, text=text) for chunk, text in pairs])


def relations(annotation):
    return json.loads(annotation or "{}").get("relations", [])


def test_who_owns_what_is_found_by_a_strategy_that_needs_annotations(kipu_workspace, kipu_write):
    kipu_write("memory/parts.md", "Cache (owner: Ada) and Queue (owner: Ravi B.) are new.\n")
    kipu_write("memory/other.md", "Nothing is owned.\n")
    index, search = IndexConfig(annotator="owners"), SearchConfig(strategy=Related(), postprocessors=[])
    with Memory(MemoryConfig(kipu_workspace, index=index, search=search)) as memory:
        report = memory.index()
        assert (report.annotated, report.pending_annotations, report.notices) == (2, 0, [])
        (result,) = memory.search("owns queue")
    assert result.path == "memory/parts.md"
