"""Search by meaning and by words at once, for Kipu: the strategy ``hybrid``.

Other strategies, the arms, search side by side. Every chunk that any of them finds is scored by all of them, and the
scores are fused (`fusion`), with what the arms think of whole files; an arm counts less where it knows little of the
query's language (`languages`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping  # cattrs reads the types of options
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from kipu import hookimpl
from kipu.types import Hit

from .fusion import FUSIONS, KEPT, OfFiles, fuse
from .languages import foreign_share

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from kipu.types import Arms, Query, Register, StoredChunk, Strategy

Answer = TypeVar("Answer")

__all__ = ["Hybrid", "kipu_register_strategies"]

ARMS = {"vector": 0.39, "keyword": 0.61}

FILE_WEIGHTS = {"vector": 0.45, "keyword": 0.25}
"""What the opinion of an arm on a file counts. Around it, from 0.35 and 0.2 on, what we measure hardly differs."""

PRESETS = {"memweave": {"vector": 0.7, "keyword": 0.3}}

HEAVIEST = 1000

LISTENING = "vector"
"""The arm that knows no more than the embedder does."""

LEAST_TRUST = 0.2
"""The part of its weight that it keeps where the embedder knows nothing of the query: on Chinese with an English model,
more than none is a little better, and more than a half is worse.
"""

CONFIDENT = 0.5
"""The best score from which on an arm has all of its weight. From 0.4 to 0.7, what we measure hardly differs."""

LEAST_CONFIDENCE = 0.01
"""What an arm keeps in any case, so that it has a say on chunks that no other arm can judge."""


def _is_weight(weight: Any) -> bool:
    return isinstance(weight, (int, float)) and not isinstance(weight, bool) and 0 < weight <= HEAVIEST


def _are_weights(weights: Any) -> bool:
    return isinstance(weights, Mapping) and all(
        isinstance(name, str) and _is_weight(weight) for name, weight in weights.items()
    )


def _check_arms(_: object, option: attrs.Attribute[Any], arms: Any) -> None:
    if not arms or not _are_weights(arms):
        raise ValueError(
            f"{option.name} is {arms!r}: it must name strategies, each with a weight above 0, at most 1000"
        )


def _check_file_weights(hybrid: Hybrid, option: attrs.Attribute[Any], weights: Any) -> None:
    if not _are_weights(weights):
        raise ValueError(f"{option.name} is {weights!r}: it must name arms, each with a weight above 0, at most 1000")
    # Those that are given by default are meant for the default arms, and not for others to be complained of.
    strange = [] if weights == FILE_WEIGHTS else sorted(weights.keys() - set(hybrid.strategies))
    if strange:
        raise ValueError(f"{option.name} names {', '.join(strange)}: the arms are {', '.join(hybrid.strategies)}")


def _check_fusion(_: object, option: attrs.Attribute[str], fusion: Any) -> None:
    if fusion not in tuple(FUSIONS):
        raise ValueError(f"{option.name} must be one of {', '.join(FUSIONS)}, not {fusion!r}")


def _check_preset(hybrid: Hybrid, option: attrs.Attribute[str], preset: Any) -> None:
    if preset not in ("", *PRESETS):
        raise ValueError(f"{option.name} must be one of {', '.join(PRESETS)}, not {preset!r}")
    if preset and hybrid.arms != ARMS:
        raise ValueError("arms and preset both say the weights: give one of them")


@attrs.frozen
class Hybrid:
    """Searches with several strategies at once, and scores what any of them finds by all of them.

    ``arms`` are the names of strategies with their weights; any that is installed may be one. ``fusion`` says how the
    scores of an arm are made comparable with those of the others before the weighted mean is taken: ``score-and-rank``
    counts standard deviations from the mean and adds 1.75 / rank, ``zscore`` does without the rank, ``maximum`` divides
    by the best score, ``minmax`` stretches from 0 to 1, and ``reciprocal-rank`` looks at ranks alone. ``preset =
    "memweave"`` takes the weights of the memory of that name, 0.7 for vectors and 0.3 for words: a poor choice for a
    language that the embedder does not know.

    ``file_weights`` say what the opinion of an arm on the whole file of a chunk counts. It changes the order from the
    fourth place on; the first three are a matter of the chunks themselves. ``file_weights = {}`` looks at no files.

    A chunk that an arm cannot judge, such as one without a vector, is judged by the others; an arm that cannot answer
    at all leaves the search to the others. With one arm left, its hits are returned as they are. An arm whose best
    score is below a half counts less in proportion; the arm ``vector`` counts less where the embedder does not know the
    language of the query.

    Scores are explained in `kipu_strategy_hybrid.fusion`: they are high where the arms are sure of themselves.
    """

    arms: Mapping[str, float] = attrs.field(
        factory=ARMS.copy,
        validator=_check_arms,
        metadata={"help": "The strategies to search with, each with its weight."},
    )
    fusion: str = attrs.field(
        default="score-and-rank",
        validator=_check_fusion,
        metadata={"help": f"How scores of the arms are made comparable: {', '.join(FUSIONS)}."},
    )
    preset: str = attrs.field(
        default="",
        validator=_check_preset,
        metadata={"help": "Weights that somebody else has chosen, instead of those of `arms`: memweave, or none."},
    )
    file_weights: Mapping[str, float] = attrs.field(
        factory=FILE_WEIGHTS.copy,
        validator=_check_file_weights,  # after the others: it looks at them
        metadata={"help": "What the opinion of an arm on whole files counts, by the name of the arm; none with {}."},
    )

    @property
    def strategies(self) -> Sequence[str]:
        """The names of the arms."""
        return tuple(self._weights)

    @property
    def _weights(self) -> Mapping[str, float]:
        return PRESETS[self.preset] if self.preset else self.arms

    async def search(self, query: Query, index: Arms) -> list[Hit]:
        """Return what the arms find, best first by the judgement of all of them."""
        found = await _for_each(self._weights, lambda name: index.search(name, query))
        answers = {name: hits for name, hits in found.items() if hits is not None}
        if len(answers) < 2:
            return [hit for hits in answers.values() for hit in hits]
        chunks = {hit.chunk.id: hit.chunk for hits in answers.values() for hit in hits}
        judges = [name for name in answers if name in self.file_weights and len(chunks) > KEPT]
        scores, judged = await _side_by_side(
            _for_each(answers, lambda name: _judge(name, answers[name], chunks, query, index)),
            _for_each(judges, lambda name: _judge_files(name, chunks, query, index)),
        )
        trusts = {name: _trust(name, query, scores[name]) for name in answers}
        weights = {name: self._weights[name] * trust for name, trust in trusts.items()}
        file_weights = {name: self.file_weights[name] * trusts[name] for name in judged}
        of_files = OfFiles({id: chunk.path for id, chunk in chunks.items()}, judged, file_weights) if judged else None
        ranked = fuse(scores, weights, FUSIONS[self.fusion], of_files)
        said = scores | {f"{name}.file": of_arm for name, of_arm in judged.items()}
        return [
            Hit(chunks[id], score, {name: of_arm[id] for name, of_arm in said.items() if id in of_arm})
            for id, score in ranked[: query.limit]
        ]


async def _for_each(names: Iterable[str], ask: Callable[[str], Awaitable[Answer]]) -> dict[str, Answer]:
    """What is answered for each of the names; all of them are asked side by side."""
    asked = list(names)
    return dict(zip(asked, await _side_by_side(*map(ask, asked)), strict=True))


async def _side_by_side(*works: Awaitable[Any]) -> list[Any]:
    """What each of several answers. Where one fails, the others are ended first: the search is over for them too."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _judge(
    name: str, hits: Sequence[Hit], chunks: Mapping[int, StoredChunk], query: Query, index: Arms
) -> Mapping[int, float]:
    """What an arm thinks of all chunks: of those that it found, and of those that it is asked for."""
    found = {hit.chunk.id: hit.score for hit in hits}
    others = await index.score(name, query, [id for id in chunks if id not in found])
    return {**others, **found}


