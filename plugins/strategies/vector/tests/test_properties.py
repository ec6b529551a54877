"""What holds for any vectors: the answer is that of comparing the query with each of them."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kipu.types import QueryEmbedding
from kipu_strategy_vector import coarse

DIMENSION = 5
NUMBERS = st.floats(-1, 1, width=32)
ROWS = st.lists(NUMBERS, min_size=DIMENSION, max_size=DIMENSION).filter(lambda row: np.linalg.norm(row) > 0.1)
NUDGES = st.sampled_from([0.0, 0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2])


@st.composite
def many_vectors(draw: st.DrawFn) -> list[list[float]]:
    """Some vectors, most of them again, a few as near duplicates: more candidates than may be asked for."""
    rows = draw(st.lists(ROWS, min_size=1, max_size=12))
    near = draw(st.lists(st.tuples(st.sampled_from(rows), NUDGES, st.integers(0, DIMENSION - 1)), max_size=30))
    for row, nudge, place in near:
        rows.append([number + nudge * (position == place) for position, number in enumerate(row)])
    return draw(st.permutations(rows))


@pytest.fixture
def few_candidates(with_sqlite_vec: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sqlite-vec return no more than is asked for, so that a few vectors are too many for it."""
    monkeypatch.setattr(coarse, "_FEWEST_CANDIDATES", 1)
    monkeypatch.setattr(coarse, "_CANDIDATES_PER_HIT", 2)


anything = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.slow
@given(rows=many_vectors(), query=ROWS, limit=st.integers(1, 12), removed=st.data())
@anything
def test_the_answers_are_the_same_with_sqlite_vec_and_without_it(
    few_candidates, new_workspace, rows, query, limit, removed
):
    async def check() -> None:
        async with new_workspace(DIMENSION) as workspace:
            ids = await workspace.add(vectors=rows)
            await workspace.remove(removed.draw(st.lists(st.sampled_from(ids), unique=True, max_size=len(ids) - 1)))
            found = await workspace.found(query, limit=limit)
            with pytest.MonkeyPatch.context() as without:
                without.setattr(coarse, "is_available", lambda: False)
                assert await workspace.found(query, limit=limit) == found
            everything = await workspace.found(query, limit=1_000)
            assert everything[:limit] == found
            scores = [score for _, score in found]
            assert scores == sorted(scores, reverse=True)
            assert all(0 < score <= 1 for score in scores)
            left, vectors = await workspace.vectors(workspace.space, [*ids])
            expected = vectors.astype(np.float64) @ workspace.query(vector=query).embedding.vector.astype(np.float64)
            positive = {id for id, cosine in zip(left, expected, strict=True) if cosine > 1e-6}
            assert positive <= {id for id, _ in everything}

    asyncio.run(check())


@pytest.mark.slow
@given(rows=many_vectors(), query=ROWS, limit=st.integers(1, 6))
@anything
def test_no_chunk_outside_the_candidates_is_nearer_than_the_bound(few_candidates, new_workspace, rows, query, limit):
    async def check() -> None:
        async with new_workspace(DIMENSION) as workspace:
            ids = await workspace.add(vectors=rows)
            embedding = workspace.query(vector=query).embedding
            assert isinstance(embedding, QueryEmbedding)
            found = await coarse.candidates(workspace.connection, embedding, ("1", []), limit)
            others = [id for id in ids if id not in found.ids]
            _, vectors = await workspace.vectors(workspace.space, others)
            cosines = vectors.astype(np.float64) @ embedding.vector.astype(np.float64)
            assert all(cosine < found.highest_other for cosine in cosines)

    asyncio.run(check())


@pytest.mark.parametrize("dimension", [8, 384, 1536])
async def test_what_is_kept_is_near_to_the_vector(dimension):
    vectors = np.random.default_rng(0).normal(size=(100, dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    _, errors = coarse._coarsen(vectors.astype(np.float32))
    assert errors.max() < 0.02
