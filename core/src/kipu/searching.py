"""Turns a question into results: query, strategy, post-processors, snippets."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from .config import MOST_RESULTS
from .driver import is_trouble_with_the_file
from .errors import KipuError, PluginFailedError, QueryError
from .index import IndexReader, indexed_strategies, outdated, sources
from .plugins import did_you_mean
from .snippets import snippet
from .types import Hit, Query, SearchResult, StoredChunk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from .database import Database
    from .types import PostProcessor, Strategy

__all__ = ["make_query", "search", "source_note", "unknown_source"]

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
    return Query(text, max_results, limit, source, first, last)


def _date(name: str, value: date | str | None) -> date | None:
    if value is None or (isinstance(value, date) and not isinstance(value, datetime)):
        return value
    if isinstance(value, datetime):
        return value.date()
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise QueryError(f"{name} must be a date such as 2026-11-29, not {value!r}.") from None


async def search(
    database: Database, query: Query, name: str, strategy: Strategy, postprocessors: Sequence[PostProcessor]
) -> list[SearchResult]:
    """Run a query through a strategy and the post-processors. A strategy whose tables were not made yet finds nothing.

    :raises PluginFailedError: one of them raised.
    """
    async with database.reader() as connection:
        if await outdated(connection, indexed_strategies({name: strategy})):
            return []
        hits = (await _guarded(strategy, "search", query, IndexReader(connection)))[: query.limit]
    for postprocessor in postprocessors:
        hits = await _guarded(postprocessor, "process", query, hits)
    return [_result(hit, query) for hit in hits[: query.max_results]]


async def _guarded(component: Any, method: str, *arguments: Any) -> list[Hit]:
    """The hits that a method of a plugin returns, or an error that names the plugin."""
    try:
        return _checked(await _started(component, method, *arguments))
    except (Exception, SystemExit) as error:
        if isinstance(error, KipuError) or is_trouble_with_the_file(error):
            raise
        kind = type(component)
        raise PluginFailedError(
            f"{kind.__name__} ({kind.__module__}) failed in this search: {type(error).__name__}: {error}."
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


def _result(hit: Hit, query: Query) -> SearchResult:
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
    )


async def source_note(database: Database, source: str) -> str | None:
    """A sentence for somebody who asked for a source that no file has; None where there is one."""
    async with database.reader() as connection:
        known = await sources(connection)
    return None if source in known else unknown_source(source, known)


def unknown_source(source: str, known: Iterable[str]) -> str:
    """A sentence for somebody who asked for a source that is not among those that are known."""
    have = f" There are: {', '.join(known)}." if known else ""
    return f'No memory file has the source "{source}".{did_you_mean(source, known)}{have}'
