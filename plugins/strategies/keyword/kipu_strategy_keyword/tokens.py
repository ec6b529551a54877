"""From text to the tokens that are indexed and searched.

Text is written in one way (NFKC, lower case, nothing invisible), then folded (no accents), and becomes tokens:

- **words**, stemmed as English: "Indexes" and "indexing" are ``index``;
- **symbols** and emoji, each by itself, a flag as one;
- **n-grams** where a script has no spaces between words: 日本語 becomes 日本, 本語 and 語. The last tokens of a run are
  shorter, so that every piece shorter than an n-gram starts some token, and is found as its prefix;
- **identifiers**, whole, beside the words inside of them: ``zx-99817``, ``foo_bar``, ``c++``, ``src/app/main.py``;
- **forms** of the words that folding changes, beside these: ``resum´résumé``.

No token holds white space or a double quote, and all of them can be encoded as UTF-8.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from .stemming import MAXIMUM_STEMS, Stems

__all__ = [
    "FORM_MARK",
    "STOP_WORDS",
    "fold",
    "forms",
    "identifiers",
    "is_strong",
    "n_gram_length",
    "normalise",
    "strip_accents",
    "words",
]

_STEMS = Stems()

FORM_MARK = "\u00b4"
"""What is between a token and the word that it was folded from. NFKC leaves none of it in a text."""

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
# Letters that Unicode does not decompose, and what is written for them where a keyboard has none of them: Latin,
# Cyrillic and Arabic ones, and letters that are signs, such as that of Hawaiian.
_PLAIN_LETTERS = {
    "øđħłŧðĸŋȷⱥƀƃɓƈȼƌɖɗɇəǝɛƒǥɠɦⱨɨɉƙⱪƚɫⱡƞɲɔɵƥᵽɋɍɽƭʈⱦʉʋⱳƴɏƶȥⱬ": "odhltdknjabbbccdddeeeefgghhijkklllnnooppqrrtttuvwyyzzz",
    "ґғқҝңөүұҳҷҗ": "ггккноуухчж",
    "\u0671\u06cc\u0649\u06a9\u0629\u06c1\u06be\u06d5": "\u0627\u064a\u064a\u0643\u0647\u0647\u0647\u0647",
}
_LETTERS = {
    **{letter: plain for pair in _PLAIN_LETTERS.items() for letter, plain in zip(*pair, strict=True)},
    "\u0131": "i",
    "æ": "ae",
    "œ": "oe",
    "þ": "th",
    **dict.fromkeys("\u02b9\u02bb\u02bc\u02be\u02bf", ""),
}
_LETTER = rf"[^\W_{_BIGRAMS}{_TRIGRAMS}]"
_JOINT = r"[-_./:@\\+~]"

# What has no width, chooses a look or a direction, or colours an emoji: it stands inside of words and separates none.
_INVISIBLE = (
    "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
    "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef"
)
# Money, signs of mathematics, arrows, pictures; not the lines and blocks of drawn frames.
_SYMBOLS = (
    "\u00a2-\u00a7\u00a9\u00ac\u00ae\u00b0\u00b1\u00b6\u00d7\u00f7\u20a0-\u20cf\u20e3\u2100-\u214f\u2190-\u24ff\u25a0-\u2bff"
    "\U0001f000-\U0001faff"
)
_SYMBOL = rf"[\U0001f1e6-\U0001f1ff]{{2}}|[{_SYMBOLS}]"

_PATTERNS = {
    "ascii word": "[a-z0-9]+",
    "run": f"[{_BIGRAMS}{_TRIGRAMS}]",
    "spaced word": rf"[^\W_](?:[^\W_]+|[{_MARKS}]+)*|{_SYMBOL}",
    "word": rf"([{_BIGRAMS}]+)|([{_TRIGRAMS}]+)|{_LETTER}(?:{_LETTER}|[{_MARKS}])*|{_SYMBOL}",
    "invisible": f"[{_INVISIBLE}]+",
    # Accents, though no stroke through a sign, and the points that Hebrew and Arabic are usually written without.
    "accent": r"(?<=\w)\u0338|[\u0300-\u0337\u0339-\u036f"
    r"\u0591-\u05bd\u05bf\u05c1-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]",
    "letter": f"[{''.join(_LETTERS)}]",
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


def normalise(text: str) -> str:
    """Return ``text`` in the one way in which it may be written: NFKC, case folded, without invisible characters."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _pattern("invisible").sub("", folded).replace("i\u0307", "i")


def strip_accents(normalised: str) -> str:
    """Return a normalised text without accents, and with the letters that are written where a keyboard lacks some."""
    if normalised.isascii():
        return normalised
    plain = _pattern("accent").sub("", unicodedata.normalize("NFKD", normalised))
    plain = _pattern("letter").sub(lambda match: _LETTERS[match[0]], plain)
    return unicodedata.normalize("NFKC", plain)


def fold(text: str) -> str:
    """Return ``text`` as it is compared: NFKC, case folded, without accents."""
    return strip_accents(normalise(text))


def words(folded: str) -> list[str]:
    """Return the stems, symbols and n-grams of a folded text, in its order, stop words among them."""
    if folded.isascii():
        return list(map(_STEMS.__getitem__, _pattern("ascii word").findall(folded)))
    if not _pattern("run").search(folded):
        return list(map(_STEMS.__getitem__, _pattern("spaced word").findall(folded)))
    tokens: list[str] = []
    for match in _pattern("word").finditer(folded):
        run, kind = match[0], match.lastindex
        if kind is None:
            tokens.append(_STEMS[run])
        else:
            size = kind + 1
            tokens += [run[start : start + size] for start in range(len(run))]
    return tokens


class _Forms(dict[str, str]):
    """The form of each normalised word, as `forms` returns it; empty for a word that folding does not change."""

    def __missing__(self, word: str) -> str:
        if len(self) >= MAXIMUM_STEMS:
            self.clear()
        folded = strip_accents(word)
        [token] = words(folded)[:1] or [""]
        form = self[word] = f"{token}{FORM_MARK}{word}" if token and folded != word else ""
        return form


_FORMS = _Forms()


def forms(normalised: str, folded: str) -> list[str]:
    """Return the forms of the words that folding has changed: none for an English text.

    A form is the token, the mark, and the word with its accents: it shows whether a chunk has the word of a query.
    """
    if normalised == folded:
        return []
    found = map(_FORMS.__getitem__, _pattern("spaced word").findall(normalised))
    return [form for form in found if form]


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
