"""The stemmer for English words: "connections", "connected" and "connecting" are all searched as "connect".

The algorithm is M. F. Porter's, "An algorithm for suffix stripping", Program 14(3), 1980, with the author's later
departures (``bli`` and ``logi`` in step 2). It is the same as that of SQLite's ``porter`` tokenizer; it is here, and
not there, because a search counts the words of its candidates in Python.
"""

from __future__ import annotations

import re

__all__ = ["MAXIMUM_STEMS", "Stems"]

MAXIMUM_STEMS = 200_000
"""The most stems in the cache; when it is full, it is cleared."""

LONGEST_WORD = 40
"""Longer runs of letters are hashes and keys, in characters: they have no stem."""

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
    "logi": "log",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip

_SHAPES = str.maketrans("abcdefghijklmnopqrstuvwxz", "vcccvcccvcccccvcccccvcccc")
_WORD = re.compile("[a-z]+")


class Stems(dict[str, str]):
    """The stem of each word in lower case, computed when it is first needed; words of other scripts are their own."""

    def __missing__(self, word: str) -> str:
        if len(self) >= MAXIMUM_STEMS:
            self.clear()
        stemmable = 2 < len(word) <= LONGEST_WORD and _WORD.fullmatch(word)
        stem = self[word] = _stem(word) if stemmable else word
        return stem


def _shape(stem: str) -> str:
    """Return ``v`` for each vowel and ``c`` for each consonant; ``y`` is a vowel after a consonant."""
    shape = stem.translate(_SHAPES)
    while "y" in shape:
        before, _, after = shape.partition("y")
        shape = before + ("v" if before.endswith("c") else "c") + after
    return shape


def _measure(stem: str) -> int:
    """Return Porter's *m*: how often a vowel is followed by a consonant."""
    return _shape(stem).count("vc")


def _ends_in_double_consonant(stem: str) -> bool:
    return stem[-1:] == stem[-2:-1] != "" and _shape(stem).endswith("c")


def _ends_short(stem: str) -> bool:
    """Return whether the stem ends in consonant, vowel, consonant, the last not being w, x or y (Porter's *\\*o*)."""
    return _shape(stem).endswith("cvc") and stem[-1] not in "wxy"


def _stem(word: str) -> str:
    word = _strip_plural(word)
    word = _strip_past(word)
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _replace_suffix(word, _STEP_2)
    word = _replace_suffix(word, _STEP_3)
    word = _strip_last_suffix(word)
    return _tidy(word)


def _strip_plural(word: str) -> str:
    """Step 1a."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _strip_past(word: str) -> str:
    """Step 1b."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        stem = word.removesuffix(suffix)
        if stem != word:
            break
    if stem == word or "v" not in _shape(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _ends_in_double_consonant(stem) and stem[-1] not in "lsz":
        return stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _ends_short(stem) else stem


def _replace_suffix(word: str, suffixes: dict[str, str]) -> str:
    """Run step 2 or 3: find the longest suffix and replace it if the stem is long enough."""
    for length in range(min(7, len(word)), 1, -1):
        suffix = word[-length:]
        if suffix in suffixes:
            stem = word[:-length]
            return stem + suffixes[suffix] if _measure(stem) > 0 else word
    return word


def _strip_last_suffix(word: str) -> str:
    """Step 4."""
    for length in range(min(5, len(word)), 1, -1):
        suffix = word[-length:]
        if suffix in _STEP_4:
            stem = word[:-length]
            removable = _measure(stem) > 1 and (suffix != "ion" or stem.endswith(("s", "t")))
            return stem if removable else word
    return word


def _tidy(word: str) -> str:
    """Step 5."""
    if word.endswith("e"):
        stem = word[:-1]
        measure = _measure(stem)
        if measure > 1 or (measure == 1 and not _ends_short(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
