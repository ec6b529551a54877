"""Find names that are written alike: of one entity perhaps, which only a person can decide."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import defaultdict
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Suggestion", "similar_names", "suggestions"]

_SHORTEST, _LONGEST = 6, 60  # letters of names of which one may be misspelt


@attrs.frozen
class Suggestion:
    """Two names that may be the same entity, and why."""

    name: str
    other: str
    reason: str


def similar_names(wanted: str, known: Iterable[str]) -> list[str]:
    """Return the names that are most similar to one, best first: three at most."""
    known = list(known)
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)
    return near or sorted((name for name in known if len(wanted) > 2 and wanted in name), key=len)[:3]


def suggestions(names: Mapping[str, str], groups: Mapping[str, str]) -> list[Suggestion]:
    """Return pairs of names that are written alike, in alphabetical order.

    They differ in marks, spaces and accents; in one letter of a long name; or one is the first name of one full name
    only. Names with different numbers are never alike, nor is a word like its plural.

    :param names: names as they are written, by their keys.
    :param groups: the entity of each key: of one entity, nothing is suggested.
    """
    letters = {each: folded for each in sorted(names) if any(map(str.isalpha, folded := _letters(each)))}
    found: dict[tuple[str, str], str] = {}
    for reason, pairs in (
        ("they differ in spaces, marks or accents only", _same_letters(letters)),
        ("they differ in one letter", _one_letter_apart(letters)),
        ("one is the first name of the other", _first_names(names)),
    ):
        for one, other in pairs:
            if groups[one] != groups[other]:
                found.setdefault((min(one, other), max(one, other)), reason)
    return [Suggestion(names[one], names[other], found[one, other]) for one, other in sorted(found)]


def _letters(name: str) -> str:
    decomposed = unicodedata.normalize("NFKD", name)
    return "".join(each for each in decomposed.casefold() if each.isalnum())


def _same_letters(letters: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for each, folded in letters.items():
        groups[folded].append(each)
    for group in groups.values():
        yield from ((group[0], other) for other in group[1:] if _numbers(group[0]) == _numbers(other))


def _one_letter_apart(letters: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield names of which one letter is missing, added, changed or swapped: they meet where each lost a letter."""
    places: dict[str, list[str]] = defaultdict(list)
    for each, folded in letters.items():
        if _SHORTEST <= len(folded) <= _LONGEST:
            for shorter in {folded, *(folded[:place] + folded[place + 1 :] for place in range(1, len(folded)))}:
                places[shorter].append(each)
    for group in places.values():
        for other in group[1:]:
            one, two = sorted((letters[group[0]], letters[other]), key=len)
            if two not in (one, f"{one}s") and _numbers(group[0]) == _numbers(other):
                yield group[0], other


def _first_names(names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    longer: dict[str, list[str]] = defaultdict(list)
    for each in sorted(names):
        words = names[each].split()
        if len(words) == 2 and all(word.isalpha() and word.istitle() for word in words):
            longer[each.split()[0]].append(each)
    yield from ((first, full[0]) for first, full in longer.items() if len(full) == 1 and first in names)


def _numbers(name: str) -> list[str]:
    return re.findall(r"\d+", name)
