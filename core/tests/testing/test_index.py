"""A scratch index is what the kernel gives a strategy, without files."""

from __future__ import annotations

from datetime import date

import pytest

from kipu.testing import ScratchIndex, VectorStrategy, WordStrategy


async def test_a_strategy_indexes_and_finds_chunks():
    async with ScratchIndex.open(WordStrategy()) as index:
        first, second = await index.add("We chose Redis.", "Ana likes tea.", path="memory/team/a.md", heading="Notes")
        (hit,) = await index.search("redis")
        assert (hit.chunk.id, hit.chunk.path, hit.chunk.source, hit.chunk.heading) == (
            first,
            "memory/team/a.md",
            "team",
            "Notes",
        )
        await index.remove([first])
        assert await index.search("redis") == []
        assert list(await index.chunks([first, second])) == [second]


async def test_filters_apply():
    async with ScratchIndex.open(WordStrategy()) as index:
        await index.add("old redis", path="memory/old.md", date=date(2026, 1, 1))
        await index.add("new redis", path="memory/new.md", date=date(2026, 2, 1))
        assert [hit.chunk.text for hit in await index.search("redis", since=date(2026, 1, 15))] == ["new redis"]


async def test_chunks_have_vectors():
    async with ScratchIndex.open(VectorStrategy(), dimension=2) as index:
        east, north = await index.add("east", "north", vectors=[[2, 0], [0, 3]])
        assert [hit.chunk.id for hit in await index.search(vector=[1, 0], limit=1)] == [east]
        found, vectors = await index.vectors(index.space, [north, east])
        assert (found, vectors.tolist()) == ([north, east], [[0, 1], [1, 0]])


async def test_a_strategy_can_neither_end_the_transaction_nor_change_tables_of_the_kernel():
    class Spoiler(WordStrategy):
        async def remove(self, connection, chunk_ids):
            await connection.execute("DELETE FROM chunks")

    async with ScratchIndex.open(Spoiler()) as index:
        ids = await index.add("We chose Redis.")
        with pytest.raises(Exception, match="not authorized"):
            await index.remove(ids)
        assert list(await index.chunks(ids)) == ids


async def test_an_index_on_disk_can_be_opened_again(tmp_path):
    path = str(tmp_path / "index.sqlite")
    async with ScratchIndex.open(WordStrategy(), path=path) as index:
        await index.add("We chose Redis.")
    async with ScratchIndex.open(WordStrategy(), path=path, create=False) as index:
        assert len(await index.search("redis")) == 1
