"""Which strategies are asked, what becomes of their answers, and the order and the scores of chunks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kipu.errors import ConfigurationError
from kipu.types import Hit, Query, QueryEmbedding, Strategy, VectorSpace
from kipu_strategy_hybrid import Hybrid, kipu_register_strategies
from kipu_strategy_hybrid.fusion import FUSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Answers = Callable[..., Any]

SPACE = VectorSpace(1, "test", 2)


def query(*, unknown: float = 0.0) -> Query:
    return Query("anything", embedding=QueryEmbedding(SPACE, np.array([1, 0], np.float32), unknown))


def ids(hits: Sequence[Hit]) -> list[int]:
    return [hit.chunk.id for hit in hits]


# --- The strategies ------------------------------------------------------------------------------------------------


async def test_a_chunk_that_both_find_comes_before_one_that_is_best_for_one_of_them(answers):
    index = answers(
        {"vector": {1: 0.6, 2: 0.55}, "keyword": {3: 0.8, 2: 0.7}},
        {"vector": {3: 0.1}, "keyword": {1: 0.0}},
    )
    hits = await Hybrid().search(query(), index)
    assert ids(hits)[0] == 2
    assert set(ids(hits)) == {1, 2, 3}


async def test_a_strategy_also_scores_what_it_did_not_find(answers):
    index = answers({"vector": {1: 0.5}, "keyword": {2: 0.5}}, {"vector": {2: 0.4}, "keyword": {1: 0.1}})
    hits = await Hybrid().search(query(), index)
    assert [(hit.chunk.id, dict(hit.scores)) for hit in hits] == [
        (2, {"vector": 0.4, "keyword": 0.5}),
        (1, {"vector": 0.5, "keyword": 0.1}),
    ]


async def test_a_chunk_without_a_vector_is_scored_by_its_words_alone(answers):
    index = answers({"vector": {1: 0.6, 2: 0.3}, "keyword": {3: 0.8, 1: 0.4}}, {"keyword": {2: 0.0}})
    hits = await Hybrid().search(query(), index)
    assert ids(hits) == [3, 1, 2]
    assert dict(hits[0].scores) == {"keyword": 0.8}


async def test_a_chunk_comes_earlier_if_its_neighbours_mean_what_is_asked_for(answers):
    found = {"vector": {1: 0.5, 2: 0.48}, "keyword": {1: 0.5, 2: 0.5}}
    alone, beside, after, prose = [
        await Hybrid().search(query(), answers(found, {"vector": {9: 0.9}}, neighbours=neighbours, mark=mark))
        for neighbours, mark in (([], "- "), ([(2, 9, -1)], "- "), ([(2, 9, 1)], "- "), ([(2, 9, -1)], ""))
    ]
    assert [ids(hits) for hits in (alone, beside, after, prose)] == [[1, 2], [2, 1], [2, 1], [1, 2]]
    assert [dict(hit.scores) for hit in beside] == [{"vector": 0.48, "keyword": 0.5}, {"vector": 0.5, "keyword": 0.5}]


@pytest.mark.parametrize("fusion", FUSIONS)
async def test_hits_are_returned_as_they_are_where_only_one_strategy_can_answer(answers, fusion):
    words = {1: 0.9, 5: 0.5, 3: 0.5, 2: 0.1}
    index = answers({"vector": None, "keyword": words})
    hits = await Hybrid(fusion=fusion).search(Query("anything"), index)
    assert hits == await index.search("keyword", Query("anything"))
    assert await Hybrid().search(query(), answers({"vector": None, "keyword": None})) == []
    assert await Hybrid().search(query(), answers({"vector": {}, "keyword": {}})) == []


async def test_any_strategies_can_be_combined(answers):
    hybrid = Hybrid(weights={"newest": 1, "keyword": 3, "graph": 1})
    index = answers({"newest": {1: 1.0}, "keyword": {2: 1.0}, "graph": {1: 1.0}}, {"keyword": {1: 0.1}})
    hits = await hybrid.search(query(), index)
    assert list(hybrid.strategies) == index.asked == ["newest", "keyword", "graph"]
    assert ids(hits) == [2, 1]


async def test_at_most_as_many_as_asked_for_are_returned(answers):
    index = answers({"vector": dict.fromkeys(range(1, 50), 0.5), "keyword": dict.fromkeys(range(100, 150), 0.5)})
    assert len(await Hybrid().search(Query("anything", limit=30), index)) == 30


@pytest.mark.parametrize("method", ["search", "score", "score_files"])
async def test_the_others_have_ended_when_the_failure_of_one_is_raised(answers, method):
    index = answers({"vector": FALLING, "keyword": {9: 0.5}}, files=OF_FILES)
    answer, ended = getattr(index, method), []

    async def asked(strategy: str, *arguments: Any) -> Any:
        if strategy == "keyword":
            raise OSError("the disk is gone")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(strategy)
        return await answer(strategy, *arguments)

    failing = SimpleNamespace(search=index.search, score=index.score, score_files=index.score_files)
    setattr(failing, method, asked)
    with pytest.raises(OSError, match="the disk is gone"):
        await Hybrid().search(query(), failing)
    assert ended == ["vector"]


# --- Scores --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fusion", FUSIONS)
async def test_the_score_of_each_chunk_is_made_from_its_own_scores(answers, fusion):
    good = answers({"vector": {1: 0.7, 2: 0.2}, "keyword": {1: 0.9, 2: 0.1}})
    poor = answers({"vector": {1: 0.19, 2: 0.02}, "keyword": {1: 0.0, 2: 0.0}})
    hybrid = Hybrid(weights={"vector": 1, "keyword": 3}, fusion=fusion)
    assert [hit.score for hit in await hybrid.search(query(), good)] == pytest.approx([1 - 0.3 * 0.1, 1 - 0.8 * 0.9])
    assert [hit.score for hit in await hybrid.search(query(), poor)] == pytest.approx([0.19, 0.02])


async def test_an_unsure_strategy_does_not_come_before_a_sure_one(answers):
    by_words = {1: 0.25, **dict.fromkeys(range(10, 20), 0.0)}
    by_meaning = {2: 0.6, 3: 0.3, **dict.fromkeys(range(10, 20), 0.1)}
    others = {"vector": {1: 0.1}, "keyword": {2: 0.0, 3: 0.0}}
    assert ids(await Hybrid().search(query(), answers({"vector": by_meaning, "keyword": by_words}, others)))[0] == 2
    sure = by_words | {1: 0.9}
    assert ids(await Hybrid().search(query(), answers({"vector": by_meaning, "keyword": sure}, others)))[0] == 1


async def test_a_chunk_that_has_the_identifier_stays_first_among_those_that_mean_something_like_it(answers):
    # With one identifier in the query, the strategy "keyword" gives at most 0.5 to a chunk that lacks it.
    nearest = {id: 0.6 - id / 100 for id in range(1, 21)}
    index = answers(
        {"vector": nearest, "keyword": {99: 0.8, 1: 0.2, 2: 0.2}},
        {"vector": {99: 0.25}, "keyword": dict.fromkeys(range(3, 21), 0.0)},
    )
    assert ids(await Hybrid().search(query(), index))[0] == 99


# --- Whole files ---------------------------------------------------------------------------------------------------

# Chunks 1 to 8, best first for both strategies. Of their files, that of the chunks 2 and 6 is the best.
FALLING = {id: 0.9 - id / 20 for id in range(1, 9)}
PATHS = {id: "memory/best.md" if id in (2, 6) else "memory/rest.md" for id in FALLING}
OF_FILE = {"vector.file": 0.8, "keyword.file": 0.8}
OF_FILES = {name: {"memory/best.md": 0.8, "memory/rest.md": 0.2} for name in ("vector", "keyword")}


@pytest.mark.parametrize("fusion", FUSIONS)
async def test_a_chunk_of_a_better_file_comes_earlier_and_the_first_three_stay(answers, fusion):
    index = answers({"vector": FALLING, "keyword": FALLING}, files=OF_FILES, paths=PATHS)
    hits = await Hybrid(fusion=fusion, file_weights={"vector": 2, "keyword": 2}).search(query(), index)
    assert ids(hits) == [1, 2, 3, 6, 4, 5, 7, 8]
    assert hits[2].score > hits[3].score > hits[4].score
    assert dict(hits[3].scores) == {**dict.fromkeys(("vector", "keyword"), FALLING[6]), **OF_FILE}


async def test_a_better_file_counts_as_much_as_its_weight_says(answers):
    index = answers({"vector": FALLING, "keyword": FALLING}, files=OF_FILES, paths=PATHS)
    assert ids(await Hybrid(file_weights={"keyword": 0.05}).search(query(), index)) == list(FALLING)
    assert ids(await Hybrid(file_weights={"keyword": 0.25}).search(query(), index)) == [1, 2, 3, 4, 6, 5, 7, 8]
    assert ids(await Hybrid(file_weights={"keyword": 1}).search(query(), index)) == [1, 2, 3, 6, 4, 5, 7, 8]


async def test_a_file_counts_a_quarter_for_its_entries(answers):
    prose, entries = (
        answers({"vector": FALLING, "keyword": FALLING}, files=OF_FILES, paths=PATHS, mark=mark) for mark in ("", "- ")
    )
    quarter = ids(await Hybrid(file_weights={"keyword": 0.25}).search(query(), prose))
    assert ids(await Hybrid(file_weights={"keyword": 1}).search(query(), entries)) == quarter
    assert ids(await Hybrid(file_weights={"keyword": 0.25}).search(query(), entries)) != quarter


async def test_a_file_that_is_like_no_other_cannot_lift_what_is_worth_nothing(answers):
    found = dict.fromkeys(range(1, 40), 0.9) | {99: 0.01}
    paths = {99: "memory/best.md"}
    of_files = {"vector": {"memory/best.md": 1.0, "memory/notes.md": 0.0}}
    index = answers({"vector": found, "keyword": found}, files=of_files, paths=paths)
    assert ids(await Hybrid(file_weights={"vector": 1000}).search(query(), index))[-1] == 99


async def test_a_file_counts_less_for_each_further_chunk_of_it(answers):
    paths = {id: "memory/best.md" if id > 5 else "memory/rest.md" for id in FALLING}
    index = answers({"vector": FALLING, "keyword": FALLING}, files=OF_FILES, paths=paths)
    assert ids(await Hybrid(file_weights={"vector": 0.4}).search(query(), index)) == [1, 2, 3, 6, 4, 5, 7, 8]
    assert ids(await Hybrid(file_weights={"vector": 1}).search(query(), index)) == [1, 2, 3, 6, 7, 4, 8, 5]


async def test_a_file_that_lowers_lowers_all_of_its_chunks_alike(answers):
    close = dict.fromkeys(range(10, 20), 0.1) | {1: 0.9, 2: 0.8, 3: 0.7, 4: 0.5, 5: 0.495}
    paths = dict.fromkeys((4, 5), "memory/worst.md")
    of_files = {name: {"memory/worst.md": 0.1, "memory/notes.md": 0.8} for name in ("vector", "keyword")}
    index = answers({"vector": close, "keyword": close}, files=of_files, paths=paths)
    found = ids(await Hybrid().search(query(), index))
    assert found.index(4) < found.index(5)


async def test_whole_files_change_the_order_and_not_the_scores_of_the_places(answers):
    index = answers({"vector": FALLING, "keyword": FALLING}, files=OF_FILES, paths=PATHS)
    hits = await Hybrid(file_weights={"vector": 2, "keyword": 2}).search(query(), index)
    before = await Hybrid(file_weights={}).search(query(), index)
    assert ids(hits) != ids(before)
    assert [hit.score for hit in hits] == [hit.score for hit in before]
    assert len({hit.score for hit in hits}) == len(hits)


async def test_files_are_not_scored_without_weights(answers):
    index = answers({"vector": FALLING, "keyword": FALLING}, files=OF_FILES, paths=PATHS)
    hits = await Hybrid(file_weights={}).search(query(), index)
    assert (ids(hits), index.asked_of_files) == (list(FALLING), [])


async def test_a_strategy_that_scores_no_files_changes_nothing(answers):
    silent = answers({"vector": FALLING, "keyword": FALLING}, paths=PATHS)
    assert await Hybrid().search(query(), silent) == await Hybrid(file_weights={}).search(query(), silent)


async def test_a_file_without_a_score_is_neither_better_nor_worse(answers):
    some = {"keyword": {"memory/best.md": 0.5, "memory/rest.md": 0.5}, "vector": {"memory/best.md": 0.9}}
    index = answers({"vector": FALLING, "keyword": FALLING}, files=some, paths=PATHS)
    assert ids(await Hybrid(file_weights={"vector": 5, "keyword": 5}).search(query(), index)) == list(FALLING)


async def test_a_low_confidence_counts_for_files_too(answers):
    index = answers(
        {"vector": FALLING, "keyword": FALLING},
        files={"vector": OF_FILES["vector"], "keyword": {"memory/best.md": 0.2, "memory/rest.md": 0.8}},
        paths=PATHS,
    )
    hybrid = Hybrid(file_weights={"vector": 2, "keyword": 1})
    assert ids(await hybrid.search(query(), index)) == [1, 2, 3, 6, 4, 5, 7, 8]
    assert ids(await hybrid.search(query(unknown=1.0), index)) == [1, 2, 3, 4, 5, 7, 8, 6]


# --- The query's language -------------------------------------------------------------------------------------------


async def test_an_embedder_that_does_not_know_the_language_counts_less(answers):
    found = {"vector": {1: 0.6, 2: 0.3}, "keyword": {2: 0.6, 1: 0.35}}
    hybrid = Hybrid(weights={"vector": 0.5, "keyword": 0.5})
    assert ids(await hybrid.search(query(), answers(found)))[0] == 1
    assert ids(await hybrid.search(query(unknown=0.9), answers(found)))[0] == 2


# --- The plugin ----------------------------------------------------------------------------------------------------


def test_the_plugin_registers_its_strategy():
    registered: dict[str, Any] = {}
    kipu_register_strategies(registered.__setitem__)
    assert registered == {"hybrid": Hybrid}
    assert isinstance(Hybrid(), Strategy)


def test_file_weights_name_only_strategies_that_are_combined():
    with pytest.raises(
        ConfigurationError, match=r"^file_weights names keywrd, but the strategies are vector, keyword$"
    ):
        Hybrid(file_weights={"keywrd": 1})
    assert dict(Hybrid(weights={"keyword": 1, "graph": 1}).file_weights) == {"vector": 0.45, "keyword": 0.25}
    assert dict(Hybrid(weights={"graph": 1}, file_weights={"graph": 1}).file_weights) == {"graph": 1}


def test_an_unknown_fusion_is_refused_with_the_choices():
    with pytest.raises(ConfigurationError, match=r"^fusion must be one of score-and-rank, reciprocal-rank, not 'rrf'$"):
        Hybrid(fusion="rrf")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("weights", {}),
        ("weights", {"keyword": 0}),
        ("weights", {"keyword": -1}),
        ("weights", {"keyword": float("nan")}),
        ("weights", {"keyword": float("inf")}),
        ("file_weights", {"keyword": 0}),
        ("file_weights", {"keyword": float("nan")}),
        ("file_weights", ["keyword"]),
    ],
)
def test_an_invalid_weight_is_refused(option, value):
    with pytest.raises(ConfigurationError, match=f"^{option} must be"):
        Hybrid(**{option: value})
