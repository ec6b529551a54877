"""From the scores of several arms to one.

An arm's scores are first made comparable with those of the others, for this query: divided by the best (as in C. C.
Vogt and G. W. Cottrell, "Fusion via a linear combination of scores", 1999), stretched from the lowest to the highest
(J. H. Lee, "Analyses of multiple evidence combination", 1997), counted in standard deviations from the mean (M.
Montague and J. A. Aslam, "Relevance score normalization for metasearch", 2001), or replaced by ranks (G. V. Cormack,
C. L. A. Clarke and S. Buettcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods",
2009, with k = 60). What is fused is their weighted mean over the arms that can judge the chunk.

The default, `score_and_rank`, adds 1.75 / rank to the standard deviations. Scores tell how much better a chunk is, but
at the top they are often close to a tie, which the other arm would turn round for no good reason: the rank lets an arm
keep what it puts first.

What an arm says of whole files counts, too: a chunk that says little by itself may stand in a file that is all about
the question (J. P. Callan, "Passage-level evidence in document retrieval", 1994, joins both to rank documents). It is
added in standard deviations from the mean, within bounds, and from the fourth place on: what comes first is what
answers by itself, and not what stands near to an answer. What lifts a chunk is three quarters, for each further chunk
of a file, of what it was for the one before, so that one file does not take all places.

That says which chunk is better, but not whether any is good: the best would always be 1. So the best chunk gets the
weighted mean of the scores that the arms themselves gave it, and the others are in proportion. The scores of the arms
mean something by themselves; so do the fused ones, and those of a question that nothing answers are low. Whole files
change the order alone: the chunk that they bring to a place has the score that belongs to the place.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Scores = Mapping[int, float]

__all__ = ["FUSIONS", "KEPT", "OfFiles", "fuse", "score_and_rank"]

_RANK_CONSTANT = 60

_RANK_BONUS = 1.75
"""What the first place is worth, in standard deviations. From 1 to 2 our figures hardly differ; without
it, a set whose questions name what they ask for loses three of a hundred first places that words alone get right.
"""

KEPT = 3
"""How many of the first places are a matter of the chunks alone."""

_FARTHEST = 0.9
"""How far whole files can move a chunk, in standard deviations: from 0.75 to 1 our figures hardly differ."""

_FURTHER = 0.75
"""What a file that lifts counts for each further chunk, next to the one before. With 1, ten results come from fewer
files than without looking at files; with 0.5, the lines that answer come later.
"""

_NOISE = 1e-9
"""What a standard deviation is above, unless all scores are equal, and the rest is rounding."""


def maximum(scores: Scores) -> Scores:
    """Divide by the best score."""
    best = max(scores.values())
    return {id: score / best for id, score in scores.items()} if best else scores


def minmax(scores: Scores) -> Scores:
    """Stretch from the lowest score, 0, to the best, 1."""
    lowest, best = min(scores.values()), max(scores.values())
    return {id: (score - lowest) / (best - lowest) for id, score in scores.items()} if best > lowest else scores


def zscore(scores: Scores) -> Scores:
    """Count in standard deviations above the mean."""
    mean, deviation = _mean(scores), _deviation(scores)
    return {id: (score - mean) / deviation for id, score in scores.items()} if deviation else dict.fromkeys(scores, 0.0)


def reciprocal_rank(scores: Scores) -> Scores:
    """Forget the scores but for their order."""
    return {id: (_RANK_CONSTANT + 1) / (_RANK_CONSTANT + rank) for id, rank in _ranks(scores).items()}


def score_and_rank(scores: Scores) -> Scores:
    """Count in standard deviations above the mean, and add a bonus: whole for the best, half for the second..."""
    ranks = _ranks(scores)
    return {id: score + _RANK_BONUS / ranks[id] for id, score in zscore(scores).items()}


def _ranks(scores: Scores) -> Mapping[int, int]:
    """Return the rank of each chunk, from 1; those with equal scores share the best of theirs."""
    first: dict[float, int] = {}
    for rank, score in enumerate(sorted(scores.values(), reverse=True), 1):
        first.setdefault(score, rank)
    return {id: first[score] for id, score in scores.items()}


FUSIONS: Mapping[str, Callable[[Scores], Scores]] = {
    "score-and-rank": score_and_rank,
    "maximum": maximum,
    "minmax": minmax,
    "zscore": zscore,
    "reciprocal-rank": reciprocal_rank,
}


class OfFiles(NamedTuple):
    """What arms think of the whole files of chunks: the file of each chunk, the scores and the weight of each arm."""

    files: Mapping[int, str]
    scores: Mapping[str, Scores]
    weights: Mapping[str, float]


def fuse(
    scores: Mapping[str, Scores],
    weights: Mapping[str, float],
    normalise: Callable[[Scores], Scores],
    of_files: OfFiles | None = None,
) -> list[tuple[int, float]]:
    """Return chunks with their fused scores in [0, 1], best first; of equal ones, the lower id first.

    :param scores: those of each arm, in [0, 1], by the ids of the chunks that it can judge.
    :param weights: that of each arm.
    :param of_files: what arms think of whole files; all of this is by the ids of the chunks, too.
    """
    judging = {name: of_arm for name, of_arm in scores.items() if of_arm and weights[name]}
    comparable = {name: normalise(of_arm) for name, of_arm in judging.items()}
    ids = {id: None for of_arm in judging.values() for id in of_arm}
    if not ids:
        return []
    fused = {id: _weighted(_at(comparable, id), weights) for id in ids}
    ranked = sorted(fused, key=lambda id: (-fused[id], id))
    highest, lowest = fused[ranked[0]], min(0.0, fused[ranked[-1]])
    share = _weighted(_at(judging, ranked[0]), weights) / (highest - lowest) if highest > lowest else 0.0
    places = [min(1.0, max(0.0, share * (fused[id] - lowest))) for id in ranked]
    if of_files is not None and len(ranked) > KEPT:
        # In the unit of what it is added to, which differs from one fusion to the other.
        unit = _weighted({name: _deviation(of_arm) for name, of_arm in comparable.items()}, weights)
        evidence = _evidence(of_files, ranked)
        moved = {id: fused[id] + unit * evidence[id] for id in ranked[KEPT:]}
        ranked[KEPT:] = sorted(moved, key=moved.__getitem__, reverse=True)
    return list(zip(ranked, places, strict=True))


def _evidence(of_files: OfFiles, ranked: Sequence[int]) -> Scores:
    """Return what whole files add to their chunks, in standard deviations; nothing where they are not judged."""
    standard = {name: zscore(of_arm) for name, of_arm in of_files.scores.items() if of_arm}
    evidence: dict[int, float] = {}
    earlier: Counter[str] = Counter()
    for id in ranked:
        file = of_files.files[id]
        value = math.fsum(of_files.weights[name] * each for name, each in _at(standard, id).items())
        # Bounded: one file that is like no other says no more than one that is clearly better.
        bounded = _FARTHEST * math.tanh(value / _FARTHEST)
        # A file that lowers lowers all of its chunks alike: else the worse ones would overtake the better.
        evidence[id] = bounded * _FURTHER ** earlier[file] if bounded > 0 else bounded
        earlier[file] += 1
    return evidence


def _at(scores: Mapping[str, Scores], id: int) -> dict[str, float]:
    """Return what the arms that can judge a chunk give it."""
    return {name: of_arm[id] for name, of_arm in scores.items() if id in of_arm}


def _weighted(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the mean of what arms say, each by its weight."""
    total = math.fsum(weights[name] for name in values)
    return math.fsum(weights[name] * value for name, value in values.items()) / total


def _mean(scores: Scores) -> float:
    return math.fsum(scores.values()) / len(scores)


def _deviation(scores: Scores) -> float:
    mean = _mean(scores)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores.values()) / len(scores))
    return deviation if deviation > _NOISE else 0.0
