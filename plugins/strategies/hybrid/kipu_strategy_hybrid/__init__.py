"""Search by meaning and by words at once, for Kipu: the strategy ``hybrid``.

Other strategies search side by side. Every chunk that any of them finds is scored by all of them, and the scores are
fused (`fusion`), with their scores of whole files. A strategy that searches by vectors counts less where its embedder
knows little of the query's language.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence  # cattrs reads the types of options
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from kipu import hookimpl
from kipu.errors import ConfigurationError
from kipu.markdown import is_entry
from kipu.options import Rule, one_of, option
from kipu.types import Hit, StrategyBase

from .fusion import FUSIONS, PINNED, FileScores, fuse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kipu.types import Arms, Query, Register, StoredChunk, Strategy

Answer = TypeVar("Answer")

__all__ = ["Hybrid", "kipu_register_strategies"]

WEIGHTS = {"vector": 0.39, "keyword": 0.61}

FILE_WEIGHTS = {"vector": 0.45, "keyword": 0.25}
"""What a strategy's score of a file counts. Around it, from 0.35 and 0.2 on, what we measure hardly differs."""

MAX_WEIGHT = 1000

SHARE_BEFORE, SHARE_AFTER = 0.125, 0.1
"""What a score by vectors of the chunk before an entry, and of the one after, counts in the order of chunks."""

_PARAMETERS = 900  # of one statement: some builds of SQLite take no more than 999

SURE = 0.5
"""The best score from which on another strategy has its full weight. From 0.4 to 0.7, what we measure hardly differs.
"""

MIN_SHARE = 0.01
"""Fraction of its weight that another strategy keeps in any case, to decide on chunks that no other one can score."""


def _are_weights(weights: Any) -> bool:
    return isinstance(weights, Mapping) and all(
        isinstance(name, str)
        and isinstance(weight, (int, float))
        and not isinstance(weight, bool)
        and 0 < weight <= MAX_WEIGHT
        for name, weight in weights.items()
    )


_some_weights = Rule(
    f"a table of strategies, each with a weight above 0, at most {MAX_WEIGHT}",
    lambda weights: bool(weights) and _are_weights(weights),
)
_any_weights = Rule(f"a table of weights, each above 0, at most {MAX_WEIGHT}", _are_weights)


@attrs.frozen
class Hybrid(StrategyBase):
    """Searches with several strategies at once, and scores what any of them finds by all of them.

    ``weights`` are the names of strategies with their weights; any installed one can be used. ``fusion`` says how the
    scores of a strategy are made comparable with those of the others before the weighted mean is taken:
    ``score-and-rank`` counts standard deviations from the mean and adds 1.5 / rank, ``reciprocal-rank`` looks at ranks
    alone.

    ``file_weights`` say what a strategy's score of the whole file of a chunk counts. It changes the order from the
    fourth place on; the first three depend on the chunks themselves. ``file_weights = {}`` looks at no files.

    A chunk that a strategy cannot score, such as one without a vector, is scored by the others; a strategy that cannot
    answer at all leaves the search to the others. With one strategy left, its hits are returned as they are. A strategy
    whose best score is below a half counts less in proportion; one that searches by vectors counts less where the
    embedder does not know the language of the query.

    Scores are explained in `kipu_strategy_hybrid.fusion`: they are high where the strategies find a clear match.
    """

    weights: Mapping[str, float] = option(
        WEIGHTS.copy, _some_weights, "The strategies to search with, each with its weight."
    )
    fusion: str = option(
        "score-and-rank", one_of(*FUSIONS), f"How scores of strategies are made comparable: {', '.join(FUSIONS)}."
    )
    file_weights: Mapping[str, float] = option(
        FILE_WEIGHTS.copy,
        _any_weights,
        "What a strategy's score of whole files counts, by the name of the strategy; none with {}.",
    )

    strategies: Sequence[str] = attrs.field(init=False, repr=False, eq=False)
    """The names of the strategies that are combined."""

    @strategies.default
    def _names(self) -> Sequence[str]:
        return tuple(self.weights)

    def __attrs_post_init__(self) -> None:
        # The default of file_weights is meant for the default weights.
        unknown = [] if self.file_weights == FILE_WEIGHTS else sorted(self.file_weights.keys() - self.weights.keys())
        if unknown:
            raise ConfigurationError(
                f"file_weights names {', '.join(unknown)}, but the strategies are {', '.join(self.weights)}"
            )

    async def search(self, query: Query, index: Arms) -> list[Hit]:
        """Return what the strategies find, best first by the scores of all of them."""
        answers = await _for_each(self.weights, lambda name: index.search(name, query))
        found = {name: hits for name, hits in answers.items() if hits is not None}
        if len(found) < 2:
            return [hit for hits in found.values() for hit in hits]
        chunks = {hit.chunk.id: hit.chunk for hits in found.values() for hit in hits}
        scoring_files = [name for name in found if name in self.file_weights and len(chunks) > PINNED]
        scores, file_scores = await _side_by_side(
            _for_each(found, lambda name: _score(name, found[name], chunks, query, index)),
            _for_each(scoring_files, lambda name: _score_files(name, chunks, query, index)),
        )
        confidences = {name: _confidence(query, scores[name], by_vectors=index.needs_vectors(name)) for name in found}
        weights = {name: self.weights[name] * confidence for name, confidence in confidences.items()}
        by_vectors = [name for name in found if index.needs_vectors(name)]
        entries = [id for id, chunk in chunks.items() if is_entry(chunk.text)]
        ranking = await _for_each(
            by_vectors, lambda name: _beside_neighbours(name, scores[name], entries, query, index)
        )
        of_files = self._of_files(chunks, entries, file_scores, confidences)
        ranked = fuse(scores, weights, FUSIONS[self.fusion], of_files, ranking)
        shown = scores | {f"{name}.file": by_id for name, by_id in file_scores.items()}
        return [
            Hit(chunks[id], score, {name: by_id[id] for name, by_id in shown.items() if id in by_id})
            for id, score in ranked[: query.limit]
        ]

    def _of_files(
        self,
        chunks: Mapping[int, StoredChunk],
        entries: Sequence[int],
        scores: Mapping[str, Mapping[int, float]],
        confidences: Mapping[str, float],
    ) -> FileScores | None:
        if not scores:
            return None
        weights = {name: self.file_weights[name] * confidences[name] for name in scores}
        return FileScores({id: chunk.path for id, chunk in chunks.items()}, scores, weights, frozenset(entries))


