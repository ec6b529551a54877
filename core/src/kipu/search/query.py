"""Check what a caller searches for."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from ..config import MOST_RESULTS
from ..errors import QueryError
from ..index.filters import TAGS, comparable, comparable_key, comparable_tag, matches_path
from ..index.queries import file_infos, known_properties
from ..markdown import check_metadata
from ..plugins.suggest import did_you_mean
from ..types import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    import aiosqlite

# How many hits a strategy is asked for, so that post-processors have a choice.
_HITS_PER_RESULT = 4
_FEWEST_HITS = 40
_MOST_FILTERS = 100


def make_query(
    text: str,
    *,
    max_results: int,
    sources: Sequence[str] = (),
    since: date | str | None = None,
    until: date | str | None = None,
    as_of: date | str | None = None,
    tag: str | Sequence[str] | None = None,
    path: object = None,
    where: Mapping[str, Any] | None = None,
    today: date | None = None,
) -> Query:
    """Return a checked query.

    :raises QueryError: the text is no text, the number of results is not at least 1, or a filter is invalid.
    """
    if not isinstance(text, str):
        raise QueryError(f"The query must be text, not {text!r}.")
    if type(max_results) is not int or not 1 <= max_results <= MOST_RESULTS:
        raise QueryError(f"max_results must be a whole number from 1 to {MOST_RESULTS:,}, not {max_results!r}.")
    first, last = _date("since", since), _date("until", until)
    if first and last and first > last:
        raise QueryError(f"since ({first}) is after until ({last}): nothing can be between them.")
    tags = [comparable_tag(each) for each in texts_of("tag", tag, "a tag such as infrastructure or #project/alpha")]
    pairs = list(_pairs(where))
    if not all(tags) or (path is not None and not str(path).strip(" /")):
        raise QueryError("A tag or a path to search for is empty.")
    if (count := len(sources) + len(tags) + len(pairs)) > _MOST_FILTERS:
        raise QueryError(f"A query has at most {_MOST_FILTERS} sources, tags and properties, not {count:,}.")
    return Query(
        _valid(text),
        max_results,
        max(_FEWEST_HITS, _HITS_PER_RESULT * max_results),
        sources,
        first,
        last,
        _date("as_of", as_of),
        today,
        tuple(tags),
        None if path is None else _path(str(path)),
        tuple(pairs),
    )


def _valid(text: str) -> str:
    # Bytes of a command line that are not valid UTF-8 become lone surrogates, which no database accepts.
    return text.encode("utf-8", "replace").decode("utf-8")


def texts_of(name: str, value: str | Sequence[str] | None, what: str) -> list[str]:
    """Return one text or several as a list, without repeats.

    :raises QueryError: it is neither.
    """
    values = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple, set, frozenset)) or not all(isinstance(each, str) for each in values):
        raise QueryError(f"{name} must be {what}, or a list of them, not {value!r}.")
    return list(dict.fromkeys(map(_valid, values)))


def _path(pattern: str) -> str:
    try:
        matches_path("memory/any.md", pattern := _valid(pattern))
    except ValueError as error:
        raise QueryError(f"path must be a pattern such as projects/**, not {pattern!r}: {error}.") from None
    return pattern


def _pairs(where: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield the pairs that must match: of a list, each value."""
    if where is not None and not isinstance(where, dict):
        raise QueryError(f'where must be a dictionary such as {{"status": "done"}}, not {where!r}.')
    for key, value in (where or {}).items():
        values = value if isinstance(value, (list, tuple)) else [value]
        texts = [text for each in values for text in check_metadata({"value": each}).values()]
        if not isinstance(key, str) or not key.strip() or not texts:
            raise QueryError(f"where must be keys with their values, such as status=done, not {key!r}: {value!r}.")
        yield from ((comparable_key(_valid(key)), comparable(text)) for text in texts)


def given_filters(query: Query) -> Iterator[tuple[str, object]]:
    """Yield the filters of a query by name, each with its value as a caller writes it."""
    yield from (("source", source) for source in query.sources)
    for name in ("since", "until", "as_of", "path"):
        if (value := getattr(query, name)) is not None:
            yield name, value
    yield from (("tag", tag) for tag in query.tags)
    yield from (("where", f"{key}={value}") for key, value in query.where)


def _date(name: str, value: date | str | None) -> date | None:
    if value is None or (isinstance(value, date) and not isinstance(value, datetime)):
        return value
    if isinstance(value, datetime):
        return value.date()
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise QueryError(f"{name} must be a date such as 2026-11-29, not {value!r}.") from None


def unknown_source(source: str, known: Iterable[str]) -> str:
    """Return a sentence about a source that is not among the known ones."""
    listed = f" There are: {', '.join(known)}." if known else ""
    return f'No memory file has the source "{source}".{did_you_mean(source, known)}{listed}'


async def unmatched_filters(connection: aiosqlite.Connection, query: Query) -> list[str]:
    """Return a sentence for each of the query's tags, properties and paths that nothing in its sources has."""
    asked: list[tuple[str, str, dict[str, Any]]] = [
        *(("tag", tag, {"tags": (tag,)}) for tag in query.tags),
        *(("property", f"{key}={value}", {"where": ((key, value),)}) for key, value in query.where),
        *([("path", query.path, {"path": query.path})] if query.path else []),
    ]
    sentences = []
    for kind, name, alone in asked[:5]:  # each is compared with all that there are
        if not await file_infos(connection, Query("", sources=query.sources, **alone)):
            pairs = await known_properties(connection, query.sources)
            known = {"tag": [value for key, value in pairs if key == TAGS], "property": [f"{k}={v}" for k, v in pairs]}
            sentences.append(f'No memory has the {kind} "{name}".{did_you_mean(name, known.get(kind, ()))}')
    return sentences
