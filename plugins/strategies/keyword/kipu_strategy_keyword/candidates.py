"""The chunks that may be returned: those that BM25 puts first, over all sources or over some.

Over all, FTS5 counts and sorts. Over some, only their own rows may count, but FTS5 has no such BM25. Its score of a
term in a row is ``idf x (K1 + 1) x f / (f + K)``, where *f* is how often the row has the term, weighted by column, and
``K`` is ``K1 x (1 - B + B x length / mean length)``. For an infinite *f* it would be ``idf x (K1 + 1)``, so the ratio
of the two gives ``K / f`` without the idf of FTS5. That and the length of the row are enough to compute the score with
the mean length and the idf of the sources.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .ranking import B, Candidate
from .tables import PARAMETERS, within

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import aiosqlite

    from .tables import Condition

__all__ = ["Choice", "best", "best_of_sources", "idf", "load"]

_CANDIDATES = """
    SELECT keyword.rowid, keyword_chunks.file, keyword_files.text_length,
        keyword.path, keyword.heading, keyword.context, keyword.text, keyword.identifiers
    FROM keyword
    CROSS JOIN keyword_chunks ON keyword_chunks.id = keyword.rowid
    CROSS JOIN keyword_files ON keyword_files.id = keyword_chunks.file"""
# CROSS JOIN keeps SQLite from visiting the files first and asking FTS5 once for each of their chunks.
_FILTERED = """
    CROSS JOIN kipu_chunks ON kipu_chunks.id = keyword.rowid
    CROSS JOIN kipu_files ON kipu_files.id = kipu_chunks.file_id"""
_INFINITE = ", ".join(["1e15"] * 5)
_LOWEST_IDF = 1e-6
_DIGITS = 9  # what comes after them is rounding


class Choice(NamedTuple):
    """What a chunk must have to be a candidate, and what it is judged by: terms in the query language of FTS5.

    A candidate has one of ``needed``; what it has of ``counted`` counts as well. ``columns`` restricts both to some
    columns; it is empty for all.
    """

    needed: Sequence[str]
    counted: Sequence[str] = ()
    columns: str = ""

    @property
    def expression(self) -> str:
        """All of it as one expression."""
        needed = " OR ".join(self.needed)
        if self.counted:
            needed = f"({needed}) AND ({' OR '.join(self.counted)})"
        return f"{self.columns} : ({needed})" if self.columns else needed

    @property
    def terms(self) -> list[tuple[str, int, bool]]:
        """Each term as an expression, how often it counts, and whether it is needed."""
        needed = [(term, 1 + (term in self.counted), True) for term in self.needed]
        terms = [*needed, *((term, 1, False) for term in self.counted if term not in self.needed)]
        return [(f"{self.columns} : {term}" if self.columns else term, times, first) for term, times, first in terms]


async def best(
    connection: aiosqlite.Connection, choice: Choice, weights: str, where: Condition, limit: int
) -> list[Candidate]:
    """Return the candidates that pass the filter, best first by the BM25 of FTS5.

    :param weights: those of the columns, separated by commas.
    """
    condition, parameters = where
    statement = f"""
        {_CANDIDATES} {"" if condition == "1" else _FILTERED}
        WHERE keyword MATCH ? AND rank MATCH ? AND ({condition}) ORDER BY rank LIMIT ?"""
    return await _read(connection, statement, [choice.expression, f"bm25({weights})", *parameters, limit])


async def best_of_sources(
    connection: aiosqlite.Connection,
    choice: Choice,
    idfs: Sequence[float],
    weights: str,
    sources: Condition,
    where: Condition,
    limit: int,
) -> list[Candidate]:
    """Return the candidates of some sources that pass the filter, best first by BM25 as if there were no other sources.

    :param idfs: that of each of ``choice.terms`` in the sources.
    :param where: the filter. It does not change the statistics.
    """
    condition, parameters = where
    is_filtered = condition != "1"
    only, named = within(sources)
    terms = [(term, times * idf, first) for (term, times, first), idf in zip(choice.terms, idfs, strict=True)]
    matches = f"""
        SELECT keyword.rowid AS id,
            worth / (1 + (bm25(keyword, {_INFINITE}) / bm25(keyword, {weights}) - 1)
                * ({1 - B} + {B} * tokens / own) / ({1 - B} + {B} * tokens / whole)) AS worth
        FROM mean CROSS JOIN term CROSS JOIN keyword
        CROSS JOIN keyword_chunks ON keyword_chunks.id = keyword.rowid
        {_FILTERED if is_filtered else ""}
        WHERE keyword MATCH expression {only} {f"AND ({condition})" if is_filtered else ""}"""
    # Materialized: SQLite calls bm25() too late if it merges these with the rest. The sign keeps it from asking FTS5
    # once for each row that is needed.
    statement = f"""
        WITH term(expression, worth, first) AS (VALUES {", ".join(["(?, ?, ?)"] * len(terms))}),
        mean(own, whole) AS MATERIALIZED (
            SELECT (SELECT total(tokens) / total(chunks) FROM keyword_sources AS kipu_files WHERE {sources[0]}),
                (SELECT total(tokens) / total(chunks) FROM keyword_sources)
        ),
        needed AS MATERIALIZED ({matches} AND first),
        counted AS MATERIALIZED ({matches} AND NOT first AND +keyword.rowid IN (SELECT id FROM needed))
        SELECT id FROM (SELECT * FROM needed UNION ALL SELECT * FROM counted)
        GROUP BY id ORDER BY round(sum(worth), {_DIGITS}) DESC, id LIMIT ?"""
    values = [value for term in terms for value in term]
    each = [*named, *parameters]
    rows = await connection.execute_fetchall(statement, [*values, *named, *each, *each, limit])
    by_id = {candidate.id: candidate for candidate in await load(connection, [row[0] for row in rows])}
    return [by_id[id] for (id,) in rows if id in by_id]


def idf(chunks: int, frequency: int) -> float:
    """Return the idf of a term, as FTS5 computes it: of a term that more than half of the chunks have, almost 0."""
    return max(_LOWEST_IDF, math.log((chunks - frequency + 0.5) / (frequency + 0.5)))


async def load(connection: aiosqlite.Connection, chunk_ids: Sequence[int]) -> list[Candidate]:
    """Return the chunks with these ids; those that are not indexed are left out."""
    found = []
    for start in range(0, len(chunk_ids), PARAMETERS):
        some = chunk_ids[start : start + PARAMETERS]
        statement = f"{_CANDIDATES} WHERE keyword.rowid IN ({', '.join('?' * len(some))})"
        found += await _read(connection, statement, some)
    return found


async def _read(connection: aiosqlite.Connection, statement: str, parameters: Sequence[Any]) -> list[Candidate]:
    rows = await connection.execute_fetchall(statement, parameters)
    return [
        Candidate(chunk, file, length, *(f" {field} " for field in fields)) for chunk, file, length, *fields in rows
    ]
