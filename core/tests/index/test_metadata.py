"""The metadata of an entry is in the index once, whatever number of chunks the entry has, and leaves with the last."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from entry_chunks import EntryChunker, with_entries
from rows import is_sound, select

from kipu import Memory
from kipu.sqlite import choose_driver

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = "SELECT text FROM metadata ORDER BY text"


def entry(text: str, tags: str) -> str:
    return f"- {text * 50}\n  [id: e1; tags: {tags}]\n"


def metadata(workspace: Path) -> list[dict[str, str]]:
    assert is_sound(workspace)
    return [json.loads(text) for (text,) in select(workspace, TEXTS)]


@pytest.fixture
def memory(workspace: Path) -> Memory:
    return Memory(with_entries(workspace, chunker=EntryChunker(longest=100)))


async def test_the_chunks_of_an_entry_share_its_metadata(memory, workspace, write):
    write("memory/a.md", entry("plums ", "fruit"))
    async with memory:
        results = await memory.search("plums")
        assert len(results) == 3
        assert all(result.metadata == {"id": "e1", "tags": "fruit"} for result in results)
        assert metadata(workspace) == [{"id": "e1", "tags": "fruit"}]
    viewed = select(workspace, "SELECT DISTINCT metadata FROM kipu_chunks")
    assert [json.loads(text) for (text,) in viewed] == metadata(workspace)


async def test_entries_with_the_same_metadata_share_it_until_the_last_is_gone(memory, workspace, write):
    write("memory/a.md", entry("plums ", "fruit"))
    write("memory/b.md", entry("pears ", "fruit"))
    async with memory:
        await memory.index()
        assert len(metadata(workspace)) == 1
        (workspace / "memory/a.md").unlink()
        await memory.index()
        assert len(metadata(workspace)) == 1
        (workspace / "memory/b.md").unlink()
        await memory.index()
        assert metadata(workspace) == []


async def test_changed_metadata_replaces_what_was_there(memory, workspace, write):
    write("memory/a.md", entry("plums ", "fruit"))
    async with memory:
        await memory.index()
        write("memory/a.md", entry("plums ", "stone"))
        await memory.index()
        assert metadata(workspace) == [{"id": "e1", "tags": "stone"}]


async def test_metadata_that_is_missing_is_damage_and_rebuilt(memory, workspace, write):
    write("memory/a.md", entry("plums ", "fruit"))
    async with memory:
        await memory.index()
    with contextlib.closing(choose_driver().connect(workspace / ".kipu/index.sqlite", isolation_level=None)) as driver:
        driver.execute("DELETE FROM metadata")
    async with Memory(memory.config) as again:
        results = await again.search("plums")
        assert results[0].metadata == {"id": "e1", "tags": "fruit"}
        assert "set aside" in " ".join(results.notices)
