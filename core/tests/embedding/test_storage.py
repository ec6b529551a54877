"""What is written of vectors: not twice, in one dimension, and only if there is room."""

from __future__ import annotations

import asyncio
import errno
import shutil
from typing import Any

import numpy as np
import pytest
from embedders import fill

from kipu.errors import (
    IndexUnavailableError,
)
from kipu.testing import ScriptedEmbedder


def unlockable(lock: Any, timeout: float) -> None:
    """Fail as on a network folder."""
    raise OSError(errno.ENOLCK, "No locks available")


async def test_of_two_vectors_for_one_text_the_first_is_kept(meaning, write, monkeypatch):
    monkeypatch.setattr("filelock.FileLock.acquire", unlockable)
    write("memory/a.md", "one\n")
    first, second = asyncio.Event(), asyncio.Event()

    async def wait(texts: list[str]) -> Any:
        first.set()
        await second.wait()
        return np.ones((len(texts), 64), np.float32)

    async with meaning(ScriptedEmbedder(script=[wait])) as slow, meaning() as fast:
        running = asyncio.create_task(slow.index())
        await first.wait()
        await fast.index()
        second.set()
        await running
        async with fast._context.database.reader() as connection:
            kept = await connection.execute_fetchall("SELECT vector FROM embeddings")
            nearest = await connection.execute_fetchall("SELECT vector FROM nearest_1")
        assert [row[0] for row in kept] == [row[0] for row in nearest]


async def test_vectors_of_another_dimension_than_those_of_another_process_are_refused(meaning, write, monkeypatch):
    monkeypatch.setattr("filelock.FileLock.acquire", unlockable)
    fill(write, 3)
    first, second = asyncio.Event(), asyncio.Event()

    async def wait(texts: list[str]) -> Any:
        first.set()
        await second.wait()
        return np.ones((len(texts), 8), np.float32)

    async with meaning(ScriptedEmbedder(script=[wait])) as slow, meaning() as fast:
        running = asyncio.create_task(slow.index())
        await first.wait()
        assert (await fast.index()).embedded == 3
        second.set()
        assert (await running).embedded == 0
        assert "dimension 8" in (await running).notices[0]
        assert "dimension 64" in (await running).notices[0]
        assert (await fast.search("note1"))[0].path == "memory/001.md"


async def test_another_dimension_under_the_same_identity_is_refused(meaning, write):
    write("memory/a.md", "one\n")
    async with meaning() as memory:
        await memory.index()
    write("memory/b.md", "two\n")
    other = ScriptedEmbedder(script=[lambda texts: np.ones((len(texts), 32), np.float32)])
    async with meaning(other) as memory:
        report = await memory.index()
        assert report.pending_vectors == 1
        assert "dimension 32" in report.notices[0]
        assert "dimension 64" in report.notices[0]
        results = await memory.search("one")
        assert results.degraded


async def test_a_full_disk_costs_no_call_and_every_search_says_so(meaning, embedder, write, monkeypatch):
    fill(write, 3)
    async with meaning() as memory:
        with monkeypatch.context() as full:
            full.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 5000, 5000))
            for _ in range(2):
                results = await memory.search("note1")
                assert "The disk is too full for the vectors of 3 chunks" in results.notices[0]
            with pytest.raises(IndexUnavailableError, match="Free some space and try again"):
                await memory.index()
        assert embedder.calls == []
        assert (await memory.index()).embedded == 3


async def test_after_a_failed_write_searches_embed_nothing_for_a_minute_and_say_so(
    meaning, embedder, write, monkeypatch
):
    def fail(*arguments: Any) -> Any:
        raise IndexUnavailableError("The index cannot be written: disk I/O error.")

    fill(write, 3)
    async with meaning() as memory:
        monkeypatch.setattr("kipu.embedding.storage.store", fail)
        for _ in range(3):
            results = await memory.search("note1")
            assert "What is new could not be embedded. The index cannot be written" in results.notices[0]
        assert len(embedder.calls) == 1
        with pytest.raises(IndexUnavailableError):
            await memory.index()