async def _for_each(names: Iterable[str], ask: Callable[[str], Awaitable[Answer]]) -> dict[str, Answer]:
    """Return the answer for each of the names; all of them are asked side by side."""
    asked = list(names)
    return dict(zip(asked, await _side_by_side(*map(ask, asked)), strict=True))


async def _side_by_side(*works: Awaitable[Any]) -> list[Any]:
    """Return all answers. Where one fails, the others are cancelled first: the search is over for them too."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _score(
    name: str, hits: Sequence[Hit], chunks: Mapping[int, StoredChunk], query: Query, index: Arms
) -> Mapping[int, float]:
    """Return a strategy's scores of all chunks: of its hits, and of those that others found."""
    found = {hit.chunk.id: hit.score for hit in hits}
    others = await index.score(name, query, [id for id in chunks if id not in found])
    return {**others, **found}


async def _beside_neighbours(
    name: str, scores: Mapping[int, float], entries: Sequence[int], query: Query, index: Arms
) -> Mapping[int, float]:
    """Return a strategy's scores of chunks; of an entry, with shares of those of the chunks before and after it.

    The vector of an entry says nothing of what stands around it, such as the question that it answers. The shares are
    of what is above the mean: else any entry would come before prose, whose vector says it already.
    """
    neighbours: list[Any] = []
    ids = [id for id in entries if id in scores]
    for start in range(0, len(ids), _PARAMETERS):
        some = ids[start : start + _PARAMETERS]
        neighbours += await index.connection.execute_fetchall(
            "SELECT one.id, other.id, other.position - one.position FROM kipu_chunks AS one "
            "CROSS JOIN kipu_chunks AS other ON other.file_id = one.file_id "
            "AND other.position IN (one.position - 1, one.position + 1) "
            f"WHERE one.id IN ({', '.join('?' * len(some))})",
            some,
        )
    others = {other for _, other, _ in neighbours} - scores.keys()
    known = {**await index.score(name, query, list(others)), **scores} if others else scores
    mean = sum(scores.values()) / max(len(scores), 1)
    ranking = dict(scores)
    for id, other, distance in neighbours:
        ranking[id] += (SHARE_BEFORE if distance < 0 else SHARE_AFTER) * (known.get(other, mean) - mean)
    return ranking


async def _score_files(name: str, chunks: Mapping[int, StoredChunk], query: Query, index: Arms) -> Mapping[int, float]:
    """Return a strategy's score of the file of each chunk, by the id of the chunk."""
    paths = list(dict.fromkeys(chunk.path for chunk in chunks.values()))
    scores = await index.score_files(name, query, paths)
    return {id: scores[chunk.path] for id, chunk in chunks.items() if chunk.path in scores}


def _confidence(query: Query, scores: Mapping[int, float], *, by_vectors: bool) -> float:
    """Return the fraction of its weight that a strategy keeps for a query.

    A question that shares one word in four with the best chunk says little by its words, and what is found by them
    should not come before what its meaning finds: so a low best score counts less. The score of the nearest vector says
    nothing of the kind, since each model has a scale of its own: there, what the embedder knows of the query counts.
    """
    if not by_vectors:
        return min(1.0, max(MIN_SHARE, max(scores.values(), default=0.0) / SURE))
    return query.embedding.confidence if query.embedding else 1.0


@hookimpl
def kipu_register_strategies(register: Register[Strategy]) -> None:
    """Register the strategy ``hybrid``."""
    register("hybrid", Hybrid)
