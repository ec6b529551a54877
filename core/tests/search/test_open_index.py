"""The index that a program or a command reads outside of a search."""

from __future__ import annotations

import attrs
import pytest

from kipu import Memory, Query
from kipu.errors import IndexUnavailableError, MemoryClosedError, OutsideScopeError, PluginNotFoundError
from kipu.sync import Memory as BlockingMemory
from kipu.testing import WordStrategy
from kipu.types import sqlite_driver

SELECT = "SELECT path FROM kipu_files JOIN kipu_chunks ON file_id = kipu_files.id WHERE {} ORDER BY path"


async def paths(index):
    condition, parameters = index.where(Query(""))
    rows = await index.connection.execute_fetchall(SELECT.format(condition), parameters)
    return [path for (path,) in rows]


async def test_the_index_is_brought_up_to_date_as_before_a_search(memory, write):
    memory.register_strategy("by-words", WordStrategy())
    write("memory/a.md", "apple")
    async with memory.open_index("by-words") as index:
        assert await paths(index) == ["memory/a.md"]
    write("memory/b.md", "banana")
    async with memory.open_index("by-words") as index:
        assert await paths(index) == ["memory/a.md", "memory/b.md"]
        (word,) = await index.connection.execute_fetchall("SELECT chunk_id FROM words WHERE path = 'memory/b.md'")
        assert [chunk.text for chunk in (await index.chunks(word)).values()] == ["banana"]


async def test_the_tables_of_a_strategy_that_is_not_searched_with_are_kept_too(memory, write):
    @attrs.frozen
    class Other(WordStrategy):
        async def create(self, connection):
            await connection.execute("CREATE TABLE other (chunk INTEGER)")

        async def add(self, connection, chunks):
            await connection.executemany("INSERT INTO other VALUES (?)", [(chunk.id,) for chunk in chunks])

    write("memory/a.md", "apple")
    assert len(await memory.search("apple")) == 1
    memory.register_strategy("other", Other())
    for _ in range(2):
        async with memory.open_index("other") as index:
            assert list(await index.connection.execute_fetchall("SELECT count(*) FROM other")) == [(1,)]


async def test_the_index_is_read_only_and_of_one_state(memory, write):
    write("memory/a.md", "apple")
    memory.register_strategy("by-words", WordStrategy())
    async with memory.open_index("by-words") as index:
        with pytest.raises(sqlite_driver().OperationalError, match="readonly"):
            await index.connection.execute("DELETE FROM words")
        write("memory/b.md", "banana")
        await memory.index()
        assert await paths(index) == ["memory/a.md"]


async def test_a_scope_sees_its_own_source_only(config, write):
    for path in ("memory/a.md", "memory/ann/a.md", "memory/ben/b.md", "memory/archive/ann/old.md"):
        write(path, "apple")
    async with Memory(config(), scope="ann") as memory:
        memory.register_strategy("by-words", WordStrategy())
        async with memory.open_index("by-words") as index:
            assert await paths(index) == ["memory/ann/a.md"]
            assert index.where(Query("", sources=("archive",)))[1] == ["archive/ann"]
            with pytest.raises(OutsideScopeError, match="sees no other source"):
                index.where(Query("", sources=("ben",)))


async def test_what_was_archived_is_left_out(memory, write):
    for path in ("memory/a.md", "memory/archive/old.md"):
        write(path, "apple")
    memory.register_strategy("by-words", WordStrategy())
    async with memory.open_index("by-words") as index:
        assert await paths(index) == ["memory/a.md"]


async def test_a_workspace_without_files_has_an_empty_index(memory, workspace):
    memory.register_strategy("by-words", WordStrategy())
    (workspace / "memory").rmdir()
    async with memory.open_index("by-words") as index:
        assert await paths(index) == []
        assert list(await index.connection.execute_fetchall("SELECT * FROM words")) == []
    assert not (workspace / ".kipu").exists()


async def test_an_unknown_strategy_is_an_error_as_in_a_search(memory):
    with pytest.raises(PluginNotFoundError, match='"grpah"'):
        async with memory.open_index("grpah"):
            pass


