"""A strategy that fails while indexing misses the change; nothing else does, and its tables are rebuilt later."""

from __future__ import annotations

from typing import Any

import pytest
from rows import select

from kipu import Memory
from kipu.errors import PluginFailedError, UnavailableError
from kipu.sqlite import choose_driver
from kipu.testing import CombinedStrategy, WordStrategy

pytestmark = pytest.mark.usefixtures("site")  # without a strategy that answers for others


class Failing(WordStrategy):
    """A strategy that misbehaves in one method while ``is_failing`` is true."""

    is_failing = False
    method = "add"

    async def misbehave(self, connection: Any) -> None:
        raise ValueError("no disk")

    async def add(self, connection: Any, chunks: Any) -> None:
        await WordStrategy.add(self, connection, chunks)
        if self.is_failing and self.method == "add":
            await self.misbehave(connection)

    async def remove(self, connection: Any, chunk_ids: Any) -> None:
        await WordStrategy.remove(self, connection, chunk_ids)
        if self.is_failing and self.method == "remove":
            await self.misbehave(connection)


def misbehaving(method: str, statement: str) -> type[Failing]:
    """Return a strategy class that runs a statement where it should not."""

    class Misbehaving(Failing):
        async def misbehave(self, connection: Any) -> None:
            await (connection.executescript if ";" in statement else connection.execute)(statement)

    Misbehaving.method = method
    return Misbehaving


@pytest.mark.parametrize("method", ["add", "remove"])
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM chunks",
        "UPDATE files SET path = 'x'",
        "INSERT INTO strategies VALUES ('x', 0, '1')",
        "DROP TABLE embeddings",
        "ALTER TABLE chunks ADD COLUMN x",
        "CREATE TRIGGER t AFTER INSERT ON chunks BEGIN SELECT 1; END",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT s",
        "SELECT 1;",
    ],
)
async def test_a_strategy_can_neither_change_tables_of_the_kernel_nor_end_the_transaction(
    workspace, config, write, method, statement
):
    strategy = misbehaving(method, statement)
    write("memory/a.md", "apple\n")
    write("memory/b.md", "plum\n")
    async with Memory(config(strategy=strategy())) as memory:
        await memory.index()
        strategy.is_failing = True
        write("memory/a.md", "pear\n")
        report = await memory.index()
        assert report.changed == 1
        assert len(report.notices) == 1
        assert "failed while indexing: DatabaseError: not authorized" in report.notices[0]
        assert select(workspace, "SELECT text FROM chunks ORDER BY text") == [("pear",), ("plum",)]
        assert select(workspace, "SELECT * FROM strategies") == []
        strategy.is_failing = False
        assert [result.text for result in await memory.search("pear")] == ["pear"]
        assert await memory.search("apple") == []


@pytest.mark.parametrize("error", [ValueError("no disk"), UnavailableError("Its server is down."), SystemExit(3)])
async def test_a_strategy_that_fails_misses_the_change_and_is_filled_later(config, write, error):
    class Raising(Failing):
        async def misbehave(self, connection):
            raise error

    write("memory/a.md", "apple\n")
    async with Memory(config(strategy=Raising())) as memory:
        await memory.index()
        Raising.is_failing = True
        write("memory/b.md", "pear\n")
        report = await memory.index()
        assert (report.added, report.chunks, len(report.notices)) == (1, 2, 1)
        assert report.notices[0].endswith(
            " It finds nothing until its tables are rebuilt, which the next search tries."
        )
        results = await memory.search("pear")
        assert (list(results), results.degraded, results.notices) == ([], True, report.notices)
        Raising.is_failing = False
        results = await memory.search("pear")
        assert ([result.path for result in results], results.degraded) == (["memory/b.md"], False)


async def test_other_strategies_do_not_miss_the_change(config, write):
    class Other(WordStrategy):
        async def create(self, connection):
            raise ValueError("no disk")

    write("memory/a.md", "apple\n")
    async with Memory(config(strategy=CombinedStrategy(["other", "words"]))) as memory:
        memory.register_strategy("other", Other())
        memory.register_strategy("words", WordStrategy())
        results = await memory.search("apple")
    assert ([result.path for result in results], results.degraded) == (["memory/a.md"], True)
    assert len(results.notices) == 1
    assert results.notices[0].startswith('The strategy "other" failed while indexing: ValueError: no disk.')


async def test_damage_of_a_database_of_its_own_costs_no_index(config, write, workspace):
    class Broken(WordStrategy):
        async def search(self, query: Any, index: Any) -> Any:
            raise choose_driver().DatabaseError("database disk image is malformed")

    write("memory/a.md", "alpha")
    async with Memory(config(strategy=Broken())) as memory:
        await memory.index()
        before = select(workspace, "SELECT id FROM index_identity")
        for _ in range(3):
            with pytest.raises(PluginFailedError, match="malformed"):
                await memory.search("alpha")
        assert select(workspace, "SELECT id FROM index_identity") == before
