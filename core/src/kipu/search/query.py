"""Turns a question into results: query, strategy, post-processors, snippets."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from datetime import date, datetime
from numbers import Real
from typing import TYPE_CHECKING, Any

import attrs

from ..config import MOST_RESULTS
from ..errors import KipuError, PluginFailedError, QueryError
from ..index.queries import filters, has_archive, load_chunks, passes, sources
from ..index.strategy_tables import indexed_strategies, needs_vectors, outdated, tables_of
from ..index.vectors import count_pending, known_spaces, read_vectors
from ..plugins.manager import did_you_mean
from ..sqlite import is_trouble_with_the_file, sqlite_errors
from ..types import Hit, Query, SearchResult, StoredChunk
from ..workspace.scan import ARCHIVE
from .snippets import snippet
from .validity import VALIDITY, by_validity, is_outdatable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    import aiosqlite

    from ..components import Pipeline
    from ..index.database import Database
    from ..types import Explanation, Vectors, VectorSpace

__all__ = ["Found", "IndexReader", "make_query", "result_of", "search", "source_note", "unknown_source"]

# How many hits a strategy is asked for, so that post-processors have something to choose from.
_HITS_PER_RESULT = 4
_FEWEST_HITS = 40


def make_query(
    text: str,
    *,
    max_results: int,
    source: str | None = None,
    since: date | str | None = None,
    until: date | str | None = None,
    as_of: date | str | None = None,
    today: date | None = None,
) -> Query:
    """A checked query.

    :raises QueryError: the text is no text, the number of results is not at least 1, or a date is none.
    """
    if not isinstance(text, str):
        raise QueryError(f"The query must be text, not {text!r}.")
    if type(max_results) is not int or not 1 <= max_results <= MOST_RESULTS:
        raise QueryError(f"max_results must be a whole number from 1 to {MOST_RESULTS:,}, not {max_results!r}.")
    if source is not None and not isinstance(source, str):
        raise QueryError(f"source must be the label of a source, not {source!r}.")
    # Bytes that are no text reach us from a command line as lone surrogates, which no database takes.
    text = text.encode("utf-8", "replace").decode("utf-8")
    source = source and source.encode("utf-8", "replace").decode("utf-8")
    first, last = _date("since", since), _date("until", until)
    if first and last and first > last:
        raise QueryError(f"since ({first}) is after until ({last}): nothing can be between them.")
    limit = max(_FEWEST_HITS, _HITS_PER_RESULT * max_results)
    return Query(text, max_results, limit, source, first, last, _date("as_of", as_of), today)


def _date(name: str, value: date | str | None) -> date | None:
    if value is None or (isinstance(value, date) and not isinstance(value, datetime)):
        return value
    if isinstance(value, datetime):
        return value.date()
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise QueryError(f"{name} must be a date such as 2026-11-29, not {value!r}.") from None


class IndexReader:
    """What a strategy sees of the index during one search: a `kipu.types.Index`.

    ``strategies`` are those that it may ask in its turn.
    """

    def __init__(
        self, database: Database, connection: aiosqlite.Connection, strategies: Mapping[str, Any], *, archived: bool
    ) -> None:
        self._database = database
        self._connection = connection
        self._strategies = strategies
        self._archived = archived

    @property
    def connection(self) -> aiosqlite.Connection:
        """The read-only connection of this search."""
        return self._connection

    def where(self, query: Query) -> tuple[str, list[Any]]:
        """The query's filters as an SQL condition on ``files``, and its parameters."""
        return filters(query, archived=self._archived)

    async def chunks(self, ids: Iterable[int]) -> dict[int, StoredChunk]:
        """Load chunks by the ids of their rows, in the order given."""
        return await load_chunks(self._connection, ids)

    async def vectors(self, space: VectorSpace, ids: Sequence[int]) -> tuple[list[int], Vectors]:
        """The vectors of chunks: the ids that have one, and a matrix with a row for each."""
        return await read_vectors(self._connection, space, ids)

    async def search(self, strategy: str, query: Query) -> list[Hit] | None:
        """What another strategy finds, on a connection of its own; None where it cannot answer now."""
        chosen = self._strategies[strategy]
        if needs_vectors(chosen) and query.embedding is None:
            return None
        async with self._database.reader(further=True) as connection:
            if not await _is_ready(connection, strategy, chosen, query):
                return None
            reader = IndexReader(self._database, connection, self._strategies, archived=self._archived)
            return (await _guarded(chosen, "search", query, reader))[: query.limit]

    async def score(self, strategy: str, query: Query, ids: Sequence[int]) -> dict[int, float]:
        """What another strategy thinks of chunks that it did not return; those it cannot judge are left out."""
        return await self._opinion("score", strategy, query, ids)

    async def score_files(self, strategy: str, query: Query, paths: Sequence[str]) -> dict[str, float]:
        """What another strategy thinks of whole files; those it cannot judge are left out."""
        return await self._opinion("score_files", strategy, query, paths)

    async def _opinion(self, method: str, strategy: str, query: Query, asked: Sequence[Any]) -> dict[Any, float]:
        """What one of the optional methods of another strategy says, on a connection of its own."""
        chosen = self._strategies[strategy]
        if not hasattr(chosen, method) or not asked or (needs_vectors(chosen) and query.embedding is None):
            return {}
        async with self._database.reader(further=True) as connection:
            if not await _is_ready(connection, strategy, chosen, query):
                return {}
            reader = IndexReader(self._database, connection, self._strategies, archived=self._archived)

            async def work() -> dict[Any, float]:
                return _checked_scores(method, await _started(chosen, method, query, reader, asked), set(asked))

            scores: dict[Any, float] = await _blamed(chosen, work())
            return scores


