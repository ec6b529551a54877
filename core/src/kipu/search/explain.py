"""Explain why a result has its rank, and why a file is not among the results."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import attrs

from ..config import MOST_RESULTS
from ..index.filters import filters
from ..index.queries import known_files
from ..plugins.suggest import did_you_mean
from ..types import Explanation, StageChange, StrategyScore
from ..workspace.paths import ARCHIVE
from .pipeline import run_pipeline
from .query import given_filters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..context import Context
    from ..index.queries import Snapshot
    from ..types import Hit, Query
    from .pipeline import Pipeline, SearchTrace


def explain(trace: SearchTrace) -> dict[int, Explanation]:
    """Return for each hit, by the id of its chunk, its rank and score in each strategy and what each stage changed."""
    strategy_hits = trace.stages[0][1]
    arms: dict[int, dict[str, StrategyScore]] = {}
    for arm in dict.fromkeys(name for hit in strategy_hits for name in hit.scores):
        judged = {hit.chunk.id: round(hit.scores[arm], 6) for hit in strategy_hits if arm in hit.scores}
        # Equal scores share the best of their ranks.
        ranks: dict[float, int] = {}
        for rank, score in enumerate(sorted(judged.values(), reverse=True), 1):
            ranks.setdefault(score, rank)
        for id, score in judged.items():
            arms.setdefault(id, {})[arm] = StrategyScore(ranks[score] if score else None, score)
    places = [(name, _places(hits)) for name, hits in trace.stages]
    explanations = {}
    for hit in trace.hits:
        id = hit.chunk.id
        changes = [
            StageChange(name, before[id][0], after[id][0], before[id][1], after[id][1])
            for (_, before), (name, after) in itertools.pairwise(places)
            if id in before and id in after
        ]
        explanations[id] = Explanation(arms.get(id, {}), changes)
    return explanations


def _places(hits: Sequence[Hit]) -> dict[int, tuple[int, float]]:
    """Return the rank and score of each hit, by the id of its chunk."""
    return {hit.chunk.id: (rank, round(hit.score, 6)) for rank, hit in enumerate(hits, 1)}


async def why_absent(
    context: Context, snapshot: Snapshot, query: Query, pipeline: Pipeline, trace: SearchTrace, path: str
) -> str:
    """Return a sentence that says where a file is among the results, or why it is not among them.

    :param path: relative to the workspace.
    """
    ranks = [rank for rank, hit in enumerate(trace.hits, 1) if hit.chunk.path == path]
    if ranks:
        return f"{path} is result {', '.join(map(str, ranks))}."
    reason = await _not_searched(context, snapshot, query, path)
    if reason is None:
        reason = _dropped(query, trace, path)
    if reason is None:
        wider_query = attrs.evolve(query, limit=MOST_RESULTS)
        strategy_alone = attrs.evolve(pipeline, stages=[], relation=None)
        wider = await run_pipeline(context, snapshot, wider_query, strategy_alone)
        reason = _too_far_down(query, pipeline, wider, path)
    return f"{path} is not among the results: {reason}."


async def _not_searched(context: Context, snapshot: Snapshot, query: Query, path: str) -> str | None:
    """Return why the file is not searched at all, or None."""
    connection = snapshot.connection
    known = await known_files(connection)
    if path not in known:
        near = did_you_mean(path, context.scope.seen(known))
        return f"the index has no file of that name.{near} To list its files: kipu files"
    problem = known[path].problem
    if problem is not None:
        return f"it was not indexed, because it {problem}"
    condition, parameters = filters(query)
    (passes,) = await connection.execute_fetchall(
        f"SELECT count(*) FROM files LEFT JOIN chunks ON file_id = files.id WHERE path = ? AND {condition}",
        [path, *parameters],
    )
    if not passes[0]:
        given = [f"{name}={value}" for name, value in given_filters(query)]
        if not given:
            return f"it is archived, and only searched with source={ARCHIVE}"
        return f"it does not pass the filter ({', '.join(given)})"
    (chunks,) = await connection.execute_fetchall(
        "SELECT count(*) FROM chunks JOIN files ON files.id = chunks.file_id WHERE path = ?", [path]
    )
    return None if chunks[0] else "it has no text"


def _dropped(query: Query, trace: SearchTrace, path: str) -> str | None:
    """Return which stage dropped the file, or that it is just below the last result; None if it was never found."""
    last: tuple[int, Hit] | None = None
    for name, hits in trace.stages:
        here = next(((rank, hit) for rank, hit in enumerate(hits, 1) if hit.chunk.path == path), None)
        if here is None:
            if last is None:
                return None
            return f"the stage {name} dropped it; before, it was number {last[0]} with the score {last[1].score:.3f}"
        last = here
    if last is None:
        return None
    rank, hit = last
    return f"it is number {rank} with the score {hit.score:.3f}, and max_results is {query.max_results}"


def _too_far_down(query: Query, pipeline: Pipeline, wider: SearchTrace, path: str) -> str:
    """Return where the file is among all hits of the strategy."""
    here = next(((rank, hit) for rank, hit in enumerate(wider.hits, 1) if hit.chunk.path == path), None)
    here = here or next(((rank, hit) for rank, hit in enumerate(wider.stages[0][1], 1) if hit.chunk.path == path), None)
    if here is None:
        return f'the strategy "{pipeline.name}" does not find it'
    rank, hit = here
    return (
        f'the strategy "{pipeline.name}" ranks it number {rank} with the score {hit.score:.3f}, and only its first '
        f"{query.limit} hits are used"
    )
