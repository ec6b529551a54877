"""Reads what a model said of a chunk: its annotation, by the annotator that is configured.

The answer of a model is not believed further than the chunk goes: a name that neither its text nor its heading has is
left out, with all that is said of it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from kipu.types import StoredChunk

from .names import LONGEST_NAME, key, phrase
from .records import Extraction, Mention, Relation

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["with_annotation"]

_VIA = "model"
_CONFIDENCE = 0.9
_LONGEST_VALUE = 400  # characters, also of a sentence
_MOST = 1_000
_MODALITIES = {"", "question", "condition", "possible"}


def with_annotation(chunk: StoredChunk, found: Extraction) -> Extraction:
    """Return what was found in a chunk, and what its annotation adds to it.

    Where both relate two names, markup counts more than the model, and the model more than what else was read.
    """
    try:
        said = json.loads(chunk.annotation or "{}")
    except (ValueError, RecursionError):
        return found
    reader = _Reader(chunk)
    mentions = {key(each.name): each for each in found.mentions}
    for name in _list(said, "entities"):
        if reader.has(name):
            mentions.setdefault(key(name), reader.mention(name))
    relations = {_pair(each): each for each in reader.relations(_list(said, "relations"), mentions)}
    marked = {_pair(each) for each in found.relations if each.confidence == 1.0}
    kept = [each for each in found.relations if each.confidence == 1.0 or _pair(each) not in relations]
    added = [each for pair, each in relations.items() if pair not in marked]
    for each in added:
        for name in (each.source, *([each.target] if each.is_entity else [])):
            mentions.setdefault(key(name), reader.mention(name))
    return attrs.evolve(found, mentions=list(mentions.values()), relations=[*kept, *added])


@attrs.define
class _Reader:
    """The names and statements of an annotation, as far as the chunk has them."""

    chunk: StoredChunk
    _words: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._words = f" {' '.join(phrase(f'{self.chunk.heading} . {self.chunk.text}'))} "

    def has(self, name: Any) -> bool:
        """Return whether a value is a name that the chunk has."""
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            return False
        words = " ".join(phrase(name))
        return words != "" and f" {words} " in self._words

    def mention(self, name: str) -> Mention:
        """Return where the text has a name."""
        start = self.chunk.text.find(name)
        return Mention(name, start, start + len(name) if start >= 0 else -1, _VIA)

    def relations(self, said: list[Any], names: dict[str, Mention]) -> Iterator[Relation]:
        """Yield the statements whose source the chunk has; the target is a name if it is one of ``names``."""
        metadata = self.chunk.metadata
        for each in said:
            source, predicate, target = (each.get(part) for part in ("source", "predicate", "target"))
            polarity, modality = each.get("polarity", 1), each.get("modality", "")
            if not (self.has(source) and isinstance(predicate, str) and isinstance(target, str)):
                continue
            predicate, target = " ".join(predicate.split()), " ".join(target.split())
            if not 0 < len(predicate) <= LONGEST_NAME or not 0 < len(target) <= _LONGEST_VALUE:
                continue
            is_entity = key(target) in names
            if is_entity or " ".join(phrase(target)) in self._words:
                yield Relation(
                    source,
                    predicate,
                    target,
                    self._sentence(source, target),
                    _VIA,
                    -1 if polarity in (-1, "-1") else 1,
                    # What is no modality that is known is not believed.
                    modality if isinstance(modality, str) and modality in _MODALITIES else "possible",
                    _CONFIDENCE,
                    metadata.get("valid_from"),
                    metadata.get("valid_until"),
                    is_entity,
                )

    def _sentence(self, source: str, target: str) -> str:
        """Return the line that has most of a statement."""
        lines = self.chunk.text.split("\n")
        return max(lines, key=lambda line: 2 * (target in line) + (source in line))[:_LONGEST_VALUE]


def _list(said: Any, name: str) -> list[Any]:
    """Return a list of an annotation, of names or of statements, without what is neither."""
    values = said.get(name) if isinstance(said, dict) else None
    kind = str if name == "entities" else dict
    return [value for value in values if isinstance(value, kind)][:_MOST] if isinstance(values, list) else []


def _pair(relation: Relation) -> tuple[str, str]:
    return key(relation.source), key(relation.target)
