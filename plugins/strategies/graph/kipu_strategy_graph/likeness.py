"""Find names that are written alike: of one entity perhaps, which only a person can decide."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from typing import TYPE_CHECKING

import attrs

from .extraction import phrase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["Suggestion", "similar_names", "suggestions"]

_SHORTEST = 5  # characters of names of which one may be misspelt
_DIGITS = re.compile(r"\d+")


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

    They differ in marks, spaces, accents or a plural; in one letter of a long name; or one is the beginning of one
    longer name only, as a first name is. Names with different numbers are never alike.

    :param names: names as they are written, by their keys.
    :param groups: the entity of each key: of one entity, nothing is suggested.
    """
    found: dict[tuple[str, str], str] = {}
    for reason, pairs in (
        ("they differ in spaces, marks or accents only", _same_letters(names)),
        ("they differ in one letter", _one_letter_apart(names)),
        ("one begins with the other", _beginnings(names)),
    ):
        for one, other in pairs:
            if groups[one] != groups[other]:
                found.setdefault((min(one, other), max(one, other)), reason)
    return [Suggestion(names[one], names[other], found[one, other]) for one, other in sorted(found)]


def _letters(name: str) -> str:
    return "".join(phrase(name))


def _same_letters(names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for each in sorted(names):
        groups[_letters(each)].append(each)
    for letters, group in groups.items():
        if letters:
            yield from ((group[0], other) for other in group[1:])


def _one_letter_apart(names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield names of which one letter is missing, added, changed or swapped: they meet where each lost a letter."""
    places: dict[str, list[str]] = defaultdict(list)
    for each in sorted(names):
        letters = _letters(each)
        if _SHORTEST <= len(letters) <= 60:
            for shorter in {letters, *(letters[:place] + letters[place + 1 :] for place in range(len(letters)))}:
                places[shorter].append(each)
    for group in places.values():
        for other in group[1:]:
            if _DIGITS.findall(group[0]) == _DIGITS.findall(other) and _letters(group[0]) != _letters(other):
                yield group[0], other


def _beginnings(names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    longer: dict[tuple[str, ...], list[str]] = defaultdict(list)
    words: dict[str, Sequence[str]] = {each: phrase(each) for each in sorted(names)}
    for each, parts in words.items():
        for length in range(1, len(parts)):
            longer[tuple(parts[:length])].append(each)
    for each, parts in words.items():
        candidates = longer.get(tuple(parts), [])
        if names[each][:1].isupper() and len(candidates) == 1 and not _DIGITS.search(candidates[0]):
            yield each, candidates[0]
