"""Names as they are written: what counts as one, when two are the same, and how a lookup folds them."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DATE_WORDS", "LONGEST_NAME", "STOP_WORDS", "UPPER", "key", "names_in", "phrase"]

LONGEST_NAME = 100
"""Longer runs of characters are no names."""

STOP_WORDS = frozenset(
    """a about after all also although an and are as at be been before both but by can could did do does during each
    for from had has have he her here his how however i if in into is it it's its just last many may might more most
    must my new no not of on one only or other our over same she should since so some such than that the their then
    there these they this those through to too two under until very was we were what when where which while who why
    will with would you your first between let's i'm yes please maybe perhaps see today tomorrow neither
    yesterday""".split()
) | {first + second for first in ("any", "every", "no", "some") for second in ("body", "one", "thing")}
"""Words that begin sentences and are no names, and no part of one at its ends."""

# Alone, or with numbers, these are dates.
DATE_WORDS = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december feb apr jul aug sep sept oct nov dec mon tue wed thu fri am
    pm utc gmt""".split()
)

UPPER = "A-ZÀ-ÖØ-ÞĀ-ŐŒ-ŽА-ЯЁΑ-ΩԱ-Ֆ"
_NAMES = re.compile(
    # A code span.
    r"`(?P<code>[^`\n]{2,60})`"
    # A link: [[Page#heading|label]].
    r"|\[\[(?P<link>[^\[\]|#\n]{1,100})(?:\#[^\[\]|\n]{0,100})?"
    # A tag.
    r"|\#(?<![\w#&/]\#)(?P<tag>[^\W\d_][\w/-]*+)"
    # Capitalised words, joined by what joins the words of names.
    rf"|(?P<name>[{UPPER}](?<![^\W_].)(?:(?<=[SMF])t\.\s[{UPPER}]|(?:\.\s?[{UPPER}]){{0,4}}+)(?:[\w'’&+-]*\w)?"
    r"(?:(?<!['’]s)(?:\s(?:of|the|de|la|le|van|von|der|du|del|and|for|in|et|&))?(?:\s(?:the|de|la))?"
    rf"\s[{UPPER}0-9](?:[\w'’&+-]*\w)?(?:\.\d+)*)*)"
    # An identifier: with digits, dots, slashes, underscores or capitals inside of it; or a number.
    r"|(?P<identifier>[\w./-](?<![\w./-].)(?<=[^A-Z])(?:(?<=\d)|(?=[^\W\d_A-Z]*(?:\d|[_./-]\w|[A-Z]\w)))[\w./-]*\w)"
)
_PARTS = re.compile(r"\s(?:of|the|and|for|in|de|&)\s")
_NUMBER = re.compile(r"[\d.-]+")
_NO_NAMES = STOP_WORDS | DATE_WORDS
_POSSESSIVE = re.compile(r"['’]s\b")
_POSSESSIVES = ("'s", "’s")
_QUOTES = "'’\"“”"
# These write no spaces between words: each character is looked up as a word.
_UNSPACED = re.compile("([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")


class _Folding(dict[int, "str | int | None"]):
    """What each character of a decomposed text becomes in a lookup; filled in as characters are met."""

    def __missing__(self, code: int) -> str | int | None:
        character = chr(code)
        kind = unicodedata.category(character)[0]
        folded: str | int | None = code if kind in "LNM" or character == "_" else " "
        if "\u0300" <= character <= "\u036f":  # accents, and not the vowel signs of other scripts
            folded = None
        self[code] = folded
        return folded


# Letters that have no decomposition.
_LETTERS = {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
_FOLDING = _Folding({ord(letter): plain for letter, plain in _LETTERS.items()})


@lru_cache(maxsize=20_000)
def key(name: str) -> str:
    """Return what identifies an entity: its name in NFKC, casefolded, with single spaces."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def phrase(text: str) -> tuple[str, ...]:
    """Return the words of a text as names are looked up: without case, accents, possessives and a plural's final s.

    A text has a name if the words of the name follow each other in those of the text.
    """
    if "'" in text or "’" in text:
        text = _POSSESSIVE.sub("", text)
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKC", text).casefold()
        text = _UNSPACED.sub(r" \1 ", unicodedata.normalize("NFKD", text))
    words = text.translate(_FOLDING).split()
    return tuple(word[:-1] if word[-1] == "s" and len(word) > 3 and word[-2] != "s" else word for word in words)


def names_in(text: str) -> Iterator[tuple[str, int, int, str]]:
    """Yield the names that are written in a text: the name, its start and end, and the rule that found it.

    The rules are ``code``, ``link``, ``tag``, ``name`` (capitalised words), ``part`` (of such a name, between "of",
    "and" and the like), ``identifier`` and ``number``.
    """
    for found in _NAMES.finditer(text):
        via = found.lastgroup or ""
        start, end = found.span(via)
        name = text[start:end]
        if via == "name":
            if end - start > LONGEST_NAME or " " in name or "\n" in name or name.endswith(_POSSESSIVES):
                yield from _capitalised(text, start, end)
            elif end - start > 1 and name.casefold() not in _NO_NAMES and name[-1] != ".":
                yield name, start, end, via
            continue
        if via == "identifier":
            if name.isdigit() or not any(character.isalpha() for character in name):
                if len(name) < 3:
                    continue
                via = "number"
            elif not any(character in "_./" or character.isdigit() or character.isupper() for character in name):
                continue  # a word with a hyphen
        if (trimmed := name.strip()) and end - start <= LONGEST_NAME:
            start += name.index(trimmed)
            yield trimmed, start, start + len(trimmed), via


def _capitalised(text: str, start: int, end: int) -> Iterator[tuple[str, int, int, str]]:
    """Yield the name in a run of capitalised words, and its parts, without the stop words at its ends."""
    if end - start > LONGEST_NAME:  # a heading in capitals, or worse
        return
    words = text[start:end].split()
    while words and (words[0].casefold().strip(_QUOTES) in STOP_WORDS or _NUMBER.fullmatch(words[0])):
        start = text.index(words[0], start) + len(words[0])
        del words[0]
    while words and words[-1].casefold() in STOP_WORDS:
        end = text.rindex(words.pop(), start, end)
    if _is_date(words):
        return
    start = text.index(words[0], start)
    end = start + len(text[start:end].rstrip())
    if text[end - 2 : end] in _POSSESSIVES:
        end -= 2
    if end - start < 2 or text[end - 1] == ".":
        return
    name = text[start:end]
    yield name, start, end, "name"
    if len(words) > 2 and (parts := [*_PARTS.finditer(name)]):
        position = 0
        for part_end, following in [*((part.start(), part.end()) for part in parts), (len(name), 0)]:
            if part_end - position > 1 and not _is_date(name[position:part_end].split()):
                yield name[position:part_end], start + position, start + part_end, "part"
            position = following


def _is_date(words: list[str]) -> bool:
    """Return whether words are only days, months and numbers; no words are."""
    return not words or (
        (words[0].casefold() in DATE_WORDS or words[0].isdigit())
        and all(word.casefold() in DATE_WORDS or word.isdigit() for word in words)
    )
