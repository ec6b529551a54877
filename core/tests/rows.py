"""What an index says, row for row, in a form in which two indexes can be compared."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kipu import IndexConfig, MemoryConfig, SearchConfig
from kipu.sqlite import choose_driver
from kipu.sync import Memory
from kipu.testing import ParagraphChunker, WordStrategy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Without what may differ between two indexes of the same files: ids and time stamps.
FILES = "SELECT path, source, date, size, hash, chunker, added, problem FROM files ORDER BY path"
CHUNKS = (
    "SELECT path, position, chunk, chunks.hash, start_line, end_line, heading, heading_level, chunks.text, "
    "context, metadata.text, superseded_by, valid_until "
    "FROM chunks LEFT JOIN metadata ON metadata.id = metadata_id LEFT JOIN files ON files.id = file_id "
    "ORDER BY path, position"
)
WORDS = (
    "SELECT files.path, position, words.path, words FROM words LEFT JOIN chunks ON chunks.id = chunk_id "
    "LEFT JOIN files ON files.id = file_id ORDER BY files.path, position"
)
ENTRIES = (
    "SELECT path, start_line, end_line, entries.id, is_derived, text "
    "FROM entries JOIN files ON files.id = file_id LEFT JOIN metadata ON metadata.id = metadata_id ORDER BY 1, 2"
)
METADATA = "SELECT text FROM metadata ORDER BY text"
STRATEGIES = "SELECT name, schema_version FROM strategies ORDER BY name"


def with_doubles(workspace: Path) -> MemoryConfig:
    """Configure a memory with the smallest chunker and strategy that the contract allows."""
    return MemoryConfig(
        workspace,
        index=IndexConfig(chunker=ParagraphChunker()),
        search=SearchConfig(strategy=WordStrategy(), postprocessors=[], relation=False),
    )


def select(workspace: Path, statement: str) -> list[tuple[Any, ...]]:
    """Return rows of the index, read by a connection that is none of Kipu's.

    By the same driver: two SQLite libraries in one process undo each other's locks.
    https://www.sqlite.org/howtocorrupt.html
    """
    with closing(choose_driver().connect(workspace / ".kipu/index.sqlite")) as connection:
        found: list[tuple[Any, ...]] = connection.execute(statement).fetchall()
        return found


def rows(workspace: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return everything that the index says."""
    statements = {"files": FILES, "chunks": CHUNKS, "entries": ENTRIES, "metadata": METADATA, "words": WORDS}
    statements["strategies"] = STRATEGIES
    return {table: select(workspace, statement) for table, statement in statements.items()}


def rows_made_afresh(workspace: Path, copy: Path, added: Sequence[str] = ()) -> dict[str, list[tuple[Any, ...]]]:
    """Return what a new index of the same files says, copied to another folder."""
    copy_workspace(workspace, copy)
    try:
        with Memory(with_doubles(copy)) as memory:
            memory.index()
            for path in added:
                memory.add(path)
        return rows(copy)
    finally:
        shutil.rmtree(copy)


def copy_workspace(workspace: Path, copy: Path) -> None:
    """Copy a workspace without its index. Symbolic links stay what they are, and so do hard links."""
    links: dict[tuple[int, int], str] = {}

    def copy_file(source: str, target: str) -> None:
        status = os.stat(source)
        first = links.setdefault((status.st_dev, status.st_ino), target)
        if first == target:
            shutil.copyfile(source, target)
        else:
            os.link(first, target)

    shutil.copytree(
        workspace, copy, symlinks=True, ignore=shutil.ignore_patterns(".kipu"), copy_function=copy_file
    )  # fmt: skip


def is_sound(workspace: Path) -> bool:
    """Return whether SQLite finds nothing wrong with the index, and every row has the one that it refers to."""
    return select(workspace, "PRAGMA integrity_check") == [("ok",)] and not select(
        workspace, "PRAGMA foreign_key_check"
    )
