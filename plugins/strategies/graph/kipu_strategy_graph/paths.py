"""Paths: passages that answer together, because they share a name.

A path begins at a *seed*, a hit that has an *anchor*: a name of the question that not every chunk has. Each further
passage is of another file, and shares a name with the one before: a rare one, which the question has not. A path is
worth more the rarer these names are, the nearer its passages together are to the question, and the more words of the
question they have that the first has not. It is worth less if it has a third passage.

The relations that were read out of the passages only tell how a path is shown: weighing those more by which two names
are related makes results worse, because what is said in words that no rule knows then counts less.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from .extraction import phrase
from .extraction.names import STOP_WORDS
from .lookup import Lookup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kipu.types import Hit, Index, Query, QueryEmbedding

    from .lookup import Known, Place

__all__ = ["FLOOR", "Path", "find_paths"]

SEEDS = 5
"""How many hits may begin a path. With 2 to 5, our figures hardly differ."""

DEPTH = 50
"""How many hits are looked at for them: where vectors know little of the language, a name is rarely in the first."""

BEAM = 3
"""How many passages are followed to a third one. With 2 to 6, our figures hardly differ."""

FLOOR = 0.25
"""The lowest score of a path. With 0.4, a quarter of what is gained is lost."""

DECAY = 0.8
"""What a path with a third passage is worth, next to one without."""

WORD = 0.8
"""What a rare word that no rule takes for a name is worth, next to a name."""

GAIN, ABOUT, BEGINS = 0.5, 0.2, 0.1
"""What counts besides nearness: the words that further passages add, that the last is about the name or begins with it,
which it is subtracted for if it ends with it: "Ada works on Falcon" says more of Ada.
"""

UNKNOWN = 0.25
"""How near passages without vectors are taken to be: enough for those that add a word of the question."""

SAME_RARITY = 0.6
"""How rare an anchor is at least, next to the rarest of the question: other names are in too much else."""

CANDIDATES = 40
"""How many passages are compared with the question at each step."""

# In how many chunks an anchor and a shared name may be: a share of all, but no less and no more than these numbers.
ANCHOR_SHARE, ANCHOR_LEAST, ANCHOR_MOST = 0.1, 12, 1000
SHARED_SHARE, SHARED_LEAST, SHARED_MOST = 0.03, 5, 60
WORD_MOST = 12

_LONGEST_ANCHOR = 8  # words
_LONGEST_QUESTION = 60
_SHORT_NOTE = 200  # characters
_MOST_WORDS = 400  # of a passage, that may lead further


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


class _Question(NamedTuple):
    """All words, the chunks that have each of those that count, and what these weigh: 1 in all."""

    words: str
    having: Mapping[str, frozenset[int]]
    weights: Mapping[str, float]
    embedding: QueryEmbedding | None

    def lacking(self, chunks: Sequence[int]) -> list[tuple[float, frozenset[int]]]:
        """Return what chunks have not of the question: what each word weighs, and the chunks that have it."""
        return [(self.weights[word], ids) for word, ids in self.having.items() if ids.isdisjoint(chunks)]


async def find_paths(query: Query, index: Index, hits: Sequence[Hit]) -> list[Path]:
    """Return the paths from hits that may answer a query, best first."""
    words = phrase(query.text)[:_LONGEST_QUESTION]
    if not hits or not words:
        return []
    lookup = Lookup(index, query)
    runs = _runs(words)
    known = await lookup.known(runs)
    plain = [run for run in runs if run.count(" ") < 2] if _are_plain(hits[:SEEDS]) else []
    if not known.names and not plain:
        return []
    common = min(ANCHOR_MOST, max(ANCHOR_LEAST, int(ANCHOR_SHARE * known.chunks)))
    names = await _names(lookup, known, plain, common)
    seeds = _seeds(hits[:DEPTH], _anchors(words, names), known.chunks)
    if not seeds:
        return []
    stems = {word: _stem(word) for word in dict.fromkeys(words) if word not in STOP_WORDS}
    having = await lookup.chunks_with(stems.values(), common)
    rarity = {word: _rarity(known.chunks, having[stem]) for word, stem in stems.items() if stem in having}
    whole = sum(rarity.values()) or 1.0
    question = _Question(
        f" {' '.join(words)} ",
        {word: frozenset(having[stems[word]]) for word in rarity},
        {word: each / whole for word, each in rarity.items()},
        query.embedding,
    )
    most = min(SHARED_MOST, max(SHARED_LEAST, int(SHARED_SHARE * known.chunks)))
    walk = _Walk(question, lookup, index, most, has_aliases=known.has_aliases)
    found = await walk.step(seeds)
    for id, path in (await walk.step(sorted(found.values(), reverse=True)[:BEAM])).items():
        found[id] = max(path, found.get(id, path))
    return sorted((path for path in found.values() if path.score >= FLOOR), reverse=True)


class _Walk:
    """Goes from passages to those that share a name with them."""

    def __init__(self, question: _Question, lookup: Lookup, index: Index, most: int, *, has_aliases: bool) -> None:
        self._question = question
        self._lookup = lookup
        self._index = index
        self._most = most
        self._has_aliases = has_aliases
        self._places: dict[int, Place] = {}
        self._vectors: dict[int, Any] = {}

    async def step(self, paths: Sequence[Path]) -> dict[int, Path]:
        """Return the best path to each chunk that is one passage further than some paths, by the id of the chunk."""
        await self._load_places({id for path in paths for id in path.chunks})
        paths = [path for path in paths if self._places.keys() >= {*path.chunks}]
        shared = await self._shared({path.chunks[-1] for path in paths})
        reached: dict[tuple[int, int], list[tuple[float, str]]] = {}
        for number, path in enumerate(paths):
            earlier = "".join(self._places[id].words for id in path.chunks[:-1])
            for name, (worth, ids) in shared[path.chunks[-1]].items():
                if len(ids) > 1 and f" {name} " not in earlier:
                    link = worth / math.sqrt(math.log(2 + len(ids)))
                    for id in ids:
                        reached.setdefault((number, id), []).append((link, name))
        lacking = [self._question.lacking(path.chunks) for path in paths]
        candidates = []
        for (number, id), links in reached.items():
            path = paths[number]
            gain = path.gain + sum([weight for weight, ids in lacking[number] if id in ids])
            candidates.append((_worth(path, max(links)[0]) * (0.5 + GAIN * gain), number, id, gain, links))
        candidates.sort(key=lambda each: (-each[0], each[1], each[2]))
        del candidates[4 * CANDIDATES :]
        passed = {id for path in paths for id in path.chunks}
        files = await self._lookup.files({each[2] for each in candidates} | passed)
        gone = [{files[id] for id in path.chunks if id in files} for path in paths]
        others = [each for each in candidates if files.get(each[2], -1) not in {-1, *gone[each[1]]}][:CANDIDATES]
        await self._load_places({each[2] for each in others})
        nearness = await self._nearness(paths, [(each[1], each[2]) for each in others])
        found: dict[int, Path] = {}
        for (_, number, id, gain, links), near in zip(others, nearness, strict=True):
            if id in self._places:
                path, place = paths[number], self._places[id]
                fit = near + GAIN * gain
                titles = place.titles()
                score, name, link = max(
                    (_worth(path, link) * (fit + _about(place.words, titles, name)), name, link) for link, name in links
                )
                names, links_so_far = (*path.names, name), (*path.links, link)
                path = Path(score, (*path.chunks, id), names, path.weight, links_so_far, gain)
                found[id] = max(path, found.get(id, path))
        return found

    async def _shared(self, ids: set[int]) -> dict[int, dict[str, tuple[float, Sequence[int]]]]:
        """Return what chunks may share with others: phrases, each with what it is worth and the chunks that have it."""
        names = await self._lookup.names(ids)
        asked = self._question.words
        of_names = {
            id: {name: weight for name, weight in names[id].items() if f" {name} " not in asked} if id in names else {}
            for id in ids
        }
        of_words = {
            id: {
                word
                for word in self._places[id].words.split()[:_MOST_WORDS]
                if len(word) > 2 and word not in of_names[id] and word not in STOP_WORDS and f" {word} " not in asked
            }
            for id in ids
        }
        every_name = {name for each in of_names.values() for name in each}
        same = await self._lookup.aliases(every_name) if self._has_aliases else {}
        others = {alias for all in same.values() for alias in all}
        with_names = await self._lookup.chunks_with(sorted(every_name | others), self._most)
        with_words = await self._lookup.chunks_with(
            sorted({word for each in of_words.values() for word in each}), WORD_MOST
        )
        for name, all in same.items():
            chunks = {chunk for each in (name, *all) for chunk in with_names.get(each, ())}
            with_names[name] = sorted(chunks)
        shared: dict[int, dict[str, tuple[float, Sequence[int]]]] = {}
        for id in ids:
            shared[id] = {
                name: (weight, with_names[name]) for name, weight in of_names[id].items() if name in with_names
            }
            shared[id] |= {word: (WORD, with_words[word]) for word in sorted(of_words[id]) if word in with_words}
        return shared

    async def _load_places(self, ids: set[int]) -> None:
        if missing := ids - self._places.keys():
            self._places |= await self._lookup.places(missing)

    async def _nearness(self, paths: Sequence[Path], pairs: Sequence[tuple[int, int]]) -> list[float]:
        """Return for pairs of a path and a chunk the cosine of the question with the sum of their vectors, at least 0.

        It is `UNKNOWN` where one of them has no vector, and without an embedding of the question.
        """
        embedding = self._question.embedding
        if embedding is None or not pairs:
            return [UNKNOWN] * len(pairs)
        import numpy as np

        ids = {*(id for _, id in pairs), *(id for path in paths for id in path.chunks)}
        wanted = sorted(ids - self._vectors.keys())
        found, rows = await self._index.vectors(embedding.space, wanted)
        self._vectors |= dict.fromkeys(wanted) | dict(zip(found, rows, strict=True))
        asked = embedding.vector
        zero = np.zeros_like(asked)
        before = []
        for path in paths:
            vectors = [self._vectors[id] for id in path.chunks]
            before.append(zero if any(vector is None for vector in vectors) else sum(vectors))
        have = [before[path].any() and self._vectors[id] is not None for path, id in pairs]
        known = [number for number, both in enumerate(have) if both]
        nearness = [UNKNOWN] * len(pairs)
        if known:
            whole = np.array([before[pairs[number][0]] + self._vectors[pairs[number][1]] for number in known])
            lengths = np.sqrt(np.einsum("ij,ij->i", whole, whole)) + 1e-9
            for number, cosine in zip(known, (whole @ asked / lengths).tolist(), strict=True):
                nearness[number] = max(0.0, cosine)
        return nearness


async def _names(lookup: Lookup, known: Known, plain: Sequence[str], common: int) -> dict[str, list[int]]:
    """Return the names of a question that may be anchors, with the chunks that have them or one of their aliases.

    :param plain: what may be a name as well, if it is rare.
    """
    same = await lookup.aliases(known.names) if known.has_aliases else {}
    having = await lookup.chunks_with([*known.names, *plain, *(each for all in same.values() for each in all)], common)
    names = {name: having[name] for name in known.names if name in having}
    names |= {run: having[run] for run in plain if len(having.get(run, ())) <= WORD_MOST and run in having}
    for name in known.names:
        for alias in same.get(name, ()):
            names[name] = [*names.get(name, ()), *having.get(alias, ())]
    return {name: ids for name, ids in names.items() if ids}


def _seeds(hits: Sequence[Hit], anchors: Mapping[str, Sequence[int]], chunks: int) -> list[Path]:
    """Return the hits that have one of the rarest anchors, as paths of one passage: those that are worth most."""
    found = {hit.chunk.id for hit in hits}
    having = {anchor: frozenset(ids) for anchor, ids in anchors.items() if not found.isdisjoint(ids)}
    rarity = {anchor: _rarity(chunks, anchors[anchor]) for anchor in having}
    least = SAME_RARITY * max(rarity.values(), default=0.0)
    best = max((hit.score for hit in hits), default=0.0) or 1.0
    seeds: list[tuple[float, Path]] = []
    for hit in hits:
        own = [anchor for anchor, ids in having.items() if hit.chunk.id in ids and rarity[anchor] >= least]
        if own:
            anchor = max(own, key=rarity.__getitem__)
            weight = math.sqrt(hit.score / best)
            seeds.append((weight * math.sqrt(rarity[anchor]), Path(weight, (hit.chunk.id,), (anchor,), weight)))
    seeds.sort(key=lambda seed: -seed[0])
    return [path for _, path in seeds[:SEEDS]]


def _worth(path: Path, link: float) -> float:
    """Return what a path is worth with a further link: the geometric mean of its links counts."""
    if not path.links:
        return path.weight * link
    links = [*path.links, link]
    return path.weight * math.prod(links) ** (1 / len(links)) * DECAY ** (len(links) - 1)


def _about(words: str, titles: frozenset[str], name: str) -> float:
    """Return what counts because of where a passage has a name: as its heading or title, as its first or last words."""
    return ABOUT * (name in titles) + BEGINS * (words.startswith(f" {name} ") - words.endswith(f" {name} "))


def _rarity(chunks: int, ids: Sequence[int]) -> float:
    return math.log(1 + chunks / (1 + len(ids)))


def _stem(word: str) -> str:
    """Return how words begin that are forms of a word, roughly and in any language: "deployed" and "deploys"."""
    return f"{word[: max(4, len(word) - 3)]}*" if len(word) > 3 else word


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


def _are_plain(hits: Sequence[Hit]) -> bool:
    """Return whether the first hits are short notes without capitals: there, any rare words may be a name."""
    marked = sum(len(hit.chunk.text) > _SHORT_NOTE or hit.chunk.text != hit.chunk.text.lower() for hit in hits)
    return marked <= len(hits) // SEEDS
