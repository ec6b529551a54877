"""A strategy completes the hits of the configured one: by default the installed one, or none."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kipu import Memory
from kipu.errors import ConfigurationError, PluginFailedError, PluginNotFoundError, UnavailableError
from kipu.testing import WordStrategy
from kipu.types import Step


@attrs.frozen
class Linked:
    """Puts the chunk that says ``Uvicorn`` behind the first hit, with the path that leads to it."""

    raises: Any = None

    async def search(self, query: Any, index: Any) -> Any:
        return []

    async def complete(self, query: Any, index: Any, hits: Any) -> Any:
        if self.raises is not None:
            raise self.raises
        condition, parameters = index.where(query)
        rows = await index.connection.execute_fetchall(
            "SELECT kipu_chunks.id FROM kipu_chunks JOIN kipu_files ON kipu_files.id = file_id "
            f"WHERE text LIKE '%Uvicorn%' AND {condition}",
            parameters,
        )
        for found in (await index.chunks([row[0] for row in rows])).values():
            steps = [
                Step(source, predicate, target, chunk.path, chunk.start_line, chunk.end_line, chunk.chunk)
                for source, predicate, target, chunk in (
                    ("Ravi", "uses", "FastAPI", hits[0].chunk),
                    ("FastAPI", "runs on", "Uvicorn", found),
                )
            ]
            why = "Ravi -uses-> FastAPI -runs on-> Uvicorn"
            hit = attrs.evolve(hits[0], chunk=found, scores={}, why=why, chain=steps)
            return [hits[0], hit, *(each for each in hits[1:] if each.chunk != found)]
        return hits


@pytest.fixture(autouse=True)
def notes(site, kipu_write):
    kipu_write("memory/a.md", "Ravi uses FastAPI\n")
    kipu_write("memory/b.md", "Ravi left\n")
    kipu_write("memory/c.md", "FastAPI runs on Uvicorn\n")


def paths(results: Any) -> list[str]:
    return [result.path for result in results]


async def test_the_hits_of_the_configured_strategy_are_completed(config):
    async with Memory(config(relation=Linked())) as memory:
        results = await memory.search("Ravi uses", explain=True)
        without = await memory.search("Ravi uses", relation=False)
        memory.register_strategy("words", WordStrategy())
        other = await memory.search("Ravi uses", strategy="words")
    assert paths(results) == ["memory/a.md", "memory/c.md", "memory/b.md"]
    assert [step.path for step in results[1].chain] == ["memory/a.md", "memory/c.md"]
    assert results[1].why == "Ravi -uses-> FastAPI -runs on-> Uvicorn"
    assert paths(without) == paths(other) == ["memory/a.md", "memory/b.md"]


async def test_recall_quotes_the_passages_of_a_path_together(config, kipu_write):
    for number in range(5):
        kipu_write(f"memory/more-{number}.md", "Ravi left\n")
    async with Memory(config(relation=Linked())) as memory:
        recalled = await memory.recall("Ravi uses")
        without = await memory.recall("Ravi uses", relation=False)
    texts = [line for line in recalled.text.splitlines() if not line.startswith("<")][1:]
    assert texts[:2] == ["Ravi uses FastAPI", "FastAPI runs on Uvicorn"]
    assert 'path="Ravi -uses-> FastAPI -runs on-> Uvicorn"' in recalled.text
    assert "Uvicorn" not in without.text


async def test_recall_quotes_passages_between_that_are_no_results(config):
    @attrs.frozen
    class Longer(Linked):
        async def complete(self, query: Any, index: Any, hits: Any) -> Any:
            first, second, *_ = await super().complete(query, index, hits)
            return [first, attrs.evolve(hits[-1], chain=(*second.chain, second.chain[0]))]

    async with Memory(config(relation=Longer())) as memory:
        recalled = await memory.recall("Ravi uses")
    assert [text in recalled.text for text in ("uses FastAPI", "runs on Uvicorn", "Ravi left")] == [True] * 3


@pytest.mark.parametrize(
    ("scope", "filters", "name", "is_seen"),
    [
        ("ann", {}, "ann/z", True),
        ("ann", {}, "ben/b", False),
        ("ann", {}, "archive/ann/a", False),
        ("ann", {"path": "memory/ann/a.md"}, "ann/z", False),
        (None, {"path": "memory/ann/a.md"}, "ben/b", False),
        (None, {"source": "ann"}, "ann/z", True),
        (None, {"source": "ann"}, "ben/b", False),
        (None, {"path": "memory/*/*.md"}, "archive/ann/a", False),
    ],
)
async def test_a_chain_stays_within_the_scope_and_the_filters(config, kipu_write, scope, filters, name, is_seen):
    class Careless(Linked):
        async def complete(self, query: Any, index: Any, hits: Any) -> Any:
            statement = "SELECT id, chunk FROM kipu_chunks WHERE text LIKE ?"
            ((_, chunk),) = await index.connection.execute_fetchall(statement, [f"%in {name}"])
            step = Step("Ravi", "is", "there", "elsewhere.md", 7, 7, chunk)
            return [attrs.evolve(hits[0], why="Ravi -is-> there", chain=[step])]

    for each in ("ann/a", "ann/z", "ben/b", "archive/ann/a"):
        kipu_write(f"memory/{each}.md", f"{'Zebras' if each == 'ann/a' else 'Ravi'} in {each}\n")
    async with Memory(config(relation=Careless()), scope=scope) as memory:
        (result,) = await memory.search("zebras", **filters)
        recalled = await memory.recall("zebras", **filters)
    assert (f"Ravi in {name}" in recalled.text, bool(result.why)) == (is_seen, is_seen)
    assert [step.path for step in result.chain] == [f"memory/{name}.md"] * is_seen


async def test_what_is_excluded_by_a_filter_is_not_completed_with(config, kipu_write):
    class Careless(Linked):
        async def complete(self, query: Any, index: Any, hits: Any) -> Any:
            return [*hits, attrs.evolve(hits[-1], chunk=attrs.evolve(hits[0].chunk, id=3))]

    async with Memory(config(relation=Careless())) as memory:
        assert paths(await memory.search("Ravi uses", path="memory/[ab].md")) == ["memory/a.md", "memory/b.md"]


async def test_a_search_goes_on_without_what_cannot_complete_now(config):
    async with Memory(config(relation=Linked(UnavailableError("Its server is down.")))) as memory:
        results = await memory.search("Ravi uses")
    assert (paths(results), results.degraded) == (["memory/a.md", "memory/b.md"], True)
    assert "was left out: Its server is down." in results.notices[0]


async def test_a_strategy_that_completes_wrongly_is_named(config):
    async with Memory(config(relation=Linked(OSError("no disk")))) as memory:
        with pytest.raises(PluginFailedError, match=r"Linked.* failed in this search: OSError: no disk"):
            await memory.search("Ravi uses")


async def test_steps_are_checked(config):
    class Wrong(Linked):
        async def complete(self, query: Any, index: Any, hits: Any) -> Any:
            return [attrs.evolve(hits[0], chain=["Ravi"])]

    async with Memory(config(relation=Wrong())) as memory:
        with pytest.raises(PluginFailedError, match="the chain of a hit is made of steps"):
            await memory.search("Ravi uses")


async def test_only_a_strategy_that_completes_can_be_configured_for_it(config):
    async with Memory(config(strategy=Linked(), relation=WordStrategy())) as memory:
        with pytest.raises(ConfigurationError, match='has no method "complete"'):
            await memory.search("Ravi")


async def test_what_is_installed_completes_by_default(config, site):
    site.standard()
    async with Memory(config()) as memory:
        assert paths(await memory.search("Ravi uses")) == ["memory/a.md", "memory/b.md"]
    async with Memory(config(relation=True)) as memory:
        with pytest.raises(PluginNotFoundError, match="pip install kipu-strategy-graph"):
            await memory.search("Ravi uses")
    site.plugin(
        "kipu-strategy-graph",
        "from kipu import hookimpl\n@hookimpl\ndef kipu_register_strategies(register):\n"
        f"    from {__name__} import Linked\n    register('graph', Linked)\n",
    )
    for relation, found in ((None, 3), (True, 3), (False, 2)):
        async with Memory(config(relation=relation)) as memory:
            assert len(await memory.search("Ravi uses")) == found


async def test_the_tables_of_a_strategy_that_completes_are_kept(config, kipu_write):
    class Counted(Linked):
        schema_version = 1

        async def create(self, connection: Any) -> None:
            await connection.execute("CREATE TABLE counted (id INTEGER PRIMARY KEY)")

        async def add(self, connection: Any, chunks: Any) -> None:
            await connection.executemany("INSERT INTO counted VALUES (?)", [(chunk.id,) for chunk in chunks])

        async def remove(self, connection: Any, chunk_ids: Any) -> None:
            await connection.executemany("DELETE FROM counted WHERE id = ?", [(id,) for id in chunk_ids])

        async def complete(self, query: Any, index: Any, hits: Any) -> Any:
            ((count,),) = await index.connection.execute_fetchall("SELECT count(*) FROM counted")
            return [attrs.evolve(hits[0], why=f"one of {count}"), *hits[1:]]

    async with Memory(config(relation=Counted())) as memory:
        await memory.index()
        kipu_write("memory/d.md", "Ravi uses uvloop\n")
        assert (await memory.search("Ravi"))[0].why == "one of 4"