async def _is_ready(connection: aiosqlite.Connection, name: str, strategy: Any, query: Query) -> bool:
    """Whether the tables of a strategy were made; one without any is always ready."""
    identity = query.embedding.space.identity if query.embedding else None
    tables = await tables_of(connection, indexed_strategies({name: strategy}), identity)
    if query.embedding is not None:
        tables = [each for each in tables if each.space in (None, query.embedding.space)]
    return not await outdated(connection, tables)


@attrs.frozen
class Found:
    """The hits of a search, best first, and how they came about: what the strategy and then each stage returned."""

    hits: Sequence[Hit]
    steps: Sequence[tuple[str, Sequence[Hit]]]


async def search(database: Database, query: Query, pipeline: Pipeline) -> Found:
    """Run a query through a strategy and the post-processors. A strategy whose tables were not made yet finds nothing.

    :raises PluginFailedError: one of them raised.
    """
    async with database.reader() as connection:
        if not await _is_ready(connection, pipeline.name, pipeline.strategy, query):
            return Found([], [(pipeline.name, [])])
        reader = IndexReader(database, connection, pipeline.strategies, archived=await has_archive(connection))
        hits = await _guarded(pipeline.strategy, "search", query, reader)
        hits = [hit for hit in hits if passes(query, hit.chunk)][: query.limit]
        steps = [(pipeline.name, hits)]
        if query.as_of is not None or any(is_outdatable(hit.chunk) for hit in hits):
            hits = await by_validity(connection, query, hits, reader.where(query))
            steps.append((VALIDITY, hits))
        if any(needs_vectors(stage) for _, stage in pipeline.stages):
            hits = await _with_vectors(connection, query, hits)
    for name, stage in pipeline.stages:
        hits = await _guarded(stage, "process", query, hits)
        steps.append((name, hits))
    return Found(hits[: query.max_results], steps)


async def _with_vectors(connection: aiosqlite.Connection, query: Query, hits: Sequence[Hit]) -> list[Hit]:
    """The hits with the vectors of their chunks, in the space of the query, or else in the one that has the most."""
    if query.embedding is not None:
        space = query.embedding.space
    else:
        spaces = [known.space for known in (await known_spaces(connection)).values()]
        if not spaces:
            return list(hits)
        pending = {each: await count_pending(connection, each) for each in spaces}
        space = min(spaces, key=lambda each: pending[each])
    ids, rows = await read_vectors(connection, space, [hit.chunk.id for hit in hits])
    vectors = dict(zip(ids, rows, strict=True))
    return [attrs.evolve(hit, vector=vectors.get(hit.chunk.id)) for hit in hits]


