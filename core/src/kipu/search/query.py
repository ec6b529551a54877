"""Check what a caller searches for."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from ..config import MOST_RESULTS
from ..errors import QueryError
from ..plugins.suggest import did_you_mean
from ..types import Query

if TYPE_CHECKING:
    from collections.abc import Iterable

# How many hits a strategy is asked for, so that post-processors have a choice.
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
    """Return a checked query.

    :raises QueryError: the text is no text, the number of results is not at least 1, or a date is invalid.
    """
    if not isinstance(text, str):
        raise QueryError(f"The query must be text, not {text!r}.")
    if type(max_results) is not int or not 1 <= max_results <= MOST_RESULTS:
        raise QueryError(f"max_results must be a whole number from 1 to {MOST_RESULTS:,}, not {max_results!r}.")
    if source is not None and not isinstance(source, str):
        raise QueryError(f"source must be the label of a source, not {source!r}.")
    # Bytes of a command line that are not valid UTF-8 become lone surrogates, which no database accepts.
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


def unknown_source(source: str, known: Iterable[str]) -> str:
    """Return a sentence about a source that is not among the known ones."""
    listed = f" There are: {', '.join(known)}." if known else ""
    return f'No memory file has the source "{source}".{did_you_mean(source, known)}{listed}'
