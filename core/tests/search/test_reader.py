"""Strategies that search with others, and what a search hands to its stages."""

from __future__ import annotations

import asyncio
from datetime import UTC
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from embedders import fill

from kipu import Hit, Memory
from kipu.errors import (
    ConfigurationError,
    EmbedderError,
    PluginFailedError,
)
from kipu.testing import CombinedStrategy, ScriptedEmbedder, VectorStrategy, WordStrategy

if TYPE_CHECKING:
    from kipu import Query


async def test_a_strategy_searches_with_others(meaning, write):
    fill(write, 20)
    async with meaning(strategy=CombinedStrategy()) as memory:
        memory.register_strategy("near", VectorStrategy())
        memory.register_strategy("by-words", WordStrategy())
        found = await asyncio.gather(*(memory.search(f"note{number % 20}") for number in range(40)))
        assert [results[0].path for results in found] == [f"memory/{number % 20:03}.md" for number in range(40)]


async def test_a_strategy_cannot_search_with_itself(meaning, write):
    fill(write, 3)
    async with meaning(strategy=CombinedStrategy(("circle",))) as memory:
        memory.register_strategy("circle", CombinedStrategy(("other",)))
        memory.register_strategy("other", CombinedStrategy(("circle",)))
        with pytest.raises(ConfigurationError, match="cannot search with itself"):
            await memory.search("note1")


async def test_a_combined_strategy_goes_on_without_vectors(meaning, write):
    fill(write, 3)
    down = ScriptedEmbedder(script=[EmbedderError("The key was refused (401).")])
    async with meaning(down, strategy=CombinedStrategy()) as memory:
        memory.register_strategy("near", VectorStrategy())
        memory.register_strategy("by-words", WordStrategy())
        results = await memory.search("note1")
        assert (results[0].path, results.degraded, results[0].scores) == ("memory/001.md", True, {"words": 1.0})


@pytest.mark.parametrize(("method", "asked", "unasked"), [("score", 1, 99), ("score_files", "memory/n.md", "no.md")])
async def test_the_scores_of_a_strategy_are_checked(meaning, write, method, asked, unasked):
    answers = [
        (None, "it returned None, and must return a dictionary"),
        ({asked: 7}, "between 0 and 1"),
        ({asked: float("nan")}, "between 0 and 1"),
        ({unasked: 1}, f"it scored {unasked!r}, which it was not asked for"),
    ]

    scores: list[Any] = [{asked: 0.5}]

    async def say(self: Any, query: Query, index: Any, what: Any) -> Any:
        return scores[-1]

    opinionated = type("Opinionated", (VectorStrategy,), {method: say})
    heard = []

    class Asks(CombinedStrategy):
        async def search(self, query: Query, index: Any) -> list[Hit]:
            heard.append(await getattr(index, method)("near", query, [asked]))
            return []

    fill(write, 3)
    async with meaning(strategy=Asks(("near",))) as memory:
        memory.register_strategy("near", opinionated())
        await memory.search("note1")
        assert heard == [{asked: 0.5}]
        for answer, wrong in answers:
            scores.append(answer)
            with pytest.raises(PluginFailedError, match=wrong):
                await memory.search("note1")


async def test_a_strategy_without_score_files_scores_no_file(meaning, write):
    heard = []

    class Asks(CombinedStrategy):
        async def search(self, query: Query, index: Any) -> list[Hit]:
            heard.append(await index.score_files("near", query, ["memory/note1.md"]))
            return []

    fill(write, 3)
    async with meaning(strategy=Asks(("near",))) as memory:
        memory.register_strategy("near", VectorStrategy())
        await memory.search("note1")
    assert heard == [{}]


async def test_a_post_processor_that_needs_vectors_gets_them(meaning, write):
    seen: list[Any] = []

    class Looks:
        needs_vectors = True

        async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
            seen.extend(hit.vector for hit in hits)
            return hits

    fill(write, 3)
    async with meaning(postprocessors=[Looks()]) as memory:
        await memory.search("note1")
    assert [round(float(np.linalg.norm(vector)), 4) for vector in seen] == [1.0] * len(seen)
    assert seen


async def test_a_query_has_the_day_of_the_configured_time_zone(config, write):
    from datetime import datetime

    days = []

    class Looks:
        async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
            days.append(query.today)
            return hits

    fill(write, 3)
    before = datetime.now(UTC).date()
    async with Memory(attrs.evolve(config(postprocessors=[Looks()]), timezone="UTC")) as memory:
        await memory.search("note1")
    assert before <= days[0] <= datetime.now(UTC).date()
