"""What the index keeps of vectors: once for each text, cached, evicted, and ignored if damaged."""

from __future__ import annotations

import pytest
from embedders import fill

from kipu import Memory
from kipu.index.damage import find_damaged
from kipu.testing import HashingEmbedder, VectorStrategy


async def test_a_vector_is_stored_once_as_float32(meaning, write):
    write("memory/a.md", "one\n\ntwo\n\none\n")
    async with meaning() as memory:
        await memory.index()
        async with memory._context.database.reader() as connection:
            rows = await connection.execute_fetchall("SELECT length(vector) FROM embeddings")
        assert [row[0] for row in rows] == [4 * 64, 4 * 64]


async def test_a_text_that_comes_back_is_not_embedded_again(meaning, embedder, write):
    file = write("memory/a.md", "one\n")
    async with meaning() as memory:
        await memory.index()
        file.unlink()
        assert (await memory.index()).removed == 1
        write("memory/b.md", "one\n")
        assert (await memory.search("one"))[0].path == "memory/b.md"
    assert embedder.calls == [["one"], ["one"]]  # the text, and the query


async def test_a_renamed_file_keeps_its_vectors_and_is_found_under_its_new_name(meaning, write):
    file = write("memory/a.md", "one\n")
    async with meaning() as memory:
        await memory.index()
        (memory.workspace / "memory/team").mkdir()
        file.rename(memory.workspace / "memory/team/b.md")
        assert [result.path for result in await memory.search("one", source="team")] == ["memory/team/b.md"]


async def test_deleted_chunks_leave_the_tables_of_strategies(meaning, write):
    fill(write, 5)
    async with meaning() as memory:
        await memory.index()
        write("memory/003.md", "something else\n")
        (memory.workspace / "memory/004.md").unlink()
        assert [result.path for result in await memory.search("note3 note4")] == []
        async with memory._context.database.reader() as connection:
            (row,) = await connection.execute_fetchall("SELECT count(*) FROM nearest_1")
        assert row[0] == 4


async def test_the_cache_evicts_the_least_recently_used_vector_first(config, write, embedder):
    size = 4 * 64
    memory = Memory(config(index={"embedder": embedder, "cache_bytes": 2 * size}, strategy=VectorStrategy()))
    async with memory:
        for word in ("one", "two", "three", "one", "four", "five"):
            write("memory/a.md", f"{word}\n")
            await memory.index()
        embedder.calls.clear()
        for word in ("one", "four", "five", "three"):  # "one" was used after "two" and "three"
            write("memory/a.md", f"{word}\n")
            await memory.index()
    assert embedder.calls == [["three"]]


@pytest.mark.services
async def test_without_a_cache_the_vectors_of_deleted_texts_are_deleted(config, write):
    memory = Memory(config(index={"embedder": HashingEmbedder(), "cache_bytes": 0}, strategy=VectorStrategy()))
    async with memory:
        write("memory/a.md", "one\n")
        file = write("memory/b.md", "two\n")
        await memory.index()
        file.unlink()
        await memory.index()
        async with memory._context.database.reader() as connection:
            (row,) = await connection.execute_fetchall("SELECT count(*) FROM embeddings")
    assert row[0] == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE embeddings SET vector = zeroblob(5) WHERE id = 2",
        "UPDATE embeddings SET vector = zeroblob(4 * 64) WHERE id = 2",
        "UPDATE embeddings SET vector = CAST(x'0000c07f' || substr(vector, 5) AS BLOB)",
        "UPDATE embeddings SET vector = CAST(x'ffff7f7f' || substr(vector, 5) AS BLOB)",
        "DELETE FROM embeddings",
        "UPDATE spaces SET dimension = 0",
    ],
)
async def test_damaged_vectors_are_ignored_and_embedded_again_by_force(meaning, write, statement):
    fill(write, 5)
    async with meaning() as memory:
        await memory.index()
        async with memory._context.database.transaction() as connection:
            await connection.execute(statement)
        write("memory/copy.md", "note1 about topic1\n")  # its vector would be taken from the cache
        await memory.search("note1")
        report = await memory.index(force=True)
        assert (report.pending_vectors, report.notices) == (0, [])
        async with memory._context.database.reader() as connection:
            assert await find_damaged(connection) == []
        assert (await memory.search("note3"))[0].path == "memory/003.md"
