"""From text to the tokens that are indexed and searched.

Text is folded (NFKC, lower case, no accents) and becomes three kinds of tokens:

- **words**, stemmed as English: "Indexes" and "indexing" are ``index``;
- **n-grams** where a script has no spaces between words: 日本語 becomes 日本, 本語 and 語. The last tokens of a run are
  shorter, so that every piece shorter than an n-gram starts some token, and is found as its prefix;
- **identifiers**, whole, beside the words inside of them: ``zx-99817``, ``foo_bar``, ``c++``, ``src/app/main.py``.

No token holds white space or a double quote, and all of them can be encoded as UTF-8.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from .stemming import Stems

__all__ = ["STOP_WORDS", "fold", "identifiers", "is_strong", "n_gram_length", "words"]

_STEMS = Stems()

STOP_WORDS = frozenset(
    _STEMS[word]
    for word in (
        "a about after all also am an and any are aren as at be because been before being between both but by can "
        "could couldn d did didn do does doesn doing don during each for from further had hadn has hasn have haven "
        "having he her here hers herself him himself his how i if in into is isn it its itself just ll me more most "
        "mustn my myself no nor not now of off on once only or other our ours ourselves over own re s same shan she "
        "should shouldn so some such t than that the their theirs them themselves then there these they this those "
        "through to too under until up upon us ve very was wasn we were weren what when where which while who whom "
        "whose why will with won would wouldn you your yours yourself yourselves"
    ).split()
)
"""The stems of common English words. In other languages, their frequency shows how common words are."""

MOST_ENDINGS = 8
"""How many endings of a path are indexed besides the whole: ``app/main.py`` and ``main.py`` of ``src/app/main.py``."""

LONGEST_IDENTIFIER = 200
"""In characters. Longer ones are encoded data, and their words are enough."""

# Scripts without spaces between words. A character of Chinese, Japanese or Korean is a syllable or a word, and two of
# them tell a text from another; letters of Thai, Lao, Burmese and Khmer need three.
_BIGRAMS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u302f\u3031-\u3035\u3038-\u303b\u3041-\u3096\u3099\u309a\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97c\uac00-\ud7fb\uf900-\ufaff\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"
)
_TRIGRAMS = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u1000-\u1049\u1050-\u109f\u1780-\u17d3"
# Vowel signs and other marks of Hebrew, Arabic, Syriac, Indian and Tibetan scripts: no letters to Python, yet no gaps.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0711-\u074a\u0900-\u0963\u0971-\u0df3\u0f18-\u0fbc\u1712-\u1714\u1a55-\u1a7f\u1b00-\u1b44\ua8e0-\ua8f1"
)
_LETTER = rf"[^\W_{_BIGRAMS}{_TRIGRAMS}]"
_JOINT = r"[-_./:@\\+~]"

_PATTERNS = {
    "ascii word": "[a-z0-9]+",
    "word": rf"([{_BIGRAMS}]+)|([{_TRIGRAMS}]+)|{_LETTER}(?:{_LETTER}|[{_MARKS}])*",
    # Accents, and the points that Hebrew and Arabic are usually written without.
    "accent": "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\ufe00-\ufe0f]",
    "identifier": rf"(?<![a-z0-9])(?:[a-z0-9]++(?:{_JOINT}{{1,3}}[a-z0-9]++)++(?:\+\+)?|[a-z][a-z0-9]*(?:\+\+|\#))"
    r"|(?<![^\s\"'`(\[])\.[a-z][a-z0-9]*",
    "joint": _JOINT,
    "separator": r"[/\\:@.]+",
    "letters and digits": "[a-z]+[0-9][a-z0-9]*",
    "compound": r"[a-z0-9]+-[a-z-]+|[a-z]+(?:[/:~][a-z]+)+|[a-z](?:\.[a-z])+|[0-9]+[-/:.][0-9]+",
}


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """Compile a pattern when it is first needed: a search in English must not pay for the rest."""
    return re.compile(_PATTERNS[name])


def fold(text: str) -> str:
    """Return ``text`` as it is compared: NFKC, case folded, without accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFKC", _pattern("accent").sub("", decomposed))


def words(folded: str) -> list[str]:
    """Return the stems and n-grams of a folded text, in its order, stop words among them."""
    if folded.isascii():
        return list(map(_STEMS.__getitem__, _pattern("ascii word").findall(folded)))
    tokens: list[str] = []
    for match in _pattern("word").finditer(folded):
        run, kind = match[0], match.lastindex
        if kind is None:
            tokens.append(_STEMS[run])
        else:
            size = kind + 1
            tokens += [run[start : start + size] for start in range(len(run))]
    return tokens


def n_gram_length(token: str) -> int:
    """Return the length of a whole n-gram of the token's script: 2 or 3, and 0 if the script has words."""
    if token.isascii():
        return 0
    match = _pattern("word").match(token)
    return match.lastindex + 1 if match and match.lastindex else 0


def identifiers(folded: str) -> list[str]:
    """Return the identifiers in a folded text, in its order, each followed by those that are a part of it.

    ``src/app/main.py:42`` is found as itself, as ``src/app/main.py``, ``app/main.py`` and ``main.py``.
    """
    found: list[str] = []
    for identifier in _pattern("identifier").findall(folded):
        if len(identifier) <= LONGEST_IDENTIFIER:
            found.append(identifier)
            if _pattern("separator").search(identifier):
                found += _parts(identifier)
    return found


def _parts(identifier: str) -> list[str]:
    """Return the identifiers inside of a path, an address or a qualified name."""
    head, colon, line = identifier.rpartition(":")
    path = head if colon and line.isdigit() else identifier
    separators = list(_pattern("separator").finditer(path))
    endings = [path[separator.end() :] for separator in separators if separator[0] != "."]
    parts = [path, *endings[-MOST_ENDINGS:]]
    parts += _pattern("separator").split(path)
    joint = _pattern("joint")
    return [part for part in dict.fromkeys(parts) if part != identifier and joint.search(part)]


def is_strong(token: str) -> bool:
    """Return whether a token is a name, a number or a path, and not a word or compound of words.

    ``zx-99817``, ``foo_bar``, ``e1234``, ``main.py`` and ``c++`` are; ``well-known``, ``20-year-old``, ``and/or``,
    ``e.g`` and ``3.5`` are not.
    """
    if not token.isascii():  # identifiers are; the marks of Hindi or Thai words are no letters to isalnum()
        return False
    if token.isalnum():
        return bool(_pattern("letters and digits").fullmatch(token))
    return not _pattern("compound").fullmatch(token)
