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

from .anchors import WORD_MOST, Path, Seeds, find_seeds, rarity_of
from .extraction import phrase
from .extraction.names import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kipu.types import Hit, QueryEmbedding

    from .lookup import Lookup, Place

__all__ = ["Path", "find_paths"]

BEAM = 3
"""How many passages are followed to a third one. With 2 to 6, our figures hardly differ."""

FLOOR = 0.25
"""The lowest score of a path. With 0.4, a quarter of what is gained is lost."""

DECAY = 0.8
"""What a path with a third passage is worth, next to one without."""

WORD, WORD_OF_PREDICATE = 0.8, 0.3
"""What a rare word that no rule takes for a name is worth, next to a name: less if it relates two names there."""

GAIN, ABOUT, BEGINS = 0.5, 0.2, 0.1
"""What counts besides nearness: the words that further passages add, that the last is about the name or begins with it,
which it is subtracted for if it ends with it: "Ada works on Falcon" says more of Ada.
"""

UNKNOWN = 0.25
"""How near passages without vectors are taken to be: enough for those that add a word of the question."""

CANDIDATES = 40
"""How many passages are compared with the question at each step."""

SHARED_SHARE, SHARED_LEAST, SHARED_MOST = 0.03, 5, 60
"""In how many chunks a shared name may be: a share of all, but no less and no more than these numbers."""

_LONGEST_QUESTION = 60  # words
_MOST_WORDS = 400  # of a passage, that may lead further


class _Question(NamedTuple):
    """All words, the chunks that have each of those that count, and what these weigh: 1 in all."""

    words: str
    having: Mapping[str, frozenset[int]]
    weights: Mapping[str, float]
    embedding: QueryEmbedding | None

    def lacking(self, chunks: Sequence[int]) -> list[tuple[float, frozenset[int]]]:
        """Return what chunks have not of the question: what each word weighs, and the chunks that have it."""
        return [(self.weights[word], ids) for word, ids in self.having.items() if ids.isdisjoint(chunks)]


async def find_paths(lookup: Lookup, hits: Sequence[Hit]) -> list[Path]:
    """Return the paths from hits that may answer the query of a lookup, best first."""
    query = lookup.query
    words = phrase(query.text)[:_LONGEST_QUESTION]
    if not hits or not words:
        return []
    found = await find_seeds(lookup, words, hits)
    if found is None:
        return []
    total = found.known.chunks
    stems = {word: _stem(word) for word in dict.fromkeys(words) if word not in STOP_WORDS}
    having = await lookup.chunks_with(stems.values(), found.most)
    rarity = {word: rarity_of(total, having[stem]) for word, stem in stems.items() if stem in having}
    whole = sum(rarity.values()) or 1.0
    question = _Question(
        f" {' '.join(words)} ",
        {word: frozenset(having[stems[word]]) for word in rarity},
        {word: each / whole for word, each in rarity.items()},
        query.embedding,
    )
    most = min(SHARED_MOST, max(SHARED_LEAST, int(SHARED_SHARE * total)))
    walk = _Walk(question, found, lookup, most)
    paths = await walk.step(found.paths)
    for id, path in (await walk.step(sorted(paths.values(), reverse=True)[:BEAM])).items():
        paths[id] = max(path, paths.get(id, path))
    return sorted((path for path in paths.values() if path.score >= FLOOR), reverse=True)


class _Walk:
    """Goes from passages to those that share a name with them."""

    def __init__(self, question: _Question, seeds: Seeds, lookup: Lookup, most: int) -> None:
        self._question = question
        self._anchors = {anchor: frozenset(ids) for anchor, ids in seeds.anchors.items()}
        self._has_aliases = seeds.known.has_aliases
        self._lookup = lookup
        self._most = most
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
                        if id not in self._anchors[path.names[0]]:  # else it is a hit by itself
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
        predicates = await self._lookup.predicates(ids)
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
            shared[id] |= {
                word: (WORD_OF_PREDICATE if word in predicates[id] else WORD, with_words[word])
                for word in sorted(of_words[id])
                if word in with_words
            }
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
        found, rows = await self._lookup.index.vectors(embedding.space, wanted)
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


def _worth(path: Path, link: float) -> float:
    """Return what a path is worth with a further link: the geometric mean of its links counts."""
    if not path.links:
        return path.weight * link
    links = [*path.links, link]
    return path.weight * math.prod(links) ** (1 / len(links)) * DECAY ** (len(links) - 1)


def _about(words: str, titles: frozenset[str], name: str) -> float:
    """Return what counts because of where a passage has a name: as its heading or title, as its first or last words."""
    return ABOUT * (name in titles) + BEGINS * (words.startswith(f" {name} ") - words.endswith(f" {name} "))


def _stem(word: str) -> str:
    """Return how words begin that are forms of a word, roughly and in any language: "deployed" and "deploys"."""
    return f"{word[: max(4, len(word) - 3)]}*" if len(word) > 3 else word