async def test_tables_that_cannot_be_made_are_said_to_be_missing(memory, write):
    @attrs.frozen
    class Failing(WordStrategy):
        async def add(self, connection, chunks):
            raise ValueError("no")

    write("memory/a.md", "apple")
    memory.register_strategy("failing", Failing())
    with pytest.raises(IndexUnavailableError, match='The strategy "failing" has no index yet') as failed:
        async with memory.open_index("failing"):
            pass
    assert any("failing" in notice for notice in failed.value.__notes__)


async def test_a_damaged_index_is_rebuilt_first(memory, write, workspace):
    memory.register_strategy("by-words", WordStrategy())
    write("memory/a.md", "apple")
    await memory.index()
    (workspace / ".kipu/index.sqlite").write_bytes(b"no database at all" * 400)
    async with memory.open_index("by-words") as index:
        assert await paths(index) == ["memory/a.md"]


async def test_damage_that_is_met_while_reading_is_repaired_by_the_next_call(memory, write, workspace):
    memory.register_strategy("by-words", WordStrategy())
    write("memory/a.md", "apple")

    async def meet_damage():
        async with memory.open_index("by-words"):
            (workspace / ".kipu/index.sqlite").write_bytes(b"no database at all" * 400)
            raise sqlite_driver().DatabaseError("malformed")

    with pytest.raises(IndexUnavailableError, match="could not be read: malformed"):
        await meet_damage()
    assert len(await memory.search("apple")) == 1


async def test_an_error_of_the_caller_passes_and_closes_the_index(memory, write):
    memory.register_strategy("by-words", WordStrategy())
    write("memory/a.md", "apple")
    for _ in range(20):  # more than there are connections
        with pytest.raises(OSError, match=r"^mine$"):
            async with memory.open_index("by-words"):
                raise OSError("mine")
    assert len(await memory.search("apple")) == 1


@pytest.mark.parametrize("answer", ["2 words in 1 chunk", 7, ValueError("no")], ids=str)
async def test_the_status_has_what_a_strategy_says_of_its_tables(config, write, answer):
    @attrs.frozen
    class Described(WordStrategy):
        async def describe(self, index):
            if isinstance(answer, Exception):
                raise answer
            return answer

    write("memory/a.md", "apple pie")
    async with Memory(config(strategy=Described(), relation=False)) as memory:
        assert (await memory.status()).described == []
        await memory.index()
        status = await memory.status()
    if isinstance(answer, str):
        assert (status.described, status.notices) == ([answer], [])
    else:
        assert status.described == []
        assert ["Described" in notice for notice in status.notices] == [True]


async def test_a_closed_memory_opens_none(config):
    memory = Memory(config())
    await memory.close()
    with pytest.raises(MemoryClosedError):
        async with memory.open_index("words"):
            pass


def test_the_blocking_memory_reads_it_without_async(config, write):
    write("memory/a.md", "apple")
    with BlockingMemory(config()) as memory:
        memory.register_strategy("by-words", WordStrategy())
        with memory.open_index("by-words") as index:
            condition, parameters = index.where(Query(""))
            rows = index.connection.execute_fetchall(
                f"SELECT kipu_chunks.id FROM kipu_files JOIN kipu_chunks ON file_id = kipu_files.id WHERE {condition}",
                parameters,
            )
            assert [chunk.text for chunk in index.chunks([id for (id,) in rows]).values()] == ["apple"]
        with pytest.raises(KeyError), memory.open_index("by-words"):
            raise KeyError
        assert len(memory.search("apple")) == 1


async def test_a_strategy_is_read_without_those_that_it_searches_with(config, write):
    write("memory/a.md", "apple")

    @attrs.frozen
    class Searching(WordStrategy):
        strategies = ("nonesuch",)

    async with Memory(config()) as memory:
        memory.register_strategy("searching", Searching())
        async with memory.open_index("searching") as index:
            assert await paths(index) == ["memory/a.md"]
