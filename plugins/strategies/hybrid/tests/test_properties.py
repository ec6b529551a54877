"""What holds for any answers of the strategies."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kipu.types import Query
from kipu_strategy_hybrid import Hybrid
from kipu_strategy_hybrid.fusion import FUSIONS

SCORES = st.dictionaries(st.integers(1, 12), st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])), max_size=12)
WEIGHTS = st.floats(1e-3, 1e3)
FILES = st.dictionaries(st.sampled_from("abc"), st.floats(0, 1))
PATHS = {id: "abc"[id % 3] for id in range(1, 13)}


@pytest.mark.parametrize("fusion", FUSIONS)
@given(
    found=st.tuples(SCORES, SCORES),
    judgements=st.tuples(SCORES, SCORES),
    files=st.tuples(FILES, FILES),
    weights=st.tuples(WEIGHTS, WEIGHTS),
    file_weights=st.tuples(WEIGHTS, WEIGHTS),
)
@settings(deadline=None)
def test_scores_are_between_0_and_1_and_fall_with_the_rank(
    answers, fusion, found, judgements, files, weights, file_weights
):
    def named(values: Any) -> dict[str, Any]:
        return dict(zip(("vector", "keyword"), values, strict=True))

    index = answers(named(found), named(judgements), named(files), PATHS)
    hybrid = Hybrid(weights=named(weights), fusion=fusion, file_weights=named(file_weights))
    hits = asyncio.run(hybrid.search(Query("anything"), index))
    without = asyncio.run(attrs.evolve(hybrid, file_weights={}).search(Query("anything"), index))
    assert [hit.chunk.id for hit in hits[:3]] == [hit.chunk.id for hit in without[:3]]
    scores = [hit.score for hit in hits]
    assert scores == [hit.score for hit in without]
    for path in "abc":  # no chunk overtakes another one of the same file
        of_file, before = ([hit.chunk.id for hit in each if hit.chunk.path == path] for each in (hits, without))
        assert of_file == before
    assert all(0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert {hit.chunk.id for hit in hits} == found[0].keys() | found[1].keys()
    best = [max(scores.values(), default=0.0) for scores in found]
    assert all(hit.scores for hit in hits)
    assert not hits or hits[0].score >= max(best) - 1e-9


@given(found=st.tuples(SCORES, SCORES), score=st.floats(0, 1))
@settings(deadline=None)
def test_files_that_are_all_alike_change_nothing(answers, found, score):
    by_name = dict(zip(("vector", "keyword"), found, strict=True))
    index = answers(by_name, by_name, dict.fromkeys(by_name, dict.fromkeys("abc", score)), PATHS)
    hits = asyncio.run(Hybrid().search(Query("anything"), index))
    without = asyncio.run(Hybrid(file_weights={}).search(Query("anything"), index))
    assert [(hit.chunk.id, hit.score) for hit in hits] == [(hit.chunk.id, hit.score) for hit in without]


@pytest.mark.parametrize("fusion", FUSIONS)
@given(scores=SCORES)
@settings(deadline=None)
def test_the_order_of_strategies_that_agree_is_kept(answers, fusion, scores):
    index = answers({"vector": scores, "keyword": scores})
    hits = asyncio.run(Hybrid(fusion=fusion).search(Query("anything"), index))
    ranked = [scores[hit.chunk.id] for hit in hits]
    assert all(before >= after or before == pytest.approx(after) for before, after in pairwise(ranked))
