"""What a search runs through: components that cannot answer now are left out, and the search says so."""

from __future__ import annotations

import threading
from typing import Any

import attrs
import pytest

from kipu import Memory
from kipu.errors import PluginFailedError, UnavailableError
from kipu.index import queries
from kipu.testing import CombinedStrategy, ScriptedEmbedder, VectorStrategy, WordStrategy

DOWN = UnavailableError("Its server is down. Start it.")


class Down:
    """A strategy and a post-processor that cannot answer now."""

    async def search(self, query: Any, index: Any) -> Any:
        raise DOWN

    async def process(self, query: Any, hits: Any) -> Any:
        raise DOWN


class DownForScores(WordStrategy):
    """A strategy that finds hits and cannot score others now."""

    async def score(self, query: Any, index: Any, ids: Any) -> Any:
        raise DOWN

    async def score_files(self, query: Any, index: Any, paths: Any) -> Any:
        raise DOWN


@pytest.fixture(autouse=True)
def notes(site, kipu_write):
    kipu_write("memory/a.md", "red green\n")
    kipu_write("memory/b.md", "red\n")


def paths(results: Any) -> list[str]:
    return [result.path for result in results]


async def test_an_unavailable_strategy_finds_nothing_and_the_search_says_so(config):
    async with Memory(config(strategy=Down())) as memory:
        results = await memory.search("red")
    assert (paths(results), results.degraded) == ([], True)
    assert results.notices == [f'The strategy "{__name__}.Down" was left out: Its server is down. Start it.']


async def test_without_an_unavailable_strategy_searches_go_by_words(config, site):
    site.standard()
    async with Memory(config(strategy=Down())) as memory:
        results = await memory.search("green")
    assert (paths(results), results.degraded) == (["memory/a.md"], True)


async def test_an_unavailable_arm_is_left_out(config):
    async with Memory(config(strategy=CombinedStrategy(["down", "words"]))) as memory:
        memory.register_strategy("down", Down())
        memory.register_strategy("words", WordStrategy())
        results = await memory.search("red green")
    assert (paths(results), results.degraded) == (["memory/a.md", "memory/b.md"], True)
    assert results.notices == ['The strategy "down" was left out: Its server is down. Start it.']


async def test_an_arm_that_cannot_score_now_is_left_out(config):
    class Asking(CombinedStrategy):
        async def search(self, query, index):
            hits = await index.search("words", query)
            assert await index.score("words", query, [1, 2]) == {}
            assert await index.score_files("words", query, ["memory/a.md"]) == {}
            return hits

    async with Memory(config(strategy=Asking(["words"]))) as memory:
        memory.register_strategy("words", DownForScores())
        results = await memory.search("red green")
    assert (len(results), results.degraded, len(results.notices)) == (2, True, 1)


@pytest.mark.services
async def test_an_unavailable_post_processor_is_left_out(config):
    async with Memory(config(postprocessors=[Down()])) as memory:
        results = await memory.search("red green", explain=True)
    assert (paths(results), results.degraded) == (["memory/a.md", "memory/b.md"], True)
    assert results.notices == [f'The post-processor "{__name__}.Down" was left out: Its server is down. Start it.']


@pytest.mark.services
async def test_an_unavailable_embedder_is_left_out(config):
    embedder = ScriptedEmbedder(script=[DOWN])
    async with Memory(config(index={"embedder": embedder}, strategy=CombinedStrategy())) as memory:
        memory.register_strategy("near", VectorStrategy())
        memory.register_strategy("by-words", WordStrategy())
        results = await memory.search("red green")
    assert (paths(results), results.degraded) == (["memory/a.md", "memory/b.md"], True)
    assert any("Its server is down. Start it." in notice for notice in results.notices)


async def test_what_was_left_out_takes_part_again_when_it_is_back(config):
    class Waking(WordStrategy):
        is_up = False

        async def search(self, query, index):
            if not self.is_up:
                raise DOWN
            return await WordStrategy.search(self, query, index)

    async with Memory(config(strategy=Waking())) as memory:
        assert paths(await memory.search("green")) == []
        Waking.is_up = True
        results = await memory.search("green")
    assert (paths(results), results.degraded, results.notices) == (["memory/a.md"], False, [])


async def test_a_strategy_may_be_a_plain_function(config):
    class Plain:
        def search(self, query, index):
            return []

    async with Memory(config(strategy=Plain())) as memory:
        assert await memory.search("red") == []


