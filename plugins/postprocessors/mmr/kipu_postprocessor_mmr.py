"""Keeps results from repeating each other: maximal marginal relevance.

The method is that of Jaime Carbonell and Jade Goldstein, "The use of MMR, diversity-based reranking for reordering
documents and producing summaries", SIGIR 1998: hits are chosen one after the other, and each time the one is next for
which

    lambda x relevance - (1 - lambda) x similarity to the most similar hit that was chosen before

is greatest. Relevance is the hit's score divided by the best one. Similarity is the cosine of the hits' vectors, or 0
where that is negative: to say the opposite is no more of a change than to speak of something else. If a hit has no
vector, it is compared by words: the share of all tokens of two texts that both have (Jaccard's index).
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections import Counter
from itertools import chain, pairwise
from struct import Struct
from typing import TYPE_CHECKING, ClassVar

import attrs

from kipu import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kipu.types import Hit, PostProcessor, Query, Register, Vectors

    # For a hit and others, all by their positions: how similar it is to each of the others.
    Similarity = Callable[[int, Sequence[int]], list[float]]

__all__ = ["Mmr"]

MOST_REORDERED = 1_000
"""How many hits are compared with each other: the work grows with their square."""


def _check_share(_: object, option: attrs.Attribute[float], value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{option.name} must be a number from 0 to 1, not {value:g}")


@attrs.frozen
class Mmr:
    """Choose hits that are relevant and unlike those before them (Carbonell and Goldstein 1998).

    ``lambda_param`` is the weight of relevance, and what is left to 1 that of being different: 1 changes nothing, and 0
    only looks for what is new after the first hit. Two hits are compared by the vectors of their chunks, and by words
    where one of them has none.

    Every hit stays, and keeps its score; it is the order that changes. So the results are not sorted by score: a hit
    that repeats an earlier one comes later than its score would have it.
    """

    lambda_param: float = attrs.field(
        default=0.7,
        converter=float,
        validator=_check_share,
        metadata={
            "help": "The weight of relevance against diversity, in [0, 1]; 1 changes nothing.",
            "per_call": "mmr_lambda",
        },
    )
    needs_vectors: ClassVar[bool] = True

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """Return all hits in the order in which they are chosen; of two that are as good, the one that came first.

        Only the first 1,000 hits are reordered; what follows them stays where it is.
        """
        if self.lambda_param == 1.0 or len(hits) < 2:
            return hits
        # Some hundred hits take some ten milliseconds, in which the event loop has other things to do.
        return await asyncio.to_thread(self._reorder, hits[:MOST_REORDERED]) + hits[MOST_REORDERED:]

    def _reorder(self, hits: list[Hit]) -> list[Hit]:
        best = max(hit.score for hit in hits) or 1.0
        gains = [self.lambda_param * hit.score / best for hit in hits]
        return [hits[position] for position in choose(gains, 1.0 - self.lambda_param, compare(hits))]


def choose(gains: Sequence[float], weight: float, similarity: Similarity) -> list[int]:
    """Return all positions in the order in which they are chosen.

    ``gains`` is what each is worth by itself, and ``weight`` what similarity to one that was chosen takes off.
    """
    left = list(range(len(gains)))
    # Of each that is left: what it is worth now. Only the one chosen last can lower it, so no pair is compared twice.
    values = list(gains)
    chosen: list[int] = []
    while left:
        place = values.index(max(values))
        del values[place]
        chosen.append(left.pop(place))
        similarities = similarity(chosen[-1], left)
        values = [
            value if value < (lowered := gains[position] - weight * similar) else lowered
            for value, position, similar in zip(values, left, similarities, strict=True)
        ]
    return chosen


# --- How similar two hits are --------------------------------------------------------------------------------------


def compare(hits: Sequence[Hit]) -> Similarity:
    """How the hits are compared: by vectors where both have one, else by words."""
    vectors = [hit.vector for hit in hits]
    by_words = None if all(vector is not None for vector in vectors) else by_tokens([hit.chunk.text for hit in hits])
    if by_words and all(vector is None for vector in vectors):
        return by_words
    return by_vectors(vectors, by_words)


def by_vectors(vectors: Sequence[Vectors | None], otherwise: Similarity | None) -> Similarity:
    """Compare by the cosine of vectors of length 1, and ``otherwise`` where one of two has none."""
    import numpy as np

    known = [vector is not None for vector in vectors]
    missing = np.zeros_like(next(vector for vector in vectors if vector is not None))
    matrix = np.stack([missing if vector is None else vector for vector in vectors])

    def similarity(position: int, others: Sequence[int]) -> list[float]:
        if otherwise and not known[position]:
            return otherwise(position, others)
        # Rounded, because the last digits of a product differ from one machine to the next.
        cosines = (matrix @ matrix[position]).round(5).tolist()
        if not otherwise:
            return [cosines[other] for other in others]
        shares = otherwise(position, others)
        return [cosines[other] if known[other] else share for other, share in zip(others, shares, strict=True)]

    return similarity


def by_tokens(texts: Sequence[str]) -> Similarity:
    """Compare texts by Jaccard's index of their tokens: how many both have, divided by how many any of them has."""
    token_sets = [tokens(text) for text in texts]
    sizes = [len(token_set) for token_set in token_sets]
    holders = Counter(chain.from_iterable(token_sets))
    shared = [[token for token in token_set if holders[token] > 1] for token_set in token_sets]
    # A token is a number with some bytes for each text, which are 1 if the text has the token. If such numbers are
    # added up, the bytes of each text say how many of the tokens it has: one sum compares a text with all others.
    code, width = ("H", 2) if max(sizes) < 1 << 16 else ("I", 4)
    counts = Struct(f"<{len(texts)}{code}")
    texts_with: dict[str, bytearray] = {}
    for position, token_list in enumerate(shared):
        for token in token_list:
            if token not in texts_with:
                texts_with[token] = bytearray(counts.size)
            texts_with[token][position * width] = 1
    numbers = {token: int.from_bytes(row, "little") for token, row in texts_with.items()}
    of_text = [[numbers[token] for token in token_list] for token_list in shared]

    def similarity(position: int, others: Sequence[int]) -> list[float]:
        size = sizes[position]
        common = counts.unpack(sum(of_text[position]).to_bytes(counts.size, "little"))
        return [common[other] / (size + sizes[other] - common[other]) for other in others]

    return similarity


# --- What the tokens of a text are ---------------------------------------------------------------------------------

# Scripts that put no spaces between words: Chinese, Japanese, Thai, Lao, Burmese, Khmer; and Korean, where a particle
# is written as a part of its word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b2ff\U00020000-\U0003ffff"
)
_RUN = re.compile(rf"([{_UNSPACED}]+)|[^ {_UNSPACED}]+")
_ASCII_WORD = re.compile("[a-z0-9]+")


class _Characters(dict[int, str]):
    """What `str.translate` makes of a character: itself if words are written with it, else a space.

    Words are letters, digits, and marks, which the vowel signs of many scripts are (`\\w` leaves these out).
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = kept = character if unicodedata.category(character)[0] in "LMN" else " "
        return kept


_CHARACTERS = _Characters()


def tokens(text: str) -> set[str]:
    """Return the words of a text, and pairs of characters of scripts without spaces; never nothing.

    A text without any, such as a row of emoji, is a token as a whole: it is similar to itself alone.
    """
    if text.isascii():
        return set(_ASCII_WORD.findall(text.lower())) or {text}
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
