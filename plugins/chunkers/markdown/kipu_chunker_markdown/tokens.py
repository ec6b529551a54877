"""Estimate the tokens of a text without a model, and cut a line that has too many.

Sizes are *quarters* of a token, whole numbers that add up exactly: the quarters of a text are the sum of those of its
characters. So a chunk that is assembled line by line never exceeds its limit by rounding.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["QUARTERS", "cut_line", "estimate_tokens", "quarters", "reach", "reach_back"]

QUARTERS = 4
"""The number of quarters in a token."""

# Greek to Sinhala by way of Cyrillic, Hebrew, Arabic and the scripts of India.
_HALF_TOKEN = re.compile("[\u0370-\u0dff]+")
# Thai and what follows it, without Latin Extended Additional, Greek Extended and General Punctuation; the symbols,
# all of Chinese, Japanese and Korean, and emoji.
_WHOLE_TOKEN = re.compile("[\u0e00-\u1dff\u2070-\U0010ffff]+")


class _CharacterSizes(dict[str, int]):
    """A cache of the quarters of characters."""

    def __missing__(self, character: str) -> int:
        self[character] = size = quarters(character)
        return size


_CHARACTER_SIZES = _CharacterSizes()

_SENTENCE_END = re.compile(
    r"""
      (?<![.!?…؟।]) [.!?…؟।]++ ["'”’»)\]*_]*+ (?=\s)
    | [。！？｡]++ ["'”’»」』）】]*+
    """,
    re.VERBOSE,
)
_SPACES = re.compile(r"\s*")
# Code points that belong to the character before them: marks, joiners, variation selectors, skin tones, low surrogates.
_EXTENDING_CHARACTERS = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0e31\u0e33-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u200d\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\ufe20-\ufe2f\U0001f3fb-\U0001f3ff"
    "\udc00-\udfff]"
)
_JOINER = "\u200d"
_LONGEST_SEQUENCE = 32


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a language model counts in ``text``, rounded up; 0 for an empty text.

    Four characters are a token in Latin script (and in code and punctuation), two in the alphabets from Greek to
    Sinhala (Cyrillic, Hebrew, Arabic, Devanagari...), and every character is one in Thai, Chinese, Japanese, Korean
    and among symbols and emoji. Measured against the byte-pair encodings cl100k_base and o200k_base, in characters a
    token: English 4.8 and 4.9, Markdown with code 3.8 and 3.8, German 3.8 and 4.2, Russian 2.2 and 3.9, Arabic 1.4 and
    2.7, Hindi 1.0 and 3.5, Chinese 0.9 and 1.3, Japanese 0.9 and 1.2, Korean 1.0 and 1.7, Thai 1.0 and 2.1.
    """
    return -(-quarters(text) // QUARTERS)


def quarters(text: str) -> int:
    """Return the size of ``text`` in quarters of a token. The quarters of ``a + b`` are those of ``a`` and of ``b``."""
    length = len(text)
    if text.isascii():
        return length
    half = length - len(_HALF_TOKEN.sub("", text))
    whole = length - len(_WHOLE_TOKEN.sub("", text))
    return length + half + 3 * whole


def cut_line(line: str, limit: int, *, first: int | None = None, overlap: int = 0) -> Iterator[tuple[int, int]]:
    """Cut a line into pieces of at most ``limit`` quarters and yield their positions, in time linear in its length.

    A piece ends at the end of a sentence, else before a space, else anywhere but within a character of several code
    points. The last two pieces are about equally long. ``first`` limits the first piece instead of ``limit``. Each
    further piece repeats at most ``overlap`` quarters of the one before it, from the start of a word; ``overlap`` must
    be less than ``limit``. Pieces neither start nor end with white space, and all other characters are in a piece.
    """
    stop = len(line.rstrip())
    start = covered = _skip_spaces(line, 0)
    remaining = quarters(line[start:stop])
    budget = limit if first is None else first
    while remaining > budget:
        end = _piece_end(line, start, covered, remaining, budget, limit)
        yield start, start + len(line[start:end].rstrip())
        covered = _skip_spaces(line, end)
        resumed = _overlap_start(line, start + 1, end, overlap) if overlap else covered
        if quarters(line[resumed : covered + 1]) > limit:  # long white space: repeat nothing
            resumed = covered
        remaining -= quarters(line[start:resumed])
        start, budget = resumed, limit
    if covered < stop:
        yield start, stop


def _piece_end(line: str, start: int, covered: int, remaining: int, budget: int, limit: int) -> int:
    """Return the best end, after ``covered``, of a piece from ``start`` with at most ``budget`` quarters."""
    size = min(budget, remaining // 2) if remaining <= budget + limit else budget
    smallest = max(size // 2, remaining - limit) if size < budget else size // 2
    first = covered + 1
    sizes = _running_sizes(line[start : start + budget], budget)
    lowest, goal, highest = (max(start + bisect_right(sizes, most), first) for most in (smallest, size, budget))
    sentences = (match.end() for match in _SENTENCE_END.finditer(line, lowest - 1, highest + 1))
    ends = [end for end in sentences if lowest <= end <= highest]
    if ends:
        return min(ends, key=lambda end: abs(end - goal))
    for lower, upper in ((lowest, goal), (goal, highest), (first, highest)):
        space = max(line.rfind(" ", lower, upper + 1), line.rfind("\t", lower, upper + 1))
        if space > 0:
            return space
    return _before_sequence(line, first, goal)


def reach(line: str, start: int, budget: int) -> int:
    """Return the furthest position such that ``line[start:position]`` has at most ``budget`` quarters."""
    return start + len(_running_sizes(line[start : start + budget], budget))


def reach_back(line: str, end: int, budget: int) -> int:
    """Return the first position such that ``line[position:end]`` has at most ``budget`` quarters."""
    return end - len(_running_sizes(line[max(0, end - budget) : end][::-1], budget))


def _running_sizes(window: str, budget: int) -> Sequence[int]:
    """Return the quarters of the first character, the first two, the first three... up to ``budget``."""
    if window.isascii():
        return range(1, min(len(window), budget) + 1)
    return list(takewhile(budget.__ge__, accumulate(map(_CHARACTER_SIZES.__getitem__, window))))


def _overlap_start(line: str, lowest: int, end: int, overlap: int) -> int:
    """Return the start of the next piece: a word, at most ``overlap`` quarters before ``end``."""
    position = max(lowest, reach_back(line, end, overlap))
    space = line.find(" ", position - 1, end)
    return _skip_spaces(line, space) if space >= 0 else _before_sequence(line, lowest, position)


def _before_sequence(line: str, lowest: int, position: int) -> int:
    """Return the nearest position at or before ``position`` that does not split a character."""
    for candidate in range(position, max(lowest, position - _LONGEST_SEQUENCE) - 1, -1):
        if line[candidate - 1] != _JOINER and not _EXTENDING_CHARACTERS.match(line, candidate):
            return candidate
    return position


def _skip_spaces(line: str, position: int) -> int:
    spaces = _SPACES.match(line, position)
    return spaces.end() if spaces else position
