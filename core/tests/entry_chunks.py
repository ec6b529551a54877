"""A memory in which each entry is a chunk, and what its files say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs
from rows import with_doubles

from kipu import Chunk, IndexConfig, SearchConfig
from kipu.config import WritingConfig
from kipu.markdown import entries
from kipu.testing import WordStrategy

if TYPE_CHECKING:
    from pathlib import Path

    from kipu import Document, MemoryConfig
    from kipu.markdown import Entry


@attrs.frozen
class EntryChunker:
    """Each entry is a chunk, with its metadata. One longer than ``longest`` is cut there, also in a word."""

    longest: int = 1_000_000_000

    def chunk(self, document: Document) -> list[Chunk]:
        """Return the entries of a document."""
        lines = document.text.split("\n")
        chunks = []
        for entry in entries(lines):
            text = "\n".join(lines[entry.start_line - 1 : entry.end_line])
            for start in range(0, len(text), self.longest):
                part = text[start : start + self.longest]
                chunks.append(Chunk(part, entry.start_line, entry.end_line, metadata=entry.metadata))
        return chunks


def with_entries(workspace: Path, *, chunker: Any = None, filters: Any = (), **search: Any) -> MemoryConfig:
    """Configure a memory in which each entry is a chunk, without write filters."""
    return attrs.evolve(
        with_doubles(workspace),
        index=IndexConfig(chunker=chunker or EntryChunker()),
        search=SearchConfig(**({"strategy": WordStrategy(), "postprocessors": [], "relation": False} | search)),
        writing=WritingConfig(filters=list(filters)),
    )


def lines_of(file: Path) -> list[str]:
    """Return the lines of a file."""
    return file.read_text("utf-8").split("\n")


def entries_in(file: Path) -> list[Entry]:
    """Return the entries of a file."""
    return entries(lines_of(file))


def without_id(file: Path, id: str | None) -> str:
    """Return the text of a file without the line of metadata that is an id alone."""
    return re.sub(rf"\n *\[id: {id}\]", "", file.read_text("utf-8"))
