"""One search from end to end, on an index that others use too."""

from __future__ import annotations

import os
from typing import Any

from kipu import Memory


async def test_a_search_is_repeated_if_the_index_is_set_aside_meanwhile(config, write, monkeypatch):
    write("memory/a.md", "red\n")
    async with Memory(config()) as memory:
        await memory.index()
        synchronize, path = memory._synchronizer.before_search, memory._context.database.path

        async def before_search(**options: Any) -> Any:
            monkeypatch.undo()
            update = await synchronize(**options)
            for ending in ("", "-wal", "-shm"):
                os.remove(f"{path}{ending}")
            return update

        monkeypatch.setattr(memory._synchronizer, "before_search", before_search)
        assert [result.path for result in await memory.search("red")] == ["memory/a.md"]


class Failing:
    def chunk(self, document):
        raise ValueError("not today")


async def test_a_search_says_why_a_file_is_not_indexed(config, write):
    write("memory/a.md", "red\n")
    write("memory/b.md", "blue\n")
    async with Memory(config(index={"chunker": Failing()})) as memory:
        results = await memory.search("red")
    assert results.stale
    (notice,) = results.notices
    assert "memory/a.md was not chunked" in notice
    assert "not today" in notice
    assert notice.endswith("Not indexed either: 1 more.")


async def test_what_a_list_could_not_look_at_is_in_its_notices(config, write, workspace):
    write("notes/a.md", "- red\n")
    async with Memory(config(files={"paths": ["notes"]})) as memory:
        assert len(await memory.entries()) == 1
        (workspace / "notes").rename(workspace / "elsewhere")
        found = await memory.entries()
        assert (found, (await memory.status()).notices) == ([], [])
        assert "notes is missing; what was indexed" in "".join(found.notices)