async def test_the_configured_time_limit_is_that_of_each_component(config):
    end = threading.Event()

    class Slow:
        def search(self, query, index):
            end.wait()

    limited = config(strategy=Slow())
    limited = attrs.evolve(limited, plugins=attrs.evolve(limited.plugins, time_limit=0.02))
    async with Memory(limited) as memory:
        with pytest.raises(PluginFailedError, match=r"took more than 0\.02 seconds in this search and was abandoned"):
            await memory.search("red")
    end.set()


async def test_an_index_has_a_name_until_it_is_rebuilt(config, kipu_workspace):
    seen = []

    class Naming(WordStrategy):
        async def search(self, query, index):
            seen.append(index.id)
            return []

    for is_new in (True, False, True):
        if is_new:
            for file in (kipu_workspace / ".kipu").glob("index.sqlite*"):
                file.unlink()
        async with Memory(config(strategy=Naming())) as memory:
            await memory.search("red")
            await memory.index(force=True)
            await memory.search("red")
    assert seen[0] == seen[1] == seen[2] == seen[3] != seen[4] == seen[5]
    assert all(seen)


class Answering:
    """A strategy and a post-processor that return what a function makes of the hits that there are."""

    def __init__(self, change: Any) -> None:
        self.change = change

    async def search(self, query: Any, index: Any) -> Any:
        return self.change(await WordStrategy().search(attrs.evolve(query, sources=()), index))

    async def process(self, query: Any, hits: Any) -> Any:
        return self.change(hits)


def forged(**changes: Any) -> Any:
    """Return a function that changes the chunks of hits."""
    return lambda hits: [attrs.evolve(hit, chunk=attrs.evolve(hit.chunk, **changes)) for hit in hits]


async def texts_by_component(config: Any, change: Any, **options: Any) -> list[list[tuple[str, str, str]]]:
    """Return the paths and texts of the results of a strategy, of an arm, and of a stage."""
    found = []
    for search in (
        {"strategy": Answering(change)},
        {"strategy": CombinedStrategy(["forging"])},
        {"strategy": WordStrategy(), "postprocessors": [Answering(change)]},
    ):
        async with Memory(config(**search)) as memory:
            memory.register_strategy("words", WordStrategy())  # whose table they read
            memory.register_strategy("forging", Answering(change))
            await memory.search("red", strategy="words")
            results = await memory.search("red", **options)
            found.append([(result.path, result.source, result.text) for result in results])
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "Nothing that was written."},
        {"path": "memory/team/c.md"},
        {"source": "team"},
        {"metadata": {"id": "x"}},
    ],
)
async def test_a_hit_shows_its_chunk_as_the_index_has_it(config, write, changes):
    write("memory/team/c.md", "red team\n")
    rows = [("memory/a.md", "memory", "red green"), ("memory/b.md", "memory", "red")]
    for found in await texts_by_component(config, forged(**changes), source="memory"):
        assert sorted(found) == rows


async def test_a_hit_of_no_chunk_of_the_index_is_dropped(config):
    for found in await texts_by_component(config, forged(id=99)):
        assert found == []


@pytest.mark.parametrize("id", [-1, 2**63, "1", None])
async def test_a_hit_with_an_id_that_is_no_row_is_an_error_of_the_component(config, id):
    with pytest.raises(PluginFailedError):
        await texts_by_component(config, forged(id=id))


@pytest.mark.services
async def test_recall_quotes_a_hit_as_the_index_has_it(config):
    stage = Answering(forged(text="Nothing that was written."))
    async with Memory(config(strategy=WordStrategy(), postprocessors=[stage])) as memory:
        recalled = await memory.recall("red")
    assert "red green" in recalled.text
    assert "Nothing" not in recalled.text


async def test_a_stage_cannot_return_what_the_filters_exclude(config, write):
    write("memory/team/c.md", "red team\n")
    kept: list[Any] = []

    def remember(hits: Any) -> Any:
        kept.extend(hits)
        return kept

    async with Memory(config(strategy=WordStrategy(), postprocessors=[Answering(remember)])) as memory:
        assert paths(await memory.search("red", source="team")) == ["memory/team/c.md"]
        assert sorted(paths(await memory.search("red", source="memory"))) == ["memory/a.md", "memory/b.md"]


async def test_hits_with_chunks_of_the_index_are_loaded_once(config, monkeypatch):
    loads: list[int] = []

    async def load(connection: Any, ids: Any) -> Any:
        loads.append(len(ids))
        return await load_chunks(connection, ids)

    load_chunks = queries.load_chunks
    monkeypatch.setattr(queries, "load_chunks", load)
    async with Memory(config(strategy=WordStrategy(), postprocessors=[Answering(list), Answering(list)])) as memory:
        assert len(await memory.search("red")) == 2
    assert sum(loads) == 2
