"""From the scores of several strategies to one.

A strategy's scores are first made comparable with those of the others, for this query: counted in standard deviations
from the mean (M. Montague and J. A. Aslam, "Relevance score normalization for metasearch", 2001), or replaced by ranks
(G. V. Cormack, C. L. A. Clarke and S. Buettcher, "Reciprocal rank fusion outperforms Condorcet and individual rank
learning methods", 2009, with k = 60). The fused score is their weighted mean over the strategies that can score the
chunk.

The default, `score_and_rank`, adds 1.5 / rank to the standard deviations. Scores tell how much better a chunk is, but
at the top they are often close to a tie, which the other strategy would turn round for no good reason: the rank lets a
strategy keep what it puts first.

Scores of whole files count, too: a chunk that says little by itself may be in a file that is all about the question (J.
P. Callan, "Passage-level evidence in document retrieval", 1994, joins both to rank documents). They are added in
standard deviations from the mean, within bounds, and from the fourth place on: what comes first is what answers by
itself, and not what is near to an answer. What lifts a chunk is three quarters, for each further chunk of a file, of
what it was for the one before, so that one file does not take all places.

That says which chunk is better, but not whether any is good: the best would always be 1. So what is returned is made
from the scores that the strategies themselves gave a chunk, which mean something alone: 1 - the product of what each
leaves open. A chunk that one strategy is sure of scores high, one of which two say a little somewhat higher than with
one, and a question that nothing answers low. Weights change the order alone, and so do whole files: a chunk has the
score of its place, the best score being that of the first.
"""

from __future__ import annotations

import math
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Scores = Mapping[int, float]

__all__ = ["FUSIONS", "PINNED", "FileScores", "fuse", "score_and_rank"]

_RANK_CONSTANT = 60

_RANK_BONUS = 1.5
"""What the first place is worth, in standard deviations. From 1 to 2 our figures hardly differ; without
it, a set whose questions name what they ask for loses three of a hundred first places that words alone get right.
"""

PINNED = 3
"""How many of the first places depend on the chunks alone."""

_MAX_SHIFT = 0.9
"""How far whole files can move a chunk, in standard deviations: from 0.75 to 1 our figures hardly differ."""

_DISCOUNT = 0.75
"""What a file that lifts counts for each further chunk, next to the one before. With 1, ten results come from fewer
files than without looking at files; with 0.5, the lines that answer come later.
"""

_SHARE_OF_ENTRIES = 0.25
"""What a file counts for one of its entries: they are about many things, and prose about one."""

_NOISE = 1e-9
"""What a standard deviation is above, unless all scores are equal, and the rest is rounding."""


def reciprocal_rank(scores: Scores) -> Scores:
    """Replace the scores by their ranks."""
    return {id: (_RANK_CONSTANT + 1) / (_RANK_CONSTANT + rank) for id, rank in _ranks(scores).items()}


def score_and_rank(scores: Scores) -> Scores:
    """Count in standard deviations above the mean, and add a bonus: whole for the best, half for the second..."""
    ranks = _ranks(scores)
    return {id: score + _RANK_BONUS / ranks[id] for id, score in _standardize(scores).items()}


FUSIONS: Mapping[str, Callable[[Scores], Scores]] = {
    "score-and-rank": score_and_rank,
    "reciprocal-rank": reciprocal_rank,
}


class FileScores(NamedTuple):
    """Scores of the whole files of chunks: the file of each chunk, and the scores and the weight of each strategy.

    ``entries`` are the ids of those chunks that are entries.
    """

    files: Mapping[int, str]
    scores: Mapping[str, Scores]
    weights: Mapping[str, float]
    entries: frozenset[int] = frozenset()


def fuse(
    scores: Mapping[str, Scores],
    weights: Mapping[str, float],
    normalise: Callable[[Scores], Scores],
    of_files: FileScores | None = None,
    ranking: Mapping[str, Scores] = MappingProxyType({}),
) -> list[tuple[int, float]]:
    """Return chunks with their fused scores in [0, 1], best first; of equal ones, the lower id first.

    :param scores: those of each strategy, in [0, 1], by the ids of the chunks that it can score.
    :param weights: that of each strategy.
    :param of_files: the scores of whole files, also by the ids of the chunks.
    :param ranking: what ranks the chunks of a strategy in place of its scores, by its name.
    """
    scoring = {name: by_id for name, by_id in scores.items() if by_id and weights[name]}
    comparable = {name: normalise(ranking.get(name, by_id)) for name, by_id in scoring.items()}
    ids = {id: None for by_id in scoring.values() for id in by_id}
    if not ids:
        return []
    fused = {id: _weighted(_at(comparable, id), weights) for id in ids}
    ranked = sorted(fused, key=lambda id: (-fused[id], id))
    places = sorted((1.0 - math.prod(1.0 - score for score in _at(scoring, id).values()) for id in ids), reverse=True)
    if of_files is not None and len(ranked) > PINNED:
        # In the unit of what it is added to, which differs from one fusion to the other.
        unit = _weighted({name: _deviation(by_id) for name, by_id in comparable.items()}, weights)
        shifts = _shifts(of_files, ranked)
        moved = {id: fused[id] + unit * shifts[id] for id in ranked[PINNED:]}
        ranked[PINNED:] = sorted(moved, key=moved.__getitem__, reverse=True)
    return list(zip(ranked, places, strict=True))


def _shifts(of_files: FileScores, ranked: Sequence[int]) -> Scores:
    """Return what whole files add to their chunks, in standard deviations; nothing where they have no score."""
    standard = {name: _standardize(by_id) for name, by_id in of_files.scores.items() if by_id}
    shifts: dict[int, float] = {}
    earlier: Counter[str] = Counter()
    for id in ranked:
        file = of_files.files[id]
        value = math.fsum(of_files.weights[name] * each for name, each in _at(standard, id).items())
        value *= _SHARE_OF_ENTRIES if id in of_files.entries else 1.0
        # Bounded: one file that is like no other says no more than one that is clearly better.
        bounded = _MAX_SHIFT * math.tanh(value / _MAX_SHIFT)
        # A file that lowers lowers all of its chunks alike: else the worse ones would overtake the better.
        shifts[id] = bounded * _DISCOUNT ** earlier[file] if bounded > 0 else bounded
        earlier[file] += 1
    return shifts


def _at(scores: Mapping[str, Scores], id: int) -> dict[str, float]:
    """Return the scores of a chunk by the strategies that have one."""
    return {name: by_id[id] for name, by_id in scores.items() if id in by_id}


def _ranks(scores: Scores) -> Mapping[int, int]:
    """Return the rank of each chunk, from 1; those with equal scores share the best of theirs."""
    first: dict[float, int] = {}
    for rank, score in enumerate(sorted(scores.values(), reverse=True), 1):
        first.setdefault(score, rank)
    return {id: first[score] for id, score in scores.items()}


def _weighted(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the mean of the values of strategies, each by its weight."""
    total = math.fsum(weights[name] for name in values)
    return math.fsum(weights[name] * value for name, value in values.items()) / total


def _standardize(scores: Scores) -> Scores:
    """Count in standard deviations above the mean."""
    mean, deviation = _mean(scores), _deviation(scores)
    return {id: (score - mean) / deviation for id, score in scores.items()} if deviation else dict.fromkeys(scores, 0.0)


def _mean(scores: Scores) -> float:
    return math.fsum(scores.values()) / len(scores)


def _deviation(scores: Scores) -> float:
    mean = _mean(scores)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores.values()) / len(scores))
    return deviation if deviation > _NOISE else 0.0
