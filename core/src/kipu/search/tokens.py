"""Count the tokens of a text, never fewer than o200k, the vocabulary of current OpenAI models, makes of it.

Byte-pair encoding joins the pair with the lowest rank until no pair has one. With the first 64,000 ranks alone it goes
the same way and only stops earlier, so it never counts fewer tokens than with all 200,000, whatever the text is. The
vocabulary is that of tiktoken, by OpenAI, under the MIT licence.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from functools import cache, lru_cache
from importlib import resources

# Classes of characters beyond ASCII. In the pattern, ASCII characters stand for themselves. A mark, as of an accent or
# a vowel, is a part of words and of punctuation.
_CLASSES = {"Lu": "\x80", "Lt": "\x80", "Ll": "\x81", "Lm": "\x82", "Lo": "\x82", "N": "\x83", "M": "\x84"}
_UPPER, _LOWER, _SPACE, _WORD = "A-Z\x80\x82\x84", "a-z\x81\x82\x84", "\t-\r ", "A-Za-z\x80-\x820-9\x83"
_ENDING = "(?:'(?:[sStTmMdD]|[rRvV][eE]|[lL][lL]))?"
_PIECE = re.compile(
    rf"[^\r\n{_WORD}]?(?:[{_UPPER}]*[{_LOWER}]+|[{_UPPER}]+[{_LOWER}]*){_ENDING}|[0-9\x83]{{1,3}}|"
    rf" ?[^{_SPACE}{_WORD}]+[\r\n/]*|[{_SPACE}]*[\r\n]+|[{_SPACE}]+(?![^{_SPACE}])|[{_SPACE}]+"
)
LONGEST_TOKEN = 80  # bytes
_LONGEST_PIECE = 512  # bytes: what is longer is cut, since joining costs time by the square of the length


def count_tokens(text: str) -> int:
    """Return how many tokens a text has at most, in the vocabulary o200k."""
    classes = text if text.isascii() else text.translate(_TABLE)
    return sum(_count(text[piece.start() : piece.end()]) for piece in _PIECE.finditer(classes))


@lru_cache(maxsize=20_000)
def _count(piece: str) -> int:
    data = piece.encode("utf-8", "surrogatepass")
    if len(data) <= _LONGEST_PIECE:
        return _join(data)
    # A cut changes how what is beside it is joined: one more for each.
    return sum(_join(data[at : at + _LONGEST_PIECE]) + 1 for at in range(0, len(data), _LONGEST_PIECE))


def _join(data: bytes) -> int:
    """Return how many tokens are left of a piece after all joining."""
    ranks = _ranks()
    if data in ranks:
        return 1
    last = len(ranks)
    parts = [data[at : at + 1] for at in range(len(data))]
    pairs = [ranks.get(data[at : at + 2], last) for at in range(len(data) - 1)]
    while pairs and (lowest := min(pairs)) < last:
        at = pairs.index(lowest)
        parts[at] += parts.pop(at + 1)
        del pairs[at]
        if at < len(pairs):
            pairs[at] = ranks.get(parts[at] + parts[at + 1], last)
        if at:
            pairs[at - 1] = ranks.get(parts[at - 1] + parts[at], last)
    return len(parts)


@cache
def _ranks() -> dict[bytes, int]:
    """Return the tokens of more than one byte, in the order of their ranks. No token has the byte 255."""
    data = (resources.files(__package__) / "o200k.zlib").read_bytes()
    return {token: rank for rank, token in enumerate(zlib.decompress(data).split(b"\xff"))}


class _Table(dict[int, str]):
    """The class of each character that was met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        known = _CLASSES.get(category) or _CLASSES.get(category[0])
        self[code] = char if char.isascii() else known or (" " if char.isspace() else "\x85")
        return self[code]


_TABLE = _Table()
