"""What is found, in which order, and with which scores; and what becomes of the tables."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kipu.types import Query, VectorIndexedStrategy, VectorSpace
from kipu_strategy_vector import Vector, coarse, kipu_register_strategies

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from conftest import Workspace

    NewWorkspace = Callable[..., AbstractAsyncContextManager[Workspace]]

EAST, NORTH_EAST, NORTH, WEST = [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [-1, 0, 0, 0]


# --- Searching -----------------------------------------------------------------------------------------------------


async def test_the_nearest_chunk_comes_first_and_the_score_is_the_cosine(workspace):
    north_east, east, north, west = await workspace.add(vectors=[NORTH_EAST, EAST, NORTH, WEST])
    hits = await workspace.search(vector=EAST)
    assert [(hit.chunk.id, hit.score) for hit in hits] == [(east, 1.0), (north_east, pytest.approx(0.5**0.5, abs=1e-6))]
    assert all(dict(hit.scores) == {"vector": hit.score} for hit in hits)
    assert not {north, west} & {hit.chunk.id for hit in hits}


async def test_chunks_that_are_equally_near_come_in_the_order_of_their_rows(workspace):
    ids = await workspace.add(vectors=[NORTH_EAST, EAST, NORTH_EAST, [1, 0, 1, 0], NORTH_EAST])
    assert [id for id, _ in await workspace.found(EAST)] == [ids[1], ids[0], ids[2], ids[3], ids[4]]


async def test_at_most_as_many_as_asked_for_are_found(workspace):
    await workspace.add(vectors=[EAST, NORTH_EAST, [3, 1, 0, 0]])
    assert len(await workspace.search(vector=EAST, limit=2)) == 2
    assert await workspace.search(vector=EAST, limit=0) == []


async def test_a_search_for_more_than_sqlite_vec_returns_finds_as_many(workspace):
    await workspace.add(vectors=[[1, number / 5_000, 0, 0] for number in range(5_000)])
    assert len(await workspace.search(vector=EAST, limit=4_500)) == 4_500


async def test_sqlite_vec_finds_the_candidates(with_sqlite_vec, new_workspace):
    statements: list[str] = []
    async with new_workspace() as workspace:
        await workspace.add(vectors=[EAST, NORTH])
        await workspace.connection.set_trace_callback(statements.append)
        await workspace.search(vector=EAST)
    assert any("MATCH" in statement for statement in statements)
    assert not any("vec_distance" in statement for statement in statements)


async def test_filters_apply_before_the_limit(workspace):
    await workspace.add(vectors=[[1, 0, number / 1000, 0] for number in range(300)], path="memory/agent/near.md")
    [far] = await workspace.add(vectors=[NORTH_EAST], path="memory/team/far.md")
    [dated] = await workspace.add(vectors=[NORTH_EAST], path="memory/agent/2026-03-20.md", date=date(2026, 3, 20))
    [rare] = await workspace.add("about #rare/things", vectors=[NORTH_EAST], path="memory/agent/rare.md")
    for filters in ({"tags": ["rare"]}, {"path": "rare.md"}):
        assert [id for id, _ in await workspace.found(EAST, limit=1, **filters)] == [rare]
    assert [id for id, _ in await workspace.found(EAST, sources=["team"], limit=1)] == [far]
    assert [id for id, _ in await workspace.found(EAST, since=date(2026, 3, 20), limit=1)] == [dated]
    assert await workspace.found(EAST, until=date(2026, 3, 19)) == []
    assert await workspace.found(EAST, sources=["missing"]) == []


async def test_a_query_without_a_vector_finds_nothing(workspace):
    ids = await workspace.add(vectors=[EAST])
    query = Query("anything")
    assert await workspace.strategy.search(query, workspace) == []
    assert await workspace.strategy.score(query, workspace, ids) == {}


async def test_an_index_without_vectors_answers_with_nothing(workspace):
    assert await workspace.search(vector=EAST) == []
    assert await workspace.strategy.score(workspace.query(vector=EAST), workspace, [1]) == {}


async def test_any_chunk_that_has_a_vector_can_be_scored(workspace):
    ids = await workspace.add(vectors=[EAST, NORTH_EAST, NORTH, WEST])
    query = workspace.query(vector=EAST, limit=1)
    scores = await workspace.strategy.score(query, workspace, [*ids, 999])
    assert scores == dict(zip(ids, [1.0, pytest.approx(0.5**0.5, abs=1e-6), 0.0, 0.0], strict=True))
    [hit] = await workspace.strategy.search(query, workspace)
    assert hit.score == scores[hit.chunk.id]


async def test_a_file_is_as_near_as_the_mean_of_its_chunks(workspace):
    await workspace.add(vectors=[EAST, NORTH], path="memory/both.md")
    await workspace.add(vectors=[EAST], path="memory/east.md")
    await workspace.add(vectors=[WEST], path="memory/west.md")
    await workspace.add(vectors=[EAST, WEST], path="memory/neither.md")
    paths = ["memory/west.md", "memory/both.md", "memory/east.md", "memory/neither.md", "memory/none.md"]
    assert await workspace.strategy.score_files(workspace.query(vector=EAST), workspace, paths) == {
        "memory/west.md": 0.0,
        "memory/both.md": pytest.approx(0.5**0.5, abs=1e-6),
        "memory/east.md": 1.0,
        "memory/neither.md": 0.0,
    }
    assert await workspace.strategy.score_files(workspace.query(vector=EAST), workspace, []) == {}
    assert await workspace.strategy.score_files(Query("anything"), workspace, paths) == {}


async def test_some_chunks_stand_for_a_long_file_from_its_start_to_its_end(workspace):
    await workspace.add(vectors=[EAST] * 500 + [NORTH] * 500, path="memory/long.md")
    asked = []
    vectors = workspace.vectors

    async def counting(space: VectorSpace, ids: Any) -> Any:
        asked.extend(ids)
        return await vectors(space, ids)

    class Counting:
        connection, vectors = workspace.connection, staticmethod(counting)

    index: Any = Counting()
    scores = await workspace.strategy.score_files(workspace.query(vector=EAST), index, ["memory/long.md"])
    assert scores == {"memory/long.md": pytest.approx(0.5**0.5, abs=1e-6)}
    assert len(asked) == 16


async def test_very_many_files_can_be_scored_at_once(workspace):
    paths = [f"memory/{number}.md" for number in range(1_000)]
    for path in paths:
        await workspace.add(vectors=[NORTH_EAST], path=path)
    scores = await workspace.strategy.score_files(workspace.query(vector=EAST), workspace, paths)
    assert scores == dict.fromkeys(paths, pytest.approx(0.5**0.5, abs=1e-6))


# --- The index -----------------------------------------------------------------------------------------------------


async def test_a_removed_chunk_is_not_found(workspace):
    east, north_east, twin = await workspace.add(vectors=[EAST, NORTH_EAST, EAST])
    await workspace.remove([east])
    assert [id for id, _ in await workspace.found(EAST)] == [twin, north_east]


async def test_removing_what_is_not_there_changes_nothing(workspace):
    [east] = await workspace.add(vectors=[EAST])
    await workspace.change("remove", [east + 1])
    await workspace.change("remove", [])
    assert await workspace.found(EAST) == [(east, 1.0)]


async def test_creating_again_empties_the_index(workspace):
    ids = await workspace.add(vectors=[EAST])
    await workspace.change("create")
    await workspace.remove(ids)
    assert await workspace.search(vector=EAST) == []


async def test_the_rows_of_removed_chunks_leave_the_table(with_sqlite_vec, new_workspace):
    async with new_workspace() as workspace:
        ids = await workspace.add(vectors=[[1, number, 0, 0] for number in range(3_000)])
        await workspace.change("remove", ids[:2_990])
        assert await count(workspace, "vector_coarse_1_rowids") == 10
        assert await count(workspace, "vector_coarse_1_vector_chunks00") == 1
        await workspace.change("remove", ids[2_990:])
        assert await count(workspace, "vector_coarse_1") == 0


async def test_a_vector_that_is_added_again_replaces_the_first(with_sqlite_vec, new_workspace):
    async with new_workspace() as workspace:
        ids = await workspace.add(vectors=[EAST, NORTH])
        _, vectors = await workspace.vectors(workspace.space, ids)
        await workspace.change("add", ids, vectors[::-1].copy())
        assert await count(workspace, "vector_coarse_1") == 2


async def test_the_table_is_a_quarter_of_the_vectors_that_the_kernel_keeps(with_sqlite_vec, new_workspace):
    async with new_workspace(dimension=384) as workspace:
        await workspace.add(vectors=[[float(number == place) for place in range(384)] for number in range(10)])
        [(kept,)] = await workspace.connection.execute_fetchall("SELECT sum(length(vector)) FROM kipu_vectors")
        [(coarse_bytes, rows)] = await workspace.connection.execute_fetchall(
            "SELECT length(vectors), length(validity) * 8 FROM vector_coarse_1_vector_chunks00, vector_coarse_1_chunks"
        )
        assert coarse_bytes / rows == kept / 10 / 4


async def test_dropping_leaves_no_table(with_sqlite_vec, new_workspace):
    async with new_workspace() as workspace:
        await workspace.add(vectors=[EAST])
        await workspace.change("drop")
        await workspace.change("drop")
        assert await tables(workspace) == []


# --- Damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE vector_coarse_1_vector_chunks00 SET vectors = zeroblob(3)",
        "UPDATE vector_coarse_1_chunks SET validity = zeroblob(1)",
        "UPDATE vector_coarse_1_chunks SET rowids = zeroblob(1)",
        "DELETE FROM vector_coarse_1_chunks WHERE chunk_id = 1",
        "DELETE FROM vector_coarse_1_vector_chunks00",
        "DELETE FROM vector_coarse_1_rowids WHERE rowid % 2",
        "DELETE FROM vector_error_1",
        "UPDATE vector_coarse_1_vector_chunks00 SET vectors = zeroblob(length(vectors))",
        "DELETE FROM vector_coarse_1_chunks",
    ],
)
@pytest.mark.parametrize("vectors", [5, 1_000])
async def test_what_a_damaged_index_cannot_prove_is_found_by_comparing_all_vectors(
    with_sqlite_vec, new_workspace, statement, vectors
):
    async with new_workspace() as workspace:
        await workspace.add(vectors=[[1, number, 0, 0] for number in range(vectors)])
        expected = await workspace.found(NORTH_EAST, limit=5)
        await workspace.connection.execute(statement)
        assert await workspace.found(NORTH_EAST, limit=5) == expected


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e30, 0.0])
async def test_a_vector_that_lost_bits_is_found_by_nothing(workspace, number):
    [east, north_east] = await workspace.add(vectors=[EAST, NORTH_EAST])
    broken = np.array([number, 0, 0, 0], "<f4").tobytes()
    await workspace.replace_vector(east, broken)
    assert [id for id, _ in await workspace.found(EAST)] == [north_east]
    query = workspace.query(vector=EAST)
    assert (await workspace.strategy.score(query, workspace, [east])).get(east, 0.0) == 0.0


# --- With sqlite-vec in one process and without it in another -------------------------------------------------------


async def test_a_process_without_sqlite_vec_drops_the_tables_of_one_with_it(
    with_sqlite_vec, new_workspace, tmp_path, monkeypatch
):
    path = str(tmp_path / "index.sqlite")
    async with new_workspace(path=path) as workspace:
        [east] = await workspace.add(vectors=[EAST])
        version = workspace.strategy.schema_version
    with monkeypatch.context() as without:
        without.setattr(coarse, "is_available", lambda: False)
        async with new_workspace(path=path) as workspace:
            assert workspace.strategy.schema_version != version
            assert await workspace.found(EAST) == [(east, 1.0)]
            assert await tables(workspace) == []
            [north_east] = await workspace.add(vectors=[NORTH_EAST])
            await workspace.remove([east])
            await workspace.change("drop")
            await workspace.change("create")
            assert [id for id, _ in await workspace.found(EAST)] == [north_east]
    async with new_workspace(path=path) as workspace:
        assert [id for id, _ in await workspace.found(EAST)] == [north_east]
        ids, vectors = await workspace.vectors(workspace.space, [north_east])
        await workspace.change("add", ids, vectors)
        assert [id for id, _ in await workspace.found(EAST)] == [north_east]
        await workspace.change("drop")
        assert await tables(workspace) == []


async def test_a_connection_that_can_only_read_searches(either_way, new_workspace, tmp_path):
    path = str(tmp_path / "index.sqlite")
    async with new_workspace(path=path) as workspace:
        [east] = await workspace.add(vectors=[EAST])
    async with new_workspace(path=path, create=False) as workspace:
        await workspace.connection.execute("PRAGMA query_only = 1")
        assert await workspace.found(EAST) == [(east, 1.0)]


async def test_two_spaces_have_tables_of_their_own(workspace):
    [east] = await workspace.add(vectors=[EAST])
    first, workspace.space = workspace.space, type(workspace.space)(8, "other", 2)
    await workspace.change("create")
    [other] = await workspace.add(vectors=[[1, 1]])
    assert await workspace.found([1, 1]) == [(other, 1.0)]
    await workspace.change("drop")
    workspace.space = first
    assert await workspace.found(EAST) == [(east, 1.0)]


# --- The plugin ----------------------------------------------------------------------------------------------------


def test_the_plugin_registers_its_strategy():
    registered: dict[str, Any] = {}
    kipu_register_strategies(registered.__setitem__)
    assert registered == {"vector": Vector}
    assert isinstance(Vector(), VectorIndexedStrategy)
    assert Vector.needs_vectors


async def count(workspace: Workspace, table: str) -> int:
    [(number,)] = await workspace.connection.execute_fetchall(f"SELECT count(*) FROM {table}")
    return int(number)


async def tables(workspace: Workspace) -> list[str]:
    statement = "SELECT name FROM sqlite_schema WHERE name LIKE 'vector%' ORDER BY name"
    return [row[0] for row in await workspace.connection.execute_fetchall(statement)]


async def test_vectors_that_are_too_long_for_sqlite_vec_are_compared_one_by_one():
    space = VectorSpace(1, "long", 8193)
    assert not coarse.takes(space)
    assert coarse.takes(VectorSpace(1, "shorter", 8192)) == coarse.is_available()
