"""What a search runs through: a strategy with those that it searches with, then post-processors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ..config import MOST_RESULTS
from ..errors import ConfigurationError, UnavailableError
from ..index.coverage import read_coverage
from ..index.queries import admit
from ..index.vectors import read_vectors
from ..plugins.build import with_options
from ..plugins.kinds import FALLBACK_STRATEGY
from .duplicates import DUPLICATES, merge_duplicates
from .reader import IndexReader, has_current_tables
from .validity import VALIDITY, by_validity, is_outdatable

if TYPE_CHECKING:
    from ..context import Context
    from ..index.queries import Snapshot
    from ..plugins.adapters import PostProcessorAdapter, StrategyAdapter
    from ..plugins.calls import Adapter
    from ..plugins.records import PerCallOption, Registration
    from ..types import Hit, Place, Query


LOWEST_SCORE = 0.005
"""The lowest score that a strategy gives a result: less is shown as 0.00, and is none."""


@attrs.frozen
class Pipeline:
    """The chosen strategy by its name, all strategies that take part, by name, and the stages behind them.

    ``relation`` is the name of the one that completes the hits of the chosen one. ``temporary`` are those of them that
    were built for one search.
    """

    name: str
    strategies: Mapping[str, StrategyAdapter]
    stages: Sequence[PostProcessorAdapter]
    relation: str | None = None
    temporary: Sequence[Adapter] = ()

    @property
    def strategy(self) -> StrategyAdapter:
        """The chosen strategy."""
        return self.strategies[self.name]

    @property
    def needs_vectors(self) -> bool:
        """Whether the query must be embedded."""
        return any(strategy.needs_vectors for strategy in self.strategies.values())


@attrs.frozen
class SearchTrace:
    """The hits of a search, best first, and what the strategy and then each stage returned, by name.

    ``degraded`` is true if a component was left out. ``also_in`` are the other places of the text of a hit, by the id
    of its chunk.
    """

    hits: Sequence[Hit]
    stages: Sequence[tuple[str, Sequence[Hit]]]
    degraded: bool = False
    also_in: Mapping[int, Sequence[Place]] = attrs.field(factory=dict)


def build_pipeline(
    context: Context, strategy: str | None, options: Mapping[str, Any], *, relation: bool = True
) -> Pipeline:
    """Return the configured pipeline, changed by the per-call options of a search.

    :param strategy: the name of a strategy to use instead of the configured one.
    :param relation: whether another strategy completes the hits of the configured one.
    """
    components = context.components
    name, strategies = components.strategies(strategy)
    completing = components.relation() if relation and strategy is None else None
    if completing is not None:
        strategies |= {completing.name: completing}
    stages = components.stages()
    temporary: list[Adapter] = []
    given: dict[tuple[str, str], list[tuple[PerCallOption, Any]]] = {}
    for option, value in options.items():
        found = context.plugins.find_per_call_option(option)
        given.setdefault((found.registration.kind, found.registration.name), []).append((found, value))
    for (kind, component), values in given.items():
        registration = values[0][0].registration
        if kind == "strategy":
            matching = [arm for arm in strategies if type(strategies[arm].component) is registration.factory]
            if not matching:
                raise ConfigurationError(
                    f'The option "{values[0][0].name}" is for the strategy "{component}", but this search uses '
                    f'"{name}". Choose it too: strategy="{component}".'
                )
            changed = with_options(strategies[matching[0]], registration, values)
            strategies = strategies | {matching[0]: changed}
            temporary.append(changed)
        elif kind == "postprocessor":
            temporary.append(_switch_on(stages, registration, values, context.config.plugins.time_limit))
    relation_name = completing.name if completing else None
    return Pipeline(name, strategies, [*stages, *components.registered_stages], relation_name, temporary)


def _switch_on(
    stages: list[PostProcessorAdapter], registration: Registration, values: Sequence[Any], time_limit: float | None
) -> PostProcessorAdapter:
    """Give options to the last stage of a class, or insert a new one by its order; return the stage."""
    places = [place for place, stage in enumerate(stages) if type(stage.component) is registration.factory]
    old = stages.pop(places[-1]) if places else None
    new: PostProcessorAdapter = with_options(old, registration, values, time_limit)
    earlier = [place + 1 for place, stage in enumerate(stages) if stage.order <= new.order]
    stages.insert(places[-1] if places else max(earlier, default=0), new)
    return new


def fallback(context: Context, pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with the strategy that needs no vectors, if it is installed."""
    if not context.components.has_fallback:
        return pipeline
    name, strategies = context.components.strategies(FALLBACK_STRATEGY)
    return attrs.evolve(pipeline, name=name, strategies={**pipeline.strategies, **strategies})


