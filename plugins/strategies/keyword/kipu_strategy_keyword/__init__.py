"""Search by words, for Kipu: the strategy ``keyword``.

A text becomes tokens (`tokens`, `stemming`), which SQLite's FTS5 keeps (`tables`). A query becomes terms (`terms`);
the candidates that BM25 puts first are found (`candidates`), and they are ranked and scored with more care (`ranking`).
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
from typing import TYPE_CHECKING

import attrs

from kipu import hookimpl
from kipu.options import number, option
from kipu.types import Hit, Query, StrategyBase

from . import candidates, tables
from .candidates import Choice
from .ranking import Weights, cover, has_any, rank
from .terms import Term, read_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import aiosqlite

    from kipu.types import Index, Register, StoredChunk, Strategy

    from .ranking import Candidate, Corpus, Frequency
    from .tables import Condition
    from .terms import Terms

__all__ = ["Keyword", "kipu_register_strategies"]

MINIMUM_CANDIDATES = 300
"""How many chunks are ranked with care, at least; from 300 on, more change no figure that we measure."""

MAXIMUM_VISITED = 2_000
"""How many occurrences of terms a search looks at before it ignores the commoner half of its terms."""

_WEIGHT = number(0, 1_000)

_LITERAL_COLUMNS = "{path heading text identifiers}"

MAXIMUM_SEARCHED = 64
"""How many terms are searched at once: the rarest."""


@attrs.frozen
class Keyword(StrategyBase):
    """Searches by words: BM25 over stemmed words and n-grams, with identifiers and quoted phrases first.

    A chunk is found if it has any word of the query; stop words count only where there is nothing else. A chunk that
    has an identifier of the query (``ZX-99817``, ``foo_bar``, ``src/app/main.py``) or a phrase that the query puts
    in double quotes comes before every chunk that has not. Chunks without them are still returned, with scores that
    are lower: at most *m* / (*m* + 1), where *m* is the number of such identifiers and phrases. A phrase is looked for
    word by word, after stemming, in text, heading and path; not in the context.

    Scores are explained in `kipu_strategy_keyword.ranking`: 1 is a chunk that has everything that was asked for, and
    words that are rare weigh more than others. How rare a word is depends on the source alone that the query names, as
    all else does, and else on the whole workspace.

    Any text is a query, and of a long one the 64 rarest of the first 200 words are searched. In a large workspace
    (more than 2,000 occurrences of the query's words), a chunk that has only the commoner half of these is left out.

    ``heading_weight``, ``context_weight`` and ``path_weight`` say what a word counts there, one in the text being 1.
    ``file_share`` is the part that the relevance of the whole file has in the rank of its chunks: 0 looks at each chunk
    alone. None of the options changes the index.
    """

    heading_weight: float = option(1.0, _WEIGHT, "What a word in the heading counts, one in the text being 1.")
    context_weight: float = option(0.5, _WEIGHT, "What a word in the context counts, one in the text being 1.")
    path_weight: float = option(0.3, _WEIGHT, "What a word in the file's path counts, one in the text being 1.")
    file_share: float = option(0.5, _WEIGHT, "What the relevance of the whole file counts, that of the chunk being 1.")

    @property
    def schema_version(self) -> int:
        """The version of the tables and of what becomes a token."""
        return 6

    async def create(self, connection: aiosqlite.Connection) -> None:
        """Create empty tables."""
        await tables.create(connection)

    async def add(self, connection: aiosqlite.Connection, chunks: Sequence[StoredChunk]) -> None:
        """Index chunks; what was indexed under the same ids is replaced."""
        await tables.add(connection, chunks)

    async def remove(self, connection: aiosqlite.Connection, chunk_ids: Sequence[int]) -> None:
        """Remove chunks."""
        await tables.remove(connection, chunk_ids)

    async def scrub(self, connection: aiosqlite.Connection) -> None:
        """Leave nothing of what was removed."""
        await tables.scrub(connection)

    async def search(self, query: Query, index: Index) -> list[Hit]:
        """Return the chunks that have any of the query's terms and pass its filters, best first."""
        if query.limit < 1:
            return []
        scores = dict((await self._ranked(query, index))[: query.limit])
        chunks = await index.chunks(scores)
        return [
            Hit(chunk=chunks[chunk_id], score=score, scores={"keyword": score})
            for chunk_id, score in scores.items()
            if chunk_id in chunks
        ]

    async def score(self, query: Query, index: Index, ids: Sequence[int]) -> dict[int, float]:
        """Return the scores of chunks, on the scale of those of a search; 0.0 for a chunk without a word of the query.

        Chunks that are not indexed have no score, and none has one if the query has no words.
        """
        terms = read_terms(query.text)
        if not terms.alternatives or not ids:
            return {}
        found = await candidates.load(index.connection, ids)
        scores = dict.fromkeys((candidate.id for candidate in found), 0.0)
        matching = [candidate for candidate in found if has_any(candidate, terms.alternatives)]
        if matching:  # else the search, whose best chunk gives the scale, would be for nothing
            ranked = await self._ranked(query, index, matching)
            scores |= {chunk_id: score for chunk_id, score in ranked if chunk_id in scores}
        return scores

    async def score_files(self, query: Query, index: Index, paths: Sequence[str]) -> dict[str, float]:
        """Return the share of the query's terms that files have, somewhere, weighted by how few files have them.

        In a large workspace, the commoner half of the terms is not looked for, as in a search.
        """
        terms = read_terms(query.text).alternatives
        if not terms or not paths:
            return {}
        corpus, frequencies = await _measure(terms, index, _sources(query, index))
        _, essential = _searched(frequencies)
        found = await tables.terms_in_files(index.connection, essential, paths)
        return {path: cover(of_file, frequencies, corpus) for path, of_file in found.items()}

    async def _ranked(self, query: Query, index: Index, others: Sequence[Candidate] = ()) -> list[tuple[int, float]]:
        """Return the ids of the candidates and of ``others`` with their scores, best first."""
        terms = read_terms(query.text)
        if not terms.alternatives:
            return []
        sources = _sources(query, index)
        corpus, frequencies = await _measure(terms.alternatives, index, sources)
        found: dict[int, Candidate] = {}
        for choice in _choices(terms, frequencies):
            matches = await self._matches(choice, query, index, sources, corpus, frequencies)
            found.update((match.id, match) for match in matches)
        if not found:
            return []
        others = [other for other in others if other.id not in found]
        weights = Weights(self.heading_weight, self.context_weight, self.path_weight, self.file_share)
        # Some hundred candidates take some ten milliseconds, in which the event loop has other things to do.
        given = (list(found.values()), frequencies, terms.required, corpus, weights, others, terms.grammatical)
        return await asyncio.to_thread(rank, *given)

    async def _matches(
        self,
        choice: Choice,
        query: Query,
        index: Index,
        sources: Condition,
        corpus: Corpus,
        frequencies: Mapping[Term, Frequency],
    ) -> list[Candidate]:
        """Return the first candidates of a choice."""
        # FTS5 knows no exponents.
        weights = f"{self.path_weight:.9f}, {self.heading_weight:.9f}, {self.context_weight:.9f}, 1.0, 1.0"
        limit = max(MINIMUM_CANDIDATES, 5 * query.limit)
        connection, where = index.connection, index.where(query)
        if sources == tables.EVERYWHERE:
            return await candidates.best(connection, choice, weights, where, limit)
        expressions = [expression for expression, _, _ in choice.terms]
        if choice.columns:
            having = await tables.measure_frequencies(connection, expressions, sources)
        else:
            known = {term.expression: frequency for term, frequency in frequencies.items()}
            having = [known[expression] for expression in expressions]
        idfs = [candidates.idf(corpus.chunks, each.rows) for each in having]
        further = tables.EVERYWHERE if where == sources else where
        return await candidates.best_of_sources(connection, choice, idfs, weights, sources, further, limit)


def _sources(query: Query, index: Index) -> Condition:
    """Return the condition for the sources whose statistics count: those that the query names, or else all."""
    return index.where(Query(query.text, sources=query.sources)) if query.sources else tables.EVERYWHERE


async def _measure(terms: Sequence[Term], index: Index, sources: Condition) -> tuple[Corpus, dict[Term, Frequency]]:
    """Return the size of the sources, and how frequent each of the terms is there."""
    corpus = await tables.measure_corpus(index.connection, sources)
    expressions = [term.expression for term in terms]
    found = await tables.measure_frequencies(index.connection, expressions, sources)
    return corpus, dict(zip(terms, found, strict=True))


def _choices(terms: Terms, frequencies: Mapping[Term, Frequency]) -> list[Choice]:
    """Return what finds the candidates: all that may matter, and not half the index."""
    known, essential = _searched(frequencies)
    if not known:
        return []
    # The rest is only counted where one of the rarer terms is: it changes the order, and not what is visited.
    counted = [term.expression for term in known] if len(essential) < len(known) else ()
    required = [term.expression for term in terms.required if frequencies[term].rows]
    # Of very many chunks with a word, those that write it as the query does may not be among the first.
    forms = [term.form for term in essential if term.form and frequencies[term].rows > MINIMUM_CANDIDATES]
    choices = [
        Choice([term.expression for term in essential], counted),
        Choice(required, columns=_LITERAL_COLUMNS),
        Choice([Term(form, prefix=True).expression for form in forms], columns="identifiers"),
    ]
    return [choice for choice in choices if choice.needed]


def _searched(frequencies: Mapping[Term, Frequency]) -> tuple[Sequence[Term], Sequence[Term]]:
    """Return the terms that are anywhere, rarest first, and those of them whose every occurrence may be visited."""
    found = [term for term in frequencies if frequencies[term].rows]
    known = sorted(found, key=lambda term: frequencies[term].rows)[:MAXIMUM_SEARCHED]
    visited = list(itertools.accumulate(frequencies[term].rows for term in known))
    return known, known[: max(bisect.bisect_right(visited, MAXIMUM_VISITED), (len(known) + 1) // 2)]


@hookimpl
def kipu_register_strategies(register: Register[Strategy]) -> None:
    """Register the strategy ``keyword``."""
    register("keyword", Keyword)
