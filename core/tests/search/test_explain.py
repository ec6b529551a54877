"""Why a result stands where it stands, and why a file is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

from kipu import Memory
from kipu.testing import CombinedStrategy, HashingEmbedder, VectorStrategy, WordStrategy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kipu import Hit, Query

    Write = Callable[[str, str], Path]


@attrs.frozen
class Halve:
    """Halves the scores of one file, and puts it where it then belongs."""

    path: str

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        halved = [attrs.evolve(hit, score=hit.score / 2) if hit.chunk.path == self.path else hit for hit in hits]
        return sorted(halved, key=lambda hit: -hit.score)


@attrs.frozen
class Without:
    """Leaves one file out."""

    path: str

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        return [hit for hit in hits if hit.chunk.path != self.path]


@pytest.fixture
def notes(write: Write) -> None:
    write("memory/a.md", "red green blue\n")
    write("memory/b.md", "red green\n")
    write("memory/c.md", "red\n")
    write("memory/2026-11-29.md", "red in November\n")
    write("memory/empty.md", "\n")
    write("memory/bad.md", "\0")


@pytest.mark.usefixtures("notes")
async def test_each_result_has_its_arms_and_the_changes_of_each_stage(config):
    async with Memory(config(postprocessors=[Halve("memory/a.md")])) as memory:
        memory.register_postprocessor("mine", Halve("memory/c.md"))
        results = await memory.search("red green blue", explain=True)
        assert [result.path for result in results[:2]] == ["memory/b.md", "memory/a.md"]
        first, second = results[0].explanation, results[1].explanation
        assert first is not None
        assert second is not None
        assert {name: (arm.rank, arm.score) for name, arm in second.arms.items()} == {"words": (1, 1.0)}
        (halve, mine) = second.stages
        assert halve.stage.endswith("test_explain.Halve")
        assert attrs.astuple(halve)[1:] == (1, 2, 1.0, 0.5)
        assert attrs.astuple(mine) == ("mine", 2, 2, 0.5, 0.5)
        assert first.arms["words"].rank == 2
        plain = await memory.search("red green blue")
        assert [attrs.evolve(result, explanation=None) for result in results] == list(plain)


@pytest.mark.usefixtures("notes")
async def test_arms_of_a_strategy_that_searches_with_others_are_ranked_one_by_one(config):
    async with Memory(config(index={"embedder": HashingEmbedder()}, strategy=CombinedStrategy())) as memory:
        memory.register_strategy("near", VectorStrategy())
        memory.register_strategy("by-words", WordStrategy())
        results = await memory.search("red green blue", explain=True)
        arms = [dict(result.explanation.arms) for result in results if result.explanation]
    assert {name for each in arms for name in each} <= {"nearest", "words"}
    ranked = [each["nearest"] for each in arms if "nearest" in each]
    assert min(score.rank or 99 for score in ranked) == 1


async def test_equal_scores_of_an_arm_share_a_rank(config, write):
    write("memory/a.md", "red green a\n")
    write("memory/b.md", "red green b\n")
    write("memory/c.md", "red\n")
    async with Memory(config(strategy=WordStrategy())) as memory:
        results = await memory.search("red green", explain=True)
    ranks = [result.explanation.arms["words"].rank for result in results if result.explanation]
    scores = [result.score for result in results]
    assert ranks == [1 + sum(other > score for other in scores) for score in scores]
    assert ranks == [1, 1, 3]


async def test_a_score_of_zero_has_no_rank(config, write):
    @attrs.frozen
    class Zero:
        async def search(self, query: Query, index: Any) -> list[Hit]:
            return [
                attrs.evolve(hit, scores={"a": hit.score, "b": 0.0})
                for hit in await WordStrategy().search(query, index)
            ]

    async with Memory(config(strategy=WordStrategy())) as memory:
        memory.register_strategy("zero", Zero())
        write("memory/a.md", "red\n")
        await memory.index()
        (result,) = await memory.search("red", strategy="zero", explain=True)
        assert result.explanation is not None
        assert {name: arm.rank for name, arm in result.explanation.arms.items()} == {"a": 1, "b": None}


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize(
    ("path", "options", "shown"),
    [
        ("memory/a.md", {}, "memory/a.md is result 1."),
        ("./memory/a.md", {}, "memory/a.md is result 1."),
        (
            "memory/aa.md",
            {},
            'memory/aa.md is not among the results: the index has no file of that name. Did you mean "memory/a.md"? '
            "To list its files: kipu files.",
        ),
        (
            "memory/bad.md",
            {},
            "memory/bad.md is not among the results: it was not indexed, because it is not text: it has NUL bytes and "
            "no byte order mark.",
        ),
        ("memory/empty.md", {}, "memory/empty.md is not among the results: it has no text."),
        (
            "memory/2026-11-29.md",
            {"since": "2026-11-30"},
            "memory/2026-11-29.md is not among the results: it does not pass the filter (since=2026-11-30).",
        ),
        (
            "memory/a.md",
            {"source": "team"},
            "memory/a.md is not among the results: it does not pass the filter (source=team).",
        ),
        (
            "memory/b.md",
            {"max_results": 1},
            "memory/b.md is not among the results: it is number 2 with the score 0.667, and max_results is 1.",
        ),
    ],
)
async def test_the_absence_of_a_file_is_explained(memory, path, options, shown):
    results = await memory.search("red green blue", explain_path=path, **options)
    assert results.absence == shown


@pytest.mark.usefixtures("notes")
async def test_a_stage_that_dropped_a_file_is_named(config):
    async with Memory(config(postprocessors=[])) as memory:
        memory.register_postprocessor("without", Without("memory/b.md"))
        results = await memory.search("red green blue", explain_path="memory/b.md")
    assert results.absence == (
        "memory/b.md is not among the results: the stage without dropped it; before, it was number 2 with the score "
        "0.667."
    )


async def test_a_file_beyond_the_hits_is_found_at_its_rank(memory, write):
    for number in range(60):
        write(f"memory/{number:02}.md", f"red green {number}\n")
    write("memory/last.md", "red\n")
    write("memory/other.md", "yellow\n")
    results = await memory.search("red green", explain_path="memory/last.md")
    assert results.absence == (
        'memory/last.md is not among the results: the strategy "kipu.testing.doubles.WordStrategy" ranks it number '
        "61 with the score 0.500, and only its first 40 hits are used."
    )
    results = await memory.search("red green", explain_path="memory/other.md")
    assert results.absence == (
        'memory/other.md is not among the results: the strategy "kipu.testing.doubles.WordStrategy" does not find it.'
    )