async def _judge_files(name: str, chunks: Mapping[int, StoredChunk], query: Query, index: Arms) -> Mapping[int, float]:
    """What an arm thinks of the whole file of each chunk."""
    paths = list(dict.fromkeys(chunk.path for chunk in chunks.values()))
    scores = await index.score_files(name, query, paths)
    return {id: scores[chunk.path] for id, chunk in chunks.items() if chunk.path in scores}


def _trust(name: str, query: Query, scores: Mapping[int, float]) -> float:
    """The part of its weight that an arm keeps for a query: less, the less it can say about it."""
    return _known_share(query) if name == LISTENING else _confidence(scores)


def _known_share(query: Query) -> float:
    """The part that vectors keep: less, the less of the query their embedder knows."""
    if query.embedding is None:
        return 1.0
    unknown = query.embedding.unknown_share or 0.0
    unknown = max(unknown, foreign_share(query.text, query.embedding.languages))
    return 1.0 - (1.0 - LEAST_TRUST) * unknown


def _confidence(scores: Mapping[int, float]) -> float:
    """The part that other arms keep: less, where their best score is low.

    A question that shares one word in four with the best chunk says little by its words, and what is found by them
    should not come before what its meaning finds. How near the nearest vector is, says nothing of the kind: each model
    has a scale of its own.
    """
    best = max(scores.values(), default=0.0)
    return min(1.0, max(LEAST_CONFIDENCE, best / CONFIDENT))


@hookimpl
def kipu_register_strategies(register: Register[Strategy]) -> None:
    """Register the strategy ``hybrid``."""
    register("hybrid", Hybrid)
