"""Where paths begin: the names of a question that not every chunk has, and the hits that have them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .extraction.names import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kipu.types import Hit

    from .lookup import Known, Lookup

__all__ = ["WORD_MOST", "Path", "Seeds", "find_seeds", "rarity_of"]

SEEDS = 5
"""How many hits may begin a path. With 2 to 5, our figures hardly differ."""

DEPTH = 50
"""How many hits are looked at for them: where vectors know little of the language, a name is rarely in the first."""

SAME_RARITY = 0.55
"""How rare an anchor is at least, next to the rarest of the question: other names are in too much else."""

NAMED = 0.5
"""In which share of the chunks that have an anchor it is a name: else it is a word that begins some sentence."""

ANCHOR_SHARE, ANCHOR_LEAST, ANCHOR_MOST = 0.1, 12, 1000
"""In how many chunks an anchor may be: a share of all, but no less and no more than these numbers."""

WORD_MOST = 12
"""In how many chunks a word may be that no rule takes for a name."""

_LONGEST_ANCHOR = 8  # words
_SHORT_NOTE = 200  # characters


class Path(NamedTuple):
    """Passages that share names, the first with the question: the ids of their chunks, and the names, as phrases.

    ``names`` has the anchor first, and then what each passage shares with the next. ``links`` say what these are worth,
    each from 0 to 1, ``weight`` what the seed is worth, and ``gain`` which share of the question's words the further
    passages add.
    """

    score: float
    chunks: tuple[int, ...]
    names: tuple[str, ...]
    weight: float
    links: tuple[float, ...] = ()
    gain: float = 0.0


class Seeds(NamedTuple):
    """Paths of one passage, those that are worth most first; all anchors, and the chunks that have what is asked.

    ``most`` is in how many chunks an anchor may be.
    """

    paths: Sequence[Path]
    anchors: Mapping[str, Sequence[int]]
    known: Known
    most: int


async def find_seeds(lookup: Lookup, words: Sequence[str], hits: Sequence[Hit]) -> Seeds | None:
    """Return the hits that have a name of a question, and the names; None if there are none."""
    runs = _runs(words)
    known = await lookup.known(runs)
    plain = [run for run in runs if run.count(" ") < 2] if _are_plain(words, hits[:SEEDS]) else []
    same = await lookup.aliases(runs) if known.has_aliases else {}
    if not known.names and not plain and not same:
        return None
    most = min(ANCHOR_MOST, max(ANCHOR_LEAST, int(ANCHOR_SHARE * known.chunks)))
    every = [*known.names, *plain, *same, *(each for others in same.values() for each in others)]
    having = await lookup.chunks_with(every, most)
    names = _find_names(known, same, having, plain)
    paths = _seeds(hits[:DEPTH], _anchors(words, names), known.chunks)
    return Seeds(paths, {name: having.get(name, ids) for name, ids in names.items()}, known, most) if paths else None


def rarity_of(chunks: int, ids: Sequence[int]) -> float:
    """Return how rare it is that a chunk has something, from the number of chunks and those that have it."""
    return math.log(1 + chunks / (1 + len(ids)))


def _find_names(
    known: Known,
    same: Mapping[str, Iterable[str]],
    having: Mapping[str, Sequence[int]],
    plain: Sequence[str],
) -> dict[str, Sequence[int]]:
    """Return the names of a question that may be anchors, with the chunks that have them or one of their aliases.

    :param same: the aliases of what the question has.
    :param plain: what may be a name as well, if it is rare.
    """
    names = {
        name: having[name]
        for name, count in known.names.items()
        if name in having and count >= NAMED * len(having[name])
    }
    names |= {run: having[run] for run in plain if len(having.get(run, ())) <= WORD_MOST and run in having}
    for name, others in same.items():
        if name in known.names or name in having:
            own = names.get(name, having.get(name, ()) if name not in known.names else ())
            names[name] = list(dict.fromkeys([*own, *(id for other in others for id in having.get(other, ()))]))
    return {name: ids for name, ids in names.items() if ids}


def _seeds(hits: Sequence[Hit], anchors: Mapping[str, Sequence[int]], chunks: int) -> list[Path]:
    """Return the hits that have one of the rarest anchors, as paths of one passage: those that are worth most."""
    found = {hit.chunk.id for hit in hits}
    having = {anchor: frozenset(ids) for anchor, ids in anchors.items() if not found.isdisjoint(ids)}
    rarity = {anchor: rarity_of(chunks, anchors[anchor]) for anchor in having}
    least = SAME_RARITY * max(rarity.values(), default=0.0)
    best = max((hit.score for hit in hits), default=0.0) or 1.0
    seeds: list[tuple[float, Path]] = []
    for hit in hits:
        own = [anchor for anchor, ids in having.items() if hit.chunk.id in ids and rarity[anchor] >= least]
        if own and not hit.outdated:  # where it led to is past
            anchor = max(own, key=rarity.__getitem__)
            weight = math.sqrt(hit.score / best)
            seeds.append((weight * math.sqrt(rarity[anchor]), Path(weight, (hit.chunk.id,), (anchor,), weight)))
    seeds.sort(key=lambda seed: -seed[0])
    return [path for _, path in seeds[:SEEDS]]


def _runs(words: Sequence[str]) -> list[str]:
    """Return all phrases of a question that may be names."""
    runs = {
        " ".join(words[start : start + length]): None
        for length in range(1, _LONGEST_ANCHOR + 1)
        for start in range(len(words) - length + 1)
        if words[start] not in STOP_WORDS and words[start + length - 1] not in STOP_WORDS
    }
    return [*runs]


def _anchors(words: Sequence[str], names: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """Return the names of a question, the longest first; of names that overlap, only the longest."""
    taken: set[int] = set()
    found: dict[str, Sequence[int]] = {}
    for length in range(min(_LONGEST_ANCHOR, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            name = " ".join(words[start : start + length])
            if name in names and taken.isdisjoint(range(start, start + length)):
                taken.update(range(start, start + length))
                found[name] = names[name]
    return found


def _are_plain(words: Sequence[str], hits: Sequence[Hit]) -> bool:
    """Return whether the first hits are short notes in which capitals tell no names: there, rare words may be some.

    That is so where nothing has capitals, and of a question in a script without them.
    """
    caseless = all(word == word.upper() for word in words)
    texts = [hit.chunk.text for hit in hits]
    others = sum(len(text) > _SHORT_NOTE or not (caseless or text == text.lower()) for text in texts)
    return others <= len(hits) // SEEDS