async def _guarded(component: Any, method: str, *arguments: Any) -> list[Hit]:
    """The hits that a method of a plugin returns, or an error that names the plugin."""

    async def work() -> list[Hit]:
        return _checked(await _started(component, method, *arguments))

    hits: list[Hit] = await _blamed(component, work())
    return hits


async def _blamed(component: Any, work: Awaitable[Any]) -> Any:
    """What a plugin returns, or an error that names the plugin."""
    try:
        return await work
    except (Exception, SystemExit) as error:
        if isinstance(error, KipuError) or is_trouble_with_the_file(error):
            raise
        kind = type(component)
        mend = " To make its tables anew: kipu index --force" if isinstance(error, sqlite_errors()) else ""
        raise PluginFailedError(
            f"{kind.__name__} ({kind.__module__}) failed in this search: {type(error).__name__}: {error}.{mend}"
        ) from error


def _started(component: Any, method: str, *arguments: Any) -> Awaitable[Any]:
    work: Any = getattr(component, method)(*arguments)
    if not inspect.isawaitable(work):
        raise TypeError(f"{method}() must be `async def`")
    return work


def _checked(returned: Iterable[Any]) -> list[Hit]:
    if not isinstance(returned, Iterable):
        raise TypeError(f"it returned {returned!r}, and must return a list of hits")
    hits = list(returned)
    for hit in hits:
        if not isinstance(hit, Hit) or type(hit.chunk) is not StoredChunk:
            raise TypeError(f"what it returned has {hit!r} in it, which is no Hit with a chunk from Index.chunks()")
        if not all(isinstance(score, (int, float)) for score in dict(hit.scores).values()):
            raise TypeError(f"the scores of a hit are numbers by the name of an arm, unlike {hit.scores!r}")
        if not 0 <= hit.score <= 1:
            raise ValueError(f"it gave {hit.chunk.path} the score {hit.score}; scores are between 0 and 1")
    return hits


def _checked_scores(method: str, returned: Any, asked: set[Any]) -> dict[Any, float]:
    if not isinstance(returned, dict):
        raise TypeError(f"{method}() returned {returned!r}, and must return a dictionary of scores")
    for what, score in returned.items():
        if what not in asked:
            raise ValueError(f"{method}() spoke of {what!r}, which it was not asked for")
        if not isinstance(score, Real) or not 0 <= float(score) <= 1:
            raise ValueError(f"{method}() gave {what!r} the score {score!r}; scores are between 0 and 1")
    return {what: float(score) for what, score in returned.items()}


def result_of(hit: Hit, query: Query, explanation: Explanation | None = None) -> SearchResult:
    """What the caller gets for a hit."""
    chunk = hit.chunk
    return SearchResult(
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        score=round(hit.score, 6),
        scores={arm: round(score, 6) for arm, score in hit.scores.items()},
        snippet=snippet(chunk.text, query.text),
        text=chunk.text,
        source=chunk.source,
        heading=chunk.heading,
        heading_level=chunk.heading_level,
        chunk=chunk.chunk,
        metadata=chunk.metadata,
        outdated=hit.outdated,
        explanation=explanation,
    )


async def source_note(database: Database, source: str) -> str | None:
    """A sentence for somebody who asked for a source that no file has; None where there is one."""
    async with database.reader() as connection:
        known = await sources(connection)
    if source in known or (source == ARCHIVE and any(label.startswith(f"{ARCHIVE}/") for label in known)):
        return None
    return unknown_source(source, known)


def unknown_source(source: str, known: Iterable[str]) -> str:
    """A sentence for somebody who asked for a source that is not among those that are known."""
    have = f" There are: {', '.join(known)}." if known else ""
    return f'No memory file has the source "{source}".{did_you_mean(source, known)}{have}'