async def run_pipeline(context: Context, snapshot: Snapshot, query: Query, pipeline: Pipeline) -> SearchTrace:
    """Run a query through a strategy and the post-processors.

    A component that is unavailable is left out, with a notice, and so is a strategy whose tables are stale, of which
    the run of indexing that failed gave notice. The chosen strategy is replaced by the one that needs no vectors.

    :raises PluginFailedError: one of them failed.
    """
    left_out: list[str] = []
    hits = await _ask(context, snapshot, query, pipeline, pipeline.strategy, left_out)
    if hits is None and pipeline.name != FALLBACK_STRATEGY:
        pipeline = fallback(context, pipeline)
        hits = await _ask(context, snapshot, query, pipeline, pipeline.strategy, left_out)
    hits = [hit for hit in await admit(snapshot, query, hits or ()) if hit.score >= LOWEST_SCORE]
    stages = [(pipeline.name, hits)]
    if query.as_of is not None or any(is_outdatable(hit.chunk) for hit in hits):
        hits = await by_validity(snapshot, query, hits)
        stages.append((VALIDITY, hits))
    if pipeline.relation is not None:
        hits = await _completed(context, snapshot, query, pipeline, left_out, hits)
        stages.append((pipeline.relation, hits))
    if hits and any(stage.needs_vectors for stage in pipeline.stages):
        hits = await _with_vectors(context, snapshot, query, hits)
    for stage in pipeline.stages:
        try:
            hits = await admit(snapshot, query, await stage.process(query, hits))
        except UnavailableError as error:
            left_out.append(f"The {stage.label} was left out: {error}")
        stages.append((stage.name, hits))
    context.notices.add(*filter(None, left_out))
    distinct, also_in = merge_duplicates(hits)
    if also_in:
        stages.append((DUPLICATES, distinct))
        if len(distinct) < query.max_results and len(stages[0][1]) >= query.limit < MOST_RESULTS:  # all were copies
            wider = attrs.evolve(query, limit=min(MOST_RESULTS, 8 * query.limit))
            return await run_pipeline(context, snapshot, wider, pipeline)
    return SearchTrace(distinct[: query.max_results], stages, bool(left_out), also_in)


async def _completed(
    context: Context, snapshot: Snapshot, query: Query, pipeline: Pipeline, left_out: list[str], hits: list[Hit]
) -> list[Hit]:
    """Return hits with those that complete them, each of which may be outdated as well.

    Copies of a text have one place together: else the hits between which others are put would move up later.
    """
    distinct, _ = merge_duplicates(hits)
    completing = pipeline.strategies[pipeline.relation or ""]
    completed = await _ask(context, snapshot, query, pipeline, completing, left_out, distinct)
    if completed is None:
        return hits
    completed = await admit(snapshot, query, completed)
    scores = {hit.chunk.id: hit.score for hit in distinct}
    kept = [hit for hit in completed if scores.get(hit.chunk.id) == hit.score]
    put = await by_validity(snapshot, query, [hit for hit in completed if scores.get(hit.chunk.id) != hit.score])
    found = {hit.chunk.id: hit for hit in [*hits, *put, *kept]}
    ranks = {hit.chunk.id: rank for rank, hit in enumerate(completed)}
    return sorted(found.values(), key=lambda hit: (-hit.score, ranks.get(hit.chunk.id, len(ranks))))


async def _ask(
    context: Context,
    snapshot: Snapshot,
    query: Query,
    pipeline: Pipeline,
    strategy: StrategyAdapter,
    left_out: list[str],
    completing: Sequence[Hit] | None = None,
) -> list[Hit] | None:
    """Return the hits of a strategy, None if it is unavailable or its tables are stale.

    :param completing: the hits of another strategy, which it completes.
    """
    if not has_current_tables(snapshot, strategy, query):
        left_out.append("")
        return None
    async with IndexReader(context, snapshot, strategy, pipeline.strategies, left_out.append) as reader:
        try:
            if completing is not None:
                return await strategy.complete(query, reader, completing)
            return await strategy.search(query, reader)
        except UnavailableError as error:
            left_out.append(f"The {strategy.label} was left out: {error}")
            return None


async def _with_vectors(context: Context, snapshot: Snapshot, query: Query, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits with the vectors of their chunks, in the space of the query, or in the one with most vectors."""
    if query.embedding is not None:
        space = query.embedding.space
    else:
        spaces = [known.space for known in snapshot.spaces.values() if known.space.dimension]
        if not spaces:
            return list(hits)
        lacking = (await read_coverage(snapshot.connection, context.scope.sources)).lacking
        space = min(spaces, key=lambda each: lacking.get(each.id, 0))
    ids, rows = await read_vectors(snapshot.connection, space, [hit.chunk.id for hit in hits])
    vectors = dict(zip(ids, rows, strict=True))
    return [attrs.evolve(hit, vector=vectors.get(hit.chunk.id)) for hit in hits]
