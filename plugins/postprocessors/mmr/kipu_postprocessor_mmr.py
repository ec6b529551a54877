"""Keeps results from repeating each other: maximal marginal relevance.

The method is that of Jaime Carbonell and Jade Goldstein, "The use of MMR, diversity-based reranking for reordering
documents and producing summaries", SIGIR 1998: hits are chosen one after the other, and each time the one is next for
which

    lambda x relevance - (1 - lambda) x similarity to the most similar hit that was chosen before

is greatest. Relevance is the hit's score divided by the best one. Similarity is the cosine of the hits' vectors, or 0
where that is negative: the opposite is no more different than another subject. A hit without a vector is compared by
words: the share of all tokens of two texts that both have (Jaccard's index).
"""

from __future__ import annotations

import asyncio
import math
import re
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import attrs

from kipu import hookimpl
from kipu.options import number, option
from kipu.types import PostProcessorBase

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kipu.types import Hit, PostProcessor, Query, Register, Vectors

    Numbers = NDArray[np.floating]

__all__ = ["Mmr"]

LIMIT = 400
"""How many hits are compared with each other, 4 for each of 100 results: the work grows with their square."""

ONE_THREAD = 2**18
"""How many products of numbers OpenBLAS adds up in the calling thread; for more it wakes others.

These go on looking for work for some ten milliseconds, which cost more than the product itself:
https://github.com/OpenMathLib/OpenBLAS, interface/gemm.c, SMP_THRESHOLD_MIN and GEMM_MULTITHREAD_THRESHOLD.
"""


@attrs.frozen
class Mmr(PostProcessorBase):
    """Choose hits that are relevant and unlike those before them (Carbonell and Goldstein 1998).

    ``lambda_param`` is the weight of relevance, and what is left to 1 that of being different: 1 changes nothing, and 0
    only looks for what is new after the first hit. Two hits are compared by the vectors of their chunks, and by words
    where one of them has none.

    Every hit stays, and keeps its score; the order changes. So the results are not sorted by score: a hit that repeats
    an earlier one comes later than its score would have it.
    """

    needs_vectors: ClassVar[bool] = True
    order: ClassVar[int] = 30

    lambda_param: float = option(
        0.7,
        number(0, 1),
        "The weight of relevance against diversity, in [0, 1]; 1 changes nothing.",
        per_call="mmr_lambda",
        converter=float,
    )

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """Return all hits in the order in which they are chosen; of two that are as good, the one that came first.

        Only the first 400 hits are reordered; the others follow them as they were.
        """
        if self.lambda_param == 1.0 or len(hits) < 2:
            return hits
        # Some hundred hits take some ten milliseconds, in which the event loop has other things to do.
        return await asyncio.to_thread(self._reorder, hits[:LIMIT]) + hits[LIMIT:]

    def _reorder(self, hits: list[Hit]) -> list[Hit]:
        import numpy as np

        best = max(hit.score for hit in hits) or 1.0
        gains = np.array([self.lambda_param * hit.score / best for hit in hits])
        return [hits[position] for position in choose(gains, (1.0 - self.lambda_param) * compare(hits))]


def choose(gains: Numbers, losses: Numbers) -> list[int]:
    """Return all positions in the order in which they are chosen.

    ``gains`` is what each is worth by itself. ``losses`` has a row for each, of what it takes off from the others once
    it is chosen; of several, only the greatest counts.
    """
    import numpy as np

    # The values of those that are left. Only the one chosen last can lower them, so no pair is compared twice.
    values = gains.copy()
    chosen: list[int] = []
    for _ in gains:
        chosen.append(int(values.argmax()))
        np.fmin(values, gains - losses[chosen[-1]], out=values)
        values[chosen[-1]] = -np.inf
    return chosen


def compare(hits: Sequence[Hit]) -> Numbers:
    """Return how similar every two hits are: by vectors where both have one, else by words."""
    import numpy as np

    known = [position for position, hit in enumerate(hits) if hit.vector is not None]
    if len(known) == len(hits):
        return by_vectors([hit.vector for hit in hits])
    similarities = by_words([hit.chunk.text for hit in hits])
    if known:
        similarities[np.ix_(known, known)] = by_vectors([hits[position].vector for position in known])
    return similarities


def by_vectors(vectors: Sequence[Vectors | None]) -> Numbers:
    """Compare by the cosine of vectors of length 1."""
    import numpy as np

    # Rounded, because the last digits of a product differ from one machine to the next.
    return products(np.stack([vector for vector in vectors if vector is not None])).round(5)


def by_words(texts: Sequence[str]) -> Numbers:
    """Compare texts by Jaccard's index of their tokens: how many both have, divided by how many any of them has."""
    import numpy as np

    token_sets = [tokens(text) for text in texts]
    columns = {token: column for column, token in enumerate(set().union(*token_sets))}
    has = np.zeros((len(texts), len(columns)), dtype=np.float32)
    for row, token_set in zip(has, token_sets, strict=True):
        row[[columns[token] for token in token_set]] = 1
    common, sizes = products(has), has.sum(axis=1)
    similarities: Numbers = common / (sizes[:, None] + sizes - common)
    return similarities


def products(matrix: Vectors) -> Numbers:
    """Return the products of all rows with each other, in blocks that one thread computes."""
    import numpy as np

    count, dimension = matrix.shape
    rows = max(1, math.isqrt(ONE_THREAD // dimension))
    result = np.empty((count, count))
    for one in range(0, count, rows):
        for other in range(one, count, rows):
            block = matrix[one : one + rows] @ matrix[other : other + rows].T
            result[one : one + rows, other : other + rows] = block
            result[other : other + rows, one : one + rows] = block.T
    return result


# Scripts that put no spaces between words: Chinese, Japanese, Thai, Lao, Burmese, Khmer; and Korean, where a particle
# is written as a part of its word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b2ff\U00020000-\U0003ffff"
)
_RUN = re.compile(rf"([{_UNSPACED}]+)|[^ {_UNSPACED}]+")


class _Characters(dict[int, str]):
    """A table for `str.translate`: a character stays if words are written with it, else it becomes a space.

    Words are letters, digits, and marks, which the vowel signs of many scripts are (`\\w` leaves these out).
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = kept = character if unicodedata.category(character)[0] in "LMN" else " "
        return kept


_CHARACTERS = _Characters()


def tokens(text: str) -> set[str]:
    """Return the words of a text, and pairs of characters of scripts without spaces.

    A text without any, such as a row of emoji, is one token: it is similar to itself alone.
    """
    if text.isascii():
        return set(text.lower().translate(_CHARACTERS).split()) or {text}
    found: set[str] = set()
    for match in _RUN.finditer(unicodedata.normalize("NFKC", text).casefold().translate(_CHARACTERS)):
        run = match[0]
        if match.lastindex is None or len(run) == 1:
            found.add(run)
        else:
            found.update(map("".join, pairwise(run)))
    return found or {text}


@hookimpl
def kipu_register_postprocessors(register: Register[PostProcessor]) -> None:
    """Register the post-processor ``mmr``."""
    register("mmr", Mmr)
