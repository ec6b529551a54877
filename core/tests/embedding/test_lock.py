"""One process embeds at a time: the others leave the texts to it, or wait."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import attrs
from embedders import fill

from kipu import Memory
from kipu.embedding.lock import exclusive
from kipu.testing import HashingEmbedder, VectorStrategy


async def test_concurrent_runs_embed_no_text_twice(config, write):
    fill(write, 300)
    asked: list[str] = []

    @attrs.define
    class Counting(HashingEmbedder):
        async def embed(self, texts: Any, *, role: Any) -> Any:
            if role == "document":
                asked.extend(texts)
            await asyncio.sleep(0.01)
            return await HashingEmbedder.embed(self, texts, role=role)

    memories = [Memory(config(index={"embedder": Counting()}, strategy=VectorStrategy())) for _ in range(3)]
    reports = await asyncio.gather(memories[0].index(), memories[1].index(), memories[2].search("note3"))
    for memory in memories:
        await memory.close()
    assert sorted(asked) == sorted(set(asked))
    assert len(asked) == 300
    assert [each.pending_vectors for each in reports[:2]] == [0, 0]


async def test_a_search_leaves_the_texts_to_a_process_that_embeds_and_indexing_waits_for_it(meaning, embedder, write):
    fill(write, 3)
    async with meaning() as memory:
        memory._synchronizer.embeddings.lock_seconds = 0.0
        async with exclusive(memory._context.database.path, 0.0) as has_lock:
            assert has_lock
            assert (await memory.search("note1")).pending_vectors == 3
            report = await memory.index()
            assert (report.pending_vectors, report.notices) == (
                3,
                ["Another process is embedding: what is pending is left to it."],
            )
            assert embedder.calls == []
            memory._synchronizer.embeddings.lock_seconds = 60.0
            waiting = asyncio.create_task(memory.index())
            await asyncio.sleep(0)
        assert (await waiting).embedded == 3


def unlockable(lock: Any, timeout: float) -> None:
    """Fail as on a network folder."""
    raise OSError(errno.ENOLCK, "No locks available")


async def test_without_file_locks_texts_are_embedded_all_the_same(meaning, write, monkeypatch):
    monkeypatch.setattr("filelock.FileLock.acquire", unlockable)
    fill(write, 3)
    async with meaning() as memory:
        assert (await memory.index()).embedded == 3


async def test_a_symlink_in_place_of_the_lock_is_not_followed(meaning, write, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine", "utf-8")
    fill(write, 3)
    async with meaning() as memory:
        (memory.workspace / ".kipu").mkdir()
        (memory.workspace / ".kipu/embedding.lock").symlink_to(precious)
        assert (await memory.index()).embedded == 3
    assert precious.read_text("utf-8") == "mine"
